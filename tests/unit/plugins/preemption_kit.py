"""A small cluster for DefaultPreemption: nodes of 4 CPUs, pods on them, disruption budgets."""

from __future__ import annotations

from random import Random
from typing import Any

from stowplan.api.objects import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodStatus,
)
from stowplan.api.resources import POD_DISRUPTION_BUDGETS
from stowplan.api.workload_objects import (
    OwnerSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from stowplan.clock import VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.handle import Handle
from stowplan.framework.profile import make_plugin
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import defaults, profile_of


class Crowd:
    """Nodes of 4 CPUs, and pods on them."""

    def __init__(self, *names: str, **args: Any) -> None:
        self.cache = ClusterCache()
        self.nominated = Nominator()
        self.handle = Handle(
            table=self.cache.table,
            catalog=self.cache.catalog,
            clock=VirtualClock(),
            rng=Random(7),
        )
        self.plugin = make_plugin(DefaultPreemption, args, self.handle)
        self.profile = profile_of(*defaults(), self.plugin)
        for name in names:
            self.cache.set_node(node(name, cpu=4))

    def stand(self, name: str, where: str, cpu: str = "2", priority: int = 0, **more: Any) -> Pod:
        start = more.pop("start", "2026-01-01T00:00:00Z")
        status = more.pop("status", None) or PodStatus(start_time=start)
        made = pod(name, node=where, cpu=cpu, priority=priority, status=status, **more)
        self.cache.add_pod(made)
        return made

    def protect(
        self,
        labels: dict[str, str] | LabelSelector | None,
        allowed: int,
        *disrupted: str,
        name: str = "budget",
        namespace: str = "default",
    ) -> None:
        selector = LabelSelector(match_labels=labels) if isinstance(labels, dict) else labels
        self.cache.catalog[POD_DISRUPTION_BUDGETS].set(
            PodDisruptionBudget(
                metadata=ObjectMeta(name=name, namespace=namespace),
                spec=OwnerSpec(selector=selector),
                status=PodDisruptionBudgetStatus(
                    disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "")
                ),
            )
        )

    def decide(self, wanted: Pod) -> Decision:
        info = compile_pod(wanted)
        return decide(self.cache.table, info, self.profile, nominated=self.nominated)


def victims(decision: Decision) -> list[str]:
    assert decision.eviction is not None, decision.message
    return [each.metadata.name for each in decision.eviction.victims]
