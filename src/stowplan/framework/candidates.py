"""Preemption candidates: nodes that could make room for a pod, and the victims on each.

A PostFilter plugin that evicts pods can submit its candidates to extenders before it chooses one.
Instead of `post_filter` it has `post_filter_steps`, a generator that yields candidates. It is sent
the candidates that the extenders left, or the error status of a failed request. `post_filter` then
returns `unopposed(steps)`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from stowplan.cluster.pod_info import PodInfo
from stowplan.framework.status import Status

if TYPE_CHECKING:
    from stowplan.framework.plugin import PostFilterResult


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from a node, the most important first."""

    pods: tuple[PodInfo, ...]
    #: How many of them a disruption budget protects.
    violations: int = 0


#: By the names of the nodes.
Candidates: TypeAlias = Mapping[str, Victims]
PostFilterSteps: TypeAlias = "Generator[Candidates, Candidates | Status, PostFilterResult]"


def unopposed(steps: PostFilterSteps) -> PostFilterResult:
    """Run the steps without extenders: every candidate remains."""
    try:
        candidates = next(steps)
        while True:
            candidates = steps.send(candidates)
    except StopIteration as finished:
        result: PostFilterResult = finished.value
        return result
