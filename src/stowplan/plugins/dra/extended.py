"""Extended resources as a claim: what containers ask for by a resource's name becomes requests.

One claim serves all extended resources of a pod that devices stand for. It exists in memory alone,
under a name that no object can have, until PreBind creates it. Each node needs a version of its
own, because a node may offer some of the resources by a device plugin.

Containers that run at the same time get requests of their own. An init container that ends before
they start uses their devices, and the init containers together request what is missing once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stowplan.api.device_objects import (
    ClaimMeta,
    ContainerExtendedResourceRequest,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestDetails,
    ResourceClaim,
    ResourceClaimSpec,
)
from stowplan.api.objects import Container, OwnerReference, Pod
from stowplan.api.quantity import INT64_MAX, nanos

#: The claim's name until it is created; not a valid one, so that no other claim has it.
IN_MEMORY: Final = "<extended-resources>"
ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
_NANO: Final = 1_000_000_000

#: The name of the class whose devices stand for a resource.
ClassOf = Callable[[str], str | None]
Mappings = tuple[ContainerExtendedResourceRequest, ...]


def claim_in_memory(pod: Pod, uid: str) -> ResourceClaim:
    """The claim for a pod's extended resources, without requests. `uid` is temporary."""
    owner = OwnerReference(
        kind="Pod", name=pod.metadata.name, uid=pod.uid, api_version="v1", controller=True
    )
    return ResourceClaim(
        metadata=ClaimMeta(
            name=IN_MEMORY,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            namespace=pod.metadata.namespace,
            uid=uid,
            annotations={ANNOTATION: "true"},
            owner_references=(owner,),
        )
    )


def is_in_memory(claim: ResourceClaim) -> bool:
    return claim.metadata.name == IN_MEMORY


def find_earlier(pod: Pod, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """The claim that an earlier attempt created for the pod's extended resources."""
    for claim in claims:
        if (claim.metadata.annotations or {}).get(ANNOTATION) == "true" and any(
            owner.controller and owner.name == pod.metadata.name and owner.uid == pod.uid
            for owner in claim.metadata.owner_references or ()
        ):
            return claim
    return None


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """The claim as a node needs it."""
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
    return ResourceClaim(metadata=claim.metadata, spec=spec, status=claim.status)


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], class_of: ClassOf
) -> tuple[tuple[DeviceRequest, ...], Mappings]:
    """The requests for some of a pod's extended resources, and which container uses which.

    Resources that no class answers for are left out.
    """
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    init_count = len(pod.spec.init_containers or ())
    ends_early = [
        place < init_count and one.restart_policy != "Always"
        for place, one in enumerate(containers)
    ]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        class_name = class_of(resource)
        if class_name is None:
            continue
        lasting: list[DeviceRequest | None] = [None] * len(containers)
        for place, container in enumerate(containers):
            if not ends_early[place]:
                lasting[place], made = _of_container(place, container, resource, class_name, ())
                mappings += made
        largest: DeviceRequest | None = None
        names: set[str] = set()
        early: list[ContainerExtendedResourceRequest] = []
        for place, container in enumerate(containers):
            if ends_early[place]:
                # Containers that start later have not begun to use their devices.
                later = [one for one in lasting[place:] if one is not None]
                own, made = _of_container(place, container, resource, class_name, later)
                early += made
                if own is not None:
                    names.add(own.name)
                    if largest is None or _count(largest) < _count(own):
                        largest = own
        if largest is not None:
            requests.append(largest)
            early = [_renamed(one, names, largest.name) for one in early]
        requests += [one for one in lasting if one is not None]
        mappings += early
    return tuple(sorted(requests, key=lambda one: one.name)), tuple(mappings)


def _of_container(
    place: int,
    container: Container,
    resource: str,
    class_name: str,
    reusable: Sequence[DeviceRequest],
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """The request for what a container needs beyond `reusable` ones, and all that it uses."""
    asked = (container.resources.requests if container.resources is not None else None) or {}
    amount = _whole(asked.get(resource, 0))
    if not amount:
        return None, []
    mappings: list[ContainerExtendedResourceRequest] = []
    found = 0
    for one in reusable:
        found += _count(one)
        mappings.append(ContainerExtendedResourceRequest(container.name, resource, one.name))
        if found >= amount:
            return None, mappings
    name = f"container-{place}-request-{sorted(asked).index(resource)}"
    mappings.append(ContainerExtendedResourceRequest(container.name, resource, name))
    details = DeviceRequestDetails(
        device_class_name=class_name, allocation_mode="ExactCount", count=amount - found
    )
    return DeviceRequest(name=name, exactly=details), mappings


def _whole(quantity: str | int | float) -> int:
    """A quantity as a number of devices; 0 if it is not one."""
    amount, rest = divmod(nanos(quantity), _NANO)
    return amount if not rest and 0 < amount <= INT64_MAX else 0


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count


def _renamed(
    mapping: ContainerExtendedResourceRequest, names: set[str], name: str
) -> ContainerExtendedResourceRequest:
    if mapping.request_name not in names:
        return mapping
    return ContainerExtendedResourceRequest(mapping.container_name, mapping.resource_name, name)
