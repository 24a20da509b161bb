"""Services, owners and disruption budgets of pods: the fields that a scheduler reads."""

from __future__ import annotations

from stowplan.api.objects import Int32, Labels, LabelSelector, ObjectMeta, Wire


class SelectingSpec(Wire, frozen=True):
    """Services and replication controllers select by equality alone."""

    selector: Labels | None = None


class Service(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectingSpec = SelectingSpec()


class ReplicationController(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectingSpec = SelectingSpec()


class OwnerSpec(Wire, frozen=True):
    selector: LabelSelector | None = None


class ReplicaSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: OwnerSpec = OwnerSpec()


class StatefulSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: OwnerSpec = OwnerSpec()


class PodDisruptionBudgetStatus(Wire, frozen=True):
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    #: Names of pods whose eviction was allowed and is not seen yet, and when (null: unknown).
    disrupted_pods: dict[str, str | None] | None = None


class PodDisruptionBudget(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: OwnerSpec = OwnerSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
