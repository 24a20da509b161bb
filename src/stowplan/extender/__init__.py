"""A scheduler extender: serves a user's algorithm to kube-scheduler over HTTP.

`stowplan extender` runs it; docs/extender.md explains how to write an algorithm.
"""

from stowplan.api.extender_protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    Victims,
)
from stowplan.extender.algorithm import Algorithm

__all__ = [
    "Algorithm",
    "ExtenderArgs",
    "ExtenderBindingArgs",
    "ExtenderBindingResult",
    "ExtenderFilterResult",
    "ExtenderPreemptionArgs",
    "ExtenderPreemptionResult",
    "HostPriority",
    "MetaPod",
    "MetaVictims",
    "Victims",
]
