"""Pods that Permit holds."""

from __future__ import annotations

from stowplan.framework.status import SUCCESS
from stowplan.framework.waiting import WaitingPod, WaitingPods
from stowplan.testing import pod


def held(**deadlines: float) -> tuple[WaitingPod, list[str]]:
    waiting = WaitingPod(pod("p", uid="u"), "n1", deadlines, started=100.0)
    decided: list[str] = []
    waiting.on_decided = lambda: decided.append(str(waiting.status and waiting.status.code.label))
    return waiting, decided


def test_all_plugins_must_allow() -> None:
    waiting, decided = held(A=110.0, B=105.0)
    assert (waiting.pending_plugins, waiting.next_deadline) == (["A", "B"], 105.0)
    waiting.allow("B")
    waiting.allow("B")
    waiting.allow("Stranger")
    assert (waiting.status, decided, waiting.next_deadline) == (None, [], 110.0)
    waiting.allow("A")
    assert (waiting.status, decided) == (SUCCESS, ["Success"])


def test_the_first_decision_stands() -> None:
    waiting, decided = held(A=110.0)
    waiting.reject("A", "no")
    waiting.allow("A")
    waiting.reject("B", "never")
    assert waiting.status is not None
    assert (waiting.status.plugin, waiting.status.message) == ("A", "no")
    assert waiting.status.is_rejected
    assert decided == ["Unschedulable"]


def test_patience_runs_out() -> None:
    waiting, decided = held(A=110.0, B=105.5)
    waiting.expire(105.4)
    assert not decided
    waiting.expire(105.5)
    assert waiting.status is not None
    assert waiting.status.plugin == "B"
    assert waiting.status.message == "rejected due to timeout after waiting 5.5s at plugin B"
    assert decided == ["Unschedulable"]


def test_who_is_held() -> None:
    pods = WaitingPods()
    waiting, _ = held(A=1.0)
    pods.add(waiting)
    assert (pods.get("u"), pods.get("x"), len(pods)) == (waiting, None, 1)
    for one in pods:
        pods.remove(one.pod.uid)
    pods.remove("u")
    assert len(pods) == 0
