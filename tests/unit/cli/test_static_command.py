"""`stowplan static`: every mistake is one line that says what and where."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stowplan.cli.main import main
from stowplan.cli.static import main as static_main

VARIABLES = (
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "SCHED_NAME",
    "SCHED_DELAY",
    "SCHED_PROMETHEUS",
    "SCHED_PROMETHEUS_PORT",
    "SCHED_INCLUSTER_BASE_PATH",
)
NO_CLUSTER = "No kubeconfig or token found: no --kubeconfig, KUBECONFIG is not set, "
NAME_RULE = (
    "it must be lower case letters, digits, '-' and '.', each part between dots beginning and "
    "ending with a letter or digit"
)


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def outcome(capsys: pytest.CaptureFixture[str]) -> Outcome:
    return Outcome(capsys)


class Outcome:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def of(self, *arguments: str) -> tuple[object, str]:
        """Exit code and all that was written."""
        with pytest.raises(SystemExit) as end:
            main(["static", *arguments])
        written = self._capsys.readouterr()
        assert written.out == ""
        return end.value.code, written.err


@pytest.mark.parametrize(
    ("flag", "variable", "value", "problem"),
    [
        (
            "--name",
            "SCHED_NAME",
            "Upper_Case",
            "scheduler name 'Upper_Case' cannot be part of the node label "
            f"rf.scheduler.Upper_Case.<NAMESPACE>/<POD>: {NAME_RULE}",
        ),
        ("--delay", "SCHED_DELAY", "soon", "'soon' is not a number of seconds, 0 or more"),
        ("--delay", "SCHED_DELAY", "-1", "'-1' is not a number of seconds, 0 or more"),
        ("--delay", "SCHED_DELAY", "nan", "'nan' is not a number of seconds, 0 or more"),
        ("--delay", "SCHED_DELAY", "inf", "'inf' is not a number of seconds, 0 or more"),
        (
            "--prometheus-port",
            "SCHED_PROMETHEUS_PORT",
            "http",
            "'http' is not a port from 0 to 65535",
        ),
        (
            "--prometheus-port",
            "SCHED_PROMETHEUS_PORT",
            "65536",
            "'65536' is not a port from 0 to 65535",
        ),
    ],
)
def test_a_bad_value_is_named_by_where_it_stands(
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
    flag: str,
    variable: str,
    value: str,
    problem: str,
) -> None:
    assert outcome.of(f"{flag}={value}") == (2, f"Error: {flag}: {problem}\n")
    monkeypatch.setenv(variable, value)
    assert outcome.of() == (2, f"Error: {variable}: {problem}\n")


@pytest.mark.parametrize(
    ("variable", "flag"),
    [
        ("SCHED_NAME", "--name=good"),
        ("SCHED_DELAY", "--delay=0.5"),
        ("SCHED_PROMETHEUS_PORT", "--prometheus-port=1"),
    ],
)
def test_a_flag_beats_its_variable(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch, variable: str, flag: str
) -> None:
    monkeypatch.setenv(variable, "Not good")
    code, text = outcome.of(flag)
    assert code == 2
    assert text.startswith(f"Error: {NO_CLUSTER}"), "it got as far as looking for a cluster"


def test_an_empty_variable_is_as_good_as_none(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    _, text = outcome.of()
    assert text.startswith(f"Error: {NO_CLUSTER}")


@pytest.mark.parametrize("value", ["false", "False", "FALSE"])
def test_false_turns_metrics_off_so_that_their_port_does_not_matter(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SCHED_PROMETHEUS", value)
    _, text = outcome.of("--prometheus-port=none")
    assert text.startswith(f"Error: {NO_CLUSTER}")


@pytest.mark.parametrize("value", ["0", "no", "off", "true", "falsehood", "f"])
def test_nothing_but_false_turns_metrics_off(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SCHED_PROMETHEUS", value)
    _, text = outcome.of("--prometheus-port=none")
    assert text == "Error: --prometheus-port: 'none' is not a port from 0 to 65535\n"
    assert outcome.of("--prometheus-port=none", "--prometheus-disable")[1].startswith(
        f"Error: {NO_CLUSTER}"
    )


def test_a_service_of_that_name_is_no_port(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes gives pods such a variable for a Service called sched-prometheus."""
    monkeypatch.setenv("SCHED_PROMETHEUS_PORT", "tcp://10.0.0.1:8000")
    _, text = outcome.of()
    assert text.startswith(f"Error: {NO_CLUSTER}")


def test_a_cluster_that_is_not_there(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome.of("--kubeconfig=/nope") == (2, "Error: /nope: no such file\n")
    assert outcome.of("--incluster-base-path=/nope") == (
        2,
        "Error: --incluster-base-path or SCHED_INCLUSTER_BASE_PATH: there is no token in /nope, "
        "and no kubeconfig was named either\n",
    )
    monkeypatch.setenv("KUBECONFIG", "/nope/config")
    assert outcome.of() == (2, "Error: KUBECONFIG: no such file: /nope/config\n")


def test_a_prefix_that_cannot_be_one(outcome: Outcome) -> None:
    code, text = outcome.of("--prefix=Not_Good")
    assert code == 2
    assert text.startswith("Error: --prefix: 'Not_Good' cannot begin a node label: ")
    assert text.count("\n") == 1


def test_an_api_server_that_is_not_there(outcome: Outcome, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: c, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: c}}]\n"
    )
    code, text = outcome.of(f"--kubeconfig={config}")
    assert code == 1
    assert text.startswith("Error: API server http://127.0.0.1:1: GET /api/v1/")
    assert text.endswith(": cannot connect: Connection refused\n")
    assert text.count("\n") == 1


def test_the_help_names_every_flag_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["static", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for flag in (
        "--name",
        "-d, --daemon",
        "--delay",
        "--respect-node-state",
        "--prefix",
        "--kubeconfig",
        "--incluster-base-path",
        "--prometheus-port",
        "--prometheus-disable",
        "-v, --verbose",
    ):
        assert f"\n  {flag} " in text
    for name in VARIABLES:
        assert f"\n    {name} " in text or name == "KUBERNETES_SERVICE_HOST"


def test_a_program_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/static-scheduler", "--help"])
    with pytest.raises(SystemExit) as end:
        static_main()
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: static-scheduler [OPTIONS]\n")
