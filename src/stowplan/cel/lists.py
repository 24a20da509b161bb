"""Functions of lists: cel-go's list and set extensions, and Kubernetes' own."""

from __future__ import annotations

import functools

from stowplan.cel.declarations import FUNCTIONS, Implementation
from stowplan.cel.errors import Failure, no_such_overload
from stowplan.cel.operators import add, missing
from stowplan.cel.values import (
    LONGEST,
    Duration,
    GrowingMap,
    Map,
    UInt,
    Value,
    compare,
    count_comparisons,
    equal,
    show,
    type_name,
)

_define = FUNCTIONS.overload
#: Types whose lists can be sorted, with their names in Kubernetes' overloads.
_COMPARABLE = {
    "int": "int", "uint": "uint", "double": "double", "bool": "bool", "duration": "duration",
    "timestamp": "timestamp", "string": "string", "bytes": "bytes",
}  # fmt: skip
_ZEROS: dict[str, Value] = {
    "int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0),
}  # fmt: skip


@_define("slice", "list_slice", "list('T).(int, int) -> list('T)")
def slice_of(items: list[Value], start: int, end: int) -> Value:
    if start < 0 or end < 0:
        return Failure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return Failure(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(items) < end:
        return Failure(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flattened(items: list[Value], depth: int) -> list[Value]:
    flat: list[Value] = []
    count_comparisons(len(items))
    for item in items:
        if isinstance(item, list) and depth > 0:
            flat += _flattened(item, depth - 1)
        else:
            flat.append(item)
    return flat


FUNCTIONS.declare("flatten", "list_flatten", "list(list('T)).() -> list('T)")
FUNCTIONS.declare("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)")


@FUNCTIONS.operator("flatten")
def flatten(items: Value, *depth: Value) -> Value:
    if not isinstance(items, list) or (depth and type(depth[0]) is not int):
        names = ", ".join(type_name(one) for one in depth)
        return Failure(f"no such overload: {type_name(items)}.flatten({names})")
    levels = depth[0] if depth else 1
    assert isinstance(levels, int)
    if levels < 0:
        return Failure("level must be non-negative")
    return _flattened(items, levels)


def _sorted_by(items: list[Value], keys: list[Value]) -> Value:
    if not items:
        return items
    if len({type(key) for key in keys}) > 1 and len(keys) > 1:
        return Failure("list elements must have the same type")
    if isinstance(compare(keys[0], keys[0]), Failure):
        return Failure("list elements must be comparable")

    def order(one: int, other: int) -> int:
        result = compare(keys[one], keys[other])
        return result if isinstance(result, int) else 0

    indices = sorted(range(len(items)), key=functools.cmp_to_key(order))
    return [items[index] for index in indices]


@FUNCTIONS.operator("sort")
def sort(items: Value) -> Value:
    return _sorted_by(items, items) if isinstance(items, list) else missing("sort", items)


@FUNCTIONS.operator("@sortByAssociatedKeys")
def sort_by_keys(items: Value, keys: Value) -> Value:
    if not isinstance(items, list) or not isinstance(keys, list):
        return missing("@sortByAssociatedKeys", items)
    if len(items) != len(keys):
        return Failure(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    return _sorted_by(items, keys)


_RUNTIME_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
for _type in _COMPARABLE:
    _runtime = _RUNTIME_NAMES.get(_type, _type)
    FUNCTIONS.declare("sort", f"list_{_runtime}_sort", f"list({_type}).() -> list({_type})")
    FUNCTIONS.declare(
        "@sortByAssociatedKeys",
        f"list_{_runtime}_sortByAssociatedKeys",
        f"list('T).(list({_type})) -> list('T)",
    )


@_define("lists.range", "lists_range", "(int) -> list(int)")
def range_to(end: int) -> Value:
    # Upstream builds a list of any length and then charges for it. This one exceeds any limit.
    return list(range(max(0, min(end, LONGEST + 1))))


@_define("reverse", "list_reverse", "list('T).() -> list('T)")
def reverse(items: list[Value]) -> Value:
    return items[::-1]


@_define("distinct", "list_distinct", "list('T).() -> list('T)")
def distinct(items: list[Value]) -> Value:
    unique: list[Value] = []
    for item in items:
        count_comparisons(len(unique))
        if not any(equal(item, other) is True for other in unique):
            unique.append(item)
    return unique


# Sets


@_define("sets.contains", "list_sets_contains_list", "(list('T), list('T)) -> bool")
def set_contains(items: list[Value], others: list[Value]) -> Value:
    count_comparisons(len(items) * len(others))
    return all(any(equal(other, item) is True for item in items) for other in others)


@_define("sets.equivalent", "list_sets_equivalent_list", "(list('T), list('T)) -> bool")
def set_equivalent(items: list[Value], others: list[Value]) -> Value:
    return set_contains(items, others) is True and set_contains(others, items) is True


@_define("sets.intersects", "list_sets_intersects_list", "(list('T), list('T)) -> bool")
def set_intersects(items: list[Value], others: list[Value]) -> Value:
    count_comparisons(len(items) * len(others))
    return any(any(equal(item, other) is True for other in others) for item in items)


# Kubernetes


def _is_sorted(items: list[Value]) -> Value:
    previous: tuple[Value, ...] = ()
    for item in items:
        if isinstance(compare(item, item), Failure) and not isinstance(item, float):
            return no_such_overload()
        if previous and compare(previous[0], item) == 1:
            return False
        previous = (item,)
    return True


def _extreme(name: str, worse: int) -> Implementation:
    def run(items: list[Value]) -> Value:
        best: tuple[Value, ...] = ()
        for item in items:
            if isinstance(compare(item, item), Failure) and not isinstance(item, float):
                return no_such_overload()
            if not best or compare(best[0], item) == worse:
                best = (item,)
        return best[0] if best else Failure(f"{name} called on empty list")

    return run


def _sum_from(start: Value) -> Implementation:
    def run(items: list[Value]) -> Value:
        total = start
        for item in items:
            total = add(total, item)
            if isinstance(total, Failure):
                return no_such_overload() if "overflow" not in total.text else total
        return total

    return run


for _type in _COMPARABLE:
    _define("isSorted", f"list_{_type}_is_sorted_bool", f"list({_type}).() -> bool")(_is_sorted)
    _define("max", f"list_{_type}_max_{_type}", f"list({_type}).() -> {_type}")(_extreme("max", -1))
    _define("min", f"list_{_type}_min_{_type}", f"list({_type}).() -> {_type}")(_extreme("min", 1))
for _type, _zero in _ZEROS.items():
    _define("sum", f"list_{_type}_sum_{_type}", f"list({_type}).() -> {_type}")(_sum_from(_zero))


@_define("indexOf", "list_a_index_of_int", "list('A).('A) -> int")
def index_of(items: list[Value], wanted: Value) -> Value:
    return next((index for index, item in enumerate(items) if equal(item, wanted) is True), -1)


@_define("lastIndexOf", "list_a_last_index_of_int", "list('A).('A) -> int")
def last_index_of(items: list[Value], wanted: Value) -> Value:
    return next(
        (index for index in reversed(range(len(items))) if equal(items[index], wanted) is True), -1
    )


# For transformMap


def _insert(into: Map, key: Value, value: Value) -> Value:
    if into.find(key):
        return Failure(f"insert failed: key {show(key)} already exists")
    made = into if isinstance(into, GrowingMap) else into.copy()
    made.put(key, value)
    return made


@_define("cel.@mapInsert", "@mapInsert_key_value", "(map('K, 'V), 'K, 'V) -> map('K, 'V)")
def map_insert(into: Map, key: Value, value: Value) -> Value:
    return _insert(into, key, value)


@_define("cel.@mapInsert", "@mapInsert_map", "(map('K, 'V), map('K, 'V)) -> map('K, 'V)")
def map_insert_map(into: Map, entries: Map) -> Value:
    result: Value = into
    for key, value in entries.items():
        assert isinstance(result, Map)
        result = _insert(result, key, value)
        if isinstance(result, Failure):
            return result
    return result
