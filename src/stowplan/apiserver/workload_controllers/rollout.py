"""How many replicas each ReplicaSet of a Deployment gets next; pure arithmetic.

The rules are those of kube-controller-manager's deployment/rolling.go: never more than
`replicas + maxSurge` pods, never fewer available than `replicas - maxUnavailable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.apiserver.history import Json, Record


@dataclass(frozen=True, slots=True)
class Bounds:
    """A Deployment's strategy in pods."""

    replicas: int
    max_surge: int
    max_unavailable: int

    @classmethod
    def of(cls, deployment: Json) -> Bounds:
        """Percentages are of `replicas`; a surge is rounded up, what is unavailable down."""
        spec = deployment["spec"]
        replicas: int = spec["replicas"]
        if spec["strategy"]["type"] != "RollingUpdate":
            return cls(replicas, 0, 0)
        rolling = spec["strategy"]["rollingUpdate"]
        surge = _in_pods(rolling["maxSurge"], replicas, up=True)
        unavailable = _in_pods(rolling["maxUnavailable"], replicas, up=False)
        if not surge and not unavailable:
            unavailable = 1  # otherwise the rollout could never begin
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def min_available(self) -> int:
        return self.replicas - self.max_unavailable


def _in_pods(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * replicas
    return -(-hundredths // 100) if up else hundredths // 100


def replicas_of(replica_set: Record) -> int:
    count: int = replica_set.object["spec"]["replicas"]
    return count


def available_of(replica_set: Record) -> int:
    count: int = replica_set.object["status"].get("availableReplicas", 0)
    return count


def next_size_of_new(bounds: Bounds, size: int, total: int) -> int:
    """The size of the newest ReplicaSet; `total` is the size of all together."""
    if size >= bounds.replicas:
        return bounds.replicas
    room = bounds.replicas + bounds.max_surge - total
    return min(size + max(0, room), bounds.replicas)


def next_sizes_of_old(bounds: Bounds, new: Record, old: Sequence[Record]) -> list[int]:
    """The sizes of the older ReplicaSets, oldest first. Unhealthy pods go before healthy ones."""
    sizes = [replicas_of(each) for each in old]
    unavailable_new = replicas_of(new) - available_of(new)
    may_go = sum(sizes) + replicas_of(new) - bounds.min_available - unavailable_new
    for index, each in enumerate(old):
        unhealthy = max(0, sizes[index] - available_of(each))
        gone = max(0, min(unhealthy, may_go))
        sizes[index] -= gone
        may_go -= gone
    available = sum(available_of(each) for each in (new, *old))
    may_go = min(may_go, available - bounds.min_available)
    for index, size in enumerate(sizes):
        gone = max(0, min(size, may_go))
        sizes[index] -= gone
        may_go -= gone
    return sizes
