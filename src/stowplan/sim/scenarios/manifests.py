"""Objects of a scenario: short forms of nodes and pods written out, whole manifests checked.

Called by `document` for the cluster and for every `create`. Objects pass the embedded API server's
validation here, so that a typo is reported with its line before anything is started. What must stay
true: the result is what would be POSTed; no namespace is made up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stowplan.apiserver.go_types import structs
from stowplan.apiserver.kinds import KINDS, NODES, PODS, PRIORITY_CLASSES, Kind
from stowplan.apiserver.kubelet import RUN_SECONDS
from stowplan.errors import ConfigError
from stowplan.judge.checking import check, complete, conformed
from stowplan.judge.refusal import QuestionRefused
from stowplan.sim.scenarios.actions import Json, Place
from stowplan.sim.traces.manifests import SYSTEM_CLASSES, priority_class, priority_class_name
from stowplan.workloads.fields import Fields, Located, read_documents
from stowplan.workloads.kinds import find_resource, known_kinds

IMAGE: Final = "registry.k8s.io/pause:3.10"
HOSTNAME: Final = "kubernetes.io/hostname"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"

_NUMBER: Final = "$i"
_META = ("name", "count", "from", "labels", "annotations")
_NODE_FIELDS: Final = (
    *_META,
    *("cpu", "memory", "pods", "resources", "zone", "region", "taints", "unschedulable", "images"),
    *("spec", "status"),
)
_POD_FIELDS: Final = (
    *_META,
    *("namespace", "metadata", "cpu", "memory", "requests", "limits", "priority", "runFor"),
    *("node", "gates", "claims"),
)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]+)\]")
_SERVED: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.api_version, kind.kind): kind for kind in KINDS if kind.stored
}


class Manifests:
    """Reads the objects of one file; remembers which priority classes its pods need."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._classes: set[str] = set(SYSTEM_CLASSES.values())

    def nodes(self, written: Sequence[Any], what: str) -> list[Json]:
        return [node for entry, at in _numbered(written, what) for node in self._node(entry, at)]

    def pods(self, written: Sequence[Any], what: str) -> list[Json]:
        return [pod for entry, at in _numbered(written, what) for pod in self._pod(entry, at)]

    def objects(self, written: Sequence[Any], what: str) -> list[Json]:
        """Manifests, or the names of files that hold some."""
        found: list[Json] = []
        for entry, at in _numbered(written, what):
            if isinstance(entry, str):
                path = self._file.parent / entry
                for number, document in enumerate(read_documents(path)):
                    found += self._manifests(path, document, f"{at}, object {number}")
            else:
                found += self._manifests(self._file, entry, at)
        return found

    def priority_classes(self, pods: Sequence[Json]) -> list[Json]:
        """The missing ones that pods with a plain number need."""
        needed = {
            name: pod["spec"]["priority"]
            for pod in pods
            if (name := pod["spec"].get("priorityClassName")) and "priority" in pod["spec"]
        }
        new = sorted(needed.keys() - self._classes, key=lambda name: -needed[name])
        self._classes |= needed.keys()
        return [priority_class(name, needed[name]) for name in new]

    def _manifests(self, file: Path, entry: Any, at: str) -> list[Json]:
        if not isinstance(entry, dict):
            Fields(file, entry, at, ())  # says what it is instead
        if entry.get("kind") == "List" and isinstance(entry.get("items"), list):
            return [
                each
                for item, inner in _numbered(entry["items"], f"{at}.items")
                for each in self._manifests(file, item, inner)
            ]
        place = Place(file, entry.line, at)
        for name in ("apiVersion", "kind"):
            if not isinstance(entry.get(name), str):
                raise ConfigError(f"`{name}` must be given, as in every manifest", where=str(place))
        api_version, kind = entry["apiVersion"], entry["kind"]
        if find_resource(api_version, kind) is None:
            known = ", ".join(known_kinds())
            raise ConfigError(
                f"there is no kind {kind} in {api_version} here; known: {known}", where=str(place)
            )
        served = _SERVED.get((api_version, kind))
        if served is not None:
            check_manifest(served, entry, entry, place)
        if served is PRIORITY_CLASSES:
            self._classes.add(str(entry["metadata"]["name"]))
        return [plain(entry)]

    def _node(self, entry: Any, at: str) -> list[Json]:
        fields = Fields(self._file, entry, at, _NODE_FIELDS)
        nodes = []
        for number, index in enumerate(_counted(fields)):
            node = _substituted(_build_node(fields, number, index), index)
            if not number:
                check_manifest(NODES, node, entry, Place(self._file, fields.line(), at))
            nodes.append(node)
        return nodes

    def _pod(self, entry: Any, at: str) -> list[Json]:
        spec_fields = structs()["PodSpec"].fields
        known = (*_POD_FIELDS, *(name for name in spec_fields if name not in _POD_FIELDS))
        fields = Fields(self._file, entry, at, known)
        template = _build_pod(fields, [name for name in spec_fields if name in fields])
        pods = []
        for number, index in enumerate(_counted(fields)):
            pod = _substituted({**template, "metadata": _metadata(fields, index)}, index)
            if not number:
                check_manifest(PODS, pod, entry, Place(self._file, fields.line(), at))
            pods.append(pod)
        return pods


