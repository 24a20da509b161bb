"""Verdict ids for a pod that names more resources than an id has bits.

Rows that lack the same resources share one id, which means something within one attempt only. What
no node offers all rows lack: those reasons are kept once, not once for each kind of row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from stowplan.cluster.table import BoolArray, Int32Array
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import Code, SharedReasons, Status


class NumberedVerdicts:
    """The distinct answers to one pod, numbered from 1."""

    def __init__(self) -> None:
        self._statuses: list[Status] = []
        self._common: tuple[str, ...] = ()
        #: (own reasons, never fits) -> id, all with the common reasons.
        self._ids: dict[tuple[tuple[str, ...], bool], int] = {}

    @classmethod
    def of(cls, cycle: Cycle) -> NumberedVerdicts:
        """Those of an attempt."""
        verdicts: NumberedVerdicts = cycle.notes.setdefault(cls, cls())
        return verdicts

    def status(self, verdict_id: int) -> Status:
        return self._statuses[verdict_id - 1]

    def ids(
        self,
        reasons: Sequence[str],
        applies: Sequence[BoolArray],
        never: BoolArray,
        common: tuple[str, ...],
    ) -> Int32Array:
        """An id for each row: which of the reasons apply to it, and whether it can never fit.

        All `common` reasons apply to every row.
        """
        if common != self._common:
            self._common, self._ids = common, {}
        facts = np.vstack([never, *applies])
        _, examples, kinds = np.unique(
            np.packbits(facts, axis=0), axis=1, return_index=True, return_inverse=True
        )
        ids: list[int] = []
        for never_fits, *fact in facts[:, examples].T.tolist():
            ids.append(self._id(tuple(compress(reasons, fact)), never_fits))
        numbers: Int32Array = np.array(ids, np.int32)[kinds.reshape(-1)]
        return numbers

    def _id(self, own: tuple[str, ...], never: bool) -> int:
        if not own and not self._common:
            return 0
        known = self._ids.get((own, never))
        if known is None:
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if never else Code.UNSCHEDULABLE
            reasons = SharedReasons(own, self._common) if self._common else own
            self._statuses.append(Status(code, reasons))
            known = self._ids[own, never] = len(self._statuses)
        return known
