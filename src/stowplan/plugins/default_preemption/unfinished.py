"""What a search for victims found before its decision was deferred.

`DefaultPreemption` keeps it until the next try of the pod, which goes on from there. An outcome
holds as long as its row and the pods nominated to it are the same. What happens on other rows may
change it too (affinity, spreading), so the plugin asks the chosen row once more.
"""

from __future__ import annotations

from stowplan.framework.cycle import Cycle
from stowplan.framework.what_if_cache import WhatIfCache
from stowplan.plugins.default_preemption.dry_run import Outcome


class Unfinished:
    """Outcomes by row, and where the search began."""

    def __init__(self, cycle: Cycle, draw: int, said: dict[int, Outcome]) -> None:
        #: The random place of the first row.
        self.draw = draw
        self._pod = cycle.pod
        self._answers = WhatIfCache(cycle.table, reads_details=True)
        self._answers.learn(_nominations(cycle, list(said)), said)

    def said(self, cycle: Cycle, rows: list[int]) -> dict[int, Outcome]:
        """The outcomes that still hold."""
        is_same = (
            cycle.pod.spec == self._pod.spec
            and cycle.pod.metadata.labels == self._pod.metadata.labels
        )
        if not is_same or not self._answers.follow(cycle.table):
            return {}
        return self._answers.known(_nominations(cycle, rows))


def _nominations(cycle: Cycle, rows: list[int]) -> dict[int, int]:
    assert cycle.what_if is not None
    return cycle.what_if.nominations(cycle, rows)