def check_manifest(kind: Kind, manifest: Json, written: Any, place: Place) -> None:
    """ConfigError if an API server would refuse it, with the line of the field if that is known."""
    try:
        stored, unknown = conformed(kind, plain(manifest))
        if unknown:
            raise QuestionRefused(f"{unknown[0]}: unknown field")
        complete(kind, stored)
        check(kind, stored, strict=True)
    except QuestionRefused as problem:
        path, _, _ = str(problem).partition(":")
        line = _line_of(written, path) or place.line
        where = Place(place.file, line, f"{place.what}, {kind.kind}")
        raise ConfigError(str(problem), where=str(where)) from None


def plain(value: Any) -> Any:
    """Without the lines."""
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value


def _line_of(written: Any, path: str) -> int:
    """Of the last part of a path such as `spec.taints[0].effect` that is in the file; 0: none."""
    steps = [name or index for name, index in _STEP.findall(path)]
    if steps and isinstance(written, dict) and steps[0] not in written:
        steps = steps[1:]  # short forms have the fields of `spec` and `metadata` at the top
    line, top = 0, written
    for step in steps:
        if isinstance(written, Located) and step in written:
            line = written.lines[step]
            written = written[step]
        elif isinstance(written, list) and step.isdecimal() and int(step) < len(written):
            written = written[int(step)]
            line = getattr(written, "line", line)
        else:
            break
    if not line and isinstance(top, Located):
        # In a short form `cpu` stands for spec.containers[0].resources.requests[cpu].
        line = next((top.lines[step] for step in reversed(steps) if step in top), 0)
    return line


def _numbered(written: Sequence[Any], what: str) -> list[tuple[Any, str]]:
    return [(entry, f"{what}[{number}]") for number, entry in enumerate(written)]


def _counted(fields: Fields) -> range:
    first = fields.whole("from")
    return range(first, first + fields.whole("count", 1))


def _metadata(fields: Fields, index: int) -> Json:
    metadata: Json = plain(fields.table("metadata", object))
    for each in ("labels", "annotations"):
        if not isinstance(metadata.get(each, {}), dict):
            fields.fail(f"`metadata.{each}`: expected a mapping", at="metadata")
    name = fields.required_text("name")
    if "count" in fields and _NUMBER not in name:
        name = f"{name}-{_NUMBER}"
    metadata["name"] = name.replace(_NUMBER, str(index))
    if namespace := fields.text("namespace"):
        metadata["namespace"] = namespace
    for each in ("labels", "annotations"):
        if each in fields:
            metadata[each] = fields.table(each, str)
    if "runFor" in fields:
        # The simulated kubelet ends the pod then.
        ends = {RUN_SECONDS: f"{fields.duration('runFor'):g}"}
        metadata["annotations"] = metadata.get("annotations", {}) | ends
    return metadata


