"""The command that a text tells people to type must be one that works where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.cli.invocation import own_command, typed


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program below it, and nothing on the PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    program = tmp_path / ".venv" / "bin" / "stowplan"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return tmp_path


def called(monkeypatch: pytest.MonkeyPatch, program: str | Path) -> str:
    monkeypatch.setattr("sys.argv", [str(program), "demo"])
    return own_command()


def test_by_a_path(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, ".venv/bin/stowplan") == ".venv/bin/stowplan"
    assert called(monkeypatch, checkout / ".venv/bin/stowplan") == ".venv/bin/stowplan"
    assert called(monkeypatch, "stowplan.pex") == "./stowplan.pex"
    assert called(monkeypatch, "/opt/my tools/stowplan") == "'/opt/my tools/stowplan'"


def test_by_its_name(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout / ".venv" / "bin"))
    assert called(monkeypatch, checkout / ".venv/bin/stowplan") == "stowplan"
    assert called(monkeypatch, "/elsewhere/bin/stowplan") == "/elsewhere/bin/stowplan"


def test_as_a_module(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(checkout / ".venv/bin/python"))
    module = "/somewhere/stowplan/__main__.py"
    assert called(monkeypatch, module) == ".venv/bin/python -m stowplan"


def test_by_a_program_of_somebody_elses(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, "/somewhere/pytest/__main__.py") == "stowplan"
    assert called(monkeypatch, "-c") == "stowplan"


def test_commands_in_a_text(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/stowplan", "learn"])
    text = "Say `stowplan learn check 3`, or x/stowplan learn; stowplan is stowplan.api, in words."
    assert typed(text) == text.replace("`stowplan learn", "`.venv/bin/stowplan learn")
