"""Manifests of a trace as the API server would hand them to the scheduler.

Defaults are filled in and priorities computed by the embedded API server's own rules. Traces share
the specs of their pods, so a spec is read once, however many pods have it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from stowplan.api.objects import Node, ObjectMeta, Pod, PodSpec, PodStatus, Taint
from stowplan.api.resources import Resource
from stowplan.apiserver.admission import SYSTEM_PRIORITIES
from stowplan.apiserver.kinds import KINDS, NODES, PODS, Kind
from stowplan.errors import ConfigError
from stowplan.judge.checking import complete, conformed
from stowplan.judge.refusal import QuestionRefused
from stowplan.loader.json_text import load_json
from stowplan.sim.traces.model import Json

_SERVED: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.kind): kind for kind in KINDS if kind.stored
}
#: Size of the cache of specs.
_KEPT = 4_096
_PREEMPTS = "PreemptLowerPriority"
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_LOST = tuple(
    Taint(key="node.kubernetes.io/unreachable", effect=effect)
    for effect in ("NoSchedule", "NoExecute")
)


class PodReader:
    """Reads pods, with the priority classes that were added."""

    def __init__(self) -> None:
        self._classes = {name: (value, _PREEMPTS) for name, (value, _) in SYSTEM_PRIORITIES.items()}
        self._default = ""
        #: By the ids of spec and labels; both are held, so that their ids stay unique.
        self._specs: dict[tuple[int, int], tuple[Json, Json | None, PodSpec]] = {}

    def add_priority_class(self, manifest: Json) -> None:
        name = manifest["metadata"]["name"]
        value = manifest.get("value", 0)
        self._classes[name] = (value, manifest.get("preemptionPolicy", _PREEMPTS))
        if manifest.get("globalDefault"):
            self._default = name

    def read(self, manifest: Json, *, name: str, uid: str, created: str) -> Pod:
        metadata = manifest["metadata"]
        labels = metadata.get("labels")
        return Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=metadata.get("namespace") or "default",
                uid=uid,
                creation_timestamp=created,
                labels=labels,
                annotations=metadata.get("annotations"),
            ),
            spec=self._spec(manifest, labels),
            status=PodStatus(phase=(manifest.get("status") or {}).get("phase") or "Pending"),
        )

    def _spec(self, manifest: Json, labels: Json | None) -> PodSpec:
        raw = manifest["spec"]
        key = (id(raw), id(labels))
        known = self._specs.get(key)
        if known is not None:
            return known[2]
        spec: PodSpec = read_object(PODS, self._with_priority(manifest), Pod).spec
        if len(self._specs) >= _KEPT:
            self._specs.clear()
        self._specs[key] = (raw, labels, spec)
        return spec

    def _with_priority(self, manifest: Json) -> Json:
        spec = dict(manifest["spec"])
        name = spec.get("priorityClassName") or self._default
        if name in self._classes:
            spec["priorityClassName"] = name
            spec["priority"], spec["preemptionPolicy"] = self._classes[name]
        elif name and "priority" not in spec:
            pod = manifest["metadata"]["name"]
            raise ConfigError(f"its PriorityClass {name} is not in the trace", where=f"pod {pod}")
        return {**manifest, "spec": spec}


def read_object(kind: Kind, manifest: Json, struct: type[Any]) -> Any:
    """The object as a struct, with the API server's defaults; ConfigError if it is invalid."""
    try:
        # The copy is for the defaults: manifests share their parts.
        stored, _ = conformed(kind, load_json(msgspec.json.encode(manifest)))
        complete(kind, stored)
        return msgspec.convert(stored, struct)
    except (QuestionRefused, msgspec.ValidationError) as problem:
        name = (manifest.get("metadata") or {}).get("name", "")
        raise ConfigError(str(problem), where=f"{kind.kind} {name}") from None


def read_other(resource: Resource[Any], manifest: Json) -> Any:
    return read_object(_SERVED[resource.api_version, resource.kind], manifest, resource.type)


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node as its manifest describes it, and what has happened to it since."""

    described: Node
    is_cordoned: bool
    is_lost: bool = False

    @classmethod
    def read(cls, manifest: Json) -> KnownNode:
        node: Node = read_object(NODES, manifest, Node)
        return cls(node, node.spec.unschedulable)

    def cordoned(self, *, is_so: bool) -> KnownNode:
        return replace(self, is_cordoned=is_so)

    def lost(self, *, is_so: bool) -> KnownNode:
        return replace(self, is_lost=is_so)

    def now(self) -> Node:
        """The node with the taints that a node controller would add."""
        node = self.described
        taints = [*(node.spec.taints or ()), *(_LOST if self.is_lost else ())]
        if self.is_cordoned:
            taints.append(_CORDONED)
        spec = msgspec.structs.replace(
            node.spec,
            unschedulable=self.is_cordoned,
            taints=tuple(dict.fromkeys(taints)) or None,
        )
        return msgspec.structs.replace(node, spec=spec)
