"""A scheduler extender: algorithms of a user's own, asked by kube-scheduler over HTTP.

`stowplan extender` serves one; docs/extender.md tells how to write and run it.
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
