"""Recorded decisions beside this configuration's, and the states on which they make sense."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import msgspec
import pytest

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.config.defaults import default_config
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.judge.objects import thing_of
from stowplan.recording.entries import Entry, EntryType
from stowplan.replay.following import Comparison, Follower, Verdict
from stowplan.replay.moments import find_moment
from stowplan.replay.ordering import Change, Ordering, changes
from stowplan.replay.report import Tally, follow_entries


class Story:
    """Changes in the order in which they were seen."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.version = 0

    def _add(self, what: EntryType, kind: str, obj: Any, at: float, version: int | None) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(version or self.version)
        raw = msgspec.Raw(msgspec.json.encode(obj))
        self.entries.append(Entry(at, what, kind, raw))

    def node(self, name: str, *, cpu: str = "4", at: float = 0.0, gone: bool = False) -> None:
        offers = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        obj = {"metadata": {"name": name, "uid": name}, "status": {"allocatable": offers}}
        self._add(EntryType.DELETED if gone else EntryType.ADDED, "Node", obj, at, None)

    def synced(self) -> None:
        self.entries.append(Entry(0.0, EntryType.SYNCED))

    def pod(
        self,
        name: str,
        node: str = "",
        *,
        cpu: str = "1",
        at: float = 1.0,
        scheduler: str = "default-scheduler",
        version: int | None = None,
        gone: bool = False,
        uid: str = "",
    ) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        spec = {"containers": [container], "schedulerName": scheduler}
        obj = {
            "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"},
            "spec": {**spec, "nodeName": node} if node else spec,
        }
        what = EntryType.DELETED if gone else EntryType.MODIFIED if node else EntryType.ADDED
        self._add(what, "Pod", obj, at, version)

    def compare(self) -> tuple[list[Comparison], Follower]:
        follower = Follower(Configuration(default_config(), default_registry()))
        return list(follow_entries(follower, self.entries)), follower


def two_nodes() -> Story:
    story = Story()
    story.node("a")
    story.node("b")
    story.synced()
    return story


def test_a_choice_among_equal_nodes_agrees() -> None:
    for node in ("a", "b"):
        story = two_nodes()
        story.pod("p")
        story.pod("p", node)
        compared, _ = story.compare()
        assert [each.verdict for each in compared] == [Verdict.SAME]
        assert compared[0].best == ("a", "b")


def test_a_worse_node_is_told_with_the_scores_that_differ() -> None:
    story = two_nodes()
    story.pod("big", at=1.0)
    story.pod("big", "a", at=1.1)
    story.pod("p", at=100.0)
    story.pod("p", "a", at=100.1)
    compared, _ = story.compare()
    # Undoing the binding of "big" would explain it; but the recorder saw it 99 s before.
    assert compared[1].verdict is Verdict.OTHER
    assert compared[1].best == ("b",)
    assert compared[1].lead["NodeResourcesFit"] > 0


def test_a_node_that_a_filter_rejects_is_told_with_its_reason() -> None:
    story = two_nodes()
    story.pod("p", cpu="9")
    story.pod("p", "a")
    assert story.compare()[0][0].verdict is Verdict.PENDING
    story = two_nodes()
    story.node("c", cpu="16")
    story.pod("p", cpu="9")
    story.pod("p", "a")
    compared = story.compare()[0][0]
    assert (compared.verdict, compared.best) == (Verdict.REJECTED, ("c",))
    assert compared.note == "NodeResourcesFit: Insufficient cpu"
    story = two_nodes()
    story.pod("p")
    story.pod("p", "gone")
    assert story.compare()[0][0].note == "no such node"


def test_a_decision_made_before_the_latest_change_agrees() -> None:
    story = two_nodes()
    story.pod("p", at=1.0)
    story.node("c", cpu="64", at=1.01)  # came while p was being bound
    story.pod("p", "a", at=1.02)
    compared, _ = story.compare()
    assert compared[0].verdict is Verdict.SAME_BEFORE
    assert compared[0].note == "decided before the last 1 change"


@pytest.mark.parametrize("waited_s", [50.0, 80_000.0])
def test_changes_long_before_a_decision_do_not_explain_it(waited_s: float) -> None:
    story = two_nodes()
    story.pod("p", at=1.0)
    story.pod("big", at=1.5)
    story.pod("big", "a", at=2.0)
    story.pod("p", "a", at=waited_s)
    compared, _ = story.compare()
    assert [each.verdict for each in compared] == [Verdict.SAME, Verdict.OTHER]


def test_bindings_long_after_a_decision_do_not_explain_it() -> None:
    story = two_nodes()
    story.pod("p", at=1.0)
    story.pod("big", cpu="3", at=1.0)
    story.pod("on-b", "b", at=1.0)
    story.pod("p", "b", at=20.0)
    story.pod("big", "a", cpu="3", at=80_000.0)
    compared, _ = story.compare()
    assert [each.verdict for each in compared] == [Verdict.OTHER, Verdict.SAME]


@pytest.mark.parametrize("at", [0.5, 50.0])
def test_objects_of_a_snapshot_are_never_undone(at: float) -> None:
    story = Story()
    story.node("a", cpu="2")
    story.pod("p", at=0.0)
    story.node("b", cpu="64")
    story.pod("on-a", "a", at=0.0)
    story.synced()
    story.pod("p", "a", at=at)
    compared, _ = story.compare()
    assert [each.verdict for each in compared] == [Verdict.OTHER]


