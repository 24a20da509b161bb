"""Where everything fails, a log stays short, says how often, and is still one line per record."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane.processes import free_port
from stowplan.lab.faults import Fault
from tests.integration.target import Target
from tests.waiting import wait_for

PODS = 80
ALWAYS = 1_000_000
#: Lines of one kind within ten seconds, and the count of the others.
MOST_LINES = 21
FORGED = 'I1117 11:00:00.000000       1 binding.py:1] "Successfully bound pod to node"'
BROKEN_PLUGIN = f"""
import stowplan

@stowplan.filter
def broken(pod, node):
    raise RuntimeError("no answer\\n" + {FORGED!r} + "\\x1b[2J\\u2028" + pod.metadata.name)
"""
Lines = list[dict[str, Any]]

pytestmark = pytest.mark.parametrize("target", ["embedded"], indirect=True)


def names() -> list[str]:
    return [f"p{number}" for number in range(PODS)]


def stormed(
    target: Target,
    is_over: Callable[[], bool],
    *flags: str,
    cpu: str = "10m",
    end: signal.Signals = signal.SIGTERM,
) -> Lines:
    """The log of a scheduler that tried every pod, at -v 0."""
    target.create_nodes("n1", "n2")
    scheduler = target.start("-v=0", "--logging-format=json", *flags)
    target.create_pods(*names(), cpu=cpu)
    wait_for("every pod to be tried", is_over)
    scheduler.process.send_signal(end)
    scheduler.wait_for_exit()
    return [json.loads(line) for line in scheduler.log.split("\n") if line]


def all_failed(target: Target) -> bool:
    """Every pod has a condition that says why it waits."""
    return all(pod["status"].get("conditions") for pod in target.pods().values())


def check_counted(lines: Lines, message: str) -> None:
    """No kind of line is frequent, and the counts of the named one make up for the others."""
    check_bounded(lines)
    told = [line for line in lines if line["msg"] == message]
    assert sum(line.get("repeated", 1) for line in told) >= PODS
    assert any("repeated" in line for line in told)


def check_bounded(lines: Lines) -> None:
    counts = Counter(line["msg"] for line in lines)
    windows = 1 + int((lines[-1]["ts"] - lines[0]["ts"]) / 10_000)
    assert {msg: n for msg, n in counts.items() if n > MOST_LINES * windows} == {}


def test_an_extender_that_is_down(target: Target) -> None:
    extender = f"extenders: [{{urlPrefix: 'http://127.0.0.1:{free_port()}', filterVerb: filter}}]"
    config = target.config_file(extender)
    lines = stormed(target, lambda: all_failed(target), f"--config={config}")
    check_counted(lines, "Error scheduling pod; retrying")


def test_an_extender_that_is_down_and_ignorable(target: Target) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    config = target.config_file(
        f"extenders: [{{urlPrefix: '{url}', filterVerb: filter, ignorable: true}}]"
    )
    lines = stormed(target, lambda: bool(target.wait_bound(*names())), f"--config={config}")
    check_counted(lines, "Skipping extender as it returned error and has ignorable flag set")


def test_bindings_that_are_refused(target: Target) -> None:
    target.proxy.inject(Fault("POST", r"/binding$", times=ALWAYS, status=422))
    lines = stormed(target, lambda: all_failed(target))
    check_counted(lines, "Failed to bind pod")


def test_a_server_that_cuts_connections(target: Target) -> None:
    fault = target.proxy.inject(Fault("POST", r"/binding$", times=ALWAYS, reset="before"))
    lines = stormed(target, lambda: fault.seen >= 2 * PODS, end=signal.SIGKILL)
    check_bounded(lines)
    assert any(line["msg"].startswith("Binding got no definite answer") for line in lines)


def test_conditions_that_cannot_be_written(target: Target) -> None:
    fault = target.proxy.inject(Fault("PATCH", r"/status$", times=ALWAYS, status=403))
    lines = stormed(target, lambda: fault.seen >= PODS, cpu="64")
    check_counted(lines, "Could not write the PodScheduled condition")


def test_a_plugin_that_raises_and_forges(target: Target, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN_PLUGIN)
    lines = stormed(target, lambda: all_failed(target), f"--plugin={file}:broken")
    check_counted(lines, "Error scheduling pod; retrying")
    assert not any("Successfully bound" in line["msg"] for line in lines)


def test_pods_that_fit_nowhere_and_watches_that_break(target: Target) -> None:
    target.proxy.inject(Fault("GET", r"/nodes$", times=ALWAYS, status=500, query="watch=1"))
    lines = stormed(target, lambda: all_failed(target), cpu="64")
    assert len(lines) < 60, "a pod that waits is no failure of the scheduler"
