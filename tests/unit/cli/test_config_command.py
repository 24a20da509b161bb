"""`stowplan config` through the console entry point, in this process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from stowplan.cli.main import main
from stowplan.config.load import default_config, parse_config
from stowplan.config.merge import resolve_profiles
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.plugins.registry import in_tree_registry

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(HEADER + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    code, out, err = run(capsys, "config", "check", str(file))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{file}: ok, serves a, b"


def test_a_bad_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(HEADER + "parallelism: 0\npodInitialBackoffSeconds: 0\n")
    code, out, err = run(capsys, "config", "check", str(file))
    assert (code, out) == (2, "")
    assert err == (
        f"Error: {file}: parallelism: Invalid value: 0: "
        "should be an integer value greater than zero\n"
        f"Error: {file}: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0\n"
    )


def test_plugins_and_their_arguments_are_checked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(HEADER + "profiles:\n- plugins: {score: {enabled: [{name: NodeNumbr}]}}\n")
    assert run(capsys, "config", "check", str(file)) == (
        2,
        "",
        f"Error: {file}: profiles[0].plugins.score.enabled[0].name: "
        'Invalid value: "NodeNumbr": no such plugin; did you mean "NodeNumber"?\n',
    )
    file.write_text(
        HEADER + "profiles:\n- pluginConfig: [{name: NodeResourcesFit, args: {zebra: 1}}]\n"
    )
    code, _, err = run(capsys, "config", "check", str(file))
    assert code == 2
    assert "profiles[0].pluginConfig[0].args.zebra: unknown field" in err
    assert "zebra" in err


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(HEADER))
    assert run(capsys, "config", "check", "-")[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("kind: Pod\n"))
    code, _, err = run(capsys, "config", "check", "-")
    assert code == 2
    assert err.startswith("Error: <stdin>: apiVersion: Required value")


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_defaults_can_be_read_again(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config", "defaults", "-o", output)
    assert code == 0
    again, default = parse_config(out), default_config()
    assert again.leader_election == default.leader_election
    registry = in_tree_registry()

    def running(config: KubeSchedulerConfiguration) -> object:
        return resolve_profiles(config.profiles, implements=registry.points, known=registry.names)

    assert running(again) == running(default)


def test_check_shows_what_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(HEADER + "parallelism: 3\n")
    code, out, _ = run(capsys, "config", "check", str(file), "-o", "yaml")
    shown = yaml.safe_load(out)
    assert code == 0
    assert shown["parallelism"] == 3
    assert shown["percentageOfNodesToScore"] == 100
    names = [ref["name"] for ref in shown["profiles"][0]["plugins"]["multiPoint"]["enabled"]]
    assert names[0] == "SchedulingGates"
