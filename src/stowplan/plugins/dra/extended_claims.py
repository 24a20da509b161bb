"""The claim for a pod's extended resources: from memory to the API server, and away again.

PreFilter finds the claim that an earlier attempt left behind, or makes one in memory. An earlier
one was made for another node and is of no use: the pod fits nowhere until PostFilter deletes it.
PreBind creates the claim, `device_binding` writes its allocation, and the pod's status says which
container uses which of its requests. Unreserve deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Node, Pod
from stowplan.api.resources import PODS, RESOURCE_CLAIMS
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.extended_resources import DeviceClassByResource, can_be_devices
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.requests import canonical, parse_amounts
from stowplan.errors import Conflict, NotFound, StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.status import Status, unresolvable
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.plugins.dra import extended
from stowplan.plugins.dra.claim_writes import FINALIZER, ClaimWriteFailed, read_again
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.pod_claims import claim_key, namespaced_name

log = get_logger(__name__)

#: Conflicts with other writers before a claim is left to the next attempt of its pod.
_ATTEMPTS: Final = 5
#: How often, and after how long at most, it is checked whether the watch shows a claim to be gone.
_LOOKS: Final = 10
_LOOK_S: Final = 1.0
LEFT_BEHIND = unresolvable("cannot schedule extended resource claim")
CANNOT_FIT = unresolvable("cannot fit resource")


class EarlierClaims:
    """Claims for extended resources by the UID of their pod: `catalog.shared(EarlierClaims)`."""

    def __init__(self, catalog: Catalog) -> None:
        self._claims = catalog[RESOURCE_CLAIMS]
        self._claims.listeners.append(self._changed)
        self._of_pod: dict[str, dict[str, ResourceClaim]] = {}
        self.reset(self)

    def reset(self, like: EarlierClaims) -> None:
        self._of_pod = {}
        for claim in self._claims:
            self._changed(None, claim)

    def of(self, pod: Pod) -> ResourceClaim | None:
        return extended.find_earlier(pod, self._of_pod.get(pod.uid, {}).values())

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in (old, new):
            if claim is None or extended.ANNOTATION not in (claim.metadata.annotations or ()):
                continue
            for owner in claim.metadata.owner_references or ():
                claims = self._of_pod.setdefault(owner.uid, {})
                if claim is new:
                    claims[namespaced_name(claim)] = claim
                else:
                    claims.pop(namespaced_name(claim), None)
                if not claims:
                    del self._of_pod[owner.uid]


@dataclass(frozen=True, slots=True)
class ClaimOnNode:
    """What a node must provide as devices; None: nothing."""

    claim: ResourceClaim | None
    mappings: extended.Mappings


class PodExtended:
    """A pod's extended resources in one scheduling attempt."""

    def __init__(
        self,
        pod: Pod,
        claim: ResourceClaim,
        wanted: tuple[str, ...],
        classes: DeviceClassByResource,
    ) -> None:
        self._pod = pod
        self.claim = claim
        #: The extended resources that the pod asks for; and those of them that devices stand for.
        self.wanted = wanted
        self.of_devices = frozenset(name for name in wanted if classes.get(name) is not None)
        self._classes = classes
        self._on_nodes: dict[frozenset[str], ClaimOnNode] = {}

    @classmethod
    def of(
        cls,
        info: PodInfo,
        earlier: EarlierClaims,
        classes: DeviceClassByResource,
        new_uid: Callable[[], str],
    ) -> PodExtended | None:
        """None if the pod asks for none that devices stand for."""
        if not classes.among(info.request):
            return None
        wanted = tuple(name for name, amount in info.request if amount and can_be_devices(name))
        if not classes.among(tuple((name, 1) for name in wanted)):
            return None
        claim = earlier.of(info.pod) or extended.claim_in_memory(info.pod, new_uid())
        return cls(info.pod, claim, wanted, classes)

    @property
    def is_left_behind(self) -> bool:
        """Whether the claim is an earlier attempt's."""
        return not extended.is_in_memory(self.claim)

    def on_node(self, node: Node) -> ClaimOnNode | Status:
        """The claim as the node needs it, or why the pod does not fit."""
        if self.is_left_behind:
            return LEFT_BEHIND
        allocatable = node.status.allocatable or {}
        asked = {name: allocatable[name] for name in self.wanted if name in allocatable}
        offered = canonical(parse_amounts(asked))
        by_devices = set()
        for name in self.wanted:
            if name in self.of_devices and not offered.get(name):
                by_devices.add(name)
            elif name not in offered:
                return CANNOT_FIT
        return self._for(frozenset(by_devices))

    def _for(self, resources: frozenset[str]) -> ClaimOnNode:
        found = self._on_nodes.get(resources)
        if found is None:
            requests, mappings = extended.requests_and_mappings(
                self._pod, resources, self._class_name
            )
            # DIVERGES: a pod that also has claims of its own, on a node whose device plugin offers
            # the resource, gets no empty claim. Upstream makes one and then fails to bind the pod.
            claim = extended.with_requests(self.claim, requests) if requests else None
            found = self._on_nodes[resources] = ClaimOnNode(claim, mappings)
        return found

    def _class_name(self, resource: str) -> str | None:
        found = self._classes.get(resource)
        return None if found is None else found.metadata.name


