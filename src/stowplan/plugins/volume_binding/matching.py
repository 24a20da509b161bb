"""Unbound claims and the volumes that exist: which one would a claim get on which node?

A volume that is promised to the claim (its claimRef) comes before all others, and if the node does
not reach it, no other will do. Otherwise it is the smallest volume that suits and that the node
reaches, and that no other claim of the pod has taken. Which of several equally small ones upstream
takes is left to chance; here it is the first by name.

What is asked of a volume apart from the node is asked once. Then volumes are walked in order of
size with one array a claim of what was chosen where. Volumes whose affinity asks for one value of
a label are not walked: the first of each value is looked up by the value that a row has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.api.quantity import nanos
from stowplan.api.selectors import CompiledSelector, compile_label_selector
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_volumes import class_of_claim
from stowplan.cluster.table import BoolArray, NodeTable
from stowplan.cluster.work import STEP
from stowplan.plugins.volume_binding.reach import affinity_mask
from stowplan.plugins.volume_binding.volume_index import (
    FILESYSTEM,
    STORAGE,
    FreeVolumes,
    Kind,
    KnownVolume,
    Places,
    VolumeIndex,
    kind_of,
)


@dataclass(slots=True)
class Candidates:
    """The volumes that a claim could get, apart from the node."""

    promised: list[KnownVolume]
    free: FreeVolumes
    #: Those of the free ones that suit the claim, smallest first.
    places: Places

    def first_reached(
        self, labels: Mapping[str, str], taken: Collection[str]
    ) -> PersistentVolume | None:
        """What the claim gets on a node with these labels; `taken` names volumes given away."""
        for volume in self.promised:
            if volume.name not in taken:
                return volume.volume if volume.is_reached(labels) else None
        free, best = self.free, len(self.free)
        for key, places, values in free.labels(self.places):
            wanted = free.value_id(key, labels.get(key))
            if wanted is not None:
                there = (p for p in places[values == wanted] if free[p].name not in taken)
                best = min(best, next(there, best))
        for place in free.others(self.places):
            if place >= best:
                break
            if free[place].name not in taken and free[place].is_reached(labels):
                best = place
        return free[best].volume if best < len(free) else None


def request_of(claim: PersistentVolumeClaim) -> int:
    """Billionths of a byte."""
    return nanos((claim.spec.resources.requests or {}).get(STORAGE, 0))


def by_request(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Small claims choose first, so that they do not take what a large one needs."""
    return sorted(claims, key=request_of)


def candidates(claim: PersistentVolumeClaim, index: VolumeIndex) -> Candidates:
    """ValueError if the claim's selector makes no sense."""
    selector = _selector(claim)
    spec, meta, name = claim.spec, claim.metadata, class_of_claim(claim)
    wanted = Kind(
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes or ()),
    )
    size = request_of(claim)
    promised = [
        volume
        for volume in index.promised(name, meta.namespace, meta.name)
        if volume.size >= size
        and kind_of(volume.volume)[:2] == wanted[:2]
        and is_promised_to(volume.volume, claim)
    ]
    free = index.free(name)
    places = free.suiting(wanted, size)
    if selector is not None:
        matching = [selector.matches(free[p].volume.metadata.labels) for p in places]
        places = places[np.array(matching, np.bool_)]
    return Candidates(promised, free, places)


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
        #: Volumes that are given away on every row.
        self._gone: set[int] = set()
        #: For each claim that gets other volumes on other rows, their numbers by row; -1: none.
        self._taken: list[Places] = []
        #: All numbers in `_taken`.
        self._partly: set[int] = set()
        #: Numbers for volumes: those of a class in a row, from a start of its own.
        self._starts: dict[int, int] = {}
        self._end = 0
        self._numbers: dict[str, int] = {}

    def choose(self, found: Candidates) -> BoolArray:
        """On which rows the next claim gets a volume."""
        chosen = np.full(len(self._rows), -1, np.intp)
        undecided = np.ones(len(self._rows), np.bool_)
        for volume in found.promised:
            number = self._numbers.setdefault(volume.name, -2 - len(self._numbers))
            here = undecided & self._are_free(number)
            chosen[here & affinity_mask(self._table, volume.affinity, self._rows)] = number
            undecided &= ~here
        if undecided.any():
            start = self._start(found.free)
            best = self._smallest(found, start)
            got = undecided & (best < len(found.free))
            chosen[got] = start + best[got]
        self._take(chosen)
        is_chosen: BoolArray = chosen != -1
        return is_chosen

    def _take(self, chosen: Places) -> None:
        numbers = np.unique(chosen).tolist()
        if len(numbers) > 1:
            self._taken.append(chosen)
            self._partly.update(numbers)
        elif numbers != [-1]:
            self._gone.update(numbers)

    def _start(self, free: FreeVolumes) -> int:
        if id(free) not in self._starts:
            self._starts[id(free)] = self._end
            self._end += len(free)
        return self._starts[id(free)]

    def _smallest(self, found: Candidates, start: int) -> Places:
        """The first of the free volumes, by row; their number where there is none."""
        free = found.free
        best = np.full(len(self._rows), len(free), np.intp)
        for key, places, values in free.labels(found.places):
            column = free.value_ids(key, self._table)[self._table.labels.column(key)[self._rows]]
            best = np.minimum(best, self._first_by_value(column, places, values, free, start))
        masks: dict[object, BoolArray] = {}
        for place in free.others(found.places).tolist():
            if start + place in self._gone:
                continue
            late = best > place
            if not late.any():
                break
            affinity = free[place].affinity
            if affinity not in masks:
                masks[affinity] = affinity_mask(self._table, affinity, self._rows)
            best[late & masks[affinity] & self._are_free(start + place)] = place
        return best

    def _first_by_value(
        self,
        column: Places,
        places: Places,
        values: NDArray[np.int32],
        free: FreeVolumes,
        start: int,
    ) -> Places:
        """The first volume, by row, of those that ask for the row's value of a label."""
        order = np.argsort(values, kind="stable")
        # A sentinel at the end: it matches no row, so the search never leaves its label value.
        values = np.append(values[order], -2)
        places = np.append(places[order], len(free))
        at = np.searchsorted(values[:-1], column)
        while True:
            found = values[at] == column
            taken = found & ~self._are_free(start + places[at])
            if not taken.any():
                return np.where(found, places[at], len(free))
            at += taken

    def _are_free(self, numbers: Places | int) -> BoolArray:
        """Whether a volume, one for each row or one for all, is not given to an earlier claim
        on that row."""
        free = np.ones(len(self._rows), np.bool_)
        if isinstance(numbers, int):
            if numbers in self._gone:
                return ~free
            if numbers not in self._partly:
                return free
        elif self._gone:
            free = np.isin(numbers, list(self._gone), invert=True)
        # Claims times volumes times claims, where rows differ in what they have left.
        self._table.work.spend(len(self._taken) * (len(self._rows) + STEP))
        for taken in self._taken:
            free &= taken != numbers
        return free
