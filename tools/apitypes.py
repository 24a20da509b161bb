"""Writes src/stowplan/apiserver/go_types.txt: the fields of every served type, from k8s.io/api.

Run it by hand when the Kubernetes version changes, with the Go module cache at hand:

    python -m tools.apitypes "$(go env GOMODCACHE)/k8s.io" v0.36.3

One line a struct: its name, then `field:type=number` in Go's order. `!` after a field means that
it is written even when empty (no omitempty), `?` that it is a pointer. The number is protobuf's.
Embedded structs are flattened: their fields have the number of the struct first, as in `2.7`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "src" / "stowplan" / "apiserver" / "go_types.txt"
SOURCES = {
    "meta": "apimachinery@{version}/pkg/apis/meta/v1/types.go",
    "core": "api@{version}/core/v1/types.go",
    "coordination": "api@{version}/coordination/v1/types.go",
    "scheduling": "api@{version}/scheduling/v1/types.go",
    "storage": "api@{version}/storage/v1/types.go",
    "policy": "api@{version}/policy/v1/types.go",
    "apps": "api@{version}/apps/v1/types.go",
    "batch": "api@{version}/batch/v1/types.go",
    "events": "api@{version}/events/v1/types.go",
    "authorization": "api@{version}/authorization/v1/types.go",
    "resource": "api@{version}/resource/v1/types.go",
    "resourcev1beta2": "api@{version}/resource/v1beta2/types.go",
}
ROOTS = {
    "core": "Binding ConfigMap Event Namespace Node PersistentVolume PersistentVolumeClaim Pod"
    " ReplicationController Secret Service ServiceAccount",
    "coordination": "Lease",
    "scheduling": "PriorityClass",
    "storage": "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment",
    "policy": "PodDisruptionBudget Eviction",
    "apps": "ReplicaSet StatefulSet Deployment DaemonSet",
    "batch": "Job",
    "events": "Event",
    "authorization": "SelfSubjectAccessReview",
    "resource": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "resourcev1beta2": "DeviceTaintRule",
    "meta": "DeleteOptions",
}
ALIASES = {"corev1": "core", "apiv1": "core", "v1": "core", "metav1": "meta"}
PLAIN = {
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "ResourceList": "Quantities",
    "FieldsV1": "any",
    "runtime.RawExtension": "any",
    "metav1.Time": "Time",
    "metav1.MicroTime": "MicroTime",
    "[]byte": "bytes",
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^\s*(?:\w+\s+)?(\S+)\s+`json:\"([^\"]*)\"(?:.*protobuf:\"\w+,(\d+))?")
SHORTENED = re.compile(r"([^:]+):((?:map\[\])?(?:\[\])?)(.+)=([\d.]+)")
SHAPE = re.compile(r"(\*?)((?:map\[[\w.]+\])?(?:\[\](?!byte))?)\*?(.+)")


def main(modules: str, version: str) -> None:
    structs: dict[str, str] = {}
    for package, path in SOURCES.items():
        text = (Path(modules) / path.format(version=version)).read_text()
        structs |= {f"{package}.{name}": body for name, body in STRUCT.findall(text)}
    found: dict[str, list[str]] = {}
    waiting = [f"{package}.{name}" for package, names in ROOTS.items() for name in names.split()]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _fields(name, structs, waiting)
    short = _short_names(found)
    lines = [
        " ".join([short[name], *(_shorten(field, short) for field in fields)])
        for name, fields in sorted(found.items(), key=lambda item: short[item[0]])
    ]
    head = f"# Field types of k8s.io/api {version}, written by tools/apitypes.py.\n"
    OUTPUT.write_text(head + "\n".join(lines) + "\n")
    print(f"{len(lines)} types in {OUTPUT.name}")


def _fields(name: str, structs: dict[str, str], waiting: list[str]) -> list[str]:
    package = name.partition(".")[0]
    fields: list[str] = []
    for line in structs[name].splitlines():
        match = FIELD.match(line)
        if match is None or line.strip().startswith("//"):
            continue
        go_type, tag, number = match.groups()
        json_name, _, options = tag.partition(",")
        if options == "inline":
            if not go_type.endswith("TypeMeta"):
                embedded = _fields(_resolve(go_type, package, structs) or "", structs, waiting)
                fields += [field.replace("=", f"={number}.") for field in embedded]
            continue
        shape = SHAPE.fullmatch(go_type)
        assert shape is not None, line
        pointer, container, element = shape.groups()
        struct = _resolve(element, package, structs)
        if struct is not None:
            waiting.append(struct)
        written = struct or PLAIN.get(element) or re.sub(r"^(core|api)?v1\.", "", element)
        mark = "?" if pointer or "omitzero" in options else ""
        if not mark and "omitempty" not in options:
            mark = "!"
        container = re.sub(r"map\[[\w.]+\]", "map[]", container)
        fields.append(f"{json_name}{mark}:{container}{written}={number}")
    return fields


def _resolve(go_type: str, package: str, structs: dict[str, str]) -> str | None:
    """The struct that a type names, None for scalars and for structs with their own encoding."""
    if go_type in PLAIN or go_type in ("Time", "MicroTime", "FieldsV1"):
        return None
    prefix, _, name = go_type.rpartition(".")
    full = f"{ALIASES.get(prefix, prefix) or package}.{name}"
    return full if full in structs else None


def _short_names(found: dict[str, list[str]]) -> dict[str, str]:
    """Type names without the package, where no two packages share one."""
    names = [name.partition(".")[2] for name in found]
    return {
        name: bare if names.count(bare := name.partition(".")[2]) == 1 else name for name in found
    }


def _shorten(field: str, short: dict[str, str]) -> str:
    matched = SHORTENED.fullmatch(field)
    assert matched is not None, field
    head, container, element, number = matched.groups()
    return f"{head}:{container}{short.get(element, element)}={number}"


if __name__ == "__main__":
    main(*sys.argv[1:])
