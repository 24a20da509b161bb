"""Notes of one attempt, and their copies for what-if questions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.framework.cycle import Cycle
from stowplan.testing import pod


@dataclass
class Tally:
    count: int = 0

    def clone(self) -> Tally:
        return Tally(self.count)


def fresh() -> Cycle:
    return Cycle(NodeTable(), compile_pod(pod("p")))


def test_notes() -> None:
    cycle = fresh()
    assert cycle.pod.metadata.name == "p"
    with pytest.raises(KeyError):
        cycle.read("note")
    cycle.write("note", 3)
    cycle.write(Tally, Tally(4))
    assert cycle.read("note") == 3
    assert cycle.get(Tally) == Tally(4)
    assert cycle.get(int) is None


def test_clone_copies_what_can_be_copied() -> None:
    cycle = fresh()
    shared = [1]
    cycle.write(Tally, Tally(1))
    cycle.write("shared", shared)
    cycle.skip_filter.add("A")
    cycle.skip_score.add("B")
    twin = cycle.clone()
    tally = twin.get(Tally)
    assert tally is not None
    tally.count = 9
    twin.skip_filter.add("C")
    twin.write("own", 1)
    assert cycle.get(Tally) == Tally(1)
    assert (cycle.skip_filter, twin.skip_filter) == ({"A"}, {"A", "C"})
    assert twin.skip_score == {"B"}
    assert twin.read("shared") is shared
    assert "own" not in cycle.notes
    assert (twin.table, twin.info) == (cycle.table, cycle.info)
