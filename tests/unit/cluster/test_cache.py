"""Assume, confirm, forget: the cache between decisions and what the API server says."""

from __future__ import annotations

import logging

import msgspec
import pytest

from stowplan.api.objects import ContainerStatus, Pod, PodStatus, ResourceRequirements
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import CPU_ROW
from stowplan.testing import node, pod


def cluster(*names: str) -> ClusterCache:
    cache = ClusterCache()
    for name in names:
        cache.set_node(node(name))
    return cache


def used(cache: ClusterCache, name: str) -> int:
    row = cache.table.row_of.get(name)
    return 0 if row is None else int(cache.table.requested[CPU_ROW, row])


def bound(built: Pod, name: str) -> Pod:
    return msgspec.structs.replace(built, spec=msgspec.structs.replace(built.spec, node_name=name))


def test_assumed_pod_occupies_its_node_until_it_is_confirmed() -> None:
    cache = cluster("a")
    pending = pod("p", cpu="1")
    shown = cache.assume(pending, "a")
    assert (shown.spec.node_name, shown.uid) == ("a", pending.uid)
    assert (cache.is_assumed(pending.uid), cache.node_of(pending.uid)) == (True, "a")
    assert (cache.pod_count, cache.assumed_count, used(cache, "a")) == (1, 1, 1000)
    cache.add_pod(bound(pending, "a"))
    assert (cache.pod_count, cache.assumed_count, used(cache, "a")) == (1, 0, 1000)
    assert not cache.forget(pending.uid), "what the API server has confirmed is not forgotten"
    assert used(cache, "a") == 1000


def test_assume_takes_the_numbers_that_were_compiled_before() -> None:
    cache = cluster("a")
    pending = pod("p", cpu="1")
    info = compile_pod(pending)
    cache.assume(pending, "a", info)
    (stored,) = cache.table.pods[cache.table.row_of["a"]].values()
    assert stored.request is info.request
    assert stored.pod.spec.node_name == "a"
    assert info.pod is pending, "the pod that was decided on is left alone"


def test_what_a_pod_holds_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cluster("n1")
    waiting = pod("a", cpu="100m")
    there = bound(waiting, "n1")
    cache.assume(waiting, "n1")
    cache.add_pod(there)
    held = compile_pod(there).held
    resized = bound(pod("a", cpu="300m"), "n1")
    assert dict(cache.held_by(resized))["cpu"] == 300, "a version that the cache does not have"
    with monkeypatch.context() as patched:
        patched.delattr("stowplan.cluster.cache.compile_pod")
        assert cache.held_by(there) == held


def test_confirmation_by_an_update() -> None:
    cache = cluster("a")
    pending = pod("p")
    cache.assume(pending, "a")
    cache.update_pod(bound(pending, "a"))
    assert cache.assumed_count == 0


def test_forgotten_pod_frees_its_node() -> None:
    cache = cluster("a")
    pending = pod("p", cpu="1")
    cache.assume(pending, "a")
    assert cache.forget(pending.uid)
    assert (used(cache, "a"), cache.pod_count, cache.assumed_count) == (0, 0, 0)
    assert cache.node_of(pending.uid) is None
    assert not cache.forget(pending.uid)
    cache.assume(pending, "a")
    assert used(cache, "a") == 1000


def test_a_pod_is_assumed_once() -> None:
    cache = cluster("a", "b")
    pending = pod("p", cpu="1")
    cache.assume(pending, "a")
    with pytest.raises(ValueError, match="default/p"):
        cache.assume(pending, "b")
    assert (used(cache, "a"), used(cache, "b")) == (1000, 0)


def test_bound_elsewhere_than_decided(caplog: pytest.LogCaptureFixture) -> None:
    cache = cluster("a", "b")
    pending = pod("p", cpu="1")
    cache.assume(pending, "a")
    with caplog.at_level(logging.WARNING):
        cache.add_pod(bound(pending, "b"))
    assert "another node" in caplog.text
    assert (used(cache, "a"), used(cache, "b")) == (0, 1000)
    assert (cache.node_of(pending.uid), cache.assumed_count) == ("b", 0)


