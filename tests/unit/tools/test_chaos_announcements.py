"""When a missing `Scheduled` event is a defect, and when the documented bound allows it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from stowplan.audit import Revision
from stowplan.clock import rfc3339
from tools.chaos.announcements import CLEARLY_LATER_S, Announcements

START = 1_700_000_000


class History:
    """Revisions one after the other."""

    def __init__(self) -> None:
        self.revisions: list[Revision] = []

    def bind(self, name: str, after_s: float, namespace: str = "default") -> None:
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": rfc3339(START + after_s),
        }
        self.add(
            "Pod", namespace, name, spec={"nodeName": "n1"}, status={"conditions": [condition]}
        )

    def announce(self, name: str) -> None:
        about = {"kind": "Pod", "name": name, "uid": f"uid-{name}"}
        self.add("Event", "default", f"{name}.1", reason="Scheduled", involvedObject=about)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        self.revisions.append(Revision(self._next, kind, namespace, name, None))

    def add(self, kind: str, namespace: str, name: str, **rest: Any) -> None:
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        meta |= rest.pop("metadata", {})
        raw = msgspec.Raw(json.dumps({"kind": kind, "metadata": meta, **rest}).encode())
        self.revisions.append(Revision(self._next, kind, namespace, name, raw))

    def is_overdue(self, name: str) -> bool:
        announcements = Announcements()
        assert list(announcements.follow(self.revisions)) == self.revisions
        return announcements.is_overdue(f"uid-{name}")

    @property
    def _next(self) -> int:
        return len(self.revisions) + 1


@pytest.mark.parametrize(
    ("later_s", "is_overdue"), [(CLEARLY_LATER_S - 1, False), (CLEARLY_LATER_S, True)]
)
def test_a_pod_that_existed_when_a_later_one_had_its_event(
    later_s: float, is_overdue: bool
) -> None:
    history = History()
    history.bind("a", 0)
    history.bind("b", later_s)
    history.announce("b")
    history.remove("Pod", "default", "a")
    assert history.is_overdue("a") == is_overdue


def test_a_pod_that_was_gone_before_a_later_one_had_its_event() -> None:
    history = History()
    history.bind("a", 0)
    history.bind("b", 60)
    history.remove("Pod", "default", "a")
    history.announce("b")
    assert not history.is_overdue("a")


def test_a_pod_that_is_still_there_at_the_end() -> None:
    history = History()
    history.bind("a", 0)
    assert history.is_overdue("a")


def test_the_newest_of_the_announced_counts_whatever_came_last() -> None:
    history = History()
    for name, after_s in (("a", 0), ("b", 60), ("c", 1)):
        history.bind(name, after_s)
    history.announce("b")
    history.announce("c")
    history.remove("Pod", "default", "a")
    assert history.is_overdue("a")


@pytest.mark.parametrize("is_bound_before", [True, False])
def test_a_namespace_that_is_being_deleted_takes_no_events(is_bound_before: bool) -> None:
    history = History()
    if is_bound_before:
        history.bind("a", 0, "team")
    ending = {"deletionTimestamp": rfc3339(START)}
    for _ in range(2):
        history.add("Namespace", "", "team", metadata=ending)
    if not is_bound_before:
        history.bind("a", 0, "team")
    history.bind("b", 60)
    history.announce("b")
    history.remove("Pod", "team", "a")
    history.remove("Namespace", "", "team")
    assert not history.is_overdue("a")


def test_an_earlier_namespace_of_that_name_is_no_excuse() -> None:
    history = History()
    history.add("Namespace", "", "team", metadata={"deletionTimestamp": rfc3339(START)})
    history.remove("Namespace", "", "team")
    history.bind("a", 0, "team")
    history.bind("b", 60)
    history.announce("b")
    history.remove("Pod", "team", "a")
    assert history.is_overdue("a")
