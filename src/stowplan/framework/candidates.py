"""Nodes that could be cleared for a pod, and whom that would cost: what others may object to.

A PostFilter plugin that evicts pods can say what it has in mind before it chooses: instead of
`post_filter` it has `post_filter_steps`, a generator that yields candidates and is sent those that
are left after everybody was asked (extenders, that is), or the status of a question that failed.
`post_filter` is then `unopposed` of it.
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
    """Who would have to leave a node, the most important first."""

    pods: tuple[PodInfo, ...]
    #: How many of them a disruption budget protects.
    violations: int = 0


#: By the names of the nodes.
Candidates: TypeAlias = Mapping[str, Victims]
PostFilterSteps: TypeAlias = "Generator[Candidates, Candidates | Status, PostFilterResult]"


def unopposed(steps: PostFilterSteps) -> PostFilterResult:
    """What comes of it where nobody is asked."""
    try:
        candidates = next(steps)
        while True:
            candidates = steps.send(candidates)
    except StopIteration as finished:
        result: PostFilterResult = finished.value
        return result
