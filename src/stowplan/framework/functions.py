"""Plain functions as plugins.

    @stowplan.filter
    def has_ssd(pod, node):
        return node.labels.get("disk") == "ssd"

A filter function answers True (fits), False, or a reason as text; a score function an integer
from 0 to 100. The result of the decorator is a plugin class like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, overload

from stowplan.api.objects import Pod
from stowplan.cluster.views import NodeView
from stowplan.framework.plugin import FilterAnswer, Plugin
from stowplan.plugin_failures import STANDS_FOR

FilterFunction: TypeAlias = Callable[[Pod, NodeView], FilterAnswer]
ScoreFunction: TypeAlias = Callable[[Pod, NodeView], int]


@overload
def filter_function(function: FilterFunction) -> type[Plugin]: ...
@overload
def filter_function(*, name: str) -> Callable[[FilterFunction], type[Plugin]]: ...
def filter_function(function: FilterFunction | None = None, *, name: str = "") -> Any:
    """Turn `function(pod, node)` into a Filter plugin, named after the function."""

    def make(chosen: FilterFunction) -> type[Plugin]:
        def answer(_self: Plugin, pod: Pod, node: NodeView) -> FilterAnswer:
            return chosen(pod, node)

        return _plugin(chosen, name, "filter", answer)

    return make if function is None else make(function)


@overload
def score_function(function: ScoreFunction) -> type[Plugin]: ...
@overload
def score_function(*, name: str) -> Callable[[ScoreFunction], type[Plugin]]: ...
def score_function(function: ScoreFunction | None = None, *, name: str = "") -> Any:
    """Turn `function(pod, node)` into a Score plugin, named after the function."""

    def make(chosen: ScoreFunction) -> type[Plugin]:
        def answer(_self: Plugin, pod: Pod, node: NodeView) -> int:
            return chosen(pod, node)

        return _plugin(chosen, name, "score", answer)

    return make if function is None else make(function)


def _plugin(
    function: Callable[..., Any], name: str, method: str, answer: Callable[..., Any]
) -> type[Plugin]:
    setattr(answer, STANDS_FOR, function)
    return type(
        name or function.__name__,
        (Plugin,),
        {
            "name": name or function.__name__,
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "__firstlineno__": function.__code__.co_firstlineno,
            method: answer,
        },
    )
