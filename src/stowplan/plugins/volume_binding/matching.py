"""Unbound claims and the volumes that exist: which one would a claim get on which node?

A volume that is promised to the claim (its claimRef) comes before all others, and if the node does
not reach it, no other will do. Otherwise it is the smallest volume that suits and that the node
reaches, and that no other claim of the pod has taken. Which of several equally small ones upstream
takes is left to chance; here it is the first by name.

What is asked of a volume apart from the node is asked once. Then volumes are walked in order of
size with one array a claim of what was chosen where. Volumes whose affinity names the values of
one label (a local disk its host, a cloud's disk its zone) are not walked: the first of each value
is looked up by the value that a row has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.api.quantity import nanos
from stowplan.api.selectors import CompiledSelector, compile_label_selector
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_volumes import class_of_claim
from stowplan.cluster.table import BoolArray, NodeTable
from stowplan.plugins.volume_binding.assumed import STORAGE, BelievedVolumes, KnownVolume
from stowplan.plugins.volume_binding.reach import affinity_mask

Places: TypeAlias = NDArray[np.intp]
"""An index into `Candidates.volumes` for each row; -1: none."""

_FILESYSTEM = "Filesystem"
_AVAILABLE = "Available"


@dataclass(slots=True)
class Candidates:
    """The volumes that a claim could get, apart from the node: promised ones, then by size."""

    volumes: list[KnownVolume]
    #: How many of them are promised to the claim.
    promised: int

    def first_reached(
        self, labels: Mapping[str, str], taken: Iterable[str]
    ) -> PersistentVolume | None:
        """What the claim gets on a node with these labels; `taken` names volumes given away."""
        for place, known in enumerate(self.volumes):
            if known.volume.metadata.name in taken:
                continue
            if known.affinity is None or known.affinity.matches(labels, ""):
                return known.volume
            if place < self.promised:
                return None
        return None


def request_of(claim: PersistentVolumeClaim) -> int:
    """Billionths of a byte."""
    return nanos((claim.spec.resources.requests or {}).get(STORAGE, 0))


def by_request(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Small claims choose first, so that they do not take what a large one needs."""
    return sorted(claims, key=request_of)


def candidates(claim: PersistentVolumeClaim, believed: BelievedVolumes) -> Candidates:
    """ValueError if the claim's selector makes no sense."""
    selector = _selector(claim)
    spec = claim.spec
    mode = spec.volume_mode or _FILESYSTEM
    attributes = spec.volume_attributes_class_name or ""
    access = set(spec.access_modes or ())
    promised: list[KnownVolume] = []
    free: list[KnownVolume] = []
    for known in believed.by_class(class_of_claim(claim), request_of(claim)):
        volume = known.volume
        is_promised = is_promised_to(volume, claim)
        if (
            (volume.spec.claim_ref is not None and not is_promised)
            or (volume.spec.volume_mode or _FILESYSTEM) != mode
            or (volume.spec.volume_attributes_class_name or "") != attributes
            or volume.metadata.deletion_timestamp is not None
        ):
            continue
        if is_promised:
            promised.append(known)
        elif (
            volume.status.phase == _AVAILABLE
            and access.issubset(volume.spec.access_modes or ())
            and (selector is None or selector.matches(volume.metadata.labels))
        ):
            free.append(known)
    return Candidates(promised + free, len(promised))


def is_promised_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's claimRef means this claim, by name and, if it says so, by UID."""
    ref, meta = volume.spec.claim_ref, claim.metadata
    return (
        ref is not None
        and (ref.namespace, ref.name) == (meta.namespace, meta.name)
        and ref.uid in ("", meta.uid)
    )


def _selector(claim: PersistentVolumeClaim) -> CompiledSelector | None:
    if claim.spec.selector is None:
        return None
    try:
        return compile_label_selector(claim.spec.selector)
    except ValueError as problem:
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        raise ValueError(
            f"error creating internal label selector for claim: {key}: {problem}"
        ) from problem


