"""Nominations: who is promised which node."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.queue import Nominator
from tests.unit.queue.queue_kit import Bench, annotate, make_pod


def test_a_pod_is_nominated_to_one_node_at_a_time() -> None:
    nominator = Nominator()
    pod = make_pod("a")
    assert len(nominator) == 0
    nominator.add(pod, "n1")
    nominator.add(pod, "n2")
    assert nominator.for_node("n1") == []
    assert nominator.for_node("n2") == [pod]
    assert list(nominator.nodes()) == ["n2"]
    assert nominator.node_of(pod) == "n2"
    nominator.add(pod, "")
    assert len(nominator) == 0
    assert not nominator.nodes()


def test_the_pods_own_status_is_the_default() -> None:
    nominator = Nominator()
    nominator.add(make_pod("a", nominated="n1"))
    nominator.add(make_pod("b"))
    assert [pod.key for pod in nominator.for_node("n1")] == ["ns/a"]
    assert len(nominator) == 1


def test_order_of_nomination_is_kept() -> None:
    nominator = Nominator()
    pods = [make_pod(name) for name in "cab"]
    for pod in pods:
        nominator.add(pod, "n1")
    assert nominator.for_node("n1") == pods
    nominator.delete(pods[1])
    nominator.delete(pods[1])
    assert nominator.for_node("n1") == [pods[0], pods[2]]


def test_bound_and_unknown_pods_are_not_nominated() -> None:
    known = make_pod("known")
    nominator = Nominator(lambda pod: pod.key == known.key)
    nominator.add(make_pod("gone"), "n1")
    nominator.add(make_pod("known", node="n2"), "n1")
    assert len(nominator) == 0
    nominator.add(known, "n1")
    assert nominator.for_node("n1") == [known]


def test_a_nomination_made_here_survives_an_update_that_says_nothing() -> None:
    nominator = Nominator()
    old = make_pod("a")
    new = annotate(old, touched="yes")
    nominator.add(old, "n1")
    nominator.update(old, new)
    assert nominator.for_node("n1")[0] is new


def test_the_status_wins_when_it_speaks() -> None:
    nominator = Nominator()
    silent, to_n2 = make_pod("a"), make_pod("a", nominated="n2")
    nominator.add(silent, "n1")
    nominator.update(silent, to_n2)
    assert nominator.node_of(silent) == "n2"
    nominator.update(to_n2, silent)  # removed in the API
    assert nominator.node_of(silent) is None


def test_the_queue_nominates_pods_that_arrive_nominated() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a", nominated="n1"))
    assert [pod.key for pod in bench.queue.nominator.for_node("n1")] == ["ns/a"]


def test_the_queue_follows_updates_and_deletes() -> None:
    bench = Bench()
    pod = make_pod("a")
    bench.rejected(pod, "Fit")
    bench.queue.nominator.add(pod, "n1")
    newer = annotate(pod, touched="yes")
    bench.queue.update(pod, newer)
    assert bench.queue.nominator.for_node("n1")[0] is newer
    bench.queue.delete(newer)
    assert len(bench.queue.nominator) == 0
    bench.queue.nominator.add(newer, "n1")  # the failure handler may come late
    assert len(bench.queue.nominator) == 0


def test_a_pod_updated_in_flight_is_nominated_as_it_is_now() -> None:
    bench = Bench()
    pod = make_pod("a")
    bench.queue.add(pod)
    queued = bench.pop()
    bench.queue.nominator.add(pod, "n1")
    newer = annotate(pod, touched="yes")
    bench.queue.update(pod, newer)
    bench.fail(queued, "Fit")
    assert bench.queue.nominator.for_node("n1")[0] is newer


def test_a_pod_deleted_in_flight_is_not_nominated_again() -> None:
    bench = Bench()
    pod = make_pod("a")
    bench.queue.add(pod)
    bench.pop()
    bench.queue.delete(pod)
    bench.queue.nominator.add(pod, "n1")
    assert len(bench.queue.nominator) == 0


def test_a_successor_of_the_same_name_ends_the_nomination() -> None:
    bench = Bench()
    pod = make_pod("a", uid="1")
    bench.queue.add(pod)
    bench.pop()
    bench.queue.nominator.add(pod, "n1")
    bench.queue.add(make_pod("a", uid="2"))
    assert len(bench.queue.nominator) == 0


def test_a_nodes_generation_changes_with_its_nominations_and_with_no_others() -> None:
    nominator = Nominator()
    first, second = make_pod("a", uid="1"), make_pod("b", uid="2")
    changes: list[Callable[[], None]] = [
        lambda: nominator.add(first, "n1"),
        lambda: nominator.add(second, "n1"),
        lambda: nominator.refresh(first),
        lambda: nominator.update(second, second),
        lambda: nominator.add(second, "n2"),
        lambda: nominator.delete(first),
    ]
    seen = set()
    nominator.add(make_pod("c", uid="3"), "n1")
    nominator.add(make_pod("d", uid="4"), "n9")
    others = nominator.generation("n9")
    for change in changes:
        seen.add(nominator.generation("n1"))
        change()
        assert nominator.generation("n1") not in seen
        assert nominator.generation("n9") == others


def test_room_is_free_when_a_nomination_ends_and_the_pod_is_not_there() -> None:
    nominator = Nominator()
    freed: list[tuple[str, str]] = []
    nominator.on_freed = lambda pod: freed.append((pod.key, pod.status.nominated_node_name))
    for name in "abcd":
        nominator.add(make_pod(name), "n1")
        nominator.add(make_pod(name), "n1")
    nominator.delete(make_pod("a", node="n1"))
    assert freed == [], "the room is taken"
    nominator.delete(make_pod("b", node="n2"))
    nominator.add(make_pod("c"), "n2")
    nominator.add(make_pod("d"), "")
    nominator.delete(make_pod("d"))
    assert freed == [("ns/b", "n1"), ("ns/c", "n1"), ("ns/d", "n1")]
