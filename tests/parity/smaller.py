"""Makes a failing question small: takes away what is not needed for the failure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
_LISTS = ("nominated", "pods", "nodes")


def shrink(case: Json, fails: Callable[[Json], bool]) -> Json:
    """The smallest case found by leaving out one thing after the other."""
    while True:
        for smaller in _smaller(case):
            if fails(smaller):
                case = smaller
                break
        else:
            return case


def _smaller(case: Json) -> Iterator[Json]:
    for name in _LISTS:
        half = len(case[name]) // 2
        if half > 1:
            yield {**case, name: case[name][:half]}
            yield {**case, name: case[name][half:]}
    for name in _LISTS:
        # Without a node there is nothing to say.
        fewest = 1 if name == "nodes" else 0
        if len(case[name]) > fewest:
            for place in range(len(case[name])):
                yield _without(case, name, place)
    for name in _LISTS:
        for place, thing in enumerate(case[name]):
            yield from _fields(case, thing, name, place)
    yield from _fields(case, case["pod"], "pod")


def _fields(case: Json, thing: Json, *path: str | int) -> Iterator[Json]:
    for part in ("spec", "status", "metadata"):
        for key, value in thing[part].items():
            if key in ("name", "namespace", "uid"):
                continue
            yield _without(case, *path, part, key)
            if isinstance(value, list):
                for place in range(len(value)):
                    yield _without(case, *path, part, key, place)
            elif isinstance(value, dict):
                for inner in value:
                    yield _without(case, *path, part, key, inner)


def _without(case: Json, *path: str | int) -> Json:
    changed = copy.deepcopy(case)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return changed
