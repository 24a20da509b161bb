"""The same, grown up: the score of all nodes at once, kept from pod to pod."""

from typing import Any

import fullest_first
import numpy as np

import stowplan


class FullestFirst(fullest_first.FullestFirst):
    reads = stowplan.Reads.POD_SPECS  # goes stale where pods come or go, and only there

    def sign(self, info: Any) -> tuple[()]:
        return ()  # whatever the pod, the score is the same

    def score_columns(self, cycle: stowplan.Cycle, rows: Any, out: Any) -> None:
        table = cycle.table
        cpu = table.resources.offered("cpu")[rows]
        used = np.minimum(table.resources.held("cpu")[rows], cpu)
        out[rows] = 100 * used // np.maximum(cpu, 1)
