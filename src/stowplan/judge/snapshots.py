"""Snapshots of a cluster: a list as kubectl prints it, and kube-scheduler-simulator's export.

Everything that judges objects reads both forms through `items_of`: `stowplan decide`, `stowplan
explain -f`, and the page Try of the console, which also writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stowplan.judge.refusal import QuestionRefused
from stowplan.loader.malformed import Malformed
from stowplan.loader.simulator_export import CONFIG, MEMBERS, Item, exported_items, is_export

Json: TypeAlias = dict[str, Any]


def items_of(document: Mapping[str, Any]) -> list[Item] | None:
    """The objects of a list or of a simulator's export; None if the document is neither."""
    if is_export(document):
        try:
            return list(exported_items(document))
        except Malformed as problem:
            raise QuestionRefused(str(problem)) from None
    version, kind, items = (document.get(name, "") for name in ("apiVersion", "kind", "items"))
    if not (isinstance(version, str) and isinstance(kind, str) and isinstance(items, list)):
        return None
    if not kind.endswith("List") or (kind != "List" and not version):
        return None
    # The list that kubectl prints names the kind in each item, one of a single kind need not.
    kind = kind.removesuffix("List")
    version = version if kind else ""
    return [Item(f"items[{at}]", item, version, kind) for at, item in enumerate(items)]


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
