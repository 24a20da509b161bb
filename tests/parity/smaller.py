"""Makes a failing question small: takes away what is not needed for the failure.

Works on any JSON, from the outside in: halves of lists first, then single entries, then the fields
of what is left. What must stay true: whatever is returned still fails.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tests.parity.generate.dice import Json

#: What makes an object the one that it is; without them nothing could be asked.
_IDENTITY = {"apiVersion", "kind", "name", "namespace", "uid", "id", "schedulerName"}
#: A question keeps its parts, however empty.
_PARTS = {"nodes", "pods", "nominated", "objects", "config", "profiles", "steps", "spec"}
_PARTS |= {"metadata", "status", "scoreAll", "multiPoint", "disabled", "devices", "pluginConfig"}
_MOST_TRIES = 4000


def shrink(case: Json, fails: Callable[[Json], bool]) -> Json:
    """The smallest case found by leaving out one thing after the other."""
    trying = _Tries(fails)
    changed = True
    while changed and trying.left:
        changed = False
        for path in list(_containers(case)):
            while smaller := next(filter(trying, _reductions(case, path)), None):
                case = smaller
                changed = True
    return case


class _Tries:
    """Whether a case fails, so many times; then none does, so that shrinking ends."""

    def __init__(self, fails: Callable[[Json], bool]) -> None:
        self._fails = fails
        self.left = _MOST_TRIES

    def __call__(self, case: Json) -> bool:
        self.left -= 1
        return self.left > 0 and self._fails(case)


def _containers(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where the lists and objects are, outermost first."""
    level = [(path, value)]
    while level:
        deeper = []
        for where, holder in level:
            inner = holder.items() if isinstance(holder, dict) else enumerate(holder)
            if holder:
                yield where
            deeper += [((*where, key), item) for key, item in inner if _is_container(item)]
        level = deeper


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list))


def _reductions(case: Json, path: tuple[str | int, ...]) -> Iterator[Json]:
    """The case with less in one place, as long as that place is there."""
    holder = _at(case, path)
    if isinstance(holder, list):
        size = len(holder) // 2
        while size:
            for start in range(0, len(holder), size):
                yield _put(case, path, holder[:start] + holder[start + size :])
            size //= 2
        if path == ("steps",):
            yield from (_put(case, path, steps) for steps in _merged(holder))
    elif isinstance(holder, dict):
        for key in holder:
            if key not in _IDENTITY and key not in _PARTS:
                yield _put(case, path, {name: holder[name] for name in holder if name != key})


def _merged(steps: list[Json]) -> Iterator[list[Json]]:
    """Two steps of a sequence as one, where the first asks nothing."""
    for place, (first, second) in enumerate(pairwise(steps)):
        if "pod" not in first:
            both = {
                **first,
                **second,
                "apply": [*first.get("apply", ()), *second.get("apply", ())],
                "delete": [*first.get("delete", ()), *second.get("delete", ())],
            }
            yield [*steps[:place], both, *steps[place + 2 :]]


def _at(case: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(case, dict):
            case = case.get(step)
        elif isinstance(case, list) and isinstance(step, int) and step < len(case):
            case = case[step]
        else:
            return None
    return case


def _put(case: Json, path: tuple[str | int, ...], value: Any) -> Json:
    changed = copy.deepcopy(case)
    if not path:
        result: Json = value
        return result
    _at(changed, path[:-1])[path[-1]] = value
    return changed
