"""Verdicts on all nodes for claims of one shape, kept from pod to pod.

Claims have one shape if they ask for the same, whatever their names: those that one template made,
and those of classes with the same selectors.
Whether a node can serve a shape depends on the slices that it can use and on which of their devices
are taken. A column caches the verdicts and follows the logs of both; the next pod of the shape
costs the nodes that changed since, usually the one that took the last pod.

A new verdict is by counting where that is enough: too few free devices that match is a No, and a
shape without constraints, of one kind of request for whole devices, gets a Yes. Everything else
(constraints, counters, shares, alternatives) is up to the allocator.

What must stay true: a kept verdict equals the allocator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from stowplan.api.device_objects import (
    DeviceClass,
    DeviceRequest,
    DeviceRequestDetails,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.journal import ChangeLog, Rows
from stowplan.cluster.table import NodeTable
from stowplan.cluster.work import STEP
from stowplan.plugins.dra.constraints import constraint_of
from stowplan.plugins.dra.match_sets import MatchSet, MatchSets, kind_of
from stowplan.plugins.dra.pools import DeviceId, Pool, Slices
from stowplan.plugins.dra.requests import MAX_DEVICES_PER_CLAIM

#: Verdicts. Others are not known yet.
FITS: Final = 0
CANNOT_ALLOCATE: Final = 1
INVALID_POOLS: Final = 2
_UNKNOWN: Final = -1
_LIMIT_BYTES: Final = 64 << 20
_COUNTING_WORK: Final = 4 * STEP
_GATHERING_WORK: Final = 20 * STEP
_encode = msgspec.json.Encoder().encode

Verdicts: TypeAlias = NDArray[np.int8]
Scores: TypeAlias = NDArray[np.int16]
#: Ask the allocator about a row: its verdict, and the score of the alternatives that it chose.
Search: TypeAlias = Callable[[int], tuple[int, int]]


class TakenDevices(Protocol):
    """Devices that claims hold."""

    log: ChangeLog[DeviceId]

    @property
    def devices(self) -> Mapping[DeviceId, int]: ...

    @property
    def consumed(self) -> Mapping[DeviceId, object]: ...


class Facts(Protocol):
    """What is known of devices; `plugins.dra.facts.DeviceFacts`."""

    @property
    def slices(self) -> Slices: ...

    @property
    def allocated(self) -> TakenDevices: ...

    @property
    def class_version(self) -> int:
        """Grows when a device class changes."""

    @property
    def classes(self) -> Mapping[str, DeviceClass]: ...


class NodePools:
    """What the allocator finds on a node."""

    __slots__ = ("has_invalid", "key", "slices")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.has_invalid = any(pool.is_invalid for pool in pools)
        self.slices: list[ResourceSlice] = [
            one for pool in pools if pool.is_usable for one in pool.slices
        ]
        #: Nodes with the same key have the same devices; None: they depend on the node.
        self.key: tuple[object, ...] | None = None
        is_whole = all(pool.is_usable for pool in pools)
        if is_whole and not any(
            one.spec.per_device_node_selection or one.spec.node_name for one in self.slices
        ):
            self.key = (self.has_invalid, *map(id, self.slices))


class _Followed:
    """Positions in the logs that verdicts and pools depend on."""

    def __init__(self) -> None:
        self._nodes = self._slices = self._taken = -1

    def changed(self, table: NodeTable, facts: Facts, *, pools: bool) -> set[int] | None:
        """Rows that changed since the last call, by any cause or in their pools; None: all."""
        nodes, slices, log = table.node_journal, facts.slices.log, facts.allocated.log
        rows = nodes.entries_since(self._nodes)
        names = slices.entries_since(self._slices)
        taken: list[DeviceId] | None = [] if pools else log.entries_since(self._taken)
        self._nodes, self._slices, self._taken = nodes.end, slices.end, log.end
        if rows is None or names is None or taken is None or None in names:
            return None
        found = set(rows)
        touched: set[str | None] = set(names)
        for pool in {(driver, name) for driver, name, _ in taken}:
            of_pool = facts.slices.nodes_of_pool(pool)
            if of_pool is None:
                return None
            touched.update(of_pool)
        for name in touched:
            row = table.row_of.get(name) if name is not None else None
            if row is not None:
                found.add(row)
        return found


class PoolRows:
    """The pools of each row's node, gathered when a shape first needs them."""

    def __init__(self) -> None:
        self._of_row: dict[int, NodePools] = {}
        self._followed = _Followed()

    def follow(self, table: NodeTable, facts: Facts) -> None:
        rows = self._followed.changed(table, facts, pools=True)
        if rows is None:
            self._of_row.clear()
        else:
            for row in rows:
                self._of_row.pop(row, None)

    def of(self, row: int, table: NodeTable, facts: Facts) -> NodePools:
        found = self._of_row.get(row)
        if found is None:
            found = self._of_row[row] = NodePools(facts.slices.pools(table.node(row)))
            table.work.spend(_GATHERING_WORK)
        return found


