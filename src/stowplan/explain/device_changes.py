"""Changes that would give a pod the devices it lacks: fewer pods, or a claim that asks for less.

Claims are immutable, so a changed claim means a new one, or a new template. A pod that is gone
frees its devices once the claim controller has seen that. Only what a decision confirms is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan.api.device_objects import (
    DeviceClass,
    DeviceRequestDetails,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimStatus,
)
from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.resources import DEVICE_CLASSES, RESOURCE_CLAIMS
from stowplan.cluster.catalog import Catalog
from stowplan.explain.change import EDIT_POD, GIVE_UP, TELL_NODE, Change
from stowplan.explain.evictions import eviction, may_be_evicted
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.plugins.dra.node_search import PodDevices

if TYPE_CHECKING:
    from stowplan.plugins.dra.shortfall import Shortfall

_NO_CLASS: Final = re.compile(r"request \S+: device class (\S+) does not exist")


def create_class(diagnosis: Diagnosis) -> Change | None:
    """Create the DeviceClass that a request names."""
    for reason in diagnosis.absent.reasons:
        found = _NO_CLASS.search(reason)
        if found is not None:
            made = DeviceClass(metadata=ObjectMeta(name=found[1]))
            text = f"create the DeviceClass {found[1]}, with selectors for the devices it means"
            return Change("DeviceClass", text, TELL_NODE, objects=((DEVICE_CLASSES, made),))
    return None


def free_devices(cycle: Cycle, row: int, catalog: Catalog) -> Change | None:
    """Evict the fewest pods of lowest priority that have enough of the node's devices."""
    short, wanted = _short(cycle, row), cycle.get(PodDevices)
    names = {name for each in short for name in each.taken_by}
    if not names or wanted is None:
        return None
    used = [claim for claim in wanted.facts.claims() if claim.status.allocation is not None]
    held: Counter[str] = Counter()
    for claim in used:
        assert claim.status.allocation is not None
        for consumer in claim.status.reserved_for or ():
            key = f"{claim.metadata.namespace}/{consumer.name}"
            held[key] += len(claim.status.allocation.devices.results or ())
    pods = [
        info.pod
        for each in cycle.table.live_rows.tolist()
        for info in cycle.table.pods[each].values()
        if info.pod.key in names and may_be_evicted(info.pod)
    ]
    lacking = sum(max((each.needed or each.offered) - each.free, 0) for each in short)
    victims: list[Pod] = []
    for pod in sorted(pods, key=lambda each: (each.priority, -held[each.key], each.key)):
        if lacking > 0:
            victims.append(pod)
            lacking -= held[pod.key]
    change = eviction(cycle, victims)
    if change is None:
        return None
    gone = {victim.key for victim in victims}
    freed = tuple(
        (RESOURCE_CLAIMS, replace(claim, status=ResourceClaimStatus()))
        for claim in used
        if claim.status.reserved_for
        and all(
            f"{claim.metadata.namespace}/{consumer.name}" in gone
            for consumer in claim.status.reserved_for
        )
    )
    text = f"{change.text}, which frees devices"
    return Change(
        change.kind,
        text,
        change.cost,
        change.command,
        victims=change.victims,
        objects=freed,
        steps=change.steps,
    )


def relax_selector(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Drop the selector that rules out most of the devices that a request could have."""
    for each in _short(cycle, row):
        if each.unmatched:
            dropped, _ = each.unmatched.most_common(1)[0]

            def edit(details: DeviceRequestDetails, dropped: str = dropped) -> DeviceRequestDetails:
                kept = tuple(
                    one
                    for one in details.selectors or ()
                    if one.cel is None or " ".join(one.cel.expression.split()) != dropped
                )
                return replace(details, selectors=kept)

            return _new_claim(cycle, each, edit, f"without the selector {dropped}")
    return None


def tolerate_device_taints(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Let a request tolerate the taints of devices."""
    for each in _short(cycle, row):
        if each.tainted:

            def edit(details: DeviceRequestDetails) -> DeviceRequestDetails:
                every = DeviceToleration(operator="Exists")
                return replace(details, tolerations=(*(details.tolerations or ()), every))

            named = " and ".join(sorted(each.taints))
            taints = f"the devices' taint{'' if len(each.taints) == 1 else 's'} {named}"
            return _new_claim(cycle, each, edit, f"with a toleration of {taints}")
    return None


def ask_for_fewer(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Ask for as many devices as the node has free."""
    for each in _short(cycle, row):
        if each.needed is not None and 0 < each.free < each.needed:

            def edit(details: DeviceRequestDetails, count: int = each.free) -> DeviceRequestDetails:
                return replace(details, count=count)

            return _new_claim(cycle, each, edit, f"for {each.free} instead of {each.needed}")
    return None


def _short(cycle: Cycle, row: int) -> list[Shortfall]:
    wanted = cycle.get(PodDevices)
    if wanted is None or not wanted.needs_devices:
        return []
    # CEL is loaded with the first pod that needs a device.
    from stowplan.plugins.dra.requests import AllocationError
    from stowplan.plugins.dra.shortfall import shortfalls

    try:
        return shortfalls(wanted, cycle.table.node(row))
    except AllocationError:
        return []


def _new_claim(
    cycle: Cycle,
    short: Shortfall,
    edit: Callable[[DeviceRequestDetails], DeviceRequestDetails],
    how: str,
) -> Change | None:
    """A claim whose request is edited; none for alternatives and extended resources."""
    wanted = cycle.get(PodDevices)
    assert wanted is not None
    own = wanted.claims if wanted.extended is None else wanted.claims[:-1]
    for claim in own:
        requests = claim.spec.devices.requests or ()
        for place, request in enumerate(requests):
            if (claim.metadata.name, request.name) != (short.claim, short.request):
                continue
            if request.exactly is None:
                return None
            changed = replace(request, exactly=edit(request.exactly))
            listed = (*requests[:place], changed, *requests[place + 1 :])
            devices = replace(claim.spec.devices, requests=listed)
            made: ResourceClaim = replace(claim, spec=replace(claim.spec, devices=devices))
            what = _named(claim)
            text = f"make {what} anew, its request {request.name} {how}"
            cost = EDIT_POD + GIVE_UP
            return Change("Claim", text, cost, objects=((RESOURCE_CLAIMS, made),))
    return None


def _named(claim: ResourceClaim) -> str:
    owners = claim.metadata.owner_references or ()
    if any(owner.kind == "Pod" for owner in owners):
        return f"the pod and the template of its claim {claim.metadata.name}"
    return f"the claim {claim.metadata.name}"
