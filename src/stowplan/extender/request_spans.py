"""Spans of the requests that an extender answers; they continue the caller's trace.

`serving` gives one to the `Service` if spans are exported (`server.tracing`). A request without a
usable `traceparent` begins a trace of its own, if OTEL_TRACES_SAMPLER samples it.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from stowplan.extender.background import SPANS_DROPPED, SPANS_EXPORTED
from stowplan.extender.metrics import Metric
from stowplan.http.parser import RequestHead
from stowplan.server.span_export import SpanExport

_CONTEXT: Final = TraceContextTextMapPropagator()
_HEADERS: Final = ("traceparent", "tracestate")


class RequestSpans:
    """Begins and ends the span of each request."""

    def __init__(self, export: SpanExport) -> None:
        self._export = export

    def begin(self, head: RequestHead) -> Span:
        carrier = {name: value for name in _HEADERS if (value := head.headers.get(name))}
        return self._export.tracer.start_span(
            f"{head.method} {head.path}",
            _CONTEXT.extract(carrier, Context()),
            SpanKind.SERVER,
            {"http.request.method": head.method, "http.route": head.path},
        )

    def measures(self) -> Iterable[Metric]:
        yield Metric(SPANS_EXPORTED, self._export.exported)
        for reason, count in self._export.dropped.items():
            yield Metric(SPANS_DROPPED, count, {"reason": reason})

    def end(self, span: Span, status: int) -> None:
        if not span.is_recording() or not self._export.take(1):
            return
        span.set_attribute("http.response.status_code", status)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(StatusCode.ERROR)
        span.end()
