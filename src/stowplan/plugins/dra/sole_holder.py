"""No device for two claims: what a scheduler checks that is not alone.

Claims are separate objects, so the API server accepts it if two schedulers give one device to two
claims at the same time. Each of them therefore looks again after its write, when the watch has
shown it: everything that was written before is known then. A scheduler that finds another claim
with its device gives the device back and tries the pod again. Of two writers at least the later one
finds the other, so never are both pods bound.

DIVERGES: kube-scheduler does not look, and both pods run with the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.resources import RESOURCE_CLAIMS
from stowplan.errors import StowplanError
from stowplan.framework.handle import Handle
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.pod_claims import claim_key, spoken
from stowplan.plugins.dra.pools import DeviceId

#: How long the watch may take to show a write before the claims are listed instead.
_SHOWN_WITHIN_S: Final = 5.0


async def other_holder(handle: Handle, facts: DeviceFacts, written: ResourceClaim) -> str:
    """A text about another claim with a device of the claim that was just written; empty: none."""
    mine = dict.fromkeys(_devices(written))
    if not mine:
        return ""
    for claim in await _known_claims(handle, facts, written):
        if claim.metadata.uid == written.metadata.uid:
            continue
        for device in _devices(claim):
            if device in mine:
                return (
                    f"device {'/'.join(device)} of claim {spoken(written)} was given to claim "
                    f"{spoken(claim)} in the meantime"
                )
    return ""


async def _known_claims(
    handle: Handle, facts: DeviceFacts, written: ResourceClaim
) -> Iterable[ResourceClaim]:
    """All claims that can have a device of this one, as of its write or later."""
    wakeup, clock = handle.wakeup(), handle.clock
    deadline = clock.monotonic() + _SHOWN_WITHIN_S
    with facts.telling([claim_key(written)], wakeup.ring):
        while not facts.is_shown(written):
            left = deadline - clock.monotonic()
            if left <= 0 or not await wakeup.wait(left):
                return await _listed(handle, facts)
    is_shared = any(facts.allocated.devices.get(device, 0) > 1 for device in _devices(written))
    return facts.claims() if is_shared else ()


async def _listed(handle: Handle, facts: DeviceFacts) -> Iterable[ResourceClaim]:
    try:
        return (await handle.client.list_all(RESOURCE_CLAIMS)).items
    except StowplanError:
        return facts.claims()


def _devices(claim: ResourceClaim) -> Iterator[DeviceId]:
    """The devices that a claim has for itself."""
    allocation = claim.status.allocation
    for device in (allocation.devices.results if allocation is not None else None) or ():
        if not device.admin_access and device.share_id is None:
            yield device.driver, device.pool, device.device
