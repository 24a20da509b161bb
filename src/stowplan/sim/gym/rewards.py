"""Rewards: the value of a step, computed from the cluster after it.

A reward is any function from a `Step` to a number; those here are known by name. They are called
when the next pod has its turn, so that time has passed, and pods have come and gone, since the
action. The environment adds the penalty for an infeasible action itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, NodeTable


@dataclass(frozen=True, slots=True)
class Step:
    """An action and what followed, up to the next question."""

    #: The cluster now; see stowplan.cluster.table. Read only.
    table: NodeTable
    #: The pod of the action, and its node; "" if it was not bound.
    pod: Pod
    node: str
    #: Virtual time since the action.
    elapsed_s: float
    #: Waiting time since the action, summed over all pods that waited for a node.
    waited_s: float
    #: Pods that wait for a node now.
    waiting: int


Reward: TypeAlias = Callable[[Step], float]


def utilisation(step: Step) -> float:
    """How full the nodes in use are, 0 to 1: CPU and memory, on average. Empty nodes do not count,
    as they could be switched off.
    """
    shares = _requested_shares(step.table, weighted=True)
    return float(shares.mean()) if shares.size else 0.0


def fragmentation(step: Step) -> float:
    """Minus the mean share, 0 to 1, of a used node that is free in CPU but not in memory, or in
    memory but not in CPU. No pod can use that share.
    """
    shares = _requested_shares(step.table, weighted=False)
    if not shares.size:
        return 0.0
    return -float(np.abs(shares[CPU_ROW] - shares[MEMORY_ROW]).mean())


def wait_time(step: Step) -> float:
    """Minus the hours that pods waited for a node since the action."""
    return -step.waited_s / 3600


def balance(step: Step) -> float:
    """The default: the sum of all three."""
    return utilisation(step) + fragmentation(step) + wait_time(step)


REWARDS: dict[str, Reward] = {
    "balance": balance,
    "utilisation": utilisation,
    "fragmentation": fragmentation,
    "wait_time": wait_time,
}


def _requested_shares(table: NodeTable, *, weighted: bool) -> NDArray[np.float64]:
    """Requested CPU and memory of what is allocatable on nodes in use: of each, or of all."""
    rows: Rows = np.flatnonzero(table.valid & (table.pod_count > 0))
    if not len(rows):
        return np.zeros(0)
    requested, offered = table.requested[:2, rows], table.allocatable[:2, rows]
    if weighted:
        # As floats: amounts may be as large as an int64 holds, and their sum larger.
        requested, offered = (each.sum(axis=1, dtype=np.float64) for each in (requested, offered))
    return requested / np.maximum(offered, 1)