def test_the_search_for_a_moment_is_bounded() -> None:
    story = two_nodes()
    story.pod("p", at=1.0)
    for number in range(400):
        story.pod(f"q{number}", at=1.0)
    for number in range(400):
        story.node(f"n{number}", at=1.0)
    _, follower = story.compare()
    later = Story()
    for number in range(400):
        later.pod(f"q{number}", "a", at=1.0)
    asked = 0

    def never() -> bool:
        nonlocal asked
        asked += 1
        return False

    key = next(each.key for each in pods(follower) if each.name == "p")
    coming = changes(later.entries)
    found = find_moment(follower._cluster, follower._undo, key, 1.0, coming, never)
    assert found is None
    assert asked == 128 + 16 + 8 * 8


def test_a_uid_that_is_given_again_does_not_end_the_search() -> None:
    """Undoing brings back the deleted pod, and a following binding is that of the new one."""
    story = two_nodes()
    story.node("c", cpu="1")
    story.pod("p", at=1.0)
    story.pod("old", uid="u", at=1.1)
    story.pod("old", uid="u", at=1.2, gone=True)
    story.pod("new", uid="u", at=1.3)
    story.pod("p", "c", at=2.0)
    story.pod("new", "b", uid="u", at=2.1)
    compared, _ = story.compare()
    assert [each.verdict for each in compared] == [Verdict.OTHER, Verdict.SAME]


def test_a_pod_that_was_placed_before_and_bound_after_agrees() -> None:
    story = two_nodes()
    for name in ("p", "q"):
        story.pod(name, at=1.0)
    # q went to a first; p, which saw that, to b; q's binding was written later.
    story.pod("full", "a", cpu="1", at=1.0)
    story.pod("p", "a", at=1.1)
    story.pod("q", "b", at=1.2)
    compared, _ = story.compare()
    assert [each.agrees for each in compared] == [True, True]


def test_entries_of_several_watches_are_put_in_order() -> None:
    story = two_nodes()
    story.pod("p", "a", at=1.01, version=102)  # the watch of pods was ahead of
    story.pod("p", at=1.02, version=101)
    ordering = Ordering()
    for change in changes(story.entries):
        ordering.put(change)
    found = [each.version for each in ordering.take(inf) if each.thing is not None]
    assert found == sorted(found)
    assert [each.verdict for each in story.compare()[0]] == [Verdict.SAME]


def test_pods_of_other_schedulers_are_counted() -> None:
    story = two_nodes()
    story.pod("p", scheduler="someone-else")
    story.pod("p", "a", scheduler="someone-else")
    compared, follower = story.compare()
    assert compared == []
    assert follower.unserved == {"someone-else": 1}


def test_a_gap_is_told_and_following_goes_on() -> None:
    story = two_nodes()
    story.pod("p")
    story.entries.append(Entry(2.0, EntryType.GAP, "Pod", note="listed again"))
    story.pod("p", "a", at=2.0)
    compared, follower = story.compare()
    assert [each.verdict for each in compared] == [Verdict.SAME]
    assert follower.gaps == [(2.0, "listed again")]


def test_the_search_for_a_moment_leaves_the_cluster_as_it_was() -> None:
    story = two_nodes()
    for name in ("p", "q", "r"):
        story.pod(name, at=1.0)
    story.node("c", cpu="2", at=1.1)
    story.pod("q", "c", at=1.2)
    story.pod("p", "c", at=1.3)  # no state explains it
    story.pod("r", "a", at=1.4)
    compared, follower = story.compare()
    assert not compared[1].agrees
    held = {thing.name: thing.struct.spec.node_name for thing in pods(follower)}
    assert held == {"p": "c", "q": "c", "r": "a"}


def pods(follower: Follower) -> Iterator[Any]:
    return (each for each in follower._cluster.things.values() if each.resource is PODS)


def test_decoding_of_changes() -> None:
    kinds: dict[Resource[Any], Any] = {NODES: Node, PODS: Pod}
    for resource, struct in kinds.items():
        raw = msgspec.Raw(b'{"metadata":{"name":"x","resourceVersion":"7"}}')
        (read,) = changes([Entry(1.0, EntryType.ADDED, resource.kind, raw)])
        assert read.version == 7
        assert read.thing == thing_of(resource, msgspec.json.decode(bytes(raw), type=struct))
    (bad,) = changes([Entry(1.0, EntryType.ADDED, "Node", msgspec.Raw(b'{"metadata": 3}'))])
    assert isinstance(bad, Change)
    assert bad.type is EntryType.GAP


def test_a_report_says_how_many_it_does_not_list() -> None:
    tally = Tally()
    tally.unserved.update(f"scheduler-{number}" for number in range(25))
    tally.told.update((f"result {number}", "event") for number in range(21))
    text = tally.text()
    assert text.count("left out: 1 pod of schedulerName ") == 20
    assert "and pods of 5 more schedulerNames (-o json)" in text
    assert "and attempts with 1 more result (-o json)" in text
    assert len(tally.data()["unserved"]) == 25


def test_changes_of_one_time_do_not_all_wait() -> None:
    """A file can claim that everything happened at once; memory stays bounded."""
    ordering = Ordering()
    taken = 0
    for number in range(100_500):
        ordering.put(Change(1.0, EntryType.GAP, 0, note=str(number)))
        taken += len(list(ordering.take(1.0)))
    assert taken == 500
    assert next(ordering.take(inf)).note == "500"
