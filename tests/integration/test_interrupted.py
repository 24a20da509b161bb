"""Commands whose reader goes away (`| head -1`) or that get Ctrl-C: quiet, with their code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stowplan.apiserver.kinds import kind_for
from stowplan.apiserver.server import ApiServer
from stowplan.sim.scenarios.own_names import MARK
from tests.embedded_fixtures import EmbeddedServer
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
LESSON = ROOT / "src/stowplan/learn/lessons/16_event_handlers/solution.py"
STOWPLAN = [sys.executable, "-m", "stowplan"]
QUESTION = {"objects": [], "pod": {"metadata": {"name": "p"}, "spec": {"containers": []}}}


def start(
    *argv: str, cwd: Path, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},  # so that each line meets the closed pipe
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("learn",),
        ("learn", "start", "1"),
        ("learn", "diff", "15", "16"),
        ("learn", "play", str(LESSON)),
        ("config", "defaults"),
        ("new", "plugin", "SsdOnly"),
        ("demo", "--once", "--speed", "20"),
        ("apiserver", "--port", "0"),
        ("simulate", str(ROOT / "examples/scenarios/mini_kube_scheduler.py")),
        ("simulate", str(ROOT / "examples/scenarios/preemption.yaml"), "-o", "json"),
        ("bench", "misc", "--list"),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_ends_it_quietly(argv: tuple[str, ...], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*STOWPLAN, *argv, cwd=tmp_path, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    own = [line for line in err.split("\n") if line and "Serving the embedded API" not in line]
    assert (own, process.returncode) == ([], 141)


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("--version",),
        ("config", "defaults"),
        ("simulate", str(ROOT / "examples/scenarios/preemption.yaml"), "-o", "json"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(argv: tuple[str, ...], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*STOWPLAN, *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            timeout=60,
        )
    expected = "Error: standard output cannot be written: No space left on device\n"
    assert (done.stderr, done.returncode) == (expected, 2)


def test_without_standard_output_there_is_no_error() -> None:
    script = 'exec "$@" >&-'
    command = ["sh", "-c", script, "sh", *STOWPLAN, "--version"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_closed_pipe_ends_the_control_planes_commands_quietly(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "stowplan.controlplane", "status"]
    process = start(*command, cwd=tmp_path, stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("argv", "ready", "code"),
    [
        (("demo", "--port", "0"), "API server on", 0),
        (("demo", "--once", "--port", "0"), "API server on", 130),
        (("apiserver", "--port", "0"), "Serving", 0),
        (("learn", "play", str(LESSON), "--on", "embedded"), "created", 130),
        (("learn", "check", "2"), "waiting", 130),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else str(each),
)
def test_ctrl_c(argv: tuple[str, ...], ready: str, code: int, tmp_path: Path) -> None:
    if argv[:2] == ("learn", "check"):
        lesson = tmp_path / "stowplan-lessons" / "02_print"
        lesson.mkdir(parents=True)
        (lesson / "scheduler.py").write_text("print('waiting')\nwhile True: pass\n")
    process = start(*STOWPLAN, *argv, cwd=tmp_path)
    assert process.stdout is not None
    assert any(ready in line for line in process.stdout)
    interrupt_and_expect(process, code)


def test_ctrl_c_while_decide_waits_for_a_question(tmp_path: Path) -> None:
    process = start(*STOWPLAN, "decide", cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(QUESTION) + "\n")
    process.stdin.flush()
    assert process.stdout.readline()
    interrupt_and_expect(process, 130)


@pytest.mark.parametrize(
    ("argv", "ready"),
    [
        (("run", "--leader-elect=false", "--port", "0"), "Scheduling"),
        (("extender", "--config", "config.yaml", "--port", "0"), '"Serving"'),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else each,
)
def test_ctrl_c_ends_a_service_in_order(
    argv: tuple[str, ...], ready: str, embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("algorithm: !NOPAlgorithm {}\n")
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*STOWPLAN, *argv],
            cwd=tmp_path,
            stdout=stream,
            stderr=stream,
            env=os.environ | {"KUBECONFIG": str(embedded_server.kubeconfig_path)},
            start_new_session=True,
        )
    wait_for(f"{ready!r} in the log", lambda: ready in log.read_text(), 30)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0
    assert "Traceback" not in log.read_text()


WAITING_SCENARIO = """\
cluster: {nodes: [{name: mine}]}
steps:
- create: {pods: [{name: web, count: 3}]}
- sleep: 1h
"""


@pytest.mark.parametrize("is_in_background", [False, True])
def test_sigterm_removes_what_a_scenario_created_in_a_cluster(
    is_in_background: bool, embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "waits.yaml").write_text(WAITING_SCENARIO)
    command = [*STOWPLAN, "simulate", "waits.yaml", "--on", str(embedded_server.kubeconfig_path)]
    if is_in_background:  # a shell script's `command &` ignores SIGINT
        command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]
    process = start(*command, cwd=tmp_path)
    assert process.stdout is not None
    assert any("sleep" in line for line in process.stdout)
    (namespace,) = (each for each in _left(embedded_server) if "namespaces" in each)
    assert namespace[2].startswith("stowplan-scenario-")
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "interrupted" in err
    assert "Traceback" not in err
    assert _left(embedded_server) == []


def test_sigterm_ends_other_commands_as_ctrl_c_does(tmp_path: Path) -> None:
    process = start(*STOWPLAN, "learn", "play", str(LESSON), "--on", "embedded", cwd=tmp_path)
    assert process.stdout is not None
    assert any("created" in line for line in process.stdout)
    process.terminate()
    assert "Traceback" not in process.communicate(timeout=60)[1]
    assert process.returncode == 143


def test_what_a_killed_run_has_left_is_named(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "waits.yaml").write_text(WAITING_SCENARIO)
    command = [*STOWPLAN, "simulate", "waits.yaml", "--on", str(embedded_server.kubeconfig_path)]
    process = start(*command, cwd=tmp_path)
    assert process.stdout is not None
    assert any("sleep" in line for line in process.stdout)
    process.kill()
    process.communicate()
    again = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert again.returncode == 2
    assert (
        "left by an interrupted run; remove it with "
        "`kubectl delete nodes,namespaces -l stowplan.io/scenario`"
    ) in again.stderr
    assert {plural for plural, *_ in _left(embedded_server)} == {"nodes", "namespaces", "pods"}


def _left(server: EmbeddedServer) -> list[tuple[str, str, str]]:
    """Plural, namespace and name of all objects that carry the label of scenarios."""

    def look(api: ApiServer) -> list[tuple[str, str, str]]:
        found = []
        for plural in ("nodes", "namespaces", "pods"):
            kind = kind_for("", "v1", plural)
            assert kind is not None
            for record in api.store.records(kind):
                metadata = record.object["metadata"]
                if MARK in (metadata.get("labels") or {}):
                    found.append((plural, metadata.get("namespace", ""), metadata["name"]))
        return found

    return server.call(look)


def test_ctrl_c_while_modules_are_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["stowplan"].partition(":")
    script = f"import sys; from {module} import {function}; sys.exit({function}())"
    for command in ([*STOWPLAN, "--help"], [sys.executable, "-c", script, "--help"]):
        paths = os.pathsep.join([str(tmp_path), *sys.path])
        environment = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.stdout, done.stderr, done.returncode) == ("", "", 130)


def interrupt_and_expect(process: subprocess.Popen[str], code: int) -> None:
    """Press Ctrl-C, which a terminal sends to all processes of a command."""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in out + err
    assert [line for line in err.splitlines() if line.strip() and line[:1] not in "IW"] == []
    assert process.returncode == code
    wait_for("no process to be left", lambda: not is_group_alive(process.pid), 10)


def is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
