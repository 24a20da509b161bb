"""`make tracing-collector`: a real OpenTelemetry collector takes the spans of a scheduler.

Not part of `make test`, because building the collector takes minutes.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.controlplane_fixtures import require_binaries
from tests.integration.target import Target
from tests.integration.test_tracing import (
    BINDING,
    DECISION,
    RESERVATION,
    embedded_only,
    free_port,
    stop,
)
from tests.waiting import wait_for


@embedded_only
def test_a_real_collector_takes_the_spans(target: Target, tmp_path: Path) -> None:
    otelcol = require_binaries("otelcol")["otelcol"]
    port, config, log = free_port(), tmp_path / "otelcol.yaml", tmp_path / "otelcol.log"
    config.write_text(
        f'receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}\n'
        "exporters: {debug: {verbosity: detailed}}\n"
        "service:\n"
        "  telemetry: {metrics: {level: none}}\n"
        "  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}\n"
    )
    with log.open("wb") as stream:
        command = [str(otelcol), f"--config=file:{config}"]
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        wait_for("the collector", lambda: "Everything is ready" in log.read_text())
        target.create_nodes("n1")
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        scheduler = target.start(env=env)
        target.create_pods("a")
        target.wait_bound("a")
        stop(scheduler)
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
    printed = re.findall(r"Parent ID\s*: (\w*)\n\s*ID\s*: (\w+)\n\s*Name\s*: (.+)", log.read_text())
    ids = {name.strip(): span for _, span, name in printed}
    parents = {name.strip(): parent for parent, _, name in printed}
    assert parents.pop("Scheduling") == ""
    assert parents.pop("DefaultBinder") == ids["Bind"]
    assert list(parents) == DECISION[:2] + RESERVATION + BINDING, "one node is not scored"
    assert set(parents.values()) == {ids["Scheduling"]}
