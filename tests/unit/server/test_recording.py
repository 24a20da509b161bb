"""The process beside a scheduler: it gets every attempt, and its failure is logged once."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from stowplan.config.durations import Duration
from stowplan.scheduler.ledger import Entry
from stowplan.server.recording import RecordingProcess, RecordOptions, decision_of
from tests.waiting import wait_for

#: Says that it records, and copies its input until the end.
COPIES = """
import sys
print("Recording to x", file=sys.stderr, flush=True)
with open(sys.argv[1], "wb") as out:
    for line in sys.stdin.buffer:
        out.write(line)
        out.flush()
"""
FAILS = "import sys; sys.exit('Error: the disk is full')"


@dataclass(frozen=True, slots=True)
class Instead(RecordOptions):
    """Another program in place of `stowplan record`."""

    script: str = ""

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.script, str(self.folder / "copied")]


def process(folder: Path, script: str) -> RecordingProcess:
    options = Instead(folder, 1 << 20, Duration(60.0), 0, False, None, script)
    return RecordingProcess(options, {}, retry_s=0.01)


def attempt(pod: str) -> Entry:
    details = b'{"refused":{"NodeName":3},"scores":[{"node":"a","total":7}],"reasons":[]}'
    return Entry(
        *(1.0, f"default/{pod}", "uid", 2, "default-scheduler", "a", 0.25, (), 0, 4, 1, {}),
        *(details, 100, "scheduled"),
    )


def test_attempts_reach_the_process_and_it_ends_with_its_pipe(tmp_path: Path) -> None:
    recording = process(tmp_path, COPIES)
    wait_for("the beginning", lambda: recording.is_recording)
    for pod in ("one", "two"):
        recording.put(attempt(pod))
    recording.close()
    lines = (tmp_path / "copied").read_bytes().splitlines()
    told = [decision_of(line) for line in lines]
    assert [each.pod for each in told] == ["default/one", "default/two"]
    first = told[0]
    assert (first.result, first.node, first.attempt, first.source) == (
        *("scheduled", "a", 2, "ledger"),
    )
    assert (first.evaluated_nodes, first.feasible_nodes, first.waited) == (4, 1, 0.25)
    assert first.refused == {"NodeName": 3}
    assert first.scores == [{"node": "a", "total": 7}]
    assert (recording.failures, recording.dropped) == (0, 0)


def test_the_beginning_and_what_is_left_out_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warns = COPIES.replace("with open", "print('Warning: no pods', file=sys.stderr)\nwith open", 1)
    with caplog.at_level(logging.INFO, "stowplan"):
        recording = process(tmp_path, warns)
        wait_for("both lines", lambda: len(caplog.records) == 2)
        recording.close()
    began, warned = caplog.records
    assert began.getMessage() == "Recording began"
    assert str(tmp_path) in str(began.__dict__)
    assert warned.getMessage() == "The recorder warned"
    assert "no pods" in str(warned.__dict__)


def test_failures_are_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "stowplan"):
        recording = process(tmp_path, FAILS)
        wait_for("failures", lambda: recording.failures >= 2)
        recording.close()
    assert not recording.is_recording
    (record,) = caplog.records
    assert record.getMessage().startswith("Recording failed; scheduling goes on")
    assert "the disk is full" in str(record.__dict__)


def test_attempts_that_nobody_takes_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stowplan.scheduler.attempt_writer.MAX_WAITING", 2)
    recording = process(tmp_path, FAILS)
    wait_for("the failure", lambda: recording.failures)
    recording.close()
    for number in range(5):
        recording.put(attempt(f"p{number}"))
    assert recording.dropped == 3
