"""Which request of which claim a node has too few devices for, and why its devices do not count.

For people: `stowplan decide` and `stowplan explain` ask after a decision. Each request is looked at
alone, so what only their combination rules out (constraints, counters) is named, not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stowplan.api.device_objects import (
    DeviceClass,
    DeviceRequestDetails,
    DeviceTaint,
    ResourceClaim,
)
from stowplan.api.objects import Node
from stowplan.framework.status import Status
from stowplan.plugins.dra.allocator import alternatives, candidates_of
from stowplan.plugins.dra.capacity import consumed_by, fits
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.node_search import PodDevices
from stowplan.plugins.dra.pools import DeviceId
from stowplan.plugins.dra.requests import Candidate, Request, read_request

#: Characters of a selector, and names of holders or taints, that a text has.
_SELECTOR: Final = 100
_NAMED: Final = 3


@dataclass(slots=True)
class Shortfall:
    """The devices of a node for one request, or one alternative of it."""

    claim: str
    request: str
    device_class: str
    #: None: all that match.
    needed: int | None
    #: Devices of the class that the node can use.
    offered: int = 0
    free: int = 0
    taken: int = 0
    #: Pods that have those taken, or claims that no pod uses.
    taken_by: list[str] = field(default_factory=list)
    #: Devices that a selector of the request does not match, by selector.
    unmatched: Counter[str] = field(default_factory=Counter)
    tainted: int = 0
    #: The taints of those, as `key=value:effect`, by how many devices have them.
    taints: Counter[str] = field(default_factory=Counter)
    #: Devices for several claims that have too little capacity left.
    full: int = 0

    @property
    def is_met(self) -> bool:
        if self.needed is None:
            return self.free > 0 and not (self.taken or self.tainted or self.full)
        return self.free >= self.needed


def shortfalls(devices: PodDevices, node: Node) -> list[Shortfall]:
    """The requests that the node cannot meet. Raises AllocationError."""
    found = []
    holders = _holders(devices.facts)
    for claim in _claims(devices, node):
        for request in claim.spec.devices.requests or ():
            tried = [
                _counted(devices.facts, claim, details, parent, node, holders)
                for details, parent in alternatives(claim, request)
            ]
            if not any(each.is_met for each in tried):
                found += tried
    return found


def shortfall_texts(devices: PodDevices, node: Node) -> list[str]:
    """What the node lacks, request by request. Raises AllocationError."""
    said = [text_of(each) for each in shortfalls(devices, node)]
    for pool in devices.facts.slices.pools(node):
        if not pool.is_usable:
            state = "not published completely" if pool.is_incomplete else "invalid"
            said.append(f"the pool {pool.name} is {state}, and its devices do not count")
    return said or list(_together(devices, node))


def _claims(devices: PodDevices, node: Node) -> list[ResourceClaim]:
    """The claims that need devices on a node; none if another reason comes first."""
    wanted = devices.to_allocate(node)
    return [] if isinstance(wanted, Status) else [claim for _, claim in wanted]


def _together(devices: PodDevices, node: Node) -> Iterator[str]:
    """Why requests that could each be met cannot be met together."""
    for claim in _claims(devices, node):
        for constraint in claim.spec.devices.constraints or ():
            if constraint.match_attribute:
                kind, attribute = "one value", constraint.match_attribute
            else:
                kind, attribute = "different values", constraint.distinct_attribute or ""
            yield (
                f"claim {claim.metadata.name}: no devices for all requests together that have"
                f" {kind} of {attribute}"
            )
            return
    yield "there are enough devices for each request, but not for all of them together"


def _counted(
    facts: DeviceFacts,
    claim: ResourceClaim,
    details: DeviceRequestDetails,
    parent: str,
    node: Node,
    holders: dict[DeviceId, list[str]],
) -> Shortfall:
    whole = read_request(claim, details, parent, facts.classes)
    of_class = replace(details, selectors=None)
    any_class = {whole.device_class.metadata.name: _without_selectors(whole.device_class)}
    single = [
        (
            one.cel.expression if one.cel is not None else "",
            read_request(claim, replace(details, selectors=(one,)), parent, any_class),
        )
        for one in details.selectors or ()
    ]
    in_class = Request(of_class, whole.device_class, parent)
    needed = None if details.allocation_mode == "All" else details.count
    counted = Shortfall(
        claim.metadata.name, whole.full_name, whole.device_class.metadata.name, needed
    )
    by: Counter[str] = Counter()
    for candidate in candidates_of(facts.slices.pools(node)):
        if not in_class.selects(claim, candidate, node)[0]:
            continue
        counted.offered += 1
        wrong = next(
            (text for text, one in single if not one.selects(claim, candidate, node)[0]), None
        )
        if wrong is not None:
            counted.unmatched[" ".join(wrong.split())] += 1
        elif not whole.admin_access and candidate.id in facts.allocated.devices:
            counted.taken += 1
            by.update(holders.get(candidate.id, ()))
        elif taints := whole.untolerated(candidate.device):
            counted.tainted += 1
            counted.taints.update({_taint_text(taint) for taint in taints})
        elif not _has_capacity(facts, whole, candidate):
            counted.full += 1
        else:
            counted.free += 1
    counted.taken_by = [name for name, _ in by.most_common()]
    return counted


def _without_selectors(device_class: DeviceClass) -> DeviceClass:
    return replace(device_class, spec=replace(device_class.spec, selectors=None))


def _has_capacity(facts: DeviceFacts, request: Request, candidate: Candidate) -> bool:
    consumed = consumed_by(request.details.capacity, candidate.device)
    held = facts.allocated.consumed.get(candidate.id, {})
    return consumed is not None and fits(candidate.device, held, consumed)


def _holders(facts: DeviceFacts) -> dict[DeviceId, list[str]]:
    """The pods that have each device, or the claim if it is reserved for none."""
    found: dict[DeviceId, list[str]] = {}
    for claim in (*facts.claims(), *facts.in_flight.values()):
        allocation = claim.status.allocation
        if allocation is None:
            continue
        namespace = claim.metadata.namespace
        pods = [f"{namespace}/{one.name}" for one in claim.status.reserved_for or ()]
        names = pods or [f"the claim {namespace}/{claim.metadata.name}"]
        for device in allocation.devices.results or ():
            if not device.admin_access:
                found.setdefault((device.driver, device.pool, device.device), []).extend(names)
    return found


def text_of(short: Shortfall) -> str:
    """`claim gpu, request gpus: needs 8 devices of class gpus; of 8 here, 5 are taken`."""
    many = "all devices" if short.needed is None else _devices(short.needed)
    said = f"claim {short.claim}, request {short.request}: needs {many} of class"
    said += f" {short.device_class}"
    if not short.offered:
        return f"{said}, and the node has none"
    parts = [f"{count} {_verb(count, 'does', 'do')} not match {_shown(selector)}"
             for selector, count in short.unmatched.most_common()]  # fmt: skip
    if short.taken:
        parts.insert(0, f"{short.taken} {_verb(short.taken, 'is', 'are')} taken{_by(short)}")
    if short.tainted:
        tainted = _verb(short.tainted, "has a taint", "have taints")
        named = _listed([text for text, _ in short.taints.most_common()])
        parts.append(f"{short.tainted} {tainted} that the request does not tolerate ({named})")
    if short.full:
        parts.append(f"{short.full} {_verb(short.full, 'has', 'have')} too little capacity left")
    if not parts:
        return f"{said}; {short.offered} {_verb(short.offered, 'is', 'are')} here"
    return f"{said}; of {short.offered} here, {', '.join(parts)}"


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}"


def _verb(count: int, singular: str, plural: str) -> str:
    return singular if count == 1 else plural


def _by(short: Shortfall) -> str:
    return f" (by {_listed(short.taken_by)})" if short.taken_by else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _taint_text(taint: DeviceTaint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _shown(selector: str) -> str:
    return selector if len(selector) <= _SELECTOR else f"{selector[: _SELECTOR - 3]}..."
