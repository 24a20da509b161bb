"""Which devices of a slice a request can get, computed once per slice and kind of request.

Requests that differ in name and number alone share a match set: pods of one template, most pods of
one class, and pods of classes with the same selectors. A set follows the slices by identity, since
a changed slice is a new object. Selectors are evaluated for whole slices, also for devices that the
allocator would not come to. If one fails there, the slice is not *certain*: only the allocator can
tell whether it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from stowplan.api.device_objects import (
    Device,
    DeviceClass,
    DeviceRequestDetails,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.api.objects import Node
from stowplan.cluster.work import STEP, Work
from stowplan.plugins.dra.capacity import consumed_by, fits
from stowplan.plugins.dra.pools import DeviceId, Pool, device_id
from stowplan.plugins.dra.requests import AllocationError, Candidate, Request

#: What a match takes in memory, without its devices and for each of them.
_MATCH_BYTES, _DEVICE_BYTES = 300, 72
_NO_POOL: Final = Pool(("", ""))
_NO_NODE: Final = Node()
_NO_CLAIM: Final = ResourceClaim()
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class SliceMatch:
    """What a slice has for a request."""

    #: Devices that one claim can have at a time.
    devices: tuple[DeviceId, ...] = ()
    #: How many devices have room for several claims.
    shared: int = 0
    #: False: whether a device can be had depends on more than that it is free.
    is_plain: bool = True
    #: False: only the allocator can tell.
    is_certain: bool = True


_UNCERTAIN: Final = SliceMatch(is_certain=False)


class _Reading:
    """A slice, some of whose devices are matched already."""

    def __init__(self, one: ResourceSlice, request: Request) -> None:
        self.slice = one
        self._request = request
        self._left = iter(one.spec.devices or ())
        self._devices: list[DeviceId] = []
        self._shared = 0
        selector = one.spec.node_selector
        # The allocator fails if it chooses a device of a slice with several terms.
        self._is_plain = selector is None or len(selector.node_selector_terms or ()) <= 1
        self._is_certain = True

    def read_on(self) -> int | None:
        """Match the next device; returns what that cost, and None at the end."""
        device = next(self._left, None)
        if device is None or not self._is_certain:
            return None
        candidate = Candidate(_NO_POOL, self.slice, device, device_id(self.slice, device))
        try:
            selects, cost = self._request.selects(_NO_CLAIM, candidate, _NO_NODE)
        except AllocationError:
            self._is_certain = False
            return 0
        if selects and self._has_capacity(device) and self._request.tolerates_taints(device):
            self._is_plain = self._is_plain and not device.consumes_counters
            if device.allow_multiple_allocations:
                self._shared += 1
            else:
                self._devices.append(candidate.id)
        return cost

    def _has_capacity(self, device: Device) -> bool:
        """Whether the device has room for the request if nothing is taken of it."""
        consumed = consumed_by(self._request.details.capacity, device)
        return consumed is not None and fits(device, {}, consumed)

    def match(self) -> SliceMatch:
        if not self._is_certain:
            return _UNCERTAIN
        is_plain = self._is_plain and not self._shared
        return SliceMatch(tuple(self._devices), self._shared, is_plain)


class MatchSet:
    """What every slice has for one kind of request."""

    def __init__(self, details: DeviceRequestDetails, device_class: DeviceClass) -> None:
        self._details, self._class = details, device_class
        self._by_slice: dict[str, tuple[ResourceSlice, SliceMatch]] = {}
        #: The slice that `of` was deferred at.
        self._reading: _Reading | None = None
        self.nbytes = 0

    def knows(self, one: ResourceSlice, device: DeviceId) -> bool | None:
        """Whether a request for some devices can get this one if it is free; None: not known."""
        known = self._by_slice.get(one.metadata.name)
        if known is None or known[0] is not one or known[1].shared or not known[1].is_certain:
            return None
        return device in known[1].devices

    def of(self, one: ResourceSlice, work: Work) -> SliceMatch:
        """Raises DecisionDeferred, and goes on from there in the next call."""
        known = self._by_slice.get(one.metadata.name)
        if known is not None and known[0] is one:
            return known[1]
        if one.spec.per_device_node_selection:
            return _UNCERTAIN
        reading = self._reading
        if reading is None or reading.slice is not one:
            reading = self._reading = _Reading(one, Request(self._details, self._class))
        while (cost := reading.read_on()) is not None:
            work.spend(STEP * cost)
        self._reading = None
        match = reading.match()
        self._by_slice[one.metadata.name] = one, match
        self.nbytes += _MATCH_BYTES + _DEVICE_BYTES * len(match.devices)
        return match

    def forget_if_old(self, slice_count: int) -> None:
        """Drop everything if half of it is about slices that are gone."""
        if len(self._by_slice) > 2 * slice_count + 64:
            self._by_slice.clear()
            self.nbytes = 0


class MatchSets:
    """Match sets by kind of request; a set lives as long as something refers to it."""

    def __init__(self) -> None:
        self._sets: WeakValueDictionary[bytes, MatchSet] = WeakValueDictionary()

    def clear(self) -> None:
        self._sets.clear()

    def find(self, details: DeviceRequestDetails, device_class: DeviceClass) -> MatchSet | None:
        """The set for a request, if there is one already."""
        return self._sets.get(kind_of(details, device_class))

    def get(self, details: DeviceRequestDetails, device_class: DeviceClass) -> MatchSet:
        key = kind_of(details, device_class)
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = MatchSet(details, device_class)
        return found


def kind_of(details: DeviceRequestDetails, device_class: DeviceClass) -> bytes:
    """What a request asks of each device; the same for requests that share a match set."""
    return _encode(
        (
            device_class.spec.selectors,
            details.selectors,
            details.tolerations,
            details.capacity,
        )
    )
