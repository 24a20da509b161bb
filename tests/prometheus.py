"""Prometheus and promtool for tests: Debian's package `prometheus` has both.

What must stay true: a missing program is never silent (in CI it fails the test, elsewhere it skips
with the command that installs it); Prometheus listens on loopback, and is stopped by its own id.
"""

from __future__ import annotations

import json
import math
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from stowplan.lab.controlplane.processes import ServerProcess
from tests.missing_part import skip_or_fail
from tests.waiting import wait_for

Json = dict[str, Any]


def require_prometheus(name: str = "prometheus") -> str:
    """The path of `prometheus` or `promtool`; skips or fails the test where it is missing."""
    if found := shutil.which(name):
        return found
    message = f"{name} is missing: apt-get install prometheus (as .ci/run does)"
    return skip_or_fail(message)


class Prometheus:
    """A running Prometheus; made by `run_prometheus`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._started = time.time()

    def ask(self, path: str, **parameters: Any) -> Any:
        """`data` of an answer of its API; a query that it rejects raises."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def now(self, query: str) -> list[Json]:
        found: list[Json] = self.ask("query", query=query)["result"]
        return found

    def values(self, query: str) -> list[float]:
        """Every number that the query has had, in any series, since Prometheus was started."""
        end = time.time() + 1  # else the last step might be before the latest samples
        found = self.ask("query_range", query=query, start=self._started, end=end, step=0.5)
        numbers = [float(value) for row in found["result"] for _, value in row["values"]]
        return [number for number in numbers if math.isfinite(number)]


@contextmanager
def run_prometheus(directory: Path, port: int, config: Json) -> Iterator[Prometheus]:
    """Prometheus on a loopback port, once it is ready."""
    program = require_prometheus()
    directory.mkdir()
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{port}"
    command = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    process = ServerProcess("prometheus", command, directory / "prometheus.log", url)

    def is_ready() -> bool:
        assert process.running, process.tail()
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)

    try:
        wait_for("Prometheus to be ready", is_ready)
        yield Prometheus(url)
    finally:
        process.stop()
