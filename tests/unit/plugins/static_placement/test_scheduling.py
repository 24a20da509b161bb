"""StaticPlacement in a whole engine: waiting, labels that come and go, both modes, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from stowplan.framework.forms import FilterStep
from stowplan.plugins.static_placement import StaticPlacement
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.scheduler.outcome import Failure
from stowplan.testing import node, pod
from tests.unit.plugins.static_placement.placement_kit import (
    RESPECTFUL,
    STRICT,
    Bench,
    mine,
    with_labels,
)

WEB_0, WEB_1 = "rf.scheduler.test.default/web-0", "rf.scheduler.test.default/web-1"

both_modes = pytest.mark.parametrize("configuration", [STRICT, RESPECTFUL])


@both_modes
def test_a_label_brings_the_waiting_pod_to_its_node(configuration: str) -> None:
    bench = Bench(configuration, node("a"), node("b"))
    bench.create(mine("web-0"))
    bench.create(mine("web-1"))
    for name in ("web-0", "web-1"):
        told = bench.failed()
        assert told.startswith(
            "0/2 nodes are available: the pod is pinned to no node, pin it with "
            f"`kubectl label node NODE rf.scheduler.test.default/{name}=`."
        )
    assert bench.waiting == 2
    bench.label("b", WEB_0)
    assert bench.waiting == 1
    assert bench.bind_next() == "b"
    bench.set_node(msgspec.structs.replace(bench.nodes["a"], spec=node(unschedulable=True).spec))
    assert bench.waiting == 1
    assert bench.engine.attempt() is None


def test_the_label_may_be_there_before_the_pod() -> None:
    bench = Bench(STRICT, node("a"), with_labels(node("b"), WEB_0))
    bench.create(mine("web-0"))
    assert bench.bind_next() == "b"


def test_a_label_that_goes_again_before_the_attempt_leads_nowhere() -> None:
    bench = Bench(STRICT, node("a"))
    bench.create(mine("web-0"))
    bench.failed()
    bench.label("a", WEB_0)
    bench.label("a")
    bench.failed()
    assert bench.waiting == 1


def test_a_node_that_is_deleted_and_comes_back() -> None:
    bench = Bench(STRICT, node("a"), with_labels(node("b"), WEB_0))
    bench.delete_node("b")
    bench.create(mine("web-0"))
    bench.failed()
    bench.add_node(node("b"))
    assert bench.waiting == 1
    bench.delete_node("b")
    bench.add_node(with_labels(node("b"), WEB_0))
    assert bench.waiting == 0
    assert bench.bind_next() == "b"


@both_modes
def test_relabelling_never_moves_a_pod_that_has_its_node(configuration: str) -> None:
    bench = Bench(configuration, with_labels(node("a"), WEB_0), node("b"))
    web = bench.create(mine("web-0"))
    assert bench.bind_next() == "a"
    before = bench.queue.counts
    bench.label("b", WEB_0)
    bench.label("a")
    assert bench.engine.attempt() is None
    assert bench.queue.counts == before
    placed = bench.engine.cache.pod(web.uid)
    assert placed is not None
    assert placed.spec.node_name == "a"


def test_the_next_pod_of_that_name_goes_where_the_label_is_now() -> None:
    bench = Bench(STRICT, with_labels(node("a"), WEB_0), node("b"))
    bench.create(mine("web-0"))
    assert bench.bind_next() == "a"
    bench.label("b", WEB_0)
    bench.label("a")
    bench.handlers.delete_pod(bench.store.pop("default/web-0"))
    bench.create(mine("web-0"))
    assert bench.bind_next() == "b"


CORDONED = with_labels(node("a", unschedulable=True), WEB_0)
TAINTED = with_labels(node("a", taints=["dedicated=db:NoExecute"]), WEB_0)
FULL = with_labels(node("a", cpu=1, pods=0), WEB_0)


@pytest.mark.parametrize("where", [CORDONED, TAINTED, FULL])
def test_strictly_the_label_alone_decides(where: Any) -> None:
    bench = Bench(STRICT, where, node("b"))
    bench.create(mine("web-0", cpu=64))
    assert bench.bind_next() == "a"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (CORDONED, "1 node(s) were unschedulable"),
        (TAINTED, "1 node(s) had untolerated taint(s)"),
        (FULL, "1 Too many pods"),
    ],
)
def test_with_the_default_plugins_a_node_must_also_be_fit(where: Any, reason: str) -> None:
    bench = Bench(RESPECTFUL, where, node("b"), node("c"))
    bench.create(mine("web-0"))
    told = bench.failed()
    assert reason in told
    assert "2 node(s) didn't satisfy plugin(s) [StaticPlacement]" in told
    bench.set_node(with_labels(node("a"), WEB_0))
    assert bench.bind_next() == "a"


def test_gated_pods_wait_for_their_gates() -> None:
    bench = Bench(STRICT, with_labels(node("a"), WEB_0))
    bench.create(mine("web-0", gates=["example.com/not-yet"]))
    assert bench.engine.attempt() is None


def test_pods_of_other_schedulers_are_none_of_ours() -> None:
    bench = Bench(STRICT, with_labels(node("a"), WEB_0))
    bench.create(pod("web-0"))
    assert bench.engine.attempt() is None


def test_a_nomination_counts_less_than_the_label() -> None:
    bench = Bench(RESPECTFUL, node("a"), with_labels(node("b"), WEB_0))
    bench.create(mine("web-0", nominated_node="a"))
    assert bench.bind_next() == "b"


def test_room_is_made_on_the_pinned_node_alone() -> None:
    bench = Bench(RESPECTFUL, node("a", pods=1), with_labels(node("b", pods=1), WEB_0))
    for where in ("a", "b"):
        bench.handlers.add_pod(pod(f"on-{where}", node=where, priority=0))
    bench.create(mine("web-0", priority=10))
    outcome = bench.engine.attempt()
    assert isinstance(outcome, Failure)
    assert outcome.eviction is not None
    assert outcome.eviction.node == "b"
    assert [victim.metadata.name for victim in outcome.eviction.victims] == ["on-b"]


def test_each_profile_reads_the_labels_of_its_own_name() -> None:
    both = STRICT + STRICT.partition("profiles:\n")[2].replace("Name: test", "Name: test.default")
    bench = Bench(both, with_labels(node("a"), WEB_0), node("b"))
    bench.create(mine("web-0"))
    # The same label, in its older form and so for any namespace.
    bench.create(pod("web-0", namespace="x", scheduler_name="test.default"))
    bench.create(pod("web-1", namespace="x", scheduler_name="test.default"))
    assert (bench.bind_next(), bench.bind_next()) == ("a", "a")
    assert "`kubectl label node NODE rf.scheduler.test.default.x/web-1=`" in bench.failed()
    bench.label("b", WEB_1)
    assert bench.bind_next() == "b"


# Several nodes


def _drawn(seed: int) -> list[str]:
    """Where 200 pods go that are pinned to the same four nodes."""
    keys = [f"rf.scheduler.test.default/web-{number}" for number in range(200)]
    nodes = [with_labels(node(f"n{number}"), *keys) for number in range(4)]
    bench = Bench(STRICT.replace("tieBreakSeed: 7", f"tieBreakSeed: {seed}"), node("x"), *nodes)
    chosen = []
    for number in range(200):
        bench.create(mine(f"web-{number}"))
        chosen.append(bench.bind_next())
    return chosen


def test_among_several_nodes_chance_decides_where_nothing_scores() -> None:
    chosen = _drawn(7)
    counts = Counter(chosen)
    assert set(counts) == {"n0", "n1", "n2", "n3"}
    # Chance would do so less than once in a million seeds.
    assert min(counts.values()) > 15
    assert _drawn(7) == chosen != _drawn(8)


def test_among_several_nodes_the_scores_decide() -> None:
    small, large = with_labels(node("a", cpu=2), WEB_0), with_labels(node("b", cpu=64), WEB_0)
    bench = Bench(RESPECTFUL, small, large, node("c", cpu=256))
    bench.create(mine("web-0", cpu=1))
    assert bench.bind_next() == "b"


# What it costs


@pytest.fixture
def reads() -> Iterator[Counter[str]]:
    """Counts how often nodes are read, and rows are looked at one by one or as columns."""
    counts: Counter[str] = Counter()
    pins_of, fill, one = PinLabels.pins_of, FilterStep.fill, FilterStep.status_of_row

    def reading(self: PinLabels, *args: Any) -> Any:
        counts["nodes"] += 1
        return pins_of(self, *args)

    def filling(step: FilterStep, cycle: Any, rows: Any, *more: Any) -> Any:
        counts["rows"] += len(range(cycle.table.capacity)[rows] if type(rows) is slice else rows)
        return fill(step, cycle, rows, *more)

    def asking(step: FilterStep, *args: Any) -> Any:
        counts["rows"] += 1
        return one(step, *args)

    with (
        patch.object(PinLabels, "pins_of", reading),
        patch.object(FilterStep, "fill", filling),
        patch.object(FilterStep, "status_of_row", asking),
    ):
        yield counts


def test_waiting_pods_cost_no_walk_over_nodes(reads: Counter[str]) -> None:
    bench = Bench(STRICT, *(node(f"n{number}") for number in range(50)))
    assert reads == {}
    for number in range(5_000):
        bench.create(mine(f"web-{number}"))
    for _ in range(5_000):
        bench.failed()
    # Every node once, for the first pod.
    assert reads == {"nodes": 50}
    assert bench.waiting == 5_000
    reads.clear()
    bench.label("n7", WEB_0)
    assert bench.waiting == 4_999
    # The event is shown for every pod that waits: its two states are read once.
    assert reads == {"nodes": 2}
    assert bench.bind_next() == "n7"
    # The node again, and the pod's row.
    assert reads == {"nodes": 3, "rows": 1}


def test_pods_that_are_placed_cost_the_rows_they_are_pinned_to(reads: Counter[str]) -> None:
    keys = [[f"rf.scheduler.test.default/web-{n + 50 * i}" for i in range(10)] for n in range(50)]
    bench = Bench(STRICT, *(with_labels(node(f"n{n}"), *keys[n]) for n in range(50)))
    for number in range(500):
        bench.create(mine(f"web-{number}"))
        assert bench.bind_next() == f"n{number % 50}"
    assert reads == {"nodes": 50, "rows": 500}


def test_the_plugin_is_in_no_default_profile() -> None:
    bench = Bench(RESPECTFUL.partition("  plugins:")[0])
    assert StaticPlacement.name not in bench.engine.profiles["test"].plugins
