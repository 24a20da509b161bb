"""A decision that is deferred goes on where it was: no list of a pod makes it begin again.

Each size of `bench.hostile_sizes` is decided once at a stretch and once in the parts that a live
scheduler allows. If nothing of a try remained, it would be deferred a hundred times, until it may
spend more.
"""

from __future__ import annotations

from math import inf

import pytest

from stowplan.cluster.work import DECISION_WORK
from stowplan.lab.bench.hostile_sizes import POD_SIZES
from tests.perf.doubling import Stage

#: As many as a pod of some hundred kilobytes holds; with these nodes, terms take several tries.
_SIZE = 4_000
_NODES = 1_000
#: Every node has as many labels: it is the nodes that are large then.
_SIZES = [size for size in POD_SIZES if size != "node selector"]


def _stage(size: str) -> Stage:
    stage = Stage({size: _SIZE, "nodes": _NODES}, crowded=False)
    stage.prepare()
    return stage


@pytest.mark.parametrize("size", _SIZES)
def test_a_deferred_decision_keeps_what_it_has_done(size: str) -> None:
    whole, deferrals = _stage(size).decide_in_parts(inf)
    assert not deferrals
    _, deferrals = _stage(size).decide_in_parts(DECISION_WORK)
    assert deferrals <= 2 * whole / DECISION_WORK
