"""Tells in the log what attempts came to, and once what a waiting pod waits for.

The lines of DEBUG are the original's. Those about single nodes are written when a pod is first
tried, and not again each time that nothing has changed.
"""

from __future__ import annotations

import logging
from typing import Final

from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.plugins.static_placement.plugin import StaticPlacement
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.static.lines import log

#: Of so many waiting pods it is remembered what was said of them.
_MOST_TOLD: Final = 50_000


class Narrator:
    """Called with every outcome, before binding begins."""

    def __init__(self, engine: Engine, labels: PinLabels) -> None:
        self._table = engine.cache.table
        self._labels = labels
        self._told: dict[str, str] = {}

    def __call__(self, outcome: Placement | Failure) -> None:
        name = outcome.pod.metadata.name
        log.debug("Scheduling pod %s", name)
        if isinstance(outcome, Placement):
            log.debug("Checking node %s", outcome.node)
            self._told.pop(outcome.pod.uid, None)
        elif outcome.is_pending:
            self._waits(outcome)

    def _waits(self, failure: Failure) -> None:
        uid, name = failure.pod.uid, failure.pod.metadata.name
        before = self._told.pop(uid, None)
        if before is None and log.isEnabledFor(logging.DEBUG):
            for row in self._table.order:
                log.debug("Checking node %s", self._table.names[row])
                log.debug("Pod %s is not schedulable on %s", name, self._table.names[row])
        why = what_it_waits_for(failure, self._labels)
        if why != before:
            log.warning("Pod %s stays pending: %s", name, why)
        self._told[uid] = why
        if len(self._told) > _MOST_TOLD:
            del self._told[next(iter(self._told))]


def what_it_waits_for(failure: Failure, labels: PinLabels) -> str:
    """The command to type where the pod has no pin, else the reasons."""
    decision = failure.decision
    diagnosis = None if decision is None else decision.diagnosis
    if diagnosis is not None and diagnosis.absent.plugin == StaticPlacement.name:
        meta = failure.pod.metadata
        return f"no node is labelled for it; type: {labels.command(meta.namespace, meta.name)}"
    return failure.message
