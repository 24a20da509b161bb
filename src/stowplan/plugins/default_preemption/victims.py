"""Who could be evicted, in which order they are spared, and whose budget forbids it.

Pods are more important with a higher priority, then the longer they run. Before anybody is
evicted, everybody is spared who can be: first those whose disruption budget would be violated,
then the others, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from stowplan.api.labels import CompiledSelector
from stowplan.api.objects import Pod
from stowplan.api.selectors import compile_label_selector
from stowplan.api.workload_objects import PodDisruptionBudget
from stowplan.cluster.pod_info import PodInfo


class Budget(NamedTuple):
    """A PodDisruptionBudget as preemption reads it."""

    namespace: str
    selector: CompiledSelector
    allowed: int
    #: Pods whose eviction the API server has already counted.
    disrupted: frozenset[str]

    def covers(self, pod: Pod) -> bool:
        meta = pod.metadata
        return (
            meta.namespace == self.namespace
            and bool(meta.labels)
            and meta.name not in self.disrupted
            and self.selector.matches(meta.labels)
        )


def read_budgets(budgets: Iterable[PodDisruptionBudget]) -> list[Budget]:
    """Budgets that can match a pod; an absent, empty or invalid selector matches none."""
    read = []
    for budget in budgets:
        wanted = budget.spec.selector
        if wanted is None or not (wanted.match_labels or wanted.match_expressions):
            continue
        selector = compile_label_selector(wanted)
        if not selector.nothing:
            status = budget.status
            read.append(
                Budget(
                    budget.metadata.namespace,
                    selector,
                    status.disruptions_allowed,
                    frozenset(status.disrupted_pods or ()),
                )
            )
    return read


def split_by_budget(
    pods: Sequence[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Those whose eviction would violate a budget, and the others; each in the order given.

    Which of two budgets is used up first, where several cover a pod, upstream leaves open: it goes
    by the order of a list that has none.
    """
    if not budgets:
        return [], list(pods)
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for info in pods:
        for place, budget in enumerate(budgets):
            if budget.covers(info.pod):
                left[place] -= 1
                if left[place] < 0:
                    violating.append(info)
                    break
        else:
            others.append(info)
    return violating, others


def start_time(pod: Pod, now: float) -> float:
    """When a pod began to run; one that has not yet does so now."""
    began = pod.status.start_time
    return now if began is None else _seconds(began)


def by_importance(pods: Iterable[PodInfo], now: float) -> list[PodInfo]:
    """The most important first."""

    def rank(info: PodInfo) -> tuple[int, float]:
        began = info.pod.status.start_time
        return -info.priority, now if began is None else _seconds(began)

    return sorted(pods, key=rank)


@lru_cache(maxsize=65536)
def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