class _Ask:
    """Requests of one kind."""

    def __init__(self, matches: MatchSet) -> None:
        self.matches = matches
        self.requests = 0
        #: All their devices together, and those of the largest.
        self.total = self.most = 0

    def add(self, count: int) -> None:
        self.requests += 1
        self.total += count
        self.most = max(self.most, count)


class ShapeColumn:
    """The verdicts on all rows for one shape."""

    def __init__(self, asks: Sequence[_Ask] | None, *, is_plain: bool) -> None:
        """`asks` None: the shape cannot be counted."""
        self._asks = asks
        #: Whether enough free devices are all it takes.
        self._is_plain = is_plain and asks is not None and len(asks) == 1
        self._followed = _Followed()
        self.verdicts: Verdicts = np.zeros(0, np.int8)
        self.scores: Scores = np.zeros(0, np.int16)
        #: How often the allocator was asked.
        self.searches = 0
        self._stated_bytes = 0

    @property
    def nbytes(self) -> int:
        matches = sum(ask.matches.nbytes for ask in self._asks or ())
        return self.verdicts.nbytes + self.scores.nbytes + matches

    def is_larger(self) -> bool:
        """Whether it has grown a good deal since the last such answer."""
        nbytes = self.nbytes
        if nbytes < self._stated_bytes + (1 << 16):
            return False
        self._stated_bytes = nbytes
        return True

    def follow(self, table: NodeTable, facts: Facts) -> None:
        rows = self._followed.changed(table, facts, pools=False)
        if rows is None or len(self.verdicts) != table.capacity:
            for ask in self._asks or ():
                ask.matches.forget_if_old(len(facts.slices))
            self.verdicts = np.full(table.capacity, _UNKNOWN, np.int8)
            self.scores = np.zeros(table.capacity, np.int16)
        elif rows:
            self.verdicts[list(rows)] = _UNKNOWN

    def fill(
        self, rows: Rows, table: NodeTable, facts: Facts, pools: PoolRows, search: Search
    ) -> None:
        """Find the verdicts on rows that have none. Each is kept at once: `search` may raise."""
        unknown = rows[self.verdicts[rows] == _UNKNOWN]
        same: dict[tuple[object, ...], int] = {}
        for row in unknown.tolist():
            of_row = pools.of(row, table, facts)
            twin = same.get(of_row.key) if of_row.key is not None else None
            if twin is not None:
                verdict, score = int(self.verdicts[twin]), int(self.scores[twin])
            else:
                counted = self._count(of_row, table, facts)
                if counted is None:
                    self.searches += 1
                    verdict, score = search(row)
                else:
                    verdict, score = counted, 0
                if of_row.key is not None:
                    same[of_row.key] = row
            self.verdicts[row], self.scores[row] = verdict, score

    def _count(self, of_row: NodePools, table: NodeTable, facts: Facts) -> int | None:
        """The verdict if counting is enough, else None."""
        if self._asks is None:
            return None
        taken, shares, work = facts.allocated.devices, facts.allocated.consumed, table.work
        is_plain, has_enough = self._is_plain, True
        for ask in self._asks:
            free = shared = 0
            for one in of_row.slices:
                match = ask.matches.of(one, work)
                if not match.is_certain:
                    return None
                # A device may have been shared before, and a share still be held.
                is_plain = is_plain and match.is_plain and shares.keys().isdisjoint(match.devices)
                shared += match.shared
                free += sum(device not in taken for device in match.devices)
            if ask.most > free + shared or ask.total > free + shared * ask.requests:
                has_enough = False
        work.spend(_COUNTING_WORK * len(self._asks))
        if not has_enough:
            return INVALID_POOLS if of_row.has_invalid else CANNOT_ALLOCATE
        return FITS if is_plain else None


