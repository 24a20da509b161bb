"""Nothing of a device is given away twice: what a scheduler checks that is not alone.

Claims are separate objects, so the API server accepts it if two schedulers give one device, the
last of its capacity, or the last of counters that devices share to two claims at the same time.
Each of them therefore looks again after its write, when the watch has shown it: everything that
was written before is known then. A scheduler that finds too much given away takes its own claim's
devices back and tries the pod again. Of two writers at least the later one finds the other, so
never are both pods bound.

The look costs as much as a decision: for shares and counters, the pool of the device is read.
Where a pool is being published anew, its capacity and counters are unknown, and only devices that
two claims have are found.

DIVERGES: kube-scheduler does not look, and both pods run with the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan.api.device_objects import Device, ResourceClaim
from stowplan.api.resources import RESOURCE_CLAIMS
from stowplan.errors import StowplanError
from stowplan.framework.handle import Handle
from stowplan.plugins.dra.allocated import Allocated, held
from stowplan.plugins.dra.capacity import fits
from stowplan.plugins.dra.counters import Counters, consumption
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.pod_claims import claim_key, namespaced_name
from stowplan.plugins.dra.pools import DeviceId, Pool, Slices

#: How long the watch may take to show a write before the claims are listed instead.
_SHOWN_WITHIN_S: Final = 5.0


async def other_holder(handle: Handle, facts: DeviceFacts, written: ResourceClaim) -> str:
    """What of the claim that was just written other claims got, too, in a text; empty: nothing."""
    if next(held(written), None) is None:
        return ""
    claims = await _suspects(handle, facts, written)
    allocated = Allocated()
    for claim in claims:
        allocated.add(claim)
    found = _overcommitted(allocated, facts.slices, written)
    if found is None:
        return ""
    device, what = found
    other = next(
        (namespaced_name(claim) for claim in claims if _rivals(claim, written, device)), ""
    )
    problem = f" was given to claim {other}" if other else f": others got {what}"
    return f"device {'/'.join(device)} of claim {namespaced_name(written)}{problem} in the meantime"


async def _suspects(
    handle: Handle, facts: DeviceFacts, written: ResourceClaim
) -> Sequence[ResourceClaim]:
    """All claims as of the write or later; none if nothing can have been given away twice."""
    wakeup, clock = handle.wakeup(), handle.clock
    deadline = clock.monotonic() + _SHOWN_WITHIN_S
    with facts.telling([claim_key(written)], wakeup.ring):
        while not facts.is_shown(written):
            left = deadline - clock.monotonic()
            if left <= 0 or not await wakeup.wait(left):
                return await _listed(handle, facts)
    if _overcommitted(facts.allocated, facts.slices, written) is None:
        return ()
    # Without claims in flight: one that was created can be counted twice for a moment.
    return list(facts.claims())


async def _listed(handle: Handle, facts: DeviceFacts) -> Sequence[ResourceClaim]:
    try:
        return (await handle.client.list_all(RESOURCE_CLAIMS)).items
    except StowplanError:
        return list(facts.claims())


def _overcommitted(
    allocated: Allocated, slices: Slices, written: ResourceClaim
) -> tuple[DeviceId, str] | None:
    """A device of the claim of which more is allocated than there is, and what of it."""
    for key, result in held(written):
        is_share = result.share_id is not None
        holders = allocated.devices.get(key, 0)
        if holders > (0 if is_share else 1) or (not is_share and key in allocated.shares):
            return key, "it"
        if not is_share and not slices.has_counters(key[:2]):
            continue
        pool = slices.whole_pool(key[:2])
        device = None if pool is None else _device(pool, key[2])
        if pool is None or device is None:
            continue
        if is_share and not fits(device, allocated.consumed.get(key, {})):
            return key, "its capacity"
        left = Counters(allocated.__contains__).left_of(pool) if device.consumes_counters else {}
        if any(left.get(counter, 0) < 0 for counter, _ in consumption(device)):
            return key, "the counters of its pool"
    return None


def _device(pool: Pool, name: str) -> Device | None:
    of_pool = (device for one in pool.slices for device in one.spec.devices or ())
    return next((device for device in of_pool if device.name == name), None)


def _rivals(claim: ResourceClaim, written: ResourceClaim, device: DeviceId) -> bool:
    return claim.metadata.uid != written.metadata.uid and any(
        other == device for other, _ in held(claim)
    )
