"""All claims of a pod together: what a node would give them, or why it cannot.

Both forms follow upstream step by step, because a node may fail for several reasons and the first
obstacle of each step hides the later ones. A verdict is a set of bits, one a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from stowplan.api.resources import CSI_NODES
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int32Array, NodeTable
from stowplan.plugins.volume_binding.assumed import BelievedVolumes
from stowplan.plugins.volume_binding.claims import PodClaims, selected_node
from stowplan.plugins.volume_binding.matching import Candidates, Choices, by_request, candidates
from stowplan.plugins.volume_binding.provisioning import Provision, Provisioning
from stowplan.plugins.volume_binding.reach import MigratedRows, reach_mask, reaches

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING = 1, 2, 4, 8
#: In upstream's order.
REASONS = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VOLUME_MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


@dataclass(slots=True)
class NodeVolumes:
    """What is left to do for a pod's claims on a node."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


@dataclass(slots=True)
class Search:
    """The claims of one pod, with all that does not depend on the node worked out on first use."""

    claims: PodClaims
    believed: BelievedVolumes
    provisioning: Provisioning
    migrated: MigratedRows
    catalog: Catalog
    #: What was believed when the search began.
    version: int = field(init=False)
    _found: list[tuple[PersistentVolumeClaim, Candidates]] | None = None
    _provisions: dict[str, Provision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.version = self.believed.version

    # One node

    def on_node(self, name: str, labels: Mapping[str, str]) -> tuple[NodeVolumes, int]:
        """What the pod would get on a node, and the bits of why it cannot be had."""
        answer = NodeVolumes()
        verdict = self._bound_verdict(name, labels)
        unbound: list[PersistentVolumeClaim] = []
        for claim in self.claims.delayed:
            selected = selected_node(claim)
            if selected is None:
                continue
            if selected != name:
                return answer, verdict | BIND_CONFLICT
            unbound.append(claim)
        taken: set[str] = set()
        for claim, found in self._to_match():
            volume = found.first_reached(labels, taken)
            if volume is None:
                unbound.append(claim)
            else:
                taken.add(volume.metadata.name)
                answer.bindings.append((volume, claim))
        for claim in unbound:
            provision = self._provision(claim)
            if not provision.allowed.has(labels):
                return answer, verdict | BIND_CONFLICT
            if not provision.with_room.has(labels):
                return answer, verdict | NOT_ENOUGH_SPACE
        answer.provisions = unbound
        return answer, verdict

    def refused_claims(
        self, name: str, labels: Mapping[str, str]
    ) -> Iterator[tuple[PersistentVolumeClaim, int]]:
        """Every claim that a node cannot serve by itself, with the bit that says why."""
        csi_node = self.catalog[CSI_NODES].get(name)
        for claim in self.claims.bound:
            volume = self.believed.volumes.get(claim.spec.volume_name)
            if volume is None:
                yield claim, VOLUME_MISSING
            elif not reaches(volume, labels, csi_node):
                yield claim, NODE_CONFLICT
        matching = {claim.metadata.name: found for claim, found in self._to_match()}
        for claim in self.claims.delayed:
            found = matching.get(claim.metadata.name)
            if found is None and selected_node(claim) != name:
                yield claim, BIND_CONFLICT
            elif found is None or found.first_reached(labels, set()) is None:
                provision = self._provision(claim)
                if not provision.allowed.has(labels):
                    yield claim, BIND_CONFLICT
                elif not provision.with_room.has(labels):
                    yield claim, NOT_ENOUGH_SPACE

    def _bound_verdict(self, name: str, labels: Mapping[str, str]) -> int:
        csi_node = self.catalog[CSI_NODES].get(name)
        for claim in self.claims.bound:
            volume = self.believed.volumes.get(claim.spec.volume_name)
            if volume is None:
                return VOLUME_MISSING
            if not reaches(volume, labels, csi_node):
                return NODE_CONFLICT
        return 0

    # Many rows

    def on_rows(self, table: NodeTable, rows: Rows) -> Int32Array:
        """The verdict of `on_node` for each row."""
        verdict = self._bound_verdicts(table, rows)
        if not self.claims.delayed or not len(rows):
            return verdict
        fits = self._selected(table, rows)
        verdict[~fits] |= BIND_CONFLICT
        if not fits.any():
            return verdict
        everywhere = np.ones(len(rows), np.bool_)
        to_make = [(c, everywhere) for c in self.claims.delayed if selected_node(c) is not None]
        choices = Choices(table, rows)
        to_make += [(claim, ~choices.choose(found)) for claim, found in self._to_match()]
        for claim, needed in to_make:
            needed = needed & fits
            if not needed.any():
                continue
            provision = self._provision(claim)
            allowed = provision.allowed.mask(table, rows)
            has_room = provision.with_room.mask(table, rows)
            verdict[needed & ~allowed] |= BIND_CONFLICT
            verdict[needed & allowed & ~has_room] |= NOT_ENOUGH_SPACE
            fits &= ~needed | (allowed & has_room)
        return verdict

    def _bound_verdicts(self, table: NodeTable, rows: Rows) -> Int32Array:
        verdict = np.zeros(len(rows), np.int32)
        for claim in self.claims.bound:
            fits = verdict == 0
            volume = self.believed.volumes.get(claim.spec.volume_name)
            if volume is None:
                verdict[fits] = VOLUME_MISSING
                break
            if not fits.any():
                break
            # Only rows that are still in the running: a volume may make no sense to the others.
            verdict[fits] = np.where(
                reach_mask(table, volume, rows[fits], self.migrated), 0, NODE_CONFLICT
            )
        return verdict

    def _selected(self, table: NodeTable, rows: Rows) -> BoolArray:
        """Rows that no claim excludes because its volume is being made for another node."""
        fits = np.ones(len(rows), np.bool_)
        for claim in self.claims.delayed:
            selected = selected_node(claim)
            if selected is not None:
                row = table.row_of.get(selected)
                fits &= rows == row if row is not None else False
        return fits

    # Whatever the node

    def _to_match(self) -> list[tuple[PersistentVolumeClaim, Candidates]]:
        """The claims that may get a volume that exists, in the order in which they choose."""
        if self._found is None:
            open_claims = [c for c in self.claims.delayed if selected_node(c) is None]
            self._found = [(c, candidates(c, self.believed.index)) for c in by_request(open_claims)]
        return self._found

    def _provision(self, claim: PersistentVolumeClaim) -> Provision:
        name = claim.metadata.name
        if name not in self._provisions:
            self._provisions[name] = self.provisioning.of(claim)
        return self._provisions[name]
