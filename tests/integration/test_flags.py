"""kube-scheduler's flags on a running scheduler: what they change is seen from outside."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from stowplan.lab.controlplane.processes import free_port
from tests.integration.target import Target
from tests.waiting import wait_for

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ATTEMPTS = re.compile(r'scheduler_schedule_attempts_total\{.*result="unschedulable"\} (\S+)')


def test_flags_reach_the_scheduler(target: Target) -> None:
    port = free_port()
    target.create_nodes("n1")
    scheduler = target.start(
        # Nothing listens there, so that --master is what counts.
        f"--kubeconfig={target.kubeconfig('http://127.0.0.1:1')}",
        f"--master={target.proxy.url}",
        f"--port={port}",
        "-v=0",
        "--vmodule=loop=1,event_hand*=3",
        "--pod-max-in-unschedulable-pods-duration=100ms",
        "--kube-api-qps=500",
        "--kube-api-burst=600",
        "--disabled-metrics=scheduler_cache_size,scheduler_preemption_attempts_total",
        "--allow-metric-labels=scheduler_pending_pods,queue=active",
        "--feature-gates=GenericWorkload=true",
    )
    scheduler.wait_until_scheduling()
    target.create_pods("huge", cpu="100")

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def has_been_retried() -> bool:
        """Nothing happens in the cluster, so only the flag can cause a second attempt."""
        found = ATTEMPTS.search(metrics())
        return found is not None and float(found[1]) >= 2

    wait_for("an attempt that no event caused", has_been_retried)
    shown = metrics()
    assert "scheduler_cache_size" not in shown
    assert "scheduler_preemption_attempts_total" not in shown
    assert "\ndisabled_metrics_total 2.0\n" in shown
    assert 'registered_metrics_total{deprecated_version="",stability_level="STABLE"}' in shown
    assert 'scheduler_pending_pods{queue="active"}' in shown
    assert shown.count('scheduler_pending_pods{queue="unexpected"}') == 1
    assert 'scheduler_pending_pods{queue="backoff"}' not in shown
    assert scheduler.log.count("GenericWorkload=true has no effect") == 1
    assert '"Add event for node"' in scheduler.log
    assert '"Update event for ' not in scheduler.log, "these need -v 4"


@pytest.mark.parametrize("has_file", [False, True], ids=["flags", "file"])
def test_requests_are_limited(target: Target, tmp_path: Path, has_file: bool) -> None:
    """Three lists of a dozen are sent; the fourth has to wait for a quarter of an hour.

    Flags yield to a file, although it has nothing but these fields.
    """
    port = free_port()
    limits = ["--kube-api-qps=0.001", "--kube-api-burst=3"]
    if has_file:
        file = tmp_path / "config.yaml"
        file.write_text(HEADER + "clientConnection: {qps: 0.001, burst: 3}\n")
        limits = [f"--config={file}", "--kube-api-qps=5000", "--kube-api-burst=5000"]
    target.start(*limits, f"--port={port}")

    def lists() -> int:
        sent = list(target.proxy.requests)
        return sum(method == "GET" and "watch=1" not in path for method, path in sent)

    def health() -> str:
        url = f"http://127.0.0.1:{port}/healthz"
        with urllib.request.urlopen(url, timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    wait_for("the first lists", lambda: lists() >= 3)
    for _ in range(50):
        assert health() == "ok"
    assert lists() == 3