def _build_node(fields: Fields, number: int, index: int) -> Json:
    metadata = _metadata(fields, index)
    own = {HOSTNAME: metadata["name"]}
    for field, label in (("zone", ZONE), ("region", REGION)):
        value = fields.value(field)
        if isinstance(value, list) and value:
            value = value[number % len(value)]
        if value is not None:
            own[label] = str(value)
    metadata["labels"] = own | metadata.get("labels", {})
    offers = {
        "cpu": str(fields.value("cpu") or "4"),
        "memory": str(fields.value("memory") or "32Gi"),
        "pods": str(fields.value("pods") or "110"),
        **{name: str(amount) for name, amount in fields.scalars("resources").items()},
    }
    spec: Json = plain(fields.table("spec", object))
    if "taints" in fields:
        spec["taints"] = [_taint(each, fields) for each in fields.items("taints")]
    if fields.flag("unschedulable"):
        spec["unschedulable"] = True
    status: Json = {"capacity": offers, "allocatable": dict(offers)}
    if images := fields.table("images", int):
        status["images"] = [{"names": [name], "sizeBytes": size} for name, size in images.items()]
    status |= plain(fields.table("status", object))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _build_pod(fields: Fields, spec_fields: Sequence[str]) -> Json:
    spec: Json = {}
    for name in spec_fields:
        if name not in ("priority", "tolerations"):
            spec[name] = plain(fields.value(name))
    if "containers" not in spec:
        spec["containers"] = [_container(fields)]
    elif any(name in fields for name in ("cpu", "memory", "requests", "limits")):
        fields.fail("what a pod with `containers` asks for is said there, not beside it")
    if "tolerations" in fields:
        spec["tolerations"] = [_toleration(each) for each in fields.items("tolerations")]
    if gates := fields.texts("gates"):
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if node := fields.text("node"):
        spec["nodeName"] = node
    if "runFor" in fields:
        spec.setdefault("restartPolicy", "Never")
    if claims := fields.texts("claims"):
        if not isinstance(spec.setdefault("volumes", []), list):
            fields.fail("`volumes`: expected a list", at="volumes")
        spec["volumes"] += [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims
        ]
    if "priority" in fields:
        value = fields.value("priority")
        if not isinstance(value, int) or isinstance(value, bool):
            fields.fail("`priority` must be a whole number", at="priority")
        if "priorityClassName" in spec:
            fields.fail("`priority` or `priorityClassName`, not both", at="priority")
        spec |= {"priority": value, "priorityClassName": priority_class_name(value)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec}


def _container(fields: Fields) -> Json:
    requests = {name: str(amount) for name, amount in fields.scalars("requests").items()}
    for name in ("cpu", "memory"):
        if name in fields:
            requests[name] = str(fields.value(name))
    limits = {name: str(amount) for name, amount in fields.scalars("limits").items()}
    # An API server wants limits of extended resources, equal to the requests.
    limits |= {name: amount for name, amount in requests.items() if "/" in name}
    container: Json = {"name": "container1", "image": IMAGE}
    if requests or limits:
        resources = {"requests": requests, "limits": limits}
        container["resources"] = {name: amounts for name, amounts in resources.items() if amounts}
    return container


def _taint(written: Any, fields: Fields) -> Json:
    """Also as kubectl writes it: `key=value:Effect` or `key:Effect`."""
    if not isinstance(written, str):
        return dict(plain(written)) if isinstance(written, dict) else written
    pair, _, effect = written.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or not effect:
        fields.fail(
            f"`{written}` is not a taint; write key=value:Effect or key:Effect", at="taints"
        )
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _toleration(written: Any) -> Any:
    """Also as text: `key=value:Effect`, `key:Effect` (any value), `key` (any effect)."""
    if not isinstance(written, str):
        return plain(written)
    pair, _, effect = written.partition(":")
    key, equals, value = pair.partition("=")
    toleration: Json = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        toleration["value"] = value
    return toleration | ({"effect": effect} if effect else {})


def _substituted(value: Any, index: int) -> Any:
    """With every `$i` replaced by the number."""
    if isinstance(value, str):
        return value.replace(_NUMBER, str(index)) if _NUMBER in value else value
    if isinstance(value, dict):
        return {key: _substituted(member, index) for key, member in value.items()}
    if isinstance(value, list):
        return [_substituted(member, index) for member in value]
    return value
