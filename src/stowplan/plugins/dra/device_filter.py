"""Filter: which nodes can serve a pod's claims, for many rows at once and for one.

Verdicts on claims that need devices come from `claim_columns`, which remember them for all pods of
one shape; the allocator runs where they do not know. The devices themselves are chosen in Reserve,
on the one node that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Node
from stowplan.api.selectors import CompiledNodeSelector
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int32Array, Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.errors import StatusError
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.status import Status, unresolvable
from stowplan.plugins.dra.extended_claims import CANNOT_FIT, LEFT_BEHIND, PodExtended
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.node_search import INVALID, NOT_ENOUGH, PodDevices
from stowplan.plugins.dra.prioritized import score_of

if TYPE_CHECKING:
    from stowplan.plugins.dra.claim_columns import ClaimColumns

UNAVAILABLE = unresolvable("resourceclaim not available on the node")
#: What verdict ids mean; the first two are those of `claim_columns`.
VERDICTS = (NOT_ENOUGH, INVALID, UNAVAILABLE, LEFT_BEHIND, CANNOT_FIT)
_IDS = {verdict: place for place, verdict in enumerate(VERDICTS, start=1)}


class DeviceFilter:
    """The Filter and Score points of one profile's DynamicResources."""

    def __init__(self, plugin: str, handle: Handle, facts: DeviceFacts, timeout_s: float) -> None:
        self._plugin = plugin
        self._handle = handle
        self._facts = facts
        self._timeout_s = timeout_s
        self._kept: ClaimColumns | None = None

    def verdict(self, cycle: Cycle, devices: PodDevices, node: NodeView) -> Status | None:
        """For one node, by the allocator itself."""
        wanted = devices.to_allocate(node.node)
        if isinstance(wanted, Status):
            return wanted
        if not wanted and devices.has_only_extended:
            return None
        unavailable = set(devices.failed)
        for place, reach in enumerate(devices.reach):
            if reach is not None and not reach.matches(node.labels, node.name):
                unavailable.add(place)
        if wanted:
            answer = devices.answer(node.node, self._handle, self._timeout_s, cycle.spend)
            if isinstance(answer, Status):
                return self._rejection(answer)
        if unavailable:
            devices.unavailable |= unavailable
            return UNAVAILABLE
        return None

    def fill(self, cycle: Cycle, devices: PodDevices, rows: Rows, out: Int32Array) -> None:
        """Write the verdict ids of many rows."""
        table = cycle.table
        for some, wanted in self._by_claims(table, devices, rows):
            if isinstance(wanted, Status):
                out[some] = _IDS[wanted]
                continue
            if not wanted:
                out[some] = 0
                if devices.has_only_extended:
                    continue
            else:
                devices.find_known = self._columns.known
                column = self._columns.column(
                    table, wanted, some, lambda row: self._search(cycle, devices, row)
                )
                out[some] = column.verdicts[some]
                if devices.has_alternatives:
                    devices.set_scores(table.capacity, some, column.scores[some])
            self._check_reach(table, devices, some, out)

    def _by_claims(
        self, table: NodeTable, devices: PodDevices, rows: Rows
    ) -> Iterator[tuple[Rows, list[ResourceClaim] | Status]]:
        """The rows, grouped by the claims that need devices there."""
        if devices.extended is None or not len(rows):
            groups = [rows] if len(rows) else []
        else:
            kinds = self._kinds(table, devices.extended, rows)
            groups = [rows[kinds == kind] for kind in np.unique(kinds).tolist()]
        for some in groups:
            wanted = devices.to_allocate(table.node(int(some[0])))
            if isinstance(wanted, Status):
                yield some, wanted
            else:
                yield some, [claim for _, claim in wanted]

    def _kinds(self, table: NodeTable, extended: PodExtended, rows: Rows) -> Int64Array:
        """Numbers that are equal for rows which offer the same extended resources."""
        kinds: Int64Array = np.zeros(len(rows), np.int64)
        for name in extended.wanted:
            offers = table.resources.offered(name)[rows] > 0
            if name not in extended.of_devices and not offers.all():
                # A node that offers none of it may know it all the same.
                nodes = map(table.node, rows.tolist())
                offers = np.array([name in (node.status.allocatable or {}) for node in nodes])
            kinds = np.unique(kinds * 2 + offers, return_inverse=True)[1].reshape(-1)
        return kinds

    @property
    def _columns(self) -> ClaimColumns:
        if self._kept is None:
            # CEL is loaded with the first pod that needs a device.
            from stowplan.plugins.dra.claim_columns import ClaimColumns

            self._kept = ClaimColumns(self._facts)
        return self._kept

    def _search(self, cycle: Cycle, devices: PodDevices, row: int) -> tuple[int, int]:
        """The allocator's verdict on a row, and the score of its choices."""
        node = cycle.table.node(row)
        answer = devices.answer(node, self._handle, self._timeout_s, cycle.spend)
        if not isinstance(answer, Status):
            wanted = devices.to_allocate(node)
            assert not isinstance(wanted, Status)
            claims = [claim for _, claim in wanted]
            return 0, score_of(zip(claims, answer, strict=True))
        return _IDS[self._rejection(answer)], 0

    def _rejection(self, answer: Status) -> Status:
        """Raise if the allocator failed: a CEL expression, a class or a slice is wrong."""
        if not answer.is_rejected:
            raise StatusError(self._plugin, "Filter", answer.message)
        return answer

    def _check_reach(
        self, table: NodeTable, devices: PodDevices, rows: Rows, out: Int32Array
    ) -> None:
        """Refuse rows that claims with an allocation cannot be used on."""
        if not devices.failed and not any(devices.reach):
            return
        left = rows[out[rows] == 0]
        if not len(left):
            return
        refused = np.full(len(left), bool(devices.failed))
        devices.unavailable |= devices.failed
        for place, reach in enumerate(devices.reach):
            if reach is not None:
                out_of_reach = ~_reached(reach, devices.claims[place], table, left)
                if out_of_reach.any():
                    devices.unavailable.add(place)
                    refused |= out_of_reach
        out[left[refused]] = _IDS[UNAVAILABLE]


def _reached(
    reach: CompiledNodeSelector, claim: ResourceClaim, table: NodeTable, rows: Rows
) -> BoolArray:
    """Whether an allocated claim can be used on each row."""
    allocation = claim.status.allocation
    assert allocation is not None
    assert allocation.node_selector is not None
    terms = allocation.node_selector.node_selector_terms or ()
    only = terms[0].match_fields if len(terms) == 1 and not terms[0].match_expressions else None
    if only and len(only) == 1 and only[0].key == "metadata.name" and only[0].operator == "In":
        # The devices of one node, by far the commonest.
        found = [table.row_of.get(name, -1) for name in only[0].values or ()]
        reached: BoolArray = np.isin(rows, found)
        return reached
    nodes: list[Node] = [table.node(row) for row in rows.tolist()]
    labels = [reach.matches(node.metadata.labels, node.metadata.name) for node in nodes]
    return np.array(labels, np.bool_)
