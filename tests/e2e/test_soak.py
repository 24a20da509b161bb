"""Twenty seconds of the soak that `make soak` runs for half an hour."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.lab.bench.soak_figures import FEWEST_SAMPLES
from tests.controlplane_fixtures import require_binaries

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_short_soak(tmp_path: Path) -> None:
    require_binaries("etcd", "kube-apiserver", "kubectl")
    result = tmp_path / "soak.json"
    sizes = ["--minutes=0.33", "--nodes=20", "--rate=15", "--interval=1"]
    done = subprocess.run(
        [sys.executable, "-m", "stowplan.lab.bench.soak", *sizes, f"--json={result}"],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(result.read_text())
    assert figures["faults"] == []
    assert figures["agrees"] is True
    assert figures["bound"] + figures["never_bound"] == figures["created"] > 200
    assert figures["preempted"] > 0
    assert len(figures["samples"]) >= FEWEST_SAMPLES
    # Nodes come and go: the last sample may miss one.
    assert max(each["series"]["scheduler_cache_size,nodes"] for each in figures["samples"]) == 20
