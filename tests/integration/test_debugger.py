"""SIGUSR2 makes a running scheduler hold its cache against the API server, and tell of both."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.config.defaults import default_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.server.debugger import CacheDebugger
from tests.integration.target import Target
from tests.waiting import wait_for


def test_a_running_scheduler_is_asked(target: Target) -> None:
    target.create_nodes("n1", "n2")
    scheduler = target.start()
    target.create_pods("a", "b", "c")
    target.create_pods("big", cpu="64")
    target.wait_bound("a", "b", "c")
    target.wait_condition("big", "False")

    scheduler.process.send_signal(signal.SIGUSR2)

    wait_for("the dump of the queue", lambda: '"Dump of scheduling queue"' in scheduler.log)
    assert '"Cache and API server agree" nodes=2 pods=3' in scheduler.log
    assert "default/big (unschedulable)" in scheduler.log
    assert "cpu 100m of 4000m" in scheduler.log
    target.create_pods("d")
    target.wait_bound("d")


def test_signals_while_it_ends_change_nothing(target: Target, tmp_path: Path) -> None:
    """Until the process is gone: the loop is closed long before the interpreter is."""
    target.create_nodes("n1")
    target.create_pods("a")
    log = tmp_path / "log"
    options = ["--kubeconfig", str(target.kubeconfig()), "--leader-elect=false", "--port=0"]
    with log.open("wb") as output:
        # One that ends as a scheduler does, which a forked one does not.
        process = subprocess.Popen(
            [sys.executable, "-m", "stowplan", "run", *options], stdout=output, stderr=output
        )
    try:
        target.wait_bound("a")
        process.send_signal(signal.SIGUSR2)
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGUSR2)
            time.sleep(0.0005)
    finally:
        process.kill()
        process.wait()

    text = log.read_text()
    assert process.returncode == 0, text
    assert '"Stopped"' in text
    assert "Traceback" not in text
    assert "never retrieved" not in text


async def test_differences_that_stay_are_told(target: Target) -> None:
    target.create_nodes("n1", "n2")
    target.create_pods("a")
    target.bind("a", "n1")
    # No informer feeds this one, so it knows nothing of all that.
    engine = build_engine(default_config(), registry=in_tree_registry())
    config = load_cluster_config(kubeconfig=str(target.kubeconfig()))
    async with ApiClient(config) as client:
        found = await CacheDebugger(engine, client, pause_s=0.0).compare()
    assert found.missing_nodes == ("n1", "n2")
    assert [pod.key for pod in found.missing_pods] == ["default/a"]
