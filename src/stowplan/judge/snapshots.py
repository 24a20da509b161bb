"""Snapshots of a cluster: a list as kubectl prints it, and kube-scheduler-simulator's export.

The export has one member for each kind (ResourcesForSnap in its snapshot package), and its items
name neither apiVersion nor kind. Everything that reads objects reads both forms through `items_of`:
`stowplan decide`, `stowplan explain -f`, and the page Try of the console, which also writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from stowplan.judge.refusal import QuestionRefused

Json: TypeAlias = dict[str, Any]

#: Members of the simulator's export, in the order in which their items can be created.
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


def items_of(document: Mapping[str, Any]) -> list[Item] | None:
    """The objects of a list or of a simulator's export; None if the document is neither."""
    if not document.keys().isdisjoint(MEMBERS) and not document.keys() & {"apiVersion", "kind"}:
        return list(_exported(document))
    version, kind, items = (document.get(name, "") for name in ("apiVersion", "kind", "items"))
    if not (isinstance(version, str) and isinstance(kind, str) and isinstance(items, list)):
        return None
    if not kind.endswith("List") or (kind != "List" and not version):
        return None
    # The list that kubectl prints names the kind in each item, one of a single kind need not.
    kind = kind.removesuffix("List")
    version = version if kind else ""
    return [Item(f"items[{at}]", item, version, kind) for at, item in enumerate(items)]


def _exported(document: Mapping[str, Any]) -> Iterator[Item]:
    known = [*MEMBERS, CONFIG]
    for name in document:
        if name not in known:
            raise QuestionRefused(f"{name}: unknown key (known here: {', '.join(known)})")
    for name, (api_version, kind) in MEMBERS.items():
        items = document.get(name)
        if items is not None and not isinstance(items, list):  # Go writes an empty list as null
            raise QuestionRefused(f"{name}: expected a list of {kind} objects")
        for at, item in enumerate(items or ()):
            yield Item(f"{name}[{at}]", item, api_version, kind)


def as_list(objects: Iterable[Json]) -> Json:
    """The form that kubectl prints and creates from."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}


def as_export(objects: Iterable[Json], config: Json) -> Json:
    """The simulator's form; other kinds than its own are left out, and so is what it leaves out."""
    members = {what: name for name, what in MEMBERS.items()}
    export: Json = {name: [] for name in MEMBERS}
    for obj in objects:
        name = members.get((obj["apiVersion"], obj["kind"]))
        if name is not None and not is_reserved(obj):
            rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
            export[name].append(rest)
    return {**export, CONFIG: config}


def is_reserved(obj: Mapping[str, Any]) -> bool:
    """Whether every cluster has the object from its start."""
    name = str(obj["metadata"].get("name", ""))
    match obj["kind"]:
        case "Namespace":
            return name == "default" or name.startswith("kube-")
        case "PriorityClass":
            return name.startswith("system-")
    return False
