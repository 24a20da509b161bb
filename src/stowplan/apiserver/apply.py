"""Server-side apply with simple ownership: managedFields records which manager owns which fields.

A manager owns the fields it applies. Fields that it no longer applies are removed unless another
manager owns them. Changing a field of another manager is a conflict, which `force` overrides.
`track_update` attributes other writes, but only on objects that were applied once: until then
there are no managedFields, and all fields belong to "before-first-apply".
Called by the REST layer; no function changes its input.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from stowplan.apiserver.field_sets import (
    DuplicateOrKeyless,
    Json,
    Path,
    branches,
    changed,
    element_of,
    from_fields_v1,
    leaves,
    path_text,
    to_fields_v1,
    value_of,
)
from stowplan.apiserver.json_patch import json_equal
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.merge_schema import PLAIN, Field, Schema, fields_of, schema_of
from stowplan.apiserver.statuses import Failure, bad_request, unexplained

_BEFORE_FIRST_APPLY = "before-first-apply"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class _Manager:
    """One entry of managedFields."""

    name: str
    operation: str
    api_version: str
    time: str = ""
    subresource: str = ""
    paths: frozenset[Path] = field(default_factory=frozenset)

    def is_same(self, other: _Manager) -> bool:
        return (self.name, self.operation, self.api_version, self.subresource) == (
            other.name,
            other.operation,
            other.api_version,
            other.subresource,
        )

    def entry(self) -> Json:
        entry: Json = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
        }
        if self.time:
            entry["time"] = self.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = to_fields_v1(self.paths)
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry

    def __str__(self) -> str:
        """As conflict messages name it."""
        text = json.dumps(self.name)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource)}"
        if self.operation == "Update" and self.time:
            text += f" using {self.api_version}"
        return text


def server_side_apply(
    current: Json | None,
    applied: Json,
    *,
    kind: Kind,
    field_manager: str,
    force: bool,
    now: str,
) -> Json:
    """The object after `field_manager` has applied `applied` to `current` (None: create it)."""
    if applied.get("apiVersion") != kind.api_version:
        raise bad_request(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{applied.get('apiVersion', '')}, expected: {kind.api_version}"
        )
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    schema = schema_of(kind)
    applied = _without_nulls(applied)
    wanted = _applied_leaves(applied, kind, schema)
    live = copy.deepcopy(current) if current is not None else {}
    managers = _managers(live)
    if current is not None and not managers:
        everything = frozenset(leaves(live, schema))
        managers = [_Manager(_BEFORE_FIRST_APPLY, "Update", kind.api_version, paths=everything)]
    me = _Manager(field_manager, "Apply", kind.api_version, now, paths=frozenset(wanted))
    others = [manager for manager in managers if not manager.is_same(me)]
    before = leaves(live, schema)

    result = _merge_map(live, applied, schema)
    last = next((manager for manager in managers if manager.is_same(me)), None)
    if last is not None:
        _prune(result, last.paths - me.paths, [*others, me], schema)
        if last.paths == me.paths and json_equal(_plain(result), _plain(live)):
            me = replace(me, time=last.time)
    _sync_last_applied(result, applied, field_manager)

    altered = changed(before, leaves(result, schema)) & me.paths
    conflicts = [(manager, altered & manager.paths) for manager in others]
    if any(paths for _, paths in conflicts):
        if not force:
            raise _conflict([(manager, paths) for manager, paths in conflicts if paths])
        others = [replace(manager, paths=manager.paths - altered) for manager in others]
    _write_managers(result, [*others, me], now)
    return result


def track_update(
    before: Json, after: Json, *, kind: Kind, manager: str, now: str, subresource: str = ""
) -> Json:
    """`after` with ownership of what an update or patch has changed moved to its manager."""
    managers = _managers(before)
    if not managers:
        return after
    schema = schema_of(kind)
    old, new = leaves(before, schema), leaves(after, schema)
    touched = changed(old, new)
    removed = old.keys() - new.keys()
    # A manager that adds the first field to a map or list owns that map or list as well.
    touched |= branches(after, schema) - branches(before, schema)
    if not touched and not removed:
        return {**after, "metadata": {**after["metadata"], **_kept_entries(before)}}
    me = _Manager(manager, "Update", kind.api_version, now, subresource)
    mine = next((manager for manager in managers if manager.is_same(me)), me)
    kept = [
        replace(manager, paths=manager.paths - touched - removed)
        for manager in managers
        if manager is not mine
    ]
    result = {**after, "metadata": dict(after["metadata"])}
    _write_managers(result, [*kept, replace(me, paths=(mine.paths - removed) | touched)], now)
    return result


def _kept_entries(obj: Json) -> Json:
    return {"managedFields": obj["metadata"]["managedFields"]}


def _applied_leaves(applied: Json, kind: Kind, schema: Schema) -> dict[Path, Any]:
    try:
        return leaves(applied, schema)
    except DuplicateOrKeyless as error:
        metadata = applied.get("metadata") or {}
        version = f"{kind.group}/{kind.version}"
        raise unexplained(
            f"failed to create typed patch object ({metadata.get('namespace', '')}/"
            f"{metadata.get('name', '')}; {version}, Kind={kind.kind}): {error}"
        ) from None


def _managers(obj: Json) -> list[_Manager]:
    return [
        _Manager(
            name=entry.get("manager", ""),
            operation=entry.get("operation", ""),
            api_version=entry.get("apiVersion", ""),
            time=entry.get("time") or "",
            subresource=entry.get("subresource") or "",
            paths=frozenset(from_fields_v1(entry.get("fieldsV1") or {})),
        )
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
    ]


def _write_managers(obj: Json, managers: Iterable[_Manager], now: str) -> None:
    """Sets managedFields; a manager without fields is forgotten."""
    kept = [
        manager if manager.time else replace(manager, time=now)
        for manager in managers
        if manager.paths
    ]
    kept.sort(key=lambda manager: (manager.operation, manager.time, manager.name))
    obj.setdefault("metadata", {})["managedFields"] = [manager.entry() for manager in kept]


def _conflict(conflicts: list[tuple[_Manager, set[Path]]]) -> Failure:
    conflicts.sort(key=lambda conflict: conflict[0].name)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {manager}",
            "field": path_text(path),
        }
        for manager, paths in conflicts
        for path in sorted(paths, key=_reading_order)
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for manager, paths in conflicts:
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path_text(path)}" for path in sorted(paths, key=_reading_order)]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Failure(409, f"Apply failed with {text}", details={"causes": causes})


def _reading_order(path: Path) -> list[tuple[bool, str]]:
    """At every level the fields themselves come first, then what is below others."""
    last = len(path) - 1
    return [(level < last, element) for level, element in enumerate(path)]


def _merge_map(live: Json, applied: Json, schema: Schema) -> Json:
    result = dict(live)
    for key, value in applied.items():
        result[key] = _merge(live.get(key), value, schema.get(key, PLAIN))
    return result


def _merge(live: Any, applied: Any, spec: Field) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict) and not spec.atomic:
        return _merge_map(live, applied, fields_of(spec))
    if isinstance(applied, list) and isinstance(live, list) and spec.is_set:
        return _merged_order(live, applied)
    if isinstance(applied, list) and isinstance(live, list) and spec.keys:
        server = {element_of(item, spec, ()): item for item in live}
        wanted = {element_of(item, spec, ()): item for item in applied}
        order = _merged_order(list(server), list(wanted))
        return [_merged_element(server, wanted, name, spec) for name in order]
    return copy.deepcopy(applied)


def _merged_order(live: list[str], applied: list[str]) -> list[str]:
    """Applied elements in their order, and between them those that only the server has.

    Those stay in front of the shared element that they stood in front of, as far as the order of
    the applied ones allows it.
    """
    shared = deque(name for name in applied if name in live)
    coming = deque(applied)
    result: list[str] = []
    for name in live:
        if name not in applied:
            result.append(name)
        elif coming and shared and name == shared[0]:
            # Everything applied before this one gets its place now.
            while name not in result:
                result.append(coming.popleft())
            shared.popleft()
    return result + list(coming)


def _merged_element(server: Json, wanted: Json, name: str, spec: Field) -> Any:
    if name not in wanted:
        return server[name]
    if name not in server or spec.elements_atomic:
        return copy.deepcopy(wanted[name])
    return _merge_map(server[name], wanted[name], fields_of(spec))


def _prune(obj: Json, gone: frozenset[Path], owners: list[_Manager], schema: Schema) -> None:
    """Remove the fields that their manager dropped and of which no manager owns a part."""
    owned = {path for manager in owners for path in manager.paths}
    prefixes = {path[:length] for path in owned for length in range(1, len(path) + 1)}
    for path in sorted(gone, key=len):
        if path not in prefixes:
            _remove(obj, path, schema)


def _remove(obj: Json, path: Path, schema: Schema) -> None:
    """Removes one field, and the maps and lists that it leaves empty."""
    element, rest = path[0], path[1:]
    key = element.removeprefix("f:")
    if key not in obj:
        return
    if not rest:
        del obj[key]
        return
    spec, value = schema.get(key, PLAIN), obj[key]
    if isinstance(value, dict):
        _remove(value, rest, fields_of(spec))
    elif isinstance(value, list):
        obj[key] = value = _removed_from_list(value, rest, spec)
    if not value:
        del obj[key]


def _removed_from_list(items: list[Any], path: Path, spec: Field) -> list[Any]:
    if spec.is_set:
        return [item for item in items if value_of(item) != path[0]]
    kept = []
    for item in items:
        if element_of(item, spec, ()) == path[0]:
            if len(path) == 1:
                continue
            _remove(item, path[1:], fields_of(spec))
        kept.append(item)
    return kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _plain(obj: Json) -> Json:
    """The object less its managedFields."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def _sync_last_applied(result: Json, applied: Json, field_manager: str) -> None:
    """kubectl's client-side apply must not undo what its server-side apply has done."""
    annotations = (result.get("metadata") or {}).get("annotations") or {}
    if field_manager != "kubectl" or not annotations.get(_LAST_APPLIED):
        return
    shown = copy.deepcopy(applied)
    (shown["metadata"].get("annotations") or {}).pop(_LAST_APPLIED, None)
    text = json.dumps(shown, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    annotations[_LAST_APPLIED] = text + "\n"
