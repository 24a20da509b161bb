"""kube-scheduler-simulator's export: one YAML or JSON document with all objects of a cluster.

    pods: [...]   nodes: [...]   pvs: [...]   pvcs: [...]   storageClasses: [...]
    priorityClasses: [...]   namespaces: [...]   schedulerConfig: {...}

Objects in it carry neither apiVersion nor kind. Pods that have a node are there from the
beginning; the others arrive at time 0, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stowplan.errors import ConfigError
from stowplan.sim.traces.manifests import plain
from stowplan.sim.traces.model import Arrival, Json, Trace
from stowplan.sim.traces.reading import BrokenRows
from stowplan.sim.traces.recorded import NotAnObject, as_new, comes_by_itself, is_placed

#: In an order in which they can be created: claims before the volumes that name them.
_LISTS: tuple[tuple[str, str, str], ...] = (
    ("namespaces", "v1", "Namespace"),
    ("priorityClasses", "scheduling.k8s.io/v1", "PriorityClass"),
    ("storageClasses", "storage.k8s.io/v1", "StorageClass"),
    ("pvcs", "v1", "PersistentVolumeClaim"),
    ("pvs", "v1", "PersistentVolume"),
    ("nodes", "v1", "Node"),
    ("pods", "v1", "Pod"),
)
KEYS = (*(key for key, _, _ in _LISTS), "schedulerConfig")


def is_export(document: object) -> bool:
    return isinstance(document, dict) and bool({"pods", "nodes"} & document.keys())


def read_export(
    document: Any, file: Path, *, skip_broken: bool = False, reschedule: bool = False
) -> Trace:
    """The trace of a parsed export. `reschedule`: drop the pods' nodes and schedule them again."""
    if not isinstance(document, dict):
        raise ConfigError(
            "is not an export: expected a mapping with pods and nodes", where=str(file)
        )
    unknown = sorted(str(key) for key in document if key not in KEYS)
    if unknown:
        known = ", ".join(KEYS)
        raise ConfigError(f"unknown field `{unknown[0]}`; known: {known}", where=str(file))
    broken = BrokenRows(file, skip=skip_broken)
    objects: list[Json] = []
    pending: list[Json] = []
    for key, api_version, kind in _LISTS:
        listed = document.get(key) or []
        if not isinstance(listed, list):
            raise ConfigError(f"`{key}` is not a list", where=str(file))
        for number, each in enumerate(listed):
            try:
                made = as_new(plain(each), api_version=api_version, kind=kind, place=not reschedule)
            except NotAnObject as problem:
                broken.add(getattr(each, "line", 0), f"`{key}[{number}]` {problem}")
                continue
            if comes_by_itself(made):
                continue
            (pending if kind == "Pod" and not is_placed(made) else objects).append(made)
    read = len(objects) + len(pending)
    broken.check(read)
    config = document.get("schedulerConfig")

    def arrivals() -> Iterator[Arrival]:
        return (Arrival(0.0, manifest) for manifest in pending)

    return Trace(
        sources=(f"{file} (export of kube-scheduler-simulator)",),
        make_objects=lambda: iter(objects),
        make_events=arrivals,
        pods=len(pending),
        nodes=sum(each["kind"] == "Node" for each in objects),
        reading=broken.reading(read, 0),
        config=plain(config) if isinstance(config, dict) and config else None,
    )
