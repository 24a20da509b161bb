"""A pod's claims in one scheduling attempt, and which devices each node offers for them.

PreFilter makes a `PodDevices`, Filter asks it about nodes, Reserve reads the chosen node's devices.
An answer holds as long as the facts do not change (`DeviceFacts.version`), so a decision that was
deferred goes on where it stopped: with the next node, or in the middle of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from stowplan.api.device_objects import AllocationResult, ResourceClaim
from stowplan.api.objects import Node
from stowplan.api.selectors import CompiledNodeSelector
from stowplan.cluster.work import STEP
from stowplan.framework.handle import Handle
from stowplan.framework.status import Status, error, unresolvable
from stowplan.plugins.dra.facts import DeviceFacts

if TYPE_CHECKING:
    from stowplan.plugins.dra.allocator import Search

#: Steps of a search between two looks at clock and budget.
_STEPS: Final = 64
_NOT_ENOUGH = unresolvable("cannot allocate all claims")
_INVALID = unresolvable("invalid resource pools were encountered")


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
    version: int = field(init=False)
    #: Allocated claims that some node cannot use: candidates to be given back.
    unavailable: set[int] = field(default_factory=set)
    #: Set by Reserve: by the place of the claim.
    chosen: dict[int, AllocationResult] = field(default_factory=dict)
    #: Claims whose write was interrupted: whether they are allocated is not known yet.
    unsettled: set[str] = field(default_factory=set)
    _answers: dict[str, tuple[Node, Status | list[AllocationResult]]] = field(default_factory=dict)
    _running: _Running | None = None

    def __post_init__(self) -> None:
        self.version = self.facts.version

    @property
    def needs_devices(self) -> bool:
        """Whether a claim is not allocated yet."""
        return any(claim.status.allocation is None for claim in self.claims)

    def to_allocate(self) -> Iterator[tuple[int, ResourceClaim]]:
        """The claims without an allocation, with their places."""
        for place, claim in enumerate(self.claims):
            if claim.status.allocation is None:
                yield place, claim

    def answer(
        self, node: Node, handle: Handle, timeout_s: float, spend: Callable[[int], None]
    ) -> Status | list[AllocationResult]:
        """The devices for the claims that need some, in order, or why there are none.

        `spend` may interrupt it; the next call goes on.
        """
        known = self._answers.get(node.metadata.name)
        if known is not None and known[0] is node:
            return known[1]
        running = self._started(node, handle)
        found = self._search(running, handle, timeout_s, spend)
        self._running = None
        self._answers[node.metadata.name] = (node, found)
        spend(running.unspent())
        return found

    def allocations(self, node_name: str) -> list[AllocationResult] | None:
        """The devices that `answer` found on a node."""
        known = self._answers.get(node_name)
        return known[1] if known is not None and isinstance(known[1], list) else None

    def is_same(self, facts: DeviceFacts, claims: list[ResourceClaim]) -> bool:
        """Whether its answers hold for these claims, too."""
        return (
            self.facts is facts
            and self.version == facts.version
            and len(self.claims) == len(claims)
            and all(mine is theirs for mine, theirs in zip(self.claims, claims, strict=True))
        )

    def _started(self, node: Node, handle: Handle) -> _Running:
        """The search on a node, which may have begun in an earlier turn of the attempt."""
        # CEL is loaded with the first pod that needs a device.
        from stowplan.plugins.dra.allocator import Search

        running, facts = self._running, self.facts
        if running is None or running.node is not node:
            search = Search(
                node,
                [claim for _, claim in self.to_allocate()],
                facts.slices,
                facts.classes,
                facts.allocated,
                lambda: str(UUID(int=handle.rng.getrandbits(128), version=4)),
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
        return _INVALID if any(pool.is_invalid for pool in search.pools) else _NOT_ENOUGH
