"""kube-scheduler-simulator's export: one document with a list for each kind of objects.

Its items (ResourcesForSnap in the simulator's snapshot package) name neither apiVersion nor kind.
`judge.snapshots` and `audit.sources` read exports through `exported_items`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from stowplan.loader.malformed import Malformed

#: Members of an export, in the order in which their items can be created.
MEMBERS: Final = {
    "namespaces": ("v1", "Namespace"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
}
CONFIG: Final = "schedulerConfig"


class Item(NamedTuple):
    """An object of a list: its place there, and what it is if it does not say."""

    place: str
    value: Any
    api_version: str
    kind: str


def is_export(document: Mapping[str, Any]) -> bool:
    return not (document.keys().isdisjoint(MEMBERS) or document.keys() & {"apiVersion", "kind"})


def exported_items(document: Mapping[str, Any]) -> Iterator[Item]:
    """The objects of an export; Malformed if a member is unknown or not a list."""
    known = [*MEMBERS, CONFIG]
    for name in document:
        if name not in known:
            raise Malformed(f"{name}: unknown key (known here: {', '.join(known)})")
    for name, (api_version, kind) in MEMBERS.items():
        items = document.get(name)
        if items is not None and not isinstance(items, list):  # Go writes an empty list as null
            raise Malformed(f"{name}: expected a list of {kind} objects")
        for at, item in enumerate(items or ()):
            yield Item(f"{name}[{at}]", item, api_version, kind)
