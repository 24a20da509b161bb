"""The texts about a pod in a running scheduler's queue, and about recorded attempts."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.errors import NotFound
from stowplan.explain.explanation import Explanation, State, Waiting
from stowplan.explain.recorded import AttemptAnswer, attempt_text, chosen_attempt
from stowplan.explain.text import explanation_text, seconds_text
from stowplan.scheduler.ledger_records import (
    Attempt,
    Details,
    RecordedEviction,
    RecordedReason,
)

EVENTS = ("a node is added", "a pod is deleted")


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (Waiting("active", 0, 2.0), "Queued 2 s ago; it is in the queue, and its turn comes next."),
        (Waiting("backoff", 3, 4.0, 6.0), "Attempt 3 failed 4 s ago; next try in 6 s (backoff)."),
        (
            Waiting("unschedulable", 3, 12.0, 288.0, 1.5),
            "Attempt 3 failed 12 s ago; next try in 4 min 48 s, or when a node is added, or when a"
            " pod is deleted. Events count after its backoff, in 2 s.",
        ),
        (
            Waiting("gated", 0, 1.0, plugins=("Quota",), message="no quota"),
            "Quota keeps it out of the queue: no quota.",
        ),
        (Waiting("permit", 1, 5.0, plugins=("Gang",)), "Attempt 1 found it a node 5 s ago."),
        (Waiting("binding", 2), "Attempt 2 is under way."),
    ],
)
def test_a_place_in_the_queue(waiting: Waiting, text: str) -> None:
    said = Explanation(
        "default/web", "s", State.PENDING, "It waits.", retried_on=EVENTS, waiting=waiting
    )
    assert " ".join(explanation_text(said).split()) == f"It waits. {text}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.00002, "0.02 ms"),
        (0.0123, "12 ms"),
        (0.9999, "1000 ms"),
        (12.4, "12 s"),
        (59.9, "1 min 0 s"),
        (3599.9, "1 h 0 min"),
        (7501, "2 h 5 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def attempt(number: int, **more: Any) -> Attempt:
    fields = {"result": "unschedulable", "message": "0/3 nodes", "seconds": 0.001, **more}
    return Attempt(1_700_000_000.0, "default/web", "u1", attempt=number, profile="s", **fields)


def test_a_failed_attempt() -> None:
    details = Details(
        reasons=[
            RecordedReason("NodeResourcesFit", "Insufficient cpu", 3, "*"),
            RecordedReason("Mine", "odd\x1b[31m", 900, "n-[1-9]", 891),
        ],
        eviction=RecordedEviction("n-1", ["default/low"], 2),
        nominated_node="n-1",
        requests={"cpu": "1500m", "memory": "2Gi"},
        priority=10,
        constraints=["nodeSelector"],
        waited=90.0,
        is_shortened=True,
    )
    made = attempt(3, details=details, retried_by=("NodeResourcesFit",), retry_by=1_700_000_300.0)
    text = attempt_text(AttemptAnswer(made, 7), 1_700_000_288.0)
    assert text.startswith(
        "default/web, attempt 3 of 7, 2023-11-14 22:13:20 UTC: unschedulable after 1 ms.\n"
    )
    assert "all nodes" in text
    assert "n-[1-9] and 891 more" in text
    assert "\x1b" not in text
    assert "To make room on n-1, evict default/low and 2 more." in text
    words = " ".join(text.split())
    asked = "It asked for 1500m cpu, 2Gi memory and had priority 10 and set nodeSelector."
    assert asked in words
    assert "Durations: 1 min 30 s in the queue." in words
    assert "left out, because there were too many attempts" in text
    assert "The next try was due within 5 min 0 s, or when something changes" in text
    latest = attempt_text(AttemptAnswer(made, 3), 1_700_000_288.0)
    assert "Next try in 12 s, or when something changes that NodeResourcesFit waits for." in latest


def test_an_error_comes_back_by_its_backoff_alone() -> None:
    made = attempt(1, result="error", backoff_until=1_700_000_004.0, retry_by=1_700_000_300.0)
    text = attempt_text(AttemptAnswer(made, 1), 1_700_000_001.0)
    assert text.endswith("Next try in 3 s.\n")
    text = attempt_text(AttemptAnswer(made, 2), 1_700_000_009.0)
    assert text.endswith("The next try was due within 4 s.\n")


def test_attempts_of_a_pod_that_was_made_again_are_not_mixed_up() -> None:
    old = [attempt(number) for number in (1, 2, 3)]
    new = [Attempt(1_700_000_100.0, "default/web", "u2", 1, "s", "scheduled", "n-1")]
    found = chosen_attempt("default/web", [*old, *new], 1)
    assert (found.attempt.uid, found.of) == ("u2", 1)
    assert chosen_attempt("default/web", [*old, *new], 2).of == 3
    with pytest.raises(
        NotFound, match=r'no attempt 9 of pod "default/web": it has attempts 1 to 3'
    ):
        chosen_attempt("default/web", old, 9)
    with pytest.raises(NotFound, match=r"it has attempt 1$"):
        chosen_attempt("default/web", new, 9)
