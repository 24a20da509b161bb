"""Shared options, through commands that use them."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from stowplan.cli.options import PORT, duration, kubeconfig_options, logging_options
from stowplan.logs import V4, get_logger


@click.command()
@kubeconfig_options
@click.option("--wait", type=duration, default="1m30s")
@click.option("--port", type=PORT, default=1)
@logging_options
def command(kubeconfig: str | None, context: str | None, wait: float, port: int) -> None:
    click.echo(f"{kubeconfig} {context} {wait} {port}")
    get_logger("test").info("At zero")
    get_logger("test").log(V4, "At four")


def run(*argv: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, argv, env=env, auto_envvar_prefix="STOWPLAN")
    return result.exit_code, result.stdout, result.stderr


def test_nothing_given() -> None:
    code, out, err = run()
    assert (code, out) == (0, "None None 1m30s 1\n")
    assert "At zero" in err
    assert "At four" not in err


def test_everything_given() -> None:
    code, out, _ = run("--kubeconfig", "f", "--context", "c", "--wait", "100ms", "--port", "0")
    assert (code, out) == (0, "f c 100ms 0\n")


@pytest.mark.parametrize(("text", "read"), [("3", "3s"), ("0.5", "500ms"), ("0", "0s")])
def test_a_duration_without_a_unit_is_seconds(text: str, read: str) -> None:
    assert run("--wait", text)[:2] == (0, f"None None {read} 1\n")


def test_from_the_environment() -> None:
    env = {"STOWPLAN_KUBECONFIG": "f", "STOWPLAN_CONTEXT": "c", "STOWPLAN_WAIT": "2s"}
    assert run(env=env)[1] == "f c 2s 1\n"


@pytest.mark.parametrize("argv", [["-v", "4"], ["-v4"], ["-v=4"], ["--v=4"], ["--v", "4"]])
def test_verbosity_as_gos_programs_write_it(argv: list[str]) -> None:
    code, _, err = run(*argv)
    assert code == 0
    assert "At four" in err


def test_json_logs() -> None:
    assert '"msg":"At zero"' in run("--log-format", "json")[2]
    assert '"msg":"At zero"' in run("--logging-format=json")[2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-v", "11"], "'11' is not a number from 0 to 10"),
        (["-v", "-1"], "'-1' is not a number from 0 to 10"),
        (["-v", "loud"], "'loud' is not a number from 0 to 10"),
        (["--wait", "5 minutes"], "'5 minutes' is not a duration"),
        (["--wait", "1m5"], "'1m5' is not a duration"),
        (["--port", "70000"], "'70000' is not a number from 0 to 65535"),
        (["--port", "x"], "'x' is not a number from 0 to 65535"),
        (["--log-format", "xml"], "'xml' is not one of 'text', 'json'"),
    ],
)
def test_wrong_values(argv: list[str], message: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert message in err
    assert argv[0] in err
