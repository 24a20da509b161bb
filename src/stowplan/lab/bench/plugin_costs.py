"""What each plugin of a profile costs: its methods under a stopwatch.

The decision benchmark builds one engine with `timed_registry`, whose classes are the in-tree ones
with every method that a decision calls wrapped. The stopwatch itself costs some tenths of a
microsecond a call, so such a run is for comparing plugins, not for pods a second.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import IN_TREE

#: Seconds by plugin.
Costs: TypeAlias = Counter[str]

_METHODS = (
    "sign",
    "pre_filter",
    "filter_columns",
    "filter",
    "pre_score",
    "score_columns",
    "score",
    "normalize",
    "reserve",
    "permit",
)


def timed_registry(costs: Costs) -> Registry:
    """The in-tree plugins, which write down in `costs` how long they were busy."""
    return Registry(_timed(plugin, costs) for plugin in IN_TREE)


def _timed(plugin: type[Plugin], costs: Costs) -> type[Plugin]:
    methods = {
        name: _stopwatch(getattr(plugin, name), plugin.name, costs)
        for name in _METHODS
        if hasattr(plugin, name)
    }
    return type(plugin.__name__, (plugin,), methods)


def _stopwatch(method: Callable[..., Any], name: str, costs: Costs) -> Callable[..., Any]:
    clock = time.perf_counter

    @wraps(method)
    def timed(*args: Any) -> Any:
        began = clock()
        try:
            return method(*args)
        finally:
            costs[name] += clock() - began  # type: ignore[assignment]  # Counter counts seconds here

    return timed
