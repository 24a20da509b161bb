"""Which of several nodes is best cleared for the pod.

One rule after the other, and only among those that the rules before left equal: fewest violated
budgets; the lowest most important victim; the smallest sum of the victims' priorities; fewest
victims; and of the victims of highest priority, the one that began first began latest.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.cluster.pod_info import PodInfo
from stowplan.framework.candidates import Candidates, Victims
from stowplan.plugins.default_preemption.victims import start_time

#: Makes every priority positive, so that fewer victims of negative priority are better, not worse.
_PRIORITY_SHIFT = 1 << 31


def best_node(candidates: Candidates, now: float) -> str:
    """The first of the cheapest; upstream takes any of them."""
    costs = {node: _cost(victims) for node, victims in candidates.items()}
    lowest = min(costs.values())
    tied = [node for node, cost in costs.items() if cost == lowest]
    if len(tied) == 1:
        return tied[0]
    return max(tied, key=lambda node: _first_start(candidates[node].pods, now))


def _cost(victims: Victims) -> tuple[int, int, int, int]:
    """By all rules but the last; smaller is better."""
    pods = victims.pods
    total = sum([info.priority + _PRIORITY_SHIFT for info in pods])
    return victims.violations, pods[0].priority, total, len(pods)


def _first_start(pods: Sequence[PodInfo], now: float) -> float:
    """When the first of the most important pods began."""
    highest = max([info.priority for info in pods])
    return min([start_time(info.pod, now) for info in pods if info.priority == highest])
