"""Exports spans by OTLP over HTTP with OpenTelemetry's SDK, within bounds.

Importing this module needs the extra `stowplan[otel]`; `tracing` imports it when it is wanted.

A thread of the SDK sends batches, so a collector that is down, slow or broken delays nothing else.
What must stay true:

- The queue holds at most OTEL_BSP_MAX_QUEUE_SIZE spans. A trace that does not fit is dropped whole.
- Every span that does not reach the collector is counted.
- At the end, `close` waits for the last spans for a few seconds at most.
- The SDK's own log lines are shown without traceback, at most one of a kind per `FOLDED_S`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator

from stowplan import __version__
from stowplan.clock import Clock
from stowplan.logs import Folding, get_logger, kv

log = get_logger(__name__)

#: How long the end of the process waits for the last spans.
_FLUSH_S: Final = 3.0
_DEFAULT_QUEUE: Final = 2048
#: What is read of a collector's answer, whose body means nothing to us.
_ANSWER_BYTES: Final = 64 * 1024
_MAX_REASON: Final = 500
_FULL: Final = "the queue of spans is full, so traces are dropped"


class SpanExport:
    """A tracer provider of our own; it is not the process's global one."""

    def __init__(self, service: str, clock: Clock) -> None:
        self.clock = clock
        self.ids = PresetIds()
        self._full = Folding()
        _fold_log_lines(clock)
        size = _queue_size()
        session = requests.Session()
        session.stream = True
        session.hooks["response"] = [_drop_body]
        self._exporter = _CountingExporter(OTLPSpanExporter(session=session), size)
        self._provider = TracerProvider(
            resource=_resource(service), id_generator=self.ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, max_queue_size=size))
        self.tracer = self._provider.get_tracer("stowplan", __version__)

    def take(self, count: int) -> bool:
        """Whether so many spans may be ended. If the queue has no room, they count as dropped."""
        if self._exporter.take(count):
            return True
        left_out = self._full.turn(self.clock.monotonic())
        if left_out is not None:
            log.warning("Problem with tracing", extra=kv(reason=_FULL, repeated=left_out))
        return False

    @property
    def exported(self) -> int:
        return self._exporter.exported

    @property
    def dropped(self) -> dict[str, int]:
        """Spans that did not reach the collector, by reason."""
        return {"queue_full": self._exporter.refused, "export_failed": self._exporter.failed}

    async def close(self) -> None:
        """Send what is left, for `_FLUSH_S` at most. The thread is not waited for after that."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                pass  # too late: the loop is closed

        threading.Thread(target=shut_down, name="spans", daemon=True).start()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await done.wait()
        except TimeoutError:
            pass
        lost = self._exporter.waiting + sum(self.dropped.values())
        if lost:
            log.warning("Spans were not delivered", extra=kv(count=lost, exported=self.exported))


class PresetIds(IdGenerator):
    """Random ids, except that `next_span_id` is used first if it is set."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.next_span_id = 0

    def generate_trace_id(self) -> int:
        return self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        preset, self.next_span_id = self.next_span_id, 0
        return preset or self._random.generate_span_id()


class _CountingExporter(SpanExporter):
    """Counts spans in and out. `take` is called by the event loop, `export` by the SDK's thread;
    each counter has one writer."""

    def __init__(self, exporter: SpanExporter, queue_size: int) -> None:
        self._exporter = exporter
        self._queue_size = queue_size
        self._taken = 0
        self._begun = 0
        self.refused = 0
        self.exported = 0
        self.failed = 0

    @property
    def waiting(self) -> int:
        """Spans without an outcome yet."""
        return self._taken - self.exported - self.failed

    def take(self, count: int) -> bool:
        """Whether the queue has room for so many spans; if not, they count as dropped."""
        if self._taken - self._begun + count > self._queue_size:
            self.refused += count
            return False
        self._taken += count
        return True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._begun += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is SpanExportResult.SUCCESS:
                self.exported += len(spans)
            else:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _drop_body(response: requests.Response, **_: Any) -> None:
    """Read what has arrived of an answer; a short one leaves its connection usable."""
    response.raw.read1(_ANSWER_BYTES)
    response.close()


def _queue_size() -> int:
    text = os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE, "") or str(_DEFAULT_QUEUE)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{OTEL_BSP_MAX_QUEUE_SIZE}={text} is not a number") from None


def _resource(service: str) -> Resource:
    """OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before our defaults."""
    found = Resource.create()
    ours = {SERVICE_VERSION: __version__, SERVICE_NAME: service}
    if not str(found.attributes[SERVICE_NAME]).startswith("unknown_service"):
        del ours[SERVICE_NAME]
    return found.merge(Resource(ours))


class _FoldedLog(logging.Handler):
    """Shows the SDK's log lines as ours."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._folding: dict[str, Folding] = {}

    def emit(self, record: logging.LogRecord) -> None:
        folding = self._folding.setdefault(str(record.msg), Folding())
        left_out = folding.turn(self._clock.monotonic())
        if left_out is not None:
            reason = record.getMessage()[:_MAX_REASON]
            log.warning("Problem with tracing", extra=kv(reason=reason, repeated=left_out))


def _fold_log_lines(clock: Clock) -> None:
    theirs = logging.getLogger("opentelemetry")
    theirs.handlers = [_FoldedLog(clock)]
    theirs.propagate = False
