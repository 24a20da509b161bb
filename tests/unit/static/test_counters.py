"""The counters: names, labels, what a failure is called, and that they do not grow for ever."""

from __future__ import annotations

import pytest

from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.static.counters import BindCounters, answer_of


def lines(counters: BindCounters) -> list[str]:
    """The page without the times at which series were made."""
    text = counters.text().decode()
    return [
        line
        for line in text.splitlines()
        if not ("_created" in line and not line.startswith("# TYPE")) and line
    ]


def timed_out() -> ApiUnavailable:
    try:
        raise ApiUnavailable("no answer in time", maybe_done=True) from TimeoutError()
    except ApiUnavailable as problem:
        return problem


def test_a_page_without_anything() -> None:
    assert lines(BindCounters("test")) == [
        "# HELP schedule_request_total Total binding requests",
        "# TYPE schedule_request_total counter",
        "# HELP schedule_request_success_total Binding successful requests",
        "# TYPE schedule_request_success_total counter",
        "# HELP schedule_request_failure_total Binding failed requests",
        "# TYPE schedule_request_failure_total counter",
    ]


def test_series_have_the_originals_names_and_labels() -> None:
    counters = BindCounters("test")
    for _ in range(2):
        counters.requested("default", "web-0", "n1")
    counters.failed("default", "web-0", "n1", NotFound('pods "web-0" not found'))
    counters.succeeded("default", "web-0", "n1")
    labels = 'namespace="default",node="n1",pod="web-0",scheduler="test"'
    assert [line for line in lines(counters) if not line.startswith("#")] == [
        f"schedule_request_total{{{labels}}} 2.0",
        f"schedule_request_success_total{{{labels}}} 1.0",
        'schedule_request_failure_total{http_status="404",namespace="default",node="n1",'
        'pod="web-0",reason="Not Found",scheduler="test"} 1.0',
    ]
    text = counters.text().decode()
    for name in ("schedule_request", "schedule_request_success", "schedule_request_failure"):
        assert f"# TYPE {name}_created gauge\n{name}_created{{" in text


@pytest.mark.parametrize(
    ("problem", "answer"),
    [
        (Conflict("taken"), ("409", "Conflict")),
        (NotFound("gone"), ("404", "Not Found")),
        (Forbidden("no"), ("403", "Forbidden")),
        (ServerError("oops"), ("500", "Internal Server Error")),
        (ServerError("away", status=503), ("503", "Service Unavailable")),
        (Throttled("slowly"), ("429", "Too Many Requests")),
        (ApiError("strange", status=599, reason="Odd"), ("599", "Odd")),
        (timed_out(), ("0", "Timeout")),
        (ApiUnavailable("reset", maybe_done=True), ("0", "ConnectionLost")),
        (ApiUnavailable("refused"), ("0", "NotSent")),
        (StowplanError("else"), ("0", "StowplanError")),
    ],
)
def test_what_a_failure_is_called(problem: StowplanError, answer: tuple[str, str]) -> None:
    assert answer_of(problem) == answer


def test_the_series_of_pods_long_gone_are_dropped() -> None:
    counters = BindCounters("test", most_series=3)
    for number in (0, 1, 2, 0, 3):
        counters.requested("default", f"web-{number}", "n1")
    pods = [line.split('"')[5] for line in lines(counters) if not line.startswith("#")]
    assert sorted(pods) == ["web-0", "web-2", "web-3"]
    counters.requested("default", "web-1", "n1")
    values = [line.rpartition(" ")[2] for line in lines(counters) if 'pod="web-1"' in line]
    assert values == ["1.0"], "begins anew"
