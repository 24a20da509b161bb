"""Spans of scheduling attempts.

`serving` gives an `AttemptSpans` to the engine. An attempt's root span is begun with the attempt,
because OTEL_TRACES_SAMPLER decides by its trace id, and requests to extenders carry it. All other
spans are made of the record when the attempt has ended.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

from stowplan.framework.status import Code
from stowplan.queue.pod import QueuedPod
from stowplan.redaction import redact_url
from stowplan.scheduler.attempt_trace import AttemptTrace, Attribute, Step
from stowplan.server.span_export import SpanExport

#: The name of kube-scheduler's own trace of a decision (k8s.io/utils/trace).
ATTEMPT: Final = "Scheduling"
#: As long as the note of an event may be.
_MAX_MESSAGE: Final = 1024
_ERROR: Final = Code.ERROR.label


class AttemptSpans:
    """The engine's tracer."""

    def __init__(self, export: SpanExport) -> None:
        self._export = export

    def begin(self, queued: QueuedPod, started: float) -> AttemptTrace:
        clock = self._export.clock
        epoch_ns = _ns(clock.time()) - _ns(clock.monotonic())
        root = self._export.tracer.start_span(
            ATTEMPT, Context(), start_time=epoch_ns + _ns(started)
        )
        context = root.get_span_context()
        trace = AttemptTrace(
            context.trace_id,
            context.trace_flags.sampled,
            clock,
            self._export.ids.generate_span_id,
            root,
            epoch_ns,
        )
        if trace.is_sampled:
            trace.attributes = _attributes(queued, started)
        return trace

    def end(self, trace: AttemptTrace, result: str, message: str) -> None:
        count = 1 + len(trace.points) + len(trace.calls)
        if not trace.is_sampled or not self._export.take(count):
            return
        root: Span = trace.root
        within = set_span_in_context(root, Context())
        points = [(step, self._make(step, trace, within)) for step in trace.points]
        for step in trace.calls:
            # Nothing else runs for this pod meanwhile, so the times tell which point asked.
            parents = (
                set_span_in_context(span, Context())
                for point, span in points
                if point.began <= step.began and step.ended <= point.ended
            )
            self._make(step, trace, next(parents, within))
        root.set_attributes({**trace.attributes, "scheduler.result": result})
        if trace.left_out:
            root.set_attribute("scheduler.spans_left_out", trace.left_out)
        if message:
            root.set_attribute("scheduler.message", message[:_MAX_MESSAGE])
        if result == "error":
            root.set_status(StatusCode.ERROR, message[:_MAX_MESSAGE])
        root.end(trace.epoch_ns + _ns(trace.clock.monotonic()))

    def _make(self, step: Step, trace: AttemptTrace, parent: Context) -> Span:
        """Export the span of a step."""
        attributes: dict[str, Attribute] = {"scheduler.status": step.status}
        if step.url:
            attributes["http.request.method"] = "POST"
            attributes["url.full"] = redact_url(step.url)
        self._export.ids.next_span_id = step.span_id
        span = self._export.tracer.start_span(
            step.name,
            parent,
            SpanKind.CLIENT if step.url else SpanKind.INTERNAL,
            attributes,
            start_time=trace.epoch_ns + _ns(step.began),
        )
        if step.status == _ERROR:
            span.set_status(StatusCode.ERROR, step.problem[:_MAX_MESSAGE])
        span.end(trace.epoch_ns + _ns(step.ended))
        return span


def _attributes(queued: QueuedPod, started: float) -> dict[str, Attribute]:
    """What is known of an attempt when it begins."""
    metadata = queued.pod.metadata
    return {
        "k8s.namespace.name": metadata.namespace,
        "k8s.pod.name": metadata.name,
        "k8s.pod.uid": queued.pod.uid,
        "scheduler.profile": queued.scheduler_name,
        "scheduler.attempt": queued.attempts,
        "scheduler.queue_wait_seconds": max(0.0, started - queued.timestamp),
    }


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
