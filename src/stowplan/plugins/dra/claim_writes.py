"""What is written into claims: allocation and reservation, and taking them back.

Every write names the version of the claim that it is based on, so of two schedulers that allocate
the same claim one gets a conflict. A conflict is mostly harmless (a label changed): the claim is
read again, and written if it is still free. A write without a clear answer may have taken effect or
may yet, so it is sent again until the answer is clear; until then its devices stay taken.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.api.device_objects import AllocationResult, ClaimConsumer, ResourceClaim
from stowplan.api.objects import Pod
from stowplan.api.resources import RESOURCE_CLAIMS
from stowplan.clock import rfc3339
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.framework.handle import Handle
from stowplan.logs import V4, get_logger, kv
from stowplan.plugins.dra.pod_claims import consumer_of, is_reserved_for, namespaced_name

log = get_logger(__name__)

#: Keeps a claim from being removed while its devices may be in use.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: Conflicts with other writers before the pod is tried again from the start.
_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.01
_UNCLEAR = (ServerError, Throttled, ApiUnavailable, TimeoutError)
#: Pauses before a write without a clear answer is sent again; the last one repeats.
_AGAIN_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


class ClaimWriteFailed(Exception):
    """The reason why a claim could not be written; the pod must be scheduled again."""


class _Stopping(ClaimWriteFailed):
    pass


async def bind_claim(
    handle: Handle, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None
) -> ResourceClaim:
    """Write the allocation, unless the claim has one already, and reserve the claim for the pod.

    Returns the claim as the API server has it then. Raises ClaimWriteFailed.
    """
    known = claim
    for attempt in count(1):
        try:
            return await _write(handle, pod, known, allocation)
        except Conflict as problem:
            if attempt == _ATTEMPTS:
                raise ClaimWriteFailed(_doing(claim, allocation) + str(problem)) from problem
        log.log(V4, "Retrying update after conflict", extra=kv(claim=namespaced_name(claim)))
        await _pause(handle, _PAUSE_S)
        known = await read_again(handle, claim)
        if allocation is not None and _has_our(known, allocation, pod):
            return known  # by a write that seemed to fail
    raise AssertionError("unreachable")


async def _write(
    handle: Handle, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None
) -> ResourceClaim:
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimWriteFailed(f"claim {namespaced_name(claim)} got deleted in the meantime")
    if allocation is not None:
        if claim.status.allocation is not None:
            raise ClaimWriteFailed(
                f"claim {namespaced_name(claim)} got allocated elsewhere in the meantime"
            )
        if FINALIZER not in (claim.metadata.finalizers or ()):
            finalizers = [*(claim.metadata.finalizers or ()), FINALIZER]
            claim = await _amend(
                handle,
                claim,
                {"metadata": {"finalizers": finalizers}},
                f"add finalizer to claim {namespaced_name(claim)}: ",
            )
    elif claim.status.allocation is None:
        raise ClaimWriteFailed(
            f"claim {namespaced_name(claim)} got deallocated elsewhere in the meantime"
        )
    status: dict[str, Any] = {}
    now = rfc3339(handle.clock.time())
    if allocation is not None:
        status["allocation"] = msgspec.to_builtins(replace(allocation, allocation_timestamp=now))
    elif claim.status.allocation is not None and not claim.status.allocation.allocation_timestamp:
        status["allocation"] = {"allocationTimestamp": now}
    reserved: list[ClaimConsumer] = [*(claim.status.reserved_for or ()), consumer_of(pod)]
    status["reservedFor"] = msgspec.to_builtins(reserved)
    changes = {"status": status}
    return await _amend(handle, claim, changes, _doing(claim, allocation), subresource="status")


async def _amend(
    handle: Handle,
    claim: ResourceClaim,
    changes: dict[str, Any],
    doing: str,
    *,
    subresource: str = "",
) -> ResourceClaim:
    """Merge changes into this version of a claim, until the answer is clear. Raises Conflict."""
    meta = claim.metadata
    metadata = {**changes.get("metadata", {}), "uid": meta.uid}
    for attempt in count():
        try:
            return await handle.client.amend(
                RESOURCE_CLAIMS,
                meta.name,
                {**changes, "metadata": metadata},
                namespace=meta.namespace,
                resource_version=meta.resource_version,
                subresource=subresource,
            )
        except Conflict:
            raise
        except _UNCLEAR as problem:
            if attempt == 0:
                log.warning(
                    "Writing a claim got no definite answer, sending it again",
                    extra=kv(claim=namespaced_name(claim), err=str(problem)),
                )
            await _pause(handle, _AGAIN_S[min(attempt, len(_AGAIN_S) - 1)])
        except ApiError as problem:
            raise ClaimWriteFailed(doing + str(problem)) from problem
    raise AssertionError("unreachable")


async def read_again(handle: Handle, claim: ResourceClaim) -> ResourceClaim:
    """The claim as it is now. Raises ClaimWriteFailed, also if it is another one by now."""
    meta = claim.metadata
    try:
        # Listed, because that is a right which the scheduler has anyway.
        found = await handle.client.list_all(
            RESOURCE_CLAIMS, namespace=meta.namespace, field_selector=f"metadata.name={meta.name}"
        )
    except StowplanError as problem:
        raise ClaimWriteFailed(
            f"get updated claim {namespaced_name(claim)} after conflict: {problem}"
        ) from problem
    known = next(iter(found.items), None)
    if known is None or known.metadata.uid != meta.uid:
        # DIVERGES: kube-scheduler would allocate the namesake, whose requests it never looked at.
        raise ClaimWriteFailed(f"claim {namespaced_name(claim)} got deleted in the meantime")
    return known


def _has_our(known: ResourceClaim, allocation: AllocationResult, pod: Pod) -> bool:
    theirs = known.status.allocation
    return (
        theirs is not None
        and theirs.devices.results == allocation.devices.results
        and is_reserved_for(known, pod)
    )


def _doing(claim: ResourceClaim, allocation: AllocationResult | None) -> str:
    what = "add reservation" if allocation is None else "add allocation and reservation"
    return f"{what} to claim {namespaced_name(claim)}: "


async def _pause(handle: Handle, seconds: float) -> None:
    if not await handle.wakeup().wait(seconds):
        raise _Stopping("the scheduler is shutting down")


async def unreserve(handle: Handle, claim: ResourceClaim, pod: Pod) -> None:
    """Take the pod out of the consumers of a claim, whatever its version."""
    meta = claim.metadata
    try:
        await handle.client.patch(
            RESOURCE_CLAIMS,
            meta.name,
            {
                "metadata": {"uid": meta.uid},
                "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
            },
            namespace=meta.namespace,
            subresource="status",
        )
    except StowplanError as problem:
        # The next attempt of the pod finds the reservation, and uses it or removes it.
        log.error("unreserve", extra=kv(resourceclaim=namespaced_name(claim), err=str(problem)))


async def deallocate(handle: Handle, claim: ResourceClaim, pod: Pod) -> None:
    """Give the devices of an idle claim back, for a pod that cannot use them where they are."""
    log.log(
        V4,
        "Deallocation of ResourceClaim",
        extra=kv(resourceclaim=namespaced_name(claim), pod=pod.key),
    )
    try:
        await give_back(handle, claim)
    except StowplanError as problem:
        log.error(
            "Could not deallocate a claim",
            extra=kv(resourceclaim=namespaced_name(claim), pod=pod.key, err=str(problem)),
        )
        handle.activate([pod])  # No event will bring it back.


async def give_back(handle: Handle, claim: ResourceClaim) -> ResourceClaim:
    """Remove the allocation and all consumers from this version of a claim."""
    meta = claim.metadata
    return await handle.client.amend(
        RESOURCE_CLAIMS,
        meta.name,
        {
            "metadata": {"uid": meta.uid},
            "status": {"allocation": None, "reservedFor": None, "devices": None},
        },
        namespace=meta.namespace,
        resource_version=meta.resource_version,
        subresource="status",
    )
