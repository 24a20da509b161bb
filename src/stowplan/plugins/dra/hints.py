"""Which changes of the cluster may help a pod that DynamicResources refused."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Pod
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.pod_claims import ClaimProblem, claims_of
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint

_CHANGED = ActionType.ADD | ActionType.UPDATE
_NODE = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE


class DeviceHints:
    """The plugin's hints; they look the pod's claims up."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.NODE, _NODE)),
            EventHint(ClusterEvent(EventResource.RESOURCE_CLAIM, _CHANGED), self.after_claim),
            EventHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
                self.after_pod,
            ),
            EventHint(ClusterEvent(EventResource.DEVICE_CLASS, _CHANGED)),
            EventHint(ClusterEvent(EventResource.RESOURCE_SLICE, _CHANGED)),
        )

    def after_claim(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """A claim came or changed."""
        if not isinstance(new, ResourceClaim) or not (
            old is None or isinstance(old, ResourceClaim)
        ):
            return Hint.QUEUE
        try:
            claims = claims_of(pod, self._facts)
        except ClaimProblem:
            return Hint.SKIP  # Whatever it was, the pod waits for more.
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return Hint.QUEUE  # Its devices are free for any pod.
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return Hint.SKIP
        if old is not None and old.status == new.status:
            return Hint.SKIP
        return Hint.QUEUE

    def after_pod(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """A pod changed, maybe this one, and maybe its claims were made."""
        if not isinstance(new, Pod):
            return Hint.QUEUE
        if new.uid != pod.uid:
            return Hint.SKIP
        try:
            claims_of(new, self._facts)
        except ClaimProblem:
            return Hint.SKIP
        return Hint.QUEUE
