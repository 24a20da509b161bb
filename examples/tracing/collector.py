"""A collector that prints traces, for a first look without Jaeger or Grafana Tempo.

    python examples/tracing/collector.py [PORT]

It takes OTLP over HTTP on 127.0.0.1, port 4318, and prints each trace as a tree once its root has
arrived. It needs the extra `stowplan[otel]`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

#: Spans that wait for their root, by trace.
waiting: dict[bytes, list[Span]] = defaultdict(list)


def show(spans: list[Span], parent: bytes, depth: int) -> None:
    for span in sorted(spans, key=lambda span: span.start_time_unix_nano):
        if span.parent_span_id == parent:
            took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            found = {pair.key: pair.value.string_value for pair in span.attributes}
            about = " ".join(
                found[key]
                for key in ("k8s.pod.name", "scheduler.result", "k8s.node.name")
                if key in found
            )
            print(f"{'  ' * depth + span.name:<28}{took:9.3f} ms  {about}".rstrip(), flush=True)
            show(spans, span.span_id, depth + 1)


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    waiting[span.trace_id].append(span)
        for trace, spans in list(waiting.items()):
            if any(not span.parent_span_id for span in spans):
                show(waiting.pop(trace), b"", 0)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Only traces are printed."""


port = int(sys.argv[1]) if len(sys.argv) > 1 else 4318
try:
    server = ThreadingHTTPServer(("127.0.0.1", port), Collector)
    print(f"Collecting on http://127.0.0.1:{port}", flush=True)
    server.serve_forever()
except OSError as problem:
    sys.exit(f"port {port}: {problem.strerror}. Fix: name another port")
except KeyboardInterrupt:
    pass
