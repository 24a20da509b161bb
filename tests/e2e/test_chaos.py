"""A minute of `make chaos` on a small cluster: six kills, and every other fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane_fixtures import require_binaries

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_minute_of_chaos(tmp_path: Path) -> None:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
    sizes = ["--seed=1", "--minutes=1", "--nodes=60", "--rate=10", f"--keep={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "tools.chaos", *sizes], capture_output=True, text=True, timeout=580
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"] == []
    assert report["binds"] > 250
    kills = sum(count for label, count in report["faults"].items() if "scheduler kill" in label)
    assert kills == 6
    assert report["recovery_s"]["scheduler kill (leader)"]["count"] > 0
    assert {"API server kill", "etcd kill", "storm", "clock jump"} <= {*report["faults"]}
