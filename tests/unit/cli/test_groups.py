"""Options of a command before its name: honoured in every group, or refused, never ignored."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stowplan.cli import main as frame
from stowplan.cli.groups import CommandGroup
from stowplan.cli.main import main


def run(*argv: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    return ended.value.code


def test_every_group_is_one_of_these() -> None:
    commands = [frame.cli.get_command(click.Context(frame.cli), name) for name in frame.COMMANDS]
    groups = [each for each in (frame.cli, *commands) if isinstance(each, click.Group)]
    assert {each.name for each in groups} >= {"cli", "learn", "config", "new"}
    assert [each.name for each in groups if not isinstance(each, CommandGroup)] == []


@pytest.mark.parametrize(
    "argv",
    [
        ("config", "-o", "json", "defaults"),
        ("config", "-ojson", "defaults"),
        ("config", "--output=json", "defaults"),
    ],
)
def test_options_before_the_command(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv) == 0
    assert capsys.readouterr().out.startswith("{")


def test_the_option_behind_the_command_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "-o", "json", "defaults", "-o", "yaml") == 0
    assert capsys.readouterr().out.startswith("apiVersion: ")


def test_a_value_that_is_the_name_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "--dir", "plugin", "plugin", "SsdOnly") == 0
    assert (tmp_path / "plugin" / "ssd-only" / "pyproject.toml").is_file()


def test_options_of_the_whole_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("--kubeconfig", str(tmp_path / "absent"), "pins") == 2
    assert "absent: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [("config", "--zebra", "defaults"), ("--zebra", "run")])
def test_an_option_that_no_command_has(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv) == 2
    err = capsys.readouterr().err
    assert "No such option" in err
    assert "--zebra" in err


def test_help_before_the_command_is_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "--help", "defaults") == 0
    assert "migrate" in capsys.readouterr().out
