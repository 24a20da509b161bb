"""A collector of spans for tests: OTLP over HTTP, decoded with OpenTelemetry's protobuf types.

It can also behave badly: answer with a status, with junk, without end, or not at all.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.integration.http_thread import serving
from tests.waiting import wait_for

Mood = Literal["good", "500", "junk", "endless", "silent"]


@dataclass(frozen=True)
class ReceivedSpan:
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    is_error: bool
    service: str
    resource: dict[str, Any] = field(hash=False, compare=False)

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


class Receiver:
    """What the collector got."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.mood: Mood = "good"
        #: Set at the end, for requests that are never answered.
        self.over = threading.Event()
        self.requests = 0
        self._spans: list[ReceivedSpan] = []

    def env(self, **more: str) -> dict[str, str]:
        """The variables of a process that exports here, at once."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            **more,
        }

    def take(self, body: bytes) -> None:
        for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _attributes(batch.resource.attributes)
            for scope in batch.scope_spans:
                self._spans += [_received(span, resource) for span in scope.spans]

    def spans(self, name: str = "") -> list[ReceivedSpan]:
        return [span for span in list(self._spans) if not name or span.name == name]

    def attempts(self, pod: str, result: str = "") -> list[ReceivedSpan]:
        """The root spans of a pod's attempts, in their order."""
        return sorted(
            (
                span
                for span in self.spans("Scheduling")
                if span.attributes["k8s.pod.name"] == pod
                and result in ("", span.attributes["scheduler.result"])
            ),
            key=lambda span: span.start_ns,
        )

    def wait_attempt(self, pod: str, result: str) -> ReceivedSpan:
        return wait_for(f"a trace of {pod} that is {result}", lambda: self.attempts(pod, result))[0]

    def children(self, parent: ReceivedSpan) -> list[ReceivedSpan]:
        """In the order in which they began; those that took no time in the order of their end."""
        return sorted(
            (span for span in self.spans() if span.parent_id == parent.span_id),
            key=lambda span: (span.start_ns, span.end_ns),
        )

    def check_trees(self) -> None:
        """Every trace is one tree, and every span lies within its parent's time."""
        traces: dict[str, dict[str, ReceivedSpan]] = defaultdict(dict)
        for span in self.spans():
            assert span.span_id not in traces[span.trace_id], "sent once"
            traces[span.trace_id][span.span_id] = span
        for trace in traces.values():
            assert len([span for span in trace.values() if not span.parent_id]) == 1, trace
            for span in trace.values():
                assert 0 < span.start_ns <= span.end_ns, span
                if span.parent_id:
                    parent = trace[span.parent_id]
                    if parent.service == span.service:  # each process has its own clock reading
                        assert parent.start_ns <= span.start_ns, (parent, span)
                        assert span.end_ns <= parent.end_ns, (parent, span)


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/x-protobuf"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests += 1
            mood = receiver.mood
            if mood == "silent":
                receiver.over.wait(60)
                self.close_connection = True
            elif mood == "junk":
                self.wfile.write(b"\x00\xff what?\r\n" * 100)
                self.close_connection = True
            elif mood == "endless":
                self._go_on_and_on()
            elif mood == "500":
                self._answer(500, b"no")
            else:
                assert self.path == "/v1/traces"
                receiver.take(body)
                self._answer(200, b"")

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _go_on_and_on(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            try:
                while not receiver.over.is_set():
                    self.wfile.write(bytes(1 << 20))
            except OSError:
                pass
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    with serving(Handler) as port:
        receiver = Receiver(port)
        try:
            yield receiver
        finally:
            receiver.over.set()


def closed_port() -> str:
    """The address of a collector that is down."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def _received(span: trace_pb2.Span, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        is_error=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        service=resource["service.name"],
        resource=resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair) for pair in pairs}


def _value(pair: KeyValue) -> Any:
    value: AnyValue = pair.value
    return getattr(value, str(value.WhichOneof("value")))
