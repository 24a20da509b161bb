"""What `make fuzz` does with a reader that raises, hangs or ends its process."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import fuzz
from tests.fuzzing import corpus, findings, run
from tests.fuzzing.findings import Reader, problem_of


@pytest.fixture
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    kept = tmp_path / "corpus" / "planted"
    kept.mkdir(parents=True)
    (kept / "example").write_bytes(b"an example")
    monkeypatch.setattr(corpus, "CORPUS", kept.parent)
    monkeypatch.setattr(findings, "FAILURES", tmp_path / "fuzz-failures")
    return tmp_path / "fuzz-failures"


def fed(read: Callable[[bytes], object]) -> bool:
    options = argparse.Namespace(engine="mutation", inputs=50, seed=1, keep=False)
    return run.feed_reader("planted", Reader(read, ""), options, sys.stderr)


def logs(data: bytes) -> None:
    try:
        raise KeyError(data)
    except KeyError:
        logging.getLogger("stowplan.planted").exception("passed over")


def loops(data: bytes) -> None:
    while True:
        pass


def raises(data: bytes) -> None:
    if len(data) > 12:
        raise KeyError(data)


def dies(data: bytes) -> None:
    if len(data) > 12:
        os.kill(os.getpid(), signal.SIGKILL)


def test_errors_that_callers_expect_are_none() -> None:
    assert problem_of(Reader(int, "", (ValueError,)), b"x") == ""
    assert problem_of(Reader(int, ""), b"x").startswith("ValueError: invalid literal")


def test_an_error_that_is_only_logged_is_a_finding() -> None:
    assert problem_of(Reader(logs, ""), b"x").startswith("logged KeyError")


def test_a_hang_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "CPU_S", 0.02)
    assert problem_of(Reader(loops, ""), b"x") == "hang: more than 0.04 s of CPU time"


@pytest.mark.parametrize(("read", "problem"), [(raises, "KeyError"), (dies, "signal 9")])
def test_a_finding_is_named_with_its_input_and_how_to_repeat_it(
    read: Callable[[bytes], object],
    problem: str,
    failures: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert not fed(read)
    said = capfd.readouterr().out
    (file,) = failures.iterdir()
    assert len(file.read_bytes()) > 12
    assert problem in said
    command = f"-m tests.fuzz --reader planted --repeat fuzz-failures/{file.name}"
    assert command in said


def test_a_reader_without_findings(failures: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert fed(len)
    assert "planted (mutation): 50 inputs in " in capfd.readouterr().out
    assert not failures.exists()


def test_an_input_is_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"[" * 200)
    assert fuzz.repeat("json", file) == 0
    assert capsys.readouterr().out == "json, 200 bytes: no finding\n"


def test_without_atheris_the_rest_is_fed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []

    def note(command: list[str], **_: object) -> argparse.Namespace:
        ran.append(command)
        return argparse.Namespace(returncode=0)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", note)
    assert fuzz.fuzz_readers(["json"], 10, 1, run.ENGINES) == 0
    assert [each[each.index("--engine") + 1] for each in ran] == ["mutation"]
    assert "No inputs by coverage: atheris is not installed" in capsys.readouterr().out


def test_inputs_that_add_no_line_are_dropped(failures: Path) -> None:
    folder = corpus.CORPUS / "planted"

    def lines(data: bytes) -> frozenset[tuple[str, int]]:
        return frozenset(("f", number) for number in data)

    (folder / corpus.digest(b"ex")).write_bytes(b"ex")
    assert corpus.keep_adding("planted", [b"yz", b"xyz", b"y" * 5000], lines) == (1, 1)
    assert {file.read_bytes() for file in folder.iterdir()} == {b"an example", b"yz"}
