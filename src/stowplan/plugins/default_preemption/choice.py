"""Which of several nodes is best cleared for the pod.

One rule after the other, and only among those that the rules before left equal: fewest violated
budgets; the lowest most important victim; the smallest sum of the victims' priorities; fewest
victims; and of the victims of highest priority, the one that began first began latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.cluster.pod_info import PodInfo
from stowplan.plugins.default_preemption.victims import start_time

#: Makes every priority positive, so that fewer victims of negative priority are better, not worse.
_PRIORITY_SHIFT = 1 << 31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, and whom it would cost."""

    node: str
    #: The most important first; never empty.
    victims: tuple[PodInfo, ...]
    #: How many of them a disruption budget protects.
    violations: int = 0

    def cost(self, now: float) -> tuple[float, ...]:
        """Smaller is better."""
        priorities = [info.priority for info in self.victims]
        highest = max(priorities)
        earliest = min(
            [start_time(info.pod, now) for info in self.victims if info.priority == highest]
        )
        return (
            self.violations,
            priorities[0],
            sum(priorities) + len(priorities) * _PRIORITY_SHIFT,
            len(priorities),
            -earliest,
        )


def best_candidate(candidates: Sequence[Candidate], now: float) -> Candidate:
    """The first of the cheapest; upstream takes any of them."""
    return min(candidates, key=lambda candidate: candidate.cost(now))
