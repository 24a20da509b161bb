"""Failures that repeat themselves are counted, so that a log stays readable in a storm."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest

from stowplan.logs import FOLDED_S, V2, configure, get_logger, install, kv

log = get_logger("stowplan.test_folding")


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def stream(clock: Time) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure(2, "json", stream)
    yield stream
    configure(0, "text", io.StringIO())


def fail(pod: str, level: int = logging.WARNING) -> None:
    log.log(level, "Cannot bind", extra=kv(pod=pod, err="refused"))


def test_a_storm_is_written_as_a_few_lines_and_a_count(stream: io.StringIO, clock: Time) -> None:
    for number in range(10_000):
        fail(f"ns/{number}")
    assert len(stream.getvalue().splitlines()) == 20
    clock.now += FOLDED_S
    log.info("Another line")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()[20:]]
    assert [line["msg"] for line in lines] == ["Cannot bind", "Another line"]
    assert lines[0]["repeated"] == 9_980
    assert lines[0]["pod"]["name"] == "9999"


def test_a_storm_that_goes_on_costs_the_same_in_every_window(
    stream: io.StringIO, clock: Time
) -> None:
    for _ in range(3):
        for number in range(1_000):
            fail(f"ns/{number}")
        clock.now += FOLDED_S
    assert len(stream.getvalue().splitlines()) == 3 * 20 + 2


def test_the_count_is_written_at_exit(stream: io.StringIO) -> None:
    for number in range(25):
        fail(f"ns/{number}")
    configure(0, "text", io.StringIO())  # closes the handler, as the end of the process does
    assert json.loads(stream.getvalue().splitlines()[-1])["repeated"] == 5


def test_lines_of_other_places_are_not_counted_with_them(stream: io.StringIO) -> None:
    for number in range(100):
        fail(f"ns/{number}")
    log.error("Something else")
    assert "Something else" in stream.getvalue()


def test_lines_that_report_no_failure_are_all_written(stream: io.StringIO) -> None:
    for number in range(2_000):
        log.log(V2, "Bound", extra=kv(pod=f"ns/{number}"))
    assert len(stream.getvalue().splitlines()) == 2_000


def test_failures_that_a_higher_verbosity_shows_have_a_higher_limit(stream: io.StringIO) -> None:
    for number in range(2_000):
        fail(f"ns/{number}", V2)
    assert len(stream.getvalue().splitlines()) == 1_000


def test_the_counted_error_keeps_its_text_but_not_its_traceback(
    stream: io.StringIO, clock: Time
) -> None:
    for number in range(30):
        try:
            raise ValueError(f"wrong {number}")
        except ValueError:
            log.exception("Failed")
    clock.now += FOLDED_S
    log.info("Another line")
    counted = json.loads(stream.getvalue().splitlines()[20])
    assert counted["err"] == "wrong 29"
    assert "stacktrace" not in counted


def test_one_logger_can_be_left_alone(clock: Time) -> None:
    stream = io.StringIO()
    install(logging.Formatter("%(message)s"), stream, unfolded="stowplan.test_folding")
    for number in range(100):
        fail(f"ns/{number}")
    assert len(stream.getvalue().splitlines()) == 100
    configure(0, "text", io.StringIO())
