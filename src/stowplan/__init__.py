"""Stowplan: a Kubernetes scheduler and scheduling framework.

The public API, for plugins and for schedulers of your own; docs/plugin-api.md describes every name.
All other modules, except those that the documentation imports (`stowplan.testing`, `.scenarios`,
`.traces`, `.gym`, `.extender`), may change between releases. Names are imported when they are first
used, so that `import stowplan` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.api import resources
    from stowplan.api.client import ApiClient
    from stowplan.api.follow import follow
    from stowplan.api.informer import Informer
    from stowplan.api.kubeconfig import load_cluster_config
    from stowplan.api.objects import Node, Pod, Taint
    from stowplan.api.quantity import milli_value
    from stowplan.api.recorder import EventRecorder
    from stowplan.api.resources import NODES, PODS
    from stowplan.api.tolerations import tolerates
    from stowplan.cluster.journal import Rows
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.public_table import Table
    from stowplan.cluster.views import NodeView, Overlay
    from stowplan.config.load import load_config
    from stowplan.errors import Conflict, NotFound, StowplanError
    from stowplan.framework.cycle import Cycle
    from stowplan.framework.forms import takes_slices
    from stowplan.framework.functions import filter_function as filter  # noqa: A004 - the public name
    from stowplan.framework.functions import score_function as score
    from stowplan.framework.handle import Handle
    from stowplan.framework.plugin import (
        NOT_KEPT,
        Eviction,
        Plugin,
        PostFilterResult,
        PreFilterResult,
        Reads,
        Rejections,
    )
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
    from stowplan.queue.pod import QueuedPod
    from stowplan.scheduler.outcome import Failure
    from stowplan.server.library import run

__version__ = "0.1.0"

__all__ = [
    "NODES",
    "NOT_KEPT",
    "PODS",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "ApiClient",
    "ClusterEvent",
    "Code",
    "Conflict",
    "Cycle",
    "EventHint",
    "EventRecorder",
    "Eviction",
    "Failure",
    "Handle",
    "Hint",
    "Informer",
    "Node",
    "NodeView",
    "NotFound",
    "Overlay",
    "Plugin",
    "Pod",
    "PodInfo",
    "PostFilterResult",
    "PreFilterResult",
    "QueuedPod",
    "Reads",
    "Rejections",
    "Rows",
    "Status",
    "StowplanError",
    "Table",
    "Taint",
    "error",
    "filter",
    "follow",
    "load_cluster_config",
    "load_config",
    "milli_value",
    "pending",
    "resources",
    "run",
    "score",
    "takes_slices",
    "tolerates",
    "unresolvable",
    "unschedulable",
    "wait",
]

_HOMES = {
    "stowplan.api.client": ("ApiClient",),
    "stowplan.api.follow": ("follow",),
    "stowplan.api.informer": ("Informer",),
    "stowplan.api.kubeconfig": ("load_cluster_config",),
    "stowplan.api.objects": ("Node", "Pod", "Taint"),
    "stowplan.api.quantity": ("milli_value",),
    "stowplan.api.recorder": ("EventRecorder",),
    "stowplan.api.resources": ("NODES", "PODS"),
    "stowplan.api.tolerations": ("tolerates",),
    "stowplan.cluster.journal": ("Rows",),
    "stowplan.cluster.pod_info": ("PodInfo",),
    "stowplan.cluster.public_table": ("Table",),
    "stowplan.cluster.views": ("NodeView", "Overlay"),
    "stowplan.config.load": ("load_config",),
    "stowplan.errors": ("Conflict", "NotFound", "StowplanError"),
    "stowplan.framework.cycle": ("Cycle",),
    "stowplan.framework.forms": ("takes_slices",),
    "stowplan.framework.handle": ("Handle",),
    "stowplan.framework.plugin": (
        "NOT_KEPT",
        "Eviction",
        "Plugin",
        "PostFilterResult",
        "PreFilterResult",
        "Reads",
        "Rejections",
    ),
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
    "stowplan.queue.pod": ("QueuedPod",),
    "stowplan.scheduler.outcome": ("Failure",),
    "stowplan.server.library": ("run",),
}
_FOUND_IN = {name: (module, name) for module, names in _HOMES.items() for name in names}
_FOUND_IN["filter"] = ("stowplan.framework.functions", "filter_function")
_FOUND_IN["score"] = ("stowplan.framework.functions", "score_function")


def __getattr__(name: str) -> Any:
    if name == "resources":
        value: Any = import_module("stowplan.api.resources")
    elif name in _FOUND_IN:
        module, attribute = _FOUND_IN[name]
        value = getattr(import_module(module), attribute)
    else:
        raise AttributeError(f"module 'stowplan' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
