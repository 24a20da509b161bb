"""Stowplan: a Kubernetes scheduler and scheduling framework.

This is the plugin author's whole API; everything else may change between releases. Names are
imported when they are first used, so that `import stowplan` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.api.objects import Node, Pod
    from stowplan.cluster.views import NodeView
    from stowplan.framework.cycle import Cycle
    from stowplan.framework.functions import filter_function as filter  # noqa: A004
    from stowplan.framework.functions import score_function as score
    from stowplan.framework.handle import Handle
    from stowplan.framework.plugin import Plugin, PostFilterResult, PreFilterResult, Reads
    from stowplan.framework.status import (
        SKIP,
        SUCCESS,
        Code,
        Status,
        error,
        pending,
        unresolvable,
        unschedulable,
        wait,
    )
    from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint
    from stowplan.server.library import run

__version__ = "0.1.0"

__all__ = [
    "SKIP",
    "SUCCESS",
    "ActionType",
    "ClusterEvent",
    "Code",
    "Cycle",
    "EventHint",
    "Handle",
    "Hint",
    "Node",
    "NodeView",
    "Plugin",
    "Pod",
    "PostFilterResult",
    "PreFilterResult",
    "Reads",
    "Status",
    "error",
    "filter",
    "pending",
    "run",
    "score",
    "unresolvable",
    "unschedulable",
    "wait",
]

_HOMES = {
    "stowplan.api.objects": ("Node", "Pod"),
    "stowplan.cluster.views": ("NodeView",),
    "stowplan.framework.cycle": ("Cycle",),
    "stowplan.framework.handle": ("Handle",),
    "stowplan.framework.plugin": ("Plugin", "PostFilterResult", "PreFilterResult", "Reads"),
    "stowplan.framework.status": (
        "SKIP",
        "SUCCESS",
        "Code",
        "Status",
        "error",
        "pending",
        "unresolvable",
        "unschedulable",
        "wait",
    ),
    "stowplan.queue.events": ("ActionType", "ClusterEvent", "EventHint", "Hint"),
    "stowplan.server.library": ("run",),
}
_FOUND_IN = {name: (module, name) for module, names in _HOMES.items() for name in names}
_FOUND_IN["filter"] = ("stowplan.framework.functions", "filter_function")
_FOUND_IN["score"] = ("stowplan.framework.functions", "score_function")


def __getattr__(name: str) -> Any:
    if name not in _FOUND_IN:
        raise AttributeError(f"module 'stowplan' has no attribute {name!r}")
    module, attribute = _FOUND_IN[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