async def create(handle: Handle, claim: ResourceClaim) -> ResourceClaim:
    """Create the claim of a node. Raises ClaimWriteFailed."""
    meta = claim.metadata
    wanted: Mapping[str, Any] = {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": meta.generate_name,
            "namespace": meta.namespace,
            "annotations": meta.annotations,
            "ownerReferences": msgspec.to_builtins(meta.owner_references),
        },
        "spec": msgspec.to_builtins(claim.spec),
    }
    try:
        answer = await handle.client.create(RESOURCE_CLAIMS, wanted, namespace=meta.namespace)
    except StowplanError as problem:
        handle.observe("scheduler_resourceclaim_creates_total", ("failure",), 1)
        # The claim has no name yet.
        text = f"create claim for extended resources {meta.namespace}/: {problem}"
        raise ClaimWriteFailed(text) from problem
    handle.observe("scheduler_resourceclaim_creates_total", ("success",), 1)
    return load_json(answer, ResourceClaim)


async def write_pod_status(
    handle: Handle, pod: Pod, claim: ResourceClaim, mappings: extended.Mappings
) -> None:
    """Write into the pod's status which container uses which request. Raises ClaimWriteFailed."""
    status = {
        "requestMappings": msgspec.to_builtins(list(mappings)),
        "resourceClaimName": claim.metadata.name,
    }
    try:
        await handle.client.patch(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}},
            namespace=pod.metadata.namespace,
            subresource="status",
        )
    except StowplanError as problem:
        raise ClaimWriteFailed(
            f"update pod {pod.key} ExtendedResourceClaimStatus: {problem}"
        ) from problem


async def delete(handle: Handle, claim: ResourceClaim) -> None:
    """Delete the claim, and before that the finalizer which would keep it."""
    meta = claim.metadata
    try:
        for attempt in count(1):
            try:
                await _remove_finalizer(handle, claim)
                break
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
            claim = await read_again(handle, claim)
        await handle.client.delete(
            RESOURCE_CLAIMS, meta.name, namespace=meta.namespace, uid=meta.uid
        )
    except NotFound:
        return
    except (StowplanError, ClaimWriteFailed) as problem:
        # The next attempt of the pod finds the claim, and deletes it.
        log.error("delete", extra=kv(resourceclaim=namespaced_name(claim), err=str(problem)))


async def _remove_finalizer(handle: Handle, claim: ResourceClaim) -> None:
    meta = claim.metadata
    finalizers = [one for one in meta.finalizers or () if one != FINALIZER]
    await handle.client.amend(
        RESOURCE_CLAIMS,
        meta.name,
        {"metadata": {"uid": meta.uid, "finalizers": finalizers or None}},
        namespace=meta.namespace,
        resource_version=meta.resource_version,
    )


async def delete_left_behind(
    handle: Handle, earlier: EarlierClaims, facts: DeviceFacts, claim: ResourceClaim, pod: Pod
) -> None:
    """Delete the claim of an earlier attempt, and try the pod again when it is gone.

    DIVERGES: kube-scheduler leaves the pod waiting for some other change of the cluster.
    """
    wakeup = handle.wakeup()
    with facts.telling([claim_key(claim)], wakeup.ring):
        await delete(handle, claim)
        for _ in range(_LOOKS):
            if earlier.of(pod) is None or not await wakeup.wait(_LOOK_S):
                break
    handle.activate([pod])
