"""The search for devices: all claims of a pod on one node, or nothing.

Devices are tried in the order of pools, slices and devices; the first solution counts. A request
takes its devices in ascending order, so no combination is tried twice; different requests are free
to try all devices. A request with alternatives takes the first that leads to a solution.

The search is a stack of generators. Each makes one choice, yields, and takes it back when the
search returns to it; so it can pause after any step, and `Search.advance` bounds the work of a
turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from stowplan.api.device_objects import (
    DeviceClass,
    DeviceRequest,
    DeviceRequestDetails,
    ResourceClaim,
)
from stowplan.api.objects import Node
from stowplan.plugins.dra.allocated import Allocated
from stowplan.plugins.dra.capacity import Consumed, consumed_by, fits
from stowplan.plugins.dra.constraints import Constraint, constraint_of
from stowplan.plugins.dra.counters import Counters
from stowplan.plugins.dra.pools import DeviceId, Pool, Slices, device_id
from stowplan.plugins.dra.requests import (
    MAX_DEVICES_PER_CLAIM,
    AllocationError,
    Candidate,
    KnownMatches,
    Request,
    claim_name,
    read_request,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A device for a request."""

    request: Request
    candidate: Candidate
    share_id: str | None
    consumed: Consumed


@dataclass(slots=True)
class Claim:
    """A claim with its requests read; each a list of alternatives, mostly of one."""

    claim: ResourceClaim
    requests: list[list[Request]]
    constraints: list[Constraint]
    choices: list[Choice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the search stands: the next device of a request of a claim."""

    claim: int = 0
    request: int = 0
    alternative: int | None = None
    device: int = 0
    start: int = 0


class _TooManyDevices:
    """A claim would get more devices than it can hold, whichever they are."""


class _Pause:
    """A point at which the search can stop and go on later."""


_TOO_MANY = _TooManyDevices()
_PAUSE = _Pause()
_Frame = Generator["_Place | _TooManyDevices | _Pause | None", "_TooManyDevices | None", None]
#: Devices that are passed over between two points at which the search can stop.
_PASSED = 64


class Search:
    """An attempt to allocate claims on a node."""

    def __init__(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        slices: Slices,
        classes: Mapping[str, DeviceClass],
        allocated: Allocated,
        new_share_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        find_known: Callable[[DeviceRequestDetails], KnownMatches | None] = lambda _: None,
    ) -> None:
        self._find_known = find_known
        self._node = node
        self._allocated = allocated
        self._new_share_id = new_share_id
        self._classes = classes
        self.pools = slices.pools(node)
        self._candidates = candidates_of(self.pools)
        self._counters = Counters(allocated.__contains__)
        self._taken: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[Consumed]] = {}
        self.claims: list[Claim] = []
        self._reading: Generator[None] | None = self._read_all(claims)
        self._stack: list[tuple[int, bool, _Frame]] = []
        self.steps = 0
        #: What the search has cost so far, in microseconds, more or less.
        self.cost = 10 + len(self._candidates)

    # Reading

    def _read_all(self, claims: Sequence[ResourceClaim]) -> Generator[None]:
        for claim in claims:
            yield from self._read(claim)

    def _read(self, claim: ResourceClaim) -> Generator[None]:
        devices = claim.spec.devices
        requests: list[list[Request]] = []
        for one in devices.requests or ():
            requests.append([])
            for details, parent in alternatives(claim, one):
                request = read_request(claim, details, parent, self._classes)
                if details.allocation_mode == "All":
                    request.all_devices = yield from self._all_devices(claim, request)
                elif not details.admin_access:
                    request.known = self._find_known(details)
                requests[-1].append(request)
        least = sum(min(one.count for one in alternatives) for alternatives in requests)
        if least > MAX_DEVICES_PER_CLAIM:
            raise AllocationError(
                f"claim {claim_name(claim)}: number of requested devices {least} exceeds the claim "
                f"limit of {MAX_DEVICES_PER_CLAIM}"
            )
        constraints: list[Constraint] = []
        for index, raw in enumerate(devices.constraints or ()):
            constraint = constraint_of(raw)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim_name(claim)}, constraint #{index}: empty constraint "
                    "(unsupported constraint type?)"
                )
            constraints.append(constraint)
        self.claims.append(Claim(claim, requests, constraints))

    def _all_devices(
        self, claim: ResourceClaim, request: Request
    ) -> Generator[None, None, list[Candidate]]:
        found: list[Candidate] = []
        for pool in self.pools:
            if not pool.is_usable:
                state = "currently being updated" if pool.is_incomplete else "currently invalid"
                raise AllocationError(
                    f"claim {claim_name(claim)}, request {request.details.name}: asks for all "
                    f"devices, but resource pool {pool.name} is {state}"
                )
            for candidate in self._candidates:
                if candidate.pool is not pool:
                    continue
                if self._selects(request, claim, candidate) and (
                    self._has_capacity(request, candidate)
                ):
                    found.append(candidate)
                yield
        return found

    # The search

    def advance(self, steps: int) -> bool | None:
        """Search on for so many steps. Raises AllocationError.

        True: `claims` have the solution. False: there is none. None: the search is not over.
        """
        for _ in range(steps):
            self.steps += 1
            self.cost += 1
            if self._reading is not None:
                self._read_on(self._reading)
                continue
            if not self._stack:
                return False
            found = next(self._stack[-1][2], None)
            if found is _PAUSE:
                continue
            if found is None:
                self._stack.pop()
            elif isinstance(found, _Place):
                if found.claim >= len(self.claims):
                    return True
                self._push(found)
            else:
                self._abandon()
        return None

    def _read_on(self, reading: Generator[None]) -> None:
        for _ in reading:
            return
        self._reading = None
        self._push(_Place())

    def _push(self, place: _Place) -> None:
        if place.claim >= len(self.claims):
            self._stack.append((place.claim, False, _only(place)))
            return
        claim = self.claims[place.claim]
        if place.request >= len(claim.requests):
            self._push(_Place(place.claim + 1))
            return
        alternatives = claim.requests[place.request]
        if place.alternative is None and alternatives[0].parent:
            self._stack.append((place.claim, True, self._choose_alternative(place)))
            return
        self._stack.append((place.claim, False, self._choose_device(claim, place)))

    def _abandon(self) -> None:
        """Give up every choice of the claim, up to one between alternatives: another might need
        fewer devices.
        """
        claim = self._stack[-1][0]
        self._stack.pop()
        while self._stack and self._stack[-1][0] == claim:
            _, is_choice, frame = self._stack[-1]
            if is_choice:
                frame.send(_TOO_MANY)
                return
            frame.close()
            self._stack.pop()

    def _choose_alternative(self, place: _Place) -> _Frame:
        count = len(self.claims[place.claim].requests[place.request])
        all_too_many = True
        for alternative in range(count):
            failed = yield _Place(place.claim, place.request, alternative)
            if failed is None:
                all_too_many = False
            else:
                yield None
        if all_too_many:
            yield _TOO_MANY

    def _choose_device(self, claim: Claim, place: _Place) -> _Frame:
        request = claim.requests[place.request][place.alternative or 0]
        if request.all_devices is not None and not request.all_devices:
            return
        if place.device >= request.count:
            yield _Place(place.claim, place.request + 1)
            return
        if len(claim.choices) + request.count - place.device > MAX_DEVICES_PER_CLAIM:
            yield _TOO_MANY
            return
        if request.all_devices is not None:
            yield from self._try(claim, place, request, request.all_devices[place.device], 0)
            return
        for index in range(place.start, len(self._candidates)):
            candidate = self._candidates[index]
            if index % _PASSED == 0:
                self.cost += _PASSED // 4
                yield _PAUSE
            if not self._is_free(request, candidate, place.claim):
                continue
            before = self.cost
            if self._selects(request, claim.claim, candidate) and (
                self._has_capacity(request, candidate)
            ):
                yield from self._try(claim, place, request, candidate, index + 1)
            elif self.cost > before:
                yield _PAUSE

    # One device

    def _try(
        self, claim: Claim, place: _Place, request: Request, candidate: Candidate, start: int
    ) -> _Frame:
        """Take the device, yield the next place, and give it back when the search returns."""
        device = candidate.device
        is_shared = bool(device.allow_multiple_allocations)
        if not self._is_usable(request, candidate, place.claim, is_shared):
            return
        counted = bool(device.consumes_counters) and not (
            is_shared and self._is_in_shares(candidate.id)
        )
        if counted and not self._counters.take(candidate.pool, device):
            return
        added = 0
        try:
            if not request.tolerates_taints(device):
                return
            for constraint in claim.constraints:
                if not constraint.add(request.names, device, candidate.id):
                    if request.all_devices is not None:
                        raise AllocationError(
                            f"claim {claim_name(claim.claim)}, request {request.details.name}: "
                            f"cannot add device {'/'.join(candidate.id)} because a claim "
                            "constraint would not be satisfied"
                        )
                    return
                added += 1
            if not self._has_capacity(request, candidate):
                return
            yield from self._take(claim, place, request, candidate, start)
        finally:
            for constraint in reversed(claim.constraints[:added]):
                constraint.remove(request.names)
            if counted:
                self._counters.give_back(candidate.pool, device)

    def _take(
        self, claim: Claim, place: _Place, request: Request, candidate: Candidate, start: int
    ) -> _Frame:
        consumed: Consumed = {}
        share_id: str | None = None
        holders = self._taken.setdefault(candidate.id, set())
        is_shared = bool(candidate.device.allow_multiple_allocations)
        if is_shared:
            consumed = consumed_by(request.details.capacity, candidate.device) or {}
            share_id = self._new_share_id()
            self._shares.setdefault(candidate.id, []).append(consumed)
        else:
            holders.add(place.claim)
        claim.choices.append(Choice(request, candidate, share_id, consumed))
        try:
            yield _Place(place.claim, place.request, place.alternative, place.device + 1, start)
        finally:
            claim.choices.pop()
            if is_shared:
                self._shares[candidate.id].pop()
            else:
                holders.discard(place.claim)

    def _selects(self, request: Request, claim: ResourceClaim, candidate: Candidate) -> bool:
        selects, cost = request.selects(claim, candidate, self._node)
        self.cost += cost
        return selects

    def _is_free(self, request: Request, candidate: Candidate, claim: int) -> bool:
        if request.admin_access:
            return claim not in self._taken.get(candidate.id, ())
        return not self._is_in_use(candidate.id)

    def _is_usable(
        self, request: Request, candidate: Candidate, claim: int, is_shared: bool
    ) -> bool:
        if request.admin_access:
            return is_shared or claim not in self._taken.get(candidate.id, ())
        return not self._is_in_use(candidate.id)

    def _is_in_use(self, device: DeviceId) -> bool:
        return device in self._allocated.devices or bool(self._taken.get(device))

    def _is_in_shares(self, device: DeviceId) -> bool:
        return device in self._allocated.shares or bool(self._shares.get(device))

    def _has_capacity(self, request: Request, candidate: Candidate) -> bool:
        consumed = consumed_by(request.details.capacity, candidate.device)
        if consumed is None:
            return False
        held = self._allocated.consumed.get(candidate.id, {})
        return fits(candidate.device, held, consumed, *self._shares.get(candidate.id, ()))


def _only(place: _Place) -> _Frame:
    yield place


def alternatives(
    claim: ResourceClaim, request: DeviceRequest
) -> Sequence[tuple[DeviceRequestDetails, str]]:
    """What a request asks for: each alternative with the name of the request, or itself."""
    if request.first_available:
        return [(one, request.name) for one in request.first_available]
    if request.exactly is None:
        where = f"claim {claim_name(claim)}, request {request.name}"
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    return [(replace(request.exactly, name=request.name), "")]


def candidates_of(pools: Sequence[Pool]) -> list[Candidate]:
    """The devices of all usable pools, in the order in which they are tried."""
    return [
        Candidate(pool, one, device, device_id(one, device))
        for pool in pools
        if pool.is_usable
        for one in pool.slices
        for device in one.spec.devices or ()
    ]
