"""The frame of the command line: help without imports, errors as lines, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import stowplan
from stowplan.cli import main as frame
from stowplan.errors import ConfigError, StowplanError

# Modules that cost tens of milliseconds or more; none is needed to print the help.
HEAVY = ("numpy", "aiohttp", "yaml", "prometheus_client", "asyncio", "msgspec")

#: What a scheduler needs only once somebody asks for it: it delays the first bind.
HEAVY_TO_RUN = (
    "aiohttp",
    "importlib.metadata",
    "opentelemetry",
    "prometheus_client",
    "stowplan.cluster.compare",
)


def run_stowplan(
    *argv: str, env: dict[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from stowplan.cli.main import main; main()", *argv],
        capture_output=True,
        text=True,
        input=stdin,
        env={**os.environ, **(env or {})},
        timeout=60,
    )


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Runs `stowplan fail` with the given behaviour in this process; the exit code."""

    def run(behave: Callable[[], object]) -> int:
        group = frame.LazyGroup("stowplan", lazy={"fail": frame.LazyCommand("x:y", "")})
        fail = click.Command("fail", callback=behave)
        monkeypatch.setattr(group, "get_command", lambda ctx, name: fail)
        monkeypatch.setattr(frame, "cli", group)
        with pytest.raises(SystemExit) as ended:
            frame.main(["fail"])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


def raising(error: BaseException) -> Callable[[], object]:
    def behave() -> None:
        raise error

    return behave


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from stowplan.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        f"finally:\n    print('HEAVY', sorted(set(sys.modules) & {set(HEAVY)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "HEAVY []" in done.stdout


