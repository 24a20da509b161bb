"""Services and the owners of pods, cut down to the selectors that default spreading reads."""

from __future__ import annotations

from stowplan.api.objects import Labels, LabelSelector, ObjectMeta, Wire


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
