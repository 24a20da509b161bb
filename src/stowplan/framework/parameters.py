"""Compare the methods of a plugin class with the calls that the framework makes.

`Registry.register` refuses a class with a method that such a call cannot reach, and the testing
kit's check `contract` reports it. Only functions are compared: a decorator's `*args` accepts all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from stowplan.framework.plugin import Plugin
from stowplan.plugin_failures import STANDS_FOR

#: Parameters of each method without `self`; of filter and score the last may be left out.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "pre_enqueue": ("pod",),
    "sort_key": ("queued",),
    "less": ("a", "b"),
    "pre_filter": ("cycle",),
    "filter": ("pod", "node", "cycle"),
    "filter_columns": ("cycle", "rows", "out", "overlay"),
    "post_filter": ("cycle", "diagnosis"),
    "pre_score": ("cycle", "rows"),
    "score": ("pod", "node", "cycle"),
    "score_columns": ("cycle", "rows", "out"),
    "normalize": ("cycle", "scores"),
    "reserve": ("cycle", "pod", "node"),
    "unreserve": ("cycle", "pod", "node"),
    "permit": ("cycle", "pod", "node"),
    "pre_bind_pre_flight": ("cycle", "pod", "node"),
    "pre_bind": ("cycle", "pod", "node"),
    "bind": ("cycle", "pod", "node"),
    "post_bind": ("cycle", "pod", "node"),
    "sign": ("info",),
    "surroundings": ("cycle",),
    "events": (),
    "verdict": ("cycle", "verdict_id"),
    "what_if": ("cycle", "other", "row", "delta"),
}
_CYCLE_IS_OPTIONAL = ("filter", "score")


def wrong_parameters(plugin: type[Plugin]) -> Iterator[tuple[Callable[..., Any], str]]:
    """Functions that the framework cannot call, each with how it must be written."""
    for method, parameters in PARAMETERS.items():
        member = inspect.getattr_static(plugin, method, None)
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if not isinstance(function, FunctionType):
            continue
        plain = getattr(function, STANDS_FOR, None)
        if isinstance(plain, FunctionType):
            if not _takes(plain, 2):
                yield plain, f"{method} functions take (pod, node)"
            continue
        before = () if isinstance(member, staticmethod) else ("self",)
        counts = [len(parameters)] + [2] * (method in _CYCLE_IS_OPTIONAL)
        names = inspect.signature(function, follow_wrapped=False).parameters
        lacks_self = before and parameters and next(iter(names), "") == parameters[0]
        if lacks_self or not any(_takes(function, len(before) + count) for count in counts):
            forms = [", ".join((*before, *parameters[:count])) for count in reversed(counts)]
            wanted = " or ".join(f"({form})" for form in forms)
            yield function, f"{plugin.__qualname__}.{method} takes {wanted}"


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether the function can be called with so many positional arguments."""
    try:
        inspect.signature(function, follow_wrapped=False).bind(*[None] * count)
    except TypeError:
        return False
    return True