def test_a_scheduler_that_starts_imports_nothing_that_it_does_not_need_yet(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from stowplan.cli.main import main\n"
        f"try:\n    main(['run', '--kubeconfig={tmp_path / 'absent'}'])\n"
        f"finally:\n    print('HEAVY', sorted(set(sys.modules) & {set(HEAVY_TO_RUN)!r}))\n"
        "    print('READY', 'stowplan.server.serving' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "absent: no such file" in done.stderr, "it got as far as reading the kubeconfig"
    assert "READY True" in done.stdout
    assert "HEAVY []" in done.stdout


def test_help_lists_the_commands() -> None:
    done = run_stowplan("--help")
    assert done.returncode == 0
    listed = " ".join(done.stdout.partition("Commands:")[2].split())
    for name, lazy in frame.COMMANDS.items():
        assert f" {name} {lazy.short_help}" in f" {listed}", name
    assert "STOWPLAN_SOME_FLAG" in done.stdout.replace("\n", " ").replace("  ", " ")
    assert run_stowplan("-h").stdout == done.stdout


@pytest.mark.parametrize("name", frame.COMMANDS)
def test_every_command_loads_and_its_help_begins_with_its_line(name: str) -> None:
    command = frame.cli.get_command(click.Context(frame.cli), name)
    assert command is not None
    assert command.name == name
    first_line = command.get_short_help_str(limit=200)
    assert first_line.startswith(frame.COMMANDS[name].short_help.rstrip("."))


def test_version() -> None:
    done = run_stowplan("--version")
    assert (done.returncode, done.stdout) == (0, f"stowplan, version {stowplan.__version__}\n")


def test_environment_that_only_looks_like_flags_does_no_harm() -> None:
    env = {"STOWPLAN_VERSION": "1.2.3", "STOWPLAN_HELP": "yes"}
    done = run_stowplan("config", "defaults", env=env)
    assert done.returncode == 0
    assert done.stdout.startswith("apiVersion: ")


def test_flags_come_from_the_environment() -> None:
    done = run_stowplan("config", "defaults", env={"STOWPLAN_OUTPUT": "json"})
    assert done.stdout.startswith("{")
    overridden = run_stowplan("config", "defaults", "-o", "yaml", env={"STOWPLAN_OUTPUT": "json"})
    assert overridden.stdout.startswith("apiVersion: ")


@pytest.mark.parametrize(("given", "port"), [("tcp://10.0.0.1:80", "7"), ("9", "9")])
def test_a_service_of_our_name_sets_no_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str, port: str
) -> None:
    def show_port(port: int) -> None:
        click.echo(port)

    option = click.Option(["--port"], type=int, default=7)
    show = click.Command("show", callback=show_port, params=[option])
    show.context_settings["auto_envvar_prefix"] = "STOWPLAN"
    monkeypatch.setattr(frame.cli, "get_command", lambda ctx, name: show)
    monkeypatch.setenv("STOWPLAN_PORT", given)
    with pytest.raises(SystemExit) as ended:
        frame.main(["show"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{port}\n"


@pytest.mark.parametrize(("given", "expected"), [("", "1"), ("7", "7")])
def test_numpy_starts_no_threads_unless_told_to(
    given: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    if not given:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with pytest.raises(SystemExit):
        frame.main(["--version"])
    assert os.environ["OPENBLAS_NUM_THREADS"] == expected


def test_unknown_command_and_flag() -> None:
    done = run_stowplan("zebra")
    assert done.returncode == 2
    assert "Error: No such command 'zebra'." in done.stderr
    done = run_stowplan("config", "defaults", "--zebra")
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_command_shows_the_help() -> None:
    done = run_stowplan()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


def test_a_users_mistake_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    done = run_stowplan("config", "check", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"Error: {tmp_path}/none.yaml: cannot be read: No such file or directory\n"
    )


def test_each_mistake_has_a_line(
    command: Callable[[Callable[[], object]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(raising(ConfigError("a: wrong\nf: b: wrong", where="f"))) == 2
    assert capsys.readouterr().err == "Error: f: a: wrong\nError: f: b: wrong\n"


def test_other_errors_of_ours_exit_with_their_code(
    command: Callable[[Callable[[], object]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(raising(StowplanError("the server is gone"))) == 1
    assert capsys.readouterr().err == "Error: the server is gone\n"
    assert command(raising(StowplanError())) == 1
    assert capsys.readouterr().err == "Error: StowplanError\n"
    hostile = StowplanError("no\x1b[2J\u2028I1117 forged")
    assert command(raising(hostile)) == 1
    assert capsys.readouterr().err == "Error: no\\x1b[2J\nError: I1117 forged\n"


def test_interrupt(command: Callable[[Callable[[], object]], int]) -> None:
    assert command(raising(KeyboardInterrupt())) == 130


def test_a_bug_keeps_its_traceback(command: Callable[[Callable[[], object]], int]) -> None:
    with pytest.raises(ZeroDivisionError):
        command(lambda: 1 // 0)


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (3, 3), ("text", 0)])
def test_what_a_command_returns(
    command: Callable[[Callable[[], object]], int], returned: object, code: int
) -> None:
    assert command(lambda: returned) == code


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_closed_pipe_is_no_error(lines: int) -> None:
    # One line fails in the last flush, many lines fail while the command still prints.
    code = (
        "import click\n"
        "from stowplan.cli import main as frame\n"
        "def print_lines():\n"
        f"    for _ in range({lines}):\n"
        "        print('x' * 50)\n"
        "frame.cli.get_command = lambda ctx, name: click.Command(name, callback=print_lines)\n"
        "frame.main(['lines'])\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, timeout=60
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "command", ["replay", "replay --follow", "compare", "simulate", "sweep", "decide"]
)
def test_a_file_that_cannot_be_looked_at(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = "a" * 300 + ".gz"
    with pytest.raises(SystemExit) as ended:
        frame.main([*command.split(), file])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"Error: {file}: cannot be read: File name too long\n"


def test_other_trouble_with_files_keeps_its_traceback(
    command: Callable[[Callable[[], object]], int],
) -> None:
    with pytest.raises(PermissionError):
        command(raising(PermissionError(13, "Permission denied", "ours")))
