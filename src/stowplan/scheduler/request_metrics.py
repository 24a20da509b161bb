"""client-go's metrics of requests to the API server: `rest_client_*`.

Watches count as requests when they are answered, but have no duration and no size, as in client-go.
"""

from __future__ import annotations

from typing import Final

from stowplan.scheduler.metric_families import Family, Histogram, Value

_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES: Final = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class RequestMetrics:
    """A `RequestObserver` that counts."""

    def __init__(self) -> None:
        self.requests = _counter(
            "rest_client_requests_total",
            "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            "method",
        )
        self.retries = _counter(
            "rest_client_request_retries_total",
            "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
            "verb",
        )
        self.duration = _histogram(
            "rest_client_request_duration_seconds",
            "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
            _SECONDS,
        )
        self.rate_limiter_duration = _histogram(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
            _SECONDS,
        )
        self.request_size = _histogram(
            "rest_client_request_size_bytes",
            "[ALPHA] Request size in bytes. Broken down by verb and host.",
            _BYTES,
        )
        self.response_size = _histogram(
            "rest_client_response_size_bytes",
            "[ALPHA] Response size in bytes. Broken down by verb and host.",
            _BYTES,
        )

    def all(self) -> tuple[Family[Value] | Family[Histogram], ...]:
        return (
            self.requests,
            self.retries,
            self.duration,
            self.rate_limiter_duration,
            self.request_size,
            self.response_size,
        )

    def answered(self, method: str, host: str, code: str) -> None:
        self.requests.at(code, method, host).value += 1

    def retried(self, method: str, host: str, code: str) -> None:
        self.retries.at(code, method, host).value += 1

    def limited(self, method: str, host: str, seconds: float) -> None:
        self.rate_limiter_duration.at(method, host).observe(seconds)

    def ended(
        self, method: str, host: str, seconds: float, sent: int, received: int | None
    ) -> None:
        self.duration.at(method, host).observe(seconds)
        self.request_size.at(method, host).observe(sent)
        if received is not None:
            self.response_size.at(method, host).observe(received)


def _counter(name: str, help_text: str, verb: str) -> Family[Value]:
    return Family(name, "counter", help_text, ("code", verb, "host"), Value)


def _histogram(name: str, help_text: str, bounds: tuple[float, ...]) -> Family[Histogram]:
    return Family(name, "histogram", help_text, ("verb", "host"), lambda: Histogram(bounds))