# Columns


class Choices:
    """What the claims of one pod get on each of some rows, claim after claim."""

    def __init__(self, table: NodeTable, rows: Rows) -> None:
        self._table = table
        self._rows = rows
        self._numbers: dict[str, int] = {}
        #: For each claim so far the number of the volume it gets, by row; -1: none.
        self._taken: list[Places] = []

    def choose(self, found: Candidates) -> BoolArray:
        """On which rows the next claim gets a volume."""
        numbers = np.array(
            [
                self._numbers.setdefault(known.volume.metadata.name, len(self._numbers))
                for known in found.volumes
            ],
            np.intp,
        )
        chosen = np.full(len(self._rows), -1, np.intp)
        undecided = np.ones(len(self._rows), np.bool_)
        for place in range(found.promised):
            here = undecided & self._is_free(numbers[place])
            reached = here & affinity_mask(self._table, found.volumes[place].affinity, self._rows)
            chosen[reached] = place
            undecided &= ~here
        if undecided.any() and len(found.volumes) > found.promised:
            best = self._smallest(found, numbers)
            chosen = np.where(undecided, best, chosen)
        self._taken.append(np.where(chosen >= 0, numbers[chosen], -1) if len(numbers) else chosen)
        return chosen >= 0

    def _smallest(self, found: Candidates, numbers: Places) -> Places:
        """The first of the volumes that nobody was promised, by row."""
        none = len(found.volumes)
        best = np.full(len(self._rows), none, np.intp)
        walked: list[int] = []
        by_key: dict[str, list[tuple[str, int]]] = {}
        for place in range(found.promised, none):
            values = _one_label(found.volumes[place])
            if values is None:
                walked.append(place)
            else:
                key, wanted = values
                by_key.setdefault(key, []).extend((value, place) for value in wanted)
        for key, pairs in by_key.items():
            best = np.minimum(best, self._first_by_value(key, pairs, numbers, none))
        masks: dict[object, BoolArray] = {}
        for place in walked:
            late = best > place
            if not late.any():
                break
            affinity = found.volumes[place].affinity
            if affinity not in masks:
                masks[affinity] = affinity_mask(self._table, affinity, self._rows)
            best[late & masks[affinity] & self._is_free(numbers[place])] = place
        return np.where(best == none, -1, best)

    def _first_by_value(
        self, key: str, pairs: Sequence[tuple[str, int]], numbers: Places, none: int
    ) -> Places:
        """The first volume, by row, of those whose affinity names the row's value of a label."""
        column = self._table.labels.column(key)[self._rows]
        ids = self._table.labels.values(key)
        present = sorted(
            (number, place) for value, place in pairs if (number := ids.get(value)) is not None
        )
        # The end of the list is nobody's, so that a row that runs out of volumes finds no other.
        values = np.array([number for number, _ in present] + [-2], np.intp)
        places = np.array([place for _, place in present] + [none], np.intp)
        at = np.searchsorted(values[:-1], column)
        while True:
            found = values[at] == column
            taken = found & ~self._are_free(numbers[np.where(found, places[at], 0)])
            if not taken.any():
                return np.where(found, places[at], none)
            at += taken

    def _is_free(self, number: int) -> BoolArray:
        return self._are_free(np.full(len(self._rows), number, np.intp))

    def _are_free(self, numbers: Places) -> BoolArray:
        """Whether a volume, one for each row, is not given to an earlier claim on that row."""
        free = np.ones(len(self._rows), np.bool_)
        for taken in self._taken:
            free &= taken != numbers
        return free


def _one_label(known: KnownVolume) -> tuple[str, tuple[str, ...]] | None:
    """The label and its values that a volume's affinity names, if that is all it does."""
    terms = known.affinity.terms if known.affinity is not None else ()
    if len(terms) == 1 and len(terms[0].requirements) == 1:
        key, operator, values = terms[0].requirements[0]
        if operator == "In":
            return key, values
    return None
