"""Attempts from events: the node is read from kube-scheduler's note, and from no other text."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.recording.decisions import Decision, SchedulingEvent, of_event


def told(note: str, reason: str = "Scheduled", kind: str = "Pod") -> Decision | None:
    event = {
        "reason": reason,
        "note": note,
        "reportingController": "default-scheduler",
        "regarding": {"kind": kind, "namespace": "shop", "name": "web", "uid": "u"},
        "series": {"count": 3},
    }
    return of_event(msgspec.convert(event, SchedulingEvent))


def test_a_successful_and_a_failed_attempt() -> None:
    decision = told("Successfully assigned shop/web to node-1")
    assert decision == Decision(
        pod="shop/web",
        uid="u",
        result="scheduled",
        node="node-1",
        scheduler="default-scheduler",
        source="event",
        attempt=3,
    )
    failed = told("0/3 nodes are available: sold to acme", "FailedScheduling")
    assert failed is not None
    assert (failed.result, failed.node) == ("unschedulable", "")


@pytest.mark.parametrize(
    "note",
    ["", "handed to jane.doe@acme.example", "Successfully assigned shop/web to n 1 to acme"],
)
def test_another_controllers_text_is_not_recorded(note: str) -> None:
    decision = told(note)
    assert decision is not None
    assert decision.node == ""


def test_events_about_other_things_are_no_attempts() -> None:
    assert told("Started", "Started") is None
    assert told("Successfully assigned shop/web to node-1", kind="Node") is None
