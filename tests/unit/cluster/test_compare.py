"""The cache held against the API server."""

from __future__ import annotations

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.compare import Drift, MisplacedPod, PlacedPod, compare
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW
from stowplan.testing import node, pod

GPU = "example.com/gpu"


def test_agreement() -> None:
    cache = ClusterCache()
    nodes = [node("a", resources={GPU: 2}), node("b")]
    pods = [pod("p", node="a", requests={GPU: 1}), pod("q", node="b"), pod("r", node="ghost")]
    for made in nodes:
        cache.set_node(made)
    for placed in pods:
        cache.add_pod(placed)
    unplaced = [pod("waits"), pod("done", node="a", phase="Succeeded")]
    result = compare(cache, nodes, [*pods, *unplaced])
    assert result.agrees
    assert str(result) == "Cache and API server agree: the cache has 2 nodes, 3 pods."


def test_every_kind_of_difference() -> None:
    cache = ClusterCache()
    both, extra = node("both"), node("extra")
    for known in (both, extra):
        cache.set_node(known)
    cache.add_pod(pod("gone", node="both", uid="1"))
    cache.add_pod(pod("moved", node="both", uid="2"))
    cache.assume(pod("assumed", uid="3"), "both")
    cache.assume(pod("elsewhere", uid="4"), "both")
    result = compare(
        cache,
        [both, node("missing")],
        [
            pod("moved", node="extra", uid="2"),
            pod("elsewhere", node="extra", uid="4"),
            pod("unseen", node="both", uid="5"),
        ],
    )
    assert not result.agrees
    assert (result.missing_nodes, result.extra_nodes) == (("missing",), ("extra",))
    assert result.missing_pods == (PlacedPod("default/unseen", "5", "both"),)
    assert result.extra_pods == (PlacedPod("default/gone", "1", "both"),)
    assert result.assumed_pods == (PlacedPod("default/assumed", "3", "both"),)
    assert result.misplaced_pods == (
        MisplacedPod("default/elsewhere", "4", "extra", "both"),
        MisplacedPod("default/moved", "2", "extra", "both"),
    )
    assert result.drift == ()
    assert str(result).splitlines() == [
        "Cache and API server DIFFER: the cache has 2 nodes, 4 pods.",
        "1 nodes missing from the cache:",
        "  missing",
        "1 nodes unknown to the API server:",
        "  extra",
        "1 pods missing from the cache:",
        "  default/unseen (5) on both",
        "1 pods unknown to the API server:",
        "  default/gone (1) on both",
        "2 pods on another node:",
        "  default/elsewhere (4) on extra, in the cache on both",
        "  default/moved (2) on extra, in the cache on both",
        "1 pods assumed, not yet confirmed:",
        "  default/assumed (3) on both",
    ]


def test_assumed_pods_alone_are_no_difference() -> None:
    cache = ClusterCache()
    known = node("a")
    cache.set_node(known)
    waiting = pod("p")
    cache.assume(waiting, "a")
    assert compare(cache, [known], [waiting]).agrees
    assert "not yet confirmed" in str(compare(cache, [known], []))


def test_drift_of_every_column() -> None:
    cache = ClusterCache()
    made = node("a", cpu=4, memory="1Gi", pods=9)
    cache.set_node(made)
    there = pod("p", cpu="1", memory="1Mi", node="a")
    cache.add_pod(there)
    table = cache.table
    row = table.row_of["a"]
    table.requested[CPU_ROW, row] += 5
    table.resources.hold(row, [(GPU, 7)], 1)
    table.non_zero[MEMORY_ROW, row] = 0
    table.pod_count[row] = 3
    table.allocatable[CPU_ROW, row] = 1
    table.allowed_pods[row] = 8
    result = compare(cache, [made], [there])
    assert not result.agrees
    assert set(result.drift) == {
        Drift("a", "requested cpu", 1000, 1005),
        Drift("a", f"requested {GPU}", 0, 7),
        Drift("a", "non-zero memory", 1 << 20, 0),
        Drift("a", "pod count", 1, 3),
        Drift("a", "allocatable cpu", 4000, 1),
        Drift("a", "allowed pods", 9, 8),
    }
    assert "  a: requested cpu is 1005, should be 1000" in str(result)


def test_drift_of_a_pod_that_was_not_compiled_again() -> None:
    cache = ClusterCache()
    made = node("a")
    cache.set_node(made)
    cache.add_pod(pod("p", cpu="1", node="a", uid="u"))
    changed = pod("p", cpu="2", node="a", uid="u")
    cache.table.pods[cache.table.row_of["a"]]["u"].pod = changed
    drift = compare(cache, [made], [changed]).drift
    assert drift == (
        Drift("a", "non-zero cpu", 2000, 1000),
        Drift("a", "requested cpu", 2000, 1000),
    )


def test_traces_on_an_empty_row_are_drift() -> None:
    cache = ClusterCache()
    cache.set_node(node("a"))
    cache.remove_node("a")
    cache.table.requested[CPU_ROW, 0] = 1
    assert compare(cache, [], []).drift == (Drift("row 0", "requested cpu", 0, 1),)


def test_long_lists_are_cut_in_the_text_only() -> None:
    result = compare(ClusterCache(), [node(f"n{i:02}") for i in range(25)], [])
    assert len(result.missing_nodes) == 25
    text = str(result)
    assert "25 nodes missing from the cache:" in text
    assert "  n19" in text
    assert "  n20" not in text
    assert text.endswith("  and 5 more")


def test_news_on_their_way_are_no_difference() -> None:
    cache = ClusterCache()
    cache.set_node(node("a"))
    cache.add_pod(pod("stays", node="a", uid="1"))
    cache.add_pod(pod("leaves", node="a", uid="2"))
    listed = [node("a"), node("missing")]
    earlier = compare(cache, listed, [])
    cache.remove_pod("2")
    later = compare(cache, [*listed, node("new")], [pod("arrives", node="a", uid="3")])
    both = later.confirming(earlier)
    assert both.missing_nodes == ("missing",)
    assert both.extra_pods == (PlacedPod("default/stays", "1", "a"),)
    assert both.missing_pods == ()


def test_drift_needs_no_second_look() -> None:
    cache = ClusterCache()
    cache.set_node(node("a"))
    earlier = compare(cache, [node("a")], [])
    cache.table.requested[CPU_ROW, 0] += 1
    both = compare(cache, [node("a")], []).confirming(earlier)
    assert [drift.what for drift in both.drift] == ["requested cpu"]
