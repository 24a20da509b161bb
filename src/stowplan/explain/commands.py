"""kubectl commands that make a change, and the owner of a pod, whose template they edit.

Names, labels and taints are untrusted text: every word is quoted for a POSIX shell, names come last
and after `--` if one begins with a dash, and text with control characters has no command at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.objects import ObjectMeta, Pod, Toleration
from stowplan.api.resources import REPLICA_SETS
from stowplan.cluster.catalog import Catalog

#: Kinds whose pod template kubectl can edit, and their API groups.
_TEMPLATED: Final = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "ReplicationController": "",
}
_HASH: Final = "pod-template-hash"
#: Commands with more pods than this are too long to read.
_MOST_PODS: Final = 20


class Owner(NamedTuple):
    """The object that a pod was made from."""

    kind: str
    name: str
    namespace: str

    @property
    def is_templated(self) -> bool:
        """Whether an edit of its pod template leads to other pods."""
        return self.kind in _TEMPLATED

    @property
    def resource(self) -> str:
        """As kubectl takes it: `deployment/web`."""
        return f"{self.kind.lower()}/{self.name}"


def owner_of(pod: Pod, catalog: Catalog) -> Owner | None:
    """The controller of a pod, or the Deployment behind its ReplicaSet; None: there is none."""
    namespace = pod.metadata.namespace
    found = _controller(pod.metadata, namespace)
    if found is None or found.kind != "ReplicaSet":
        return found
    replica_set = catalog[REPLICA_SETS].get(found.name, namespace)
    if replica_set is not None:
        return _controller(replica_set.metadata, namespace) or found
    suffix = f"-{(pod.metadata.labels or {}).get(_HASH, '')}"
    if len(suffix) > 1 and found.name.endswith(suffix):  # as the Deployment controller names it
        return Owner("Deployment", found.name.removesuffix(suffix), namespace)
    return found


def _controller(metadata: ObjectMeta, namespace: str) -> Owner | None:
    for reference in metadata.owner_references or ():
        if reference.controller:
            group = reference.api_version.rpartition("/")[0]
            kind = reference.kind
            known = _TEMPLATED.get(kind)
            if known is not None and known != group:
                kind = f"{kind}.{group}"  # another kind of the same name
            return Owner(kind, reference.name, namespace)
    return None


def kubectl(words: Sequence[str], names: Sequence[str] = ()) -> str:
    """A command line; empty if a word cannot be shown as it is. `names` might begin with a dash."""
    if not all(word.isprintable() for word in (*words, *names)):
        return ""
    guard = ["--"] if any(name.startswith("-") for name in names) else []
    return f"kubectl {shlex.join([*words, *guard, *names])}"


def delete_pods(pods: Iterable[Pod]) -> str:
    """A command for each namespace."""
    by_namespace: dict[str, list[str]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.metadata.namespace, []).append(pod.metadata.name)
    if sum(map(len, by_namespace.values())) > _MOST_PODS:
        return ""
    commands = [
        kubectl(["delete", "pod", "-n", namespace], names)
        for namespace, names in by_namespace.items()
    ]
    return " && ".join(commands) if all(commands) else ""


def set_requests(
    pod: Pod, catalog: Catalog, container: str, requests: dict[str, str], limits: dict[str, str]
) -> str:
    """Set requests of one container, in the template of the pod's owner."""
    owner = owner_of(pod, catalog)
    if owner is None or not owner.is_templated:
        return ""
    words = ["set", "resources", owner.resource, "-n", owner.namespace, "-c", container]
    for flag, amounts in (("requests", requests), ("limits", limits)):
        if amounts:
            pairs = ",".join(f"{name}={amount}" for name, amount in amounts.items())
            words.append(f"--{flag}={pairs}")
    return kubectl(words)


def patch_spec(pod: Pod, catalog: Catalog, spec: dict[str, Any]) -> str:
    """Replace fields in the pod template of the pod's owner."""
    owner = owner_of(pod, catalog)
    if owner is None or not owner.is_templated:
        return ""
    text = msgspec.json.encode({"spec": {"template": {"spec": spec}}}).decode()
    return kubectl(["patch", owner.resource, "-n", owner.namespace, "--type=merge", "-p", text])


def add_tolerations(pod: Pod, added: Iterable[Toleration]) -> str:
    """Add to the tolerations of the pod itself, which is allowed at any time."""
    path, values = "/spec/tolerations/-", [msgspec.to_builtins(each) for each in added]
    edits = [{"op": "add", "path": path, "value": value} for value in values]
    if not pod.spec.tolerations:
        edits = [{"op": "add", "path": "/spec/tolerations", "value": values}]
    text, meta = msgspec.json.encode(edits).decode(), pod.metadata
    return kubectl(["patch", f"pod/{meta.name}", "-n", meta.namespace, "--type=json", "-p", text])
