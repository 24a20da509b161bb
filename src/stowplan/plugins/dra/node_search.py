"""A pod's claims in one scheduling attempt, and which devices each node offers for them.

PreFilter makes a `PodDevices`, Filter reads it per node, Reserve reads the chosen node's devices.
An answer holds as long as the facts do not change (`DeviceFacts.version`), so a decision that was
deferred goes on where it stopped: with the next node, or in the middle of a search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from stowplan.api.device_objects import AllocationResult, DeviceRequestDetails, ResourceClaim
from stowplan.api.objects import Node
from stowplan.api.selectors import CompiledNodeSelector
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array
from stowplan.cluster.work import STEP
from stowplan.framework.handle import Handle
from stowplan.framework.status import Status, error, unresolvable
from stowplan.plugins.dra.extended import Mappings
from stowplan.plugins.dra.extended_claims import PodExtended
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.prioritized import score_of

if TYPE_CHECKING:
    from stowplan.plugins.dra.allocator import Search
    from stowplan.plugins.dra.requests import KnownMatches

#: Steps of a search between two looks at clock and budget.
_STEPS: Final = 64
NOT_ENOUGH = unresolvable("cannot allocate all claims")
INVALID = unresolvable("invalid resource pools were encountered")


@dataclass(slots=True)
class _Running:
    """A search that was interrupted."""

    node: Node
    search: Search
    took_s: float = 0.0
    spent: int = 0

    def unspent(self) -> int:
        """The work since the last call."""
        cost, self.spent = self.search.cost - self.spent, self.search.cost
        return STEP * cost


@dataclass(slots=True)
class PodDevices:
    """The claims of a pod and its devices by node."""

    facts: DeviceFacts
    claims: list[ResourceClaim]
    #: Where each allocated claim can be used; None: anywhere, or it is not allocated.
    reach: list[CompiledNodeSelector | None]
    #: Allocated claims whose devices are not prepared, and will not be.
    failed: frozenset[int] = frozenset()
    #: The pod's extended resources; their claim is the last one of `claims`.
    extended: PodExtended | None = None
    version: int = field(init=False)
    #: Allocated claims that some node cannot use: candidates to be given back.
    unavailable: set[int] = field(default_factory=set)
    #: Set by Reserve: by the place of the claim.
    chosen: dict[int, AllocationResult] = field(default_factory=dict)
    #: Set by Reserve: which container uses which request of the claim for extended resources.
    mappings: Mappings = ()
    #: Claims whose write was interrupted: whether they are allocated is not known yet.
    unsettled: set[str] = field(default_factory=set)
    #: By row: what columns know of the alternatives that a node would get.
    scores: Int64Array | None = None
    #: What is known of a request's devices.
    find_known: Callable[[DeviceRequestDetails], KnownMatches | None] = lambda _: None
    _answers: dict[str, tuple[Node, Status | list[AllocationResult]]] = field(default_factory=dict)
    _running: _Running | None = None

    def __post_init__(self) -> None:
        self.version = self.facts.version

    @property
    def needs_devices(self) -> bool:
        """Whether a claim is not allocated yet."""
        return any(claim.status.allocation is None for claim in self.claims)

    def to_allocate(self, node: Node) -> list[tuple[int, ResourceClaim]] | Status:
        """The claims that need an allocation on a node, with their places, or why there are none.

        Claims of the pod itself are the same for all nodes.
        """
        claims = list(enumerate(self.claims))
        if self.extended is not None:
            place, _ = claims.pop()
            on_node = self.extended.on_node(node)
            if isinstance(on_node, Status):
                return on_node
            if on_node.claim is not None:
                claims.append((place, on_node.claim))
        return [(place, claim) for place, claim in claims if claim.status.allocation is None]

    def answer(
        self, node: Node, handle: Handle, timeout_s: float, spend: Callable[[int], None]
    ) -> Status | list[AllocationResult]:
        """The devices for the claims that need some, in order, or why there are none.

        `spend` may interrupt it; the next call goes on.
        """
        known = self._answers.get(node.metadata.name)
        if known is not None and known[0] is node:
            return known[1]
        wanted = self.to_allocate(node)
        if isinstance(wanted, Status):
            return wanted
        running = self._started(node, [claim for _, claim in wanted], handle)
        found = self._search(running, handle, timeout_s, spend)
        self._running = None
        self._answers[node.metadata.name] = (node, found)
        spend(running.unspent())
        return found

    @property
    def has_only_extended(self) -> bool:
        """Whether the pod has no claims of its own."""
        return self.extended is not None and len(self.claims) == 1

    @property
    def has_alternatives(self) -> bool:
        """Whether nodes can differ in what they would get."""
        return any(
            request.first_available
            for claim in self.claims
            for request in claim.spec.devices.requests or ()
        )

    def set_scores(self, capacity: int, rows: Rows, scores: NDArray[Any]) -> None:
        if self.scores is None:
            self.scores = np.zeros(capacity, np.int64)
        self.scores[rows] = scores

    def fill_scores(self, rows: Rows | slice, out: Int64Array) -> None:
        """`score` for rows that columns have verdicts on."""
        assert self.scores is not None
        out[rows] = self.scores[rows] + self._score_of_allocated()

    def score(self, node_name: str, row: int) -> int:
        """How well the alternatives are that the claims get on a node, or have already."""
        if not self.needs_devices:
            return 0
        found = self.allocations(node_name)
        if found is None:
            return 0 if self.scores is None else self._score_of_allocated() + int(self.scores[row])
        rest = iter(found)
        return score_of(
            (claim, allocation)
            for claim in self.claims
            if (allocation := claim.status.allocation or next(rest, None)) is not None
        )

    def _score_of_allocated(self) -> int:
        return score_of(
            (claim, claim.status.allocation)
            for claim in self.claims
            if claim.status.allocation is not None
        )

    def is_extended(self, place: int) -> bool:
        """Whether a claim is the one for extended resources."""
        return self.extended is not None and place == len(self.claims) - 1

    def allocations(self, node_name: str) -> list[AllocationResult] | None:
        """The devices that `answer` found on a node."""
        known = self._answers.get(node_name)
        return known[1] if known is not None and isinstance(known[1], list) else None

    def is_same(
        self, facts: DeviceFacts, claims: list[ResourceClaim], extended: PodExtended | None
    ) -> bool:
        """Whether its answers hold for these claims and extended resources, too."""
        mine = self.claims if self.extended is None else self.claims[:-1]
        return (
            self.facts is facts
            and self.version == facts.version
            and (self.extended is None) == (extended is None)
            and len(mine) == len(claims)
            and all(one is other for one, other in zip(mine, claims, strict=True))
        )

    def _started(self, node: Node, claims: list[ResourceClaim], handle: Handle) -> _Running:
        """The search on a node, which may have begun in an earlier turn of the attempt."""
        # CEL is loaded with the first pod that needs a device.
        from stowplan.plugins.dra.allocator import Search

        running, facts = self._running, self.facts
        if running is None or running.node is not node:
            search = Search(
                node,
                claims,
                facts.slices,
                facts.classes,
                facts.allocated,
                lambda: str(UUID(int=handle.rng.getrandbits(128), version=4)),
                self.find_known,
            )
            running = self._running = _Running(node, search)
        return running

    def _search(
        self, running: _Running, handle: Handle, timeout_s: float, spend: Callable[[int], None]
    ) -> Status | list[AllocationResult]:
        from stowplan.plugins.dra.requests import AllocationError
        from stowplan.plugins.dra.results import allocation_of

        now, search, name = handle.clock.monotonic, running.search, running.node.metadata.name
        try:
            while True:
                began = now()
                is_found = search.advance(_STEPS)
                running.took_s += now() - began
                if is_found is not None:
                    break
                if 0 < timeout_s < running.took_s:
                    return error(f"node {name}: timed out trying to allocate devices")
                spend(running.unspent())
            if is_found:
                return [allocation_of(each, name) for each in search.claims]
        except AllocationError as problem:
            return error(str(problem))
        return INVALID if any(pool.is_invalid for pool in search.pools) else NOT_ENOUGH