def test_repeated_news_change_nothing() -> None:
    cache = cluster("a")
    there = pod("p", cpu="1", node="a")
    for _ in range(3):
        cache.add_pod(there)
        cache.update_pod(there)
    assert (used(cache, "a"), cache.pod_count) == (1000, 1)
    assert cache.remove_pod(there.uid)
    assert not cache.remove_pod(there.uid)
    assert used(cache, "a") == 0


def test_status_news_keep_the_numbers_and_show_the_newer_pod() -> None:
    cache = cluster("a")
    there = pod("p", cpu="1", node="a", uid="u")
    cache.add_pod(there)
    table, row = cache.table, cache.table.row_of["a"]
    counted, details, version = table.pod_journal.end, table.detail_journal.end, table.version
    running = pod("p", cpu="1", node="a", uid="u", phase="Running")
    cache.update_pod(running)
    assert table.pod_journal.end == counted
    assert table.detail_journal.entries_since(details) == [row]
    assert table.version > version
    assert table.pods[row]["u"].pod is running


def test_resized_pod_is_counted_anew() -> None:
    cache = cluster("a")
    cache.add_pod(pod("p", cpu="1", node="a", uid="u"))
    cache.update_pod(pod("p", cpu="3", node="a", uid="u"))
    assert used(cache, "a") == 3000


@pytest.mark.parametrize(("held", "marks"), [("100m", 0), ("700m", 2)])
def test_containers_that_begin_to_run_change_a_row_only_if_they_hold_more(
    held: str, marks: int
) -> None:
    cache = ClusterCache()
    cache.set_node(node("n1"))
    before = pod("a", cpu="100m", memory=None, node="n1")
    cache.add_pod(before)
    journal = cache.table.pod_journal
    end = journal.end
    resources = ResourceRequirements(requests={"cpu": held})
    name = (before.spec.containers or ())[0].name
    status = PodStatus(
        phase="Running", container_statuses=(ContainerStatus(name=name, resources=resources),)
    )
    running = msgspec.structs.replace(before, status=status)
    cache.update_pod(running)
    assert journal.end - end == marks
    assert cache.pod(before.uid) is running
    row = cache.table.row_of["n1"]
    assert cache.table.requested[CPU_ROW, row] == int(held.removesuffix("m"))
    assert cache.table.pods[row][before.uid].pod is running


def test_namesake_is_another_pod() -> None:
    cache = cluster("a")
    cache.assume(pod("web-0", uid="old", cpu="1"), "a")
    cache.add_pod(pod("web-0", uid="new", cpu="2", node="a"))
    assert used(cache, "a") == 3000
    assert cache.is_assumed("old")
    assert not cache.is_assumed("new")
    assert cache.remove_pod("old")
    assert cache.placements() == {"new": "a"}
    assert used(cache, "a") == 2000


def test_pods_come_before_and_stay_after_their_node() -> None:
    cache = ClusterCache()
    there = pod("p", cpu="1", node="later")
    cache.add_pod(there)
    assert len(cache.table) == 0
    cache.set_node(node("later"))
    assert used(cache, "later") == 1000
    cache.remove_node("later")
    assert cache.node_of(there.uid) == "later"
    cache.remove_pod(there.uid)
    assert "later" not in cache.table.row_of


def test_bad_news_leave_the_cache_as_it_was() -> None:
    cache = cluster("a", "b")
    cache.add_pod(pod("p", cpu="1", node="a", uid="u"))
    for where in ("a", "b"):
        with pytest.raises(ValueError, match="lots"):
            cache.update_pod(pod("p", cpu="lots", node=where, uid="u"))
        assert (cache.node_of("u"), used(cache, "a"), used(cache, "b")) == ("a", 1000, 0)
