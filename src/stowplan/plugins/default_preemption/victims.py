"""The order in which potential victims are spared, and the budgets that protect them.

A pod is more important with a higher priority, then the longer it runs. Every potential victim is
spared if the preemptor fits beside it: first the pods whose disruption budget would be violated,
then the others, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from stowplan.api.labels import CompiledSelector
from stowplan.api.objects import Pod
from stowplan.api.selectors import compile_label_selector
from stowplan.api.workload_objects import PodDisruptionBudget
from stowplan.cluster.pod_info import PodInfo


class Budget(NamedTuple):
    """A PodDisruptionBudget as preemption reads it."""

    selector: CompiledSelector
    allowed: int
    #: Pods whose eviction the API server has already counted.
    disrupted: frozenset[str]

    def covers(self, pod: Pod) -> bool:
        """True if evicting a pod of the budget's namespace counts against the budget."""
        meta = pod.metadata
        return (
            bool(meta.labels)
            and meta.name not in self.disrupted
            and self.selector.matches(meta.labels)
        )


#: Budgets by namespace.
Budgets: TypeAlias = Mapping[str, Sequence[Budget]]


def read_budgets(budgets: Iterable[PodDisruptionBudget]) -> Budgets:
    """Budgets that can match a pod; an absent, empty or invalid selector matches none."""
    read: dict[str, list[Budget]] = {}
    for budget in budgets:
        wanted = budget.spec.selector
        if wanted is None or not (wanted.match_labels or wanted.match_expressions):
            continue
        try:
            selector = compile_label_selector(wanted)
        except ValueError:
            continue
        status = budget.status
        read.setdefault(budget.metadata.namespace, []).append(
            Budget(selector, status.disruptions_allowed, frozenset(status.disrupted_pods or ()))
        )
    return read


def split_by_budget(
    pods: Sequence[PodInfo], budgets: Budgets
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose eviction would violate a budget, and the others; each in the order given.

    Every pod uses up one disruption of each budget that covers it, also of a budget that allows no
    more and also if another budget is violated already. So the order of the budgets is irrelevant.
    """
    if not budgets:
        return [], list(pods)
    left: dict[str, list[int]] = {}
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for info in pods:
        namespace = info.pod.metadata.namespace
        own = budgets.get(namespace, ())
        allowed = left.setdefault(namespace, [budget.allowed for budget in own])
        is_violated = False
        for place, budget in enumerate(own):
            if budget.covers(info.pod):
                allowed[place] -= 1
                is_violated = is_violated or allowed[place] < 0
        (violating if is_violated else others).append(info)
    return violating, others


def start_time(pod: Pod, now: float) -> float:
    """When a pod began to run; `now` for a pod that has not begun."""
    began = pod.status.start_time
    return now if began is None else _seconds(began)


def by_importance(pods: Iterable[PodInfo], now: float) -> list[PodInfo]:
    """The pods sorted by priority, then by start time; the most important first.

    Ties keep the given order, and pods without a start time reverse it: upstream takes the current
    time for each of them at every comparison, so that its insertion sort finds every pod more
    important than the ones before it.

    DIVERGES: equally important pods of a node come in the order in which they came to the node.
    Upstream begins with the order of a list that every update of a pod rearranges and a restart
    forgets, and sorts more than twelve pods with an unstable sort. Both only choose among pods of
    the same priority that began in the same second, or that have not begun.
    """
    ranked = []
    for place, info in enumerate(pods):
        began = info.pod.status.start_time
        if began is None:
            ranked.append((-info.priority, now, -place, info))
        else:
            ranked.append((-info.priority, _seconds(began), place, info))
    # No two places are equal, so that no two PodInfos are compared.
    ranked.sort()
    return [info for *_, info in ranked]


@lru_cache(maxsize=65536)
def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
