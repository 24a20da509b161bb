"""Explain the plugin names of kubernetes-sigs/scheduler-plugins in configurations.

That project builds kube-scheduler with further plugins, and its configuration files are widely
copied. None of its plugins exists here, so its names get an explanation, not the closest spelling.
A user's own plugin may have such a name: only names that no installed plugin has are explained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from stowplan.config.fields import did_you_mean

#: Each plugin by its registered name, with what it does.
SCHEDULER_PLUGINS: Final[Mapping[str, str]] = {
    "CapacityScheduling": "elastic quotas",
    "Coscheduling": "gang scheduling by PodGroup",
    "CrossNodePreemption": "preemption across several nodes",
    "DiskIO": "disk bandwidth",
    "LoadVariationRiskBalancing": "scores by measured load and its variation",
    "LowRiskOverCommitment": "scores by the risk of overcommitment",
    "NetworkOverhead": "network cost between dependent pods",
    "NodeMetadata": "scores by a label or annotation of nodes",
    "NodeResourceTopologyMatch": "NUMA zones",
    "NodeResourcesAllocatable": "scores by allocatable resources",
    "NodeResourcesFitPlus": "a scoring strategy per resource",
    "Peaks": "scores by predicted power use",
    "PodState": "scores by terminating and nominated pods",
    "PreemptionToleration": "preemption that victims can put off",
    "QOSSort": "queue order by quality of service class",
    "ScarceResourceAvoidance": "keeps nodes with scarce resources free",
    "SySched": "scores by system call exposure",
    "TargetLoadPacking": "packs nodes to a target load",
    "TopologicalSort": "queue order by the dependencies of an AppGroup",
}


def why_unknown(name: str, known: Collection[str]) -> str:
    """What follows "no such plugin": an explanation, the closest known name, or nothing."""
    if name in SCHEDULER_PLUGINS:
        return (
            f"; {name} ({SCHEDULER_PLUGINS[name]}) is a plugin of"
            " kubernetes-sigs/scheduler-plugins, which Stowplan does not include. Fix: remove it,"
            " or install a plugin of that name (docs/plugins.md)"
        )
    return did_you_mean(name, known)
