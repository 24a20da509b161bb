"""Whether spans are exported, and where to: OpenTelemetry's environment variables.

`serving` and the extender call `start_tracing`. It imports the SDK, which is the extra
`stowplan[otel]`, only if an endpoint is set. Invariant: tracing never keeps a process from
starting. A wrong setting or a missing extra turns it off, with one line in the log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from stowplan.clock import Clock, SystemClock
from stowplan.logs import get_logger, kv
from stowplan.redaction import redact_url

if TYPE_CHECKING:
    from stowplan.server.span_export import SpanExport

log = get_logger(__name__)

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP: Final = "http/protobuf"


class _Unusable(Exception):
    """Why spans cannot be exported, and what to do."""


def start_tracing(service: str, clock: Clock | None = None) -> SpanExport | None:
    """Start to export spans if the environment asks for it; close it at the end.

    `service` is the default of `service.name`.
    """
    variable = _endpoint_variable()
    if variable is None:
        return None
    try:
        endpoint = _checked_endpoint(variable)
        export = _start(service, clock or SystemClock())
    except _Unusable as problem:
        log.error("Tracing is off", extra=kv(reason=str(problem)))
        return None
    log.info("Tracing", extra=kv(endpoint=redact_url(endpoint)))
    return export


def _endpoint_variable() -> str | None:
    """The variable that names the collector; None if tracing is off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    exporters = os.environ.get("OTEL_TRACES_EXPORTER", "") or "otlp"
    if "otlp" not in map(str.strip, exporters.split(",")):
        return None
    return next((name for name in _ENDPOINTS if os.environ.get(name)), None)


def _checked_endpoint(variable: str) -> str:
    endpoint = os.environ[variable]
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not endpoint.isprintable():
        raise _Unusable(
            f"{variable}={redact_url(endpoint)} is not an http or https URL. "
            "Fix: use a URL such as http://collector:4318"
        )
    for name in _PROTOCOLS:
        protocol = os.environ.get(name)
        if protocol and protocol != _HTTP:
            raise _Unusable(
                f"{name}={protocol} is not supported. Fix: use {_HTTP}, and the collector's port "
                "for OTLP over HTTP (4318 by default)"
            )
        if protocol:
            break
    return endpoint


def _start(service: str, clock: Clock) -> SpanExport:
    try:
        from stowplan.server.span_export import SpanExport  # tens of milliseconds
    except ImportError as problem:
        raise _Unusable(
            f"the extra otel is not installed ({problem.name or problem} is missing). Fix: pip "
            "install 'stowplan[otel]'; for an image or a pex, see docs/tracing.md"
        ) from problem
    try:
        return SpanExport(service, clock)
    except (ValueError, OSError) as problem:
        raise _Unusable(f"OpenTelemetry refuses the OTEL_* variables: {problem}") from problem
