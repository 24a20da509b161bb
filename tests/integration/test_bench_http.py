"""The comparison of our HTTP with aiohttp runs, and every contestant answers."""

from __future__ import annotations

import re
import subprocess
import sys


def test_all_contestants_are_measured() -> None:
    command = [sys.executable, "-m", "stowplan.bench.http_costs"]
    short = ["--rounds=1", "--seconds=0.5", "--binds=320"]
    shown = subprocess.run(
        [*command, *short], capture_output=True, text=True, timeout=300, check=False
    )
    assert shown.returncode == 0, shown.stderr
    header, *lines = shown.stdout.strip().split("\n")
    assert header.split() == ["ours", "aiohttp", "ratio"]
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert [row[0].split(",")[0] for row in rows] == ["bind", *["extender"] * 3, *["health"] * 3]
    assert all(float(figure) > 0 for row in rows for figure in row[-3:-1])
