"""Which changes of the cluster may help a pod that DynamicResources refused."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Pod
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.pod_claims import ClaimProblem, claim_key, claim_names, claims_of
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint, Topics
from stowplan.queue.topics import OWN_POD

_CHANGED = ActionType.ADD | ActionType.UPDATE
_NODE = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE


def _frees_devices(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    return old is not None and old.status.allocation is not None and new.status.allocation is None


def _claims_of_event(old: object | None, new: object | None) -> Collection[Hashable] | None:
    if not isinstance(new, ResourceClaim) or not (old is None or isinstance(old, ResourceClaim)):
        return None
    return None if _frees_devices(old, new) else (claim_key(new),)


#: With as many claims as pods that wait for theirs, a hint for each pair would take seconds.
_CLAIMS: Final = Topics(claim_names, _claims_of_event)


class DeviceHints:
    """The plugin's hints; they look the pod's claims up."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.NODE, _NODE)),
            EventHint(
                ClusterEvent(EventResource.RESOURCE_CLAIM, _CHANGED), self.after_claim, _CLAIMS
            ),
            EventHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
                self.after_pod,
                OWN_POD,
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
        frees = _frees_devices(old, new)
        if not frees and claim_key(new) not in claim_names(pod):
            return Hint.SKIP
        try:
            claims = claims_of(pod, self._facts)
        except ClaimProblem:
            return Hint.SKIP  # Whatever it was, the pod waits for more.
        if frees:
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
