"""Failures and drains of a synthetic cluster's nodes, in the order of time.

A node is in exactly one state: up, failed or drained. A drain that falls due while its node is down
is skipped. Called by `generate`, which decides when to stop; nodes that are down then come back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from stowplan.sim.traces.description import NodePool
from stowplan.sim.traces.dice import Dice
from stowplan.sim.traces.model import Disruption, DisruptionKind


@dataclass(order=True)
class _Due:
    at_ms: int
    number: int
    kind: DisruptionKind = field(compare=False)
    pool: NodePool = field(compare=False)
    node: str = field(compare=False)


class DisruptionSchedule:
    """The next disruption of every node of every pool."""

    def __init__(self, pools: tuple[NodePool, ...], seed: int) -> None:
        self._failing = Dice(seed, "failures")
        self._repairing = Dice(seed, "repairs")
        self._due: list[_Due] = []
        self._number = 0
        #: Nodes that are down, with what brings them back and when.
        self._down: dict[str, _Due] = {}
        self._turn: dict[str, int] = {}
        for pool in pools:
            if pool.failures is not None:
                for index in range(pool.count):
                    self._next_failure(0, pool, f"{pool.name}-{index}")
            if pool.drains is not None and pool.count:
                self._push(pool.drains.every_ms, "drain", pool, "")

    def __bool__(self) -> bool:
        """False if no node is ever disrupted."""
        return bool(self._due)

    def until(self, at_ms: int) -> list[Disruption]:
        """The disruptions up to and including this moment."""
        happened: list[Disruption] = []
        while self._due and self._due[0].at_ms <= at_ms:
            due = heapq.heappop(self._due)
            made = self._happen(due)
            if made is not None:
                happened.append(made)
        return happened

    def ending(self) -> list[Disruption]:
        """End the disruptions: nodes that are down come back when due, and no others go down."""
        back = sorted(self._down.values())
        self._down.clear()
        self._due.clear()
        return [self._disruption(due) for due in back]

    def _happen(self, due: _Due) -> Disruption | None:
        if due.kind in ("recover", "uncordon"):
            del self._down[due.node]
            if due.kind == "recover":
                self._next_failure(due.at_ms, due.pool, due.node)
            return self._disruption(due)
        if due.kind == "drain":
            assert due.pool.drains is not None
            turn = self._turn.get(due.pool.name, 0)
            self._turn[due.pool.name] = turn + 1
            due.node = f"{due.pool.name}-{turn % due.pool.count}"
            self._push(due.at_ms + due.pool.drains.every_ms, "drain", due.pool, "")
            lasts_ms = due.pool.drains.lasts_ms
        else:
            assert due.pool.failures is not None
            lasts_ms = round(self._repairing.exponential(due.pool.failures.repair_ms))
        if due.node in self._down:
            if due.kind == "fail":  # while it is drained: the next one counts
                self._next_failure(due.at_ms, due.pool, due.node)
            return None
        back: DisruptionKind = "uncordon" if due.kind == "drain" else "recover"
        self._down[due.node] = self._push(due.at_ms + lasts_ms, back, due.pool, due.node)
        return self._disruption(due)

    def _next_failure(self, at_ms: int, pool: NodePool, node: str) -> None:
        assert pool.failures is not None
        pause_ms = round(self._failing.exponential(pool.failures.between_ms))
        self._push(at_ms + pause_ms, "fail", pool, node)

    def _push(self, at_ms: int, kind: DisruptionKind, pool: NodePool, node: str) -> _Due:
        self._number += 1
        due = _Due(at_ms, self._number, kind, pool, node)
        heapq.heappush(self._due, due)
        return due

    @staticmethod
    def _disruption(due: _Due) -> Disruption:
        return Disruption(due.at_ms / 1000, due.kind, due.node)
