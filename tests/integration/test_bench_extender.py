"""`make bench-extender` in small: both contestants, or at least ours, asked a few questions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.bench.extender_contestants import CannotMeasure, flask_python

pytestmark = pytest.mark.timeout(300)


def bench(*flags: str) -> subprocess.CompletedProcess[str]:
    tiny = ["--quick", "--sizes=3", "--seconds=0.05", "--connections=2"]
    return subprocess.run(
        [sys.executable, "-m", "stowplan.lab.bench.extender", *tiny, *flags],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def flask() -> Path:
    """Needs the package index, once."""
    try:
        return flask_python()
    except CannotMeasure as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED beside Flask: {problem}")


def cells_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["errors"] == 0
    cells: list[dict[str, Any]] = document["cells"]
    return cells


def test_ours_alone() -> None:
    cells = cells_of(bench("--only=stowplan", "--workers=1,2", "-o", "json"))
    assert [(cell["workers"], cell["mode"]) for cell in cells] == [
        (1, "node names"),
        (1, "whole nodes"),
        (2, "node names"),
        (2, "whole nodes"),
    ]
    assert min(cell["requests"] for cell in cells) >= 32
    assert {cell["connections_made"] for cell in cells} == {2}


@pytest.mark.usefixtures("flask")
def test_beside_flask_with_sync_workers() -> None:
    done = bench("--workers=1", "-o", "json")
    cells = cells_of(done)
    assert [cell["contestant"] for cell in cells] == ["stowplan"] * 2 + ["flask"] * 2
    document = json.loads(done.stdout)
    assert [each["ratio"]["median"] > 0 for each in document["ratios"]] == [True, True]
    for cell in cells[2:]:
        assert cell["connections_made"] == cell["requests"]
    assert any("sync workers close each connection" in note for note in document["notes"])


@pytest.mark.usefixtures("flask")
def test_beside_flask_that_keeps_connections() -> None:
    done = bench("--workers=2", "--modes=names", "--gunicorn-worker-class=gthread")
    assert done.returncode == 0, done.stderr
    assert "gunicorn: gthread workers keep connections" in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("3 node names  ")][:1]
    assert row.split()[-1] in ("met", "MISSED")
    assert "round 1 of 1, flask, workers: 2" in done.stderr