class ClaimColumns:
    """The columns of all shapes of a profile's pods, bounded by bytes."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._pools = PoolRows()
        self._match_sets = MatchSets()
        self._shapes: BytesLru[bytes, ShapeColumn] = BytesLru(_LIMIT_BYTES, ticks_by_use=True)
        self._class_version = -1
        #: By class: its selectors as text.
        self._selectors: dict[str, str] = {}

    def column(
        self, table: NodeTable, claims: Sequence[ResourceClaim], rows: Rows, search: Search
    ) -> ShapeColumn:
        """The column for claims to allocate, complete at `rows`. Raises what `search` raises."""
        if self._facts.class_version != self._class_version:
            self._class_version = self._facts.class_version
            self._shapes.clear()
            self._match_sets.clear()
            self._selectors.clear()
        key = _encode([self._asked_for(claim) for claim in claims])
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._new(claims)
            self._shapes.put(key, shape, 4 * table.capacity + len(key))
        elif shape.is_larger():
            self._shapes.resize(key, shape.nbytes + len(key))
        self._pools.follow(table, self._facts)
        shape.follow(table, self._facts)
        shape.fill(rows, table, self._facts, self._pools, search)
        return shape

    def known(self, details: DeviceRequestDetails) -> MatchSet | None:
        """The match set that serves a request, if there is one; for the allocator."""
        device_class = self._facts.classes.get(details.device_class_name)
        if device_class is None or self._facts.class_version != self._class_version:
            return None
        return self._match_sets.find(details, device_class)

    def _new(self, claims: Sequence[ResourceClaim]) -> ShapeColumn:
        asks: dict[bytes, _Ask] = {}
        has_constraints = False
        for claim in claims:
            count = 0
            for constraint in claim.spec.devices.constraints or ():
                has_constraints = True
                if constraint_of(constraint) is None:
                    return ShapeColumn(None, is_plain=False)
            for request in claim.spec.devices.requests or ():
                details = request.exactly
                device_class = self._countable(details)
                if details is None or device_class is None:
                    return ShapeColumn(None, is_plain=False)
                count += details.count
                kind = kind_of(details, device_class)
                if kind not in asks:
                    asks[kind] = _Ask(self._match_sets.get(details, device_class))
                asks[kind].add(details.count)
            if count > MAX_DEVICES_PER_CLAIM:
                return ShapeColumn(None, is_plain=False)
        return ShapeColumn(list(asks.values()), is_plain=not has_constraints)

    def _countable(self, details: DeviceRequestDetails | None) -> DeviceClass | None:
        """The class of a request for a number of devices for exclusive use."""
        if (
            details is None
            or details.allocation_mode != "ExactCount"
            or details.admin_access
            or any(selector.cel is None for selector in details.selectors or ())
        ):
            return None
        return self._facts.classes.get(details.device_class_name)

    def _asked_for(self, claim: ResourceClaim) -> Sequence[object]:
        """What all claims of one shape have in common: classes count by their selectors."""
        requests = [
            (request.name, [self._with_selectors(one) for one in _alternatives(request)])
            for request in claim.spec.devices.requests or ()
        ]
        return requests, claim.spec.devices.constraints

    def _with_selectors(self, details: DeviceRequestDetails) -> DeviceRequestDetails:
        name = details.device_class_name
        selectors = self._selectors.get(name)
        if selectors is None:
            device_class = self._facts.classes.get(name)
            known = [name] if device_class is None else (device_class.spec.selectors or ())
            selectors = self._selectors[name] = _encode(known).decode()
        return replace(details, device_class_name=selectors)


def _alternatives(request: DeviceRequest) -> Sequence[DeviceRequestDetails]:
    """What the request asks for; several if it has alternatives, which a mark tells apart."""
    if request.exactly is not None:
        return (request.exactly,)
    return (*(request.first_available or ()), DeviceRequestDetails())
