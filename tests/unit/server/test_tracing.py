"""Which variables turn tracing on, and what is said where it cannot be."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Span

from stowplan.clock import VirtualClock
from stowplan.server.span_export import SpanExport
from stowplan.server.tracing import start_tracing

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture
async def small(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SpanExport]:
    """A queue of four spans, which are sent only at the end, and then not by a network."""
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda *_: SpanExportResult.SUCCESS)
    monkeypatch.setenv(ENDPOINT, NOWHERE)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1000000")
    export = SpanExport("test", VirtualClock())
    yield export
    await export.close()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: NOWHERE, "OTEL_SDK_DISABLED": "True"},
        {ENDPOINT: NOWHERE, "OTEL_TRACES_EXPORTER": "none"},
        {ENDPOINT: NOWHERE, "OTEL_TRACES_EXPORTER": "console"},
        {"OTEL_SERVICE_NAME": "mine"},
    ],
    ids=str,
)
def test_tracing_is_off(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert start_tracing("test") is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            {ENDPOINT: "collector:4318"},
            f"{ENDPOINT}=collector:4318 is not an http or https URL. "
            "Fix: use a URL such as http://collector:4318",
        ),
        ({ENDPOINT: "http://user:secret@:4318"}, f"{ENDPOINT}=http://user:xxxxx@:4318 is not"),
        ({ENDPOINT: "http://c:port"}, f"{ENDPOINT}=http://c:port is not an http"),
        (
            {ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported. Fix: use http/protobuf",
        ),
        (
            {ENDPOINT: NOWHERE, "OTEL_BSP_MAX_QUEUE_SIZE": "many"},
            "OpenTelemetry refuses the OTEL_* variables: OTEL_BSP_MAX_QUEUE_SIZE=many is not a",
        ),
        (
            {ENDPOINT: NOWHERE, "OTEL_BSP_MAX_QUEUE_SIZE": "1"},
            "OpenTelemetry refuses the OTEL_* variables: max_export_batch_size must be less than",
        ),
    ],
    ids=str,
)
def test_a_wrong_variable_turns_tracing_off_with_one_line(
    variables: dict[str, str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert start_tracing("test") is None
    (line,) = caplog.records
    assert line.getMessage() == "Tracing is off"
    assert line.__dict__["kv"]["reason"].startswith(reason)
    assert "secret" not in str(line.__dict__)


async def test_the_endpoint_is_shown_without_its_password(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:secret@127.0.0.1:9/v1")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "sometimes")
    with caplog.at_level(logging.INFO, "stowplan"):
        export = start_tracing("test")
    assert export is not None
    await export.close()
    told = [str(record.__dict__["kv"]) for record in caplog.records]
    assert "sampler sometimes" in told[0], "OpenTelemetry's own complaints are shown"
    assert "http://me:xxxxx@127.0.0.1:9/v1" in told[1]


def test_without_an_endpoint_the_sdk_is_not_even_imported() -> None:
    code = (
        "import sys\n"
        "import stowplan.extender.serving, stowplan.server.serving\n"
        "from stowplan.server.tracing import start_tracing\n"
        "assert start_tracing('test') is None\n"
        "print(sorted({'opentelemetry', 'requests', 'google'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


async def test_a_trace_that_the_queue_cannot_hold_is_dropped_whole(
    small: SpanExport, caplog: pytest.LogCaptureFixture
) -> None:
    def end(count: int) -> None:
        spans: list[Span] = [small.tracer.start_span("s") for _ in range(count)]
        if small.take(count):
            for span in spans:
                span.end()

    end(3)
    end(2)
    end(5)
    assert small.dropped == {"queue_full": 7, "export_failed": 0}
    (line,) = caplog.records
    assert "queue of spans is full" in line.__dict__["kv"]["reason"], "told once, not twice"
    end(1)
    assert small.dropped["queue_full"] == 7


async def test_ids_are_those_that_were_given_out(small: SpanExport) -> None:
    given = small.ids.generate_span_id()
    small.ids.next_span_id = given
    context = small.tracer.start_span("first").get_span_context()
    assert context.span_id == given
    assert small.tracer.start_span("second").get_span_context().span_id != given
