"""Metrics of authentication, authorisation and their reviews, with kube-scheduler's names.

`https` makes one for its port and shows it on /metrics; `https_site`, `authentication` and
`authorization` count. User names never are labels.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stowplan.errors import ApiError
from stowplan.scheduler.metric_families import Family, Histogram, Value, exponential

_DURATIONS: Final = exponential(0.001, 2, 15)
_REVIEWS: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
#: Prometheus' own default, which Go's library uses where no buckets are given.
_DEFAULT: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_LIFETIMES: Final = (
    *(0.0, _HOUR / 2, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(days * _DAY for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)
#: User names that are shown as they are; all others are `email_id` or `other`.
_SHOWN_USERS: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)


class ReviewMetrics:
    """Requests for TokenReviews (`authn`) or SubjectAccessReviews (`authz`)."""

    def __init__(self, kind: str) -> None:
        name = f"apiserver_delegated_{kind}_request"
        self._total = _counter(
            f"{name}_total", "Number of HTTP requests partitioned by status code.", "code"
        )
        self._duration = _histogram(
            f"{name}_duration_seconds",
            "Request latency in seconds. Broken down by status code.",
            _REVIEWS,
            "code",
        )

    def all(self) -> tuple[Family[Value] | Family[Histogram], ...]:
        return self._total, self._duration

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count the request that is sent inside."""
        started, code = time.perf_counter(), "<error>"
        try:
            yield
            code = "201"
        except ApiError as error:
            code = str(error.status)
            raise
        finally:
            self._total.at(code).value += 1
            self._duration.at(code).observe(time.perf_counter() - started)


class AccessMetrics:
    """What an HTTPS port counts about its clients."""

    def __init__(self) -> None:
        self.token_reviews = ReviewMetrics("authn")
        self.access_reviews = ReviewMetrics("authz")
        self._users = _counter(
            "authenticated_user_requests",
            "Counter of authenticated requests broken out by username.",
            "username",
        )
        self._authentications = _counter(
            "authentication_attempts", "Counter of authenticated attempts.", "result"
        )
        self._authentication_duration = _histogram(
            "authentication_duration_seconds",
            "Authentication duration in seconds broken out by result.",
            _DURATIONS,
            "result",
        )
        self._authorizations = _counter(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result. It can be either 'allowed', "
            "'denied', 'no-opinion' or 'error'.",
            "result",
        )
        self._authorization_duration = _histogram(
            "authorization_duration_seconds",
            "Authorization duration in seconds broken out by result.",
            _DURATIONS,
            "result",
        )
        self._lifetimes = _histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a "
            "request.",
            _LIFETIMES,
        )
        cache = "authentication_token_cache"
        self._lookups = _counter(f"{cache}_request_total", "", "status")
        self._lookup_duration = _histogram(
            f"{cache}_request_duration_seconds", "", _DEFAULT, "status"
        )
        self._fetches = _counter(f"{cache}_fetch_total", "", "status")
        self._active: Family[Value] = Family(
            f"{cache}_active_fetch_count", "gauge", "[ALPHA]", ("status",), Value
        )

    def all(self) -> tuple[Family[Value] | Family[Histogram], ...]:
        return (
            *self.token_reviews.all(),
            *self.access_reviews.all(),
            self._users,
            self._authentications,
            self._authentication_duration,
            self._authorizations,
            self._authorization_duration,
            self._lifetimes,
            self._lookups,
            self._lookup_duration,
            self._fetches,
            self._active,
        )

    def authenticated(self, user: str | None, seconds: float) -> None:
        """A request was authenticated, or not (None)."""
        result = "error" if user is None else "success"
        if user is not None:
            self._users.at(_shown_user(user)).value += 1
        self._authentications.at(result).value += 1
        self._authentication_duration.at(result).observe(seconds)

    def authorized(self, result: str, seconds: float) -> None:
        """`result` is allowed, denied, no-opinion or error."""
        self._authorizations.at(result).value += 1
        self._authorization_duration.at(result).observe(seconds)

    def certificate_shown(self, seconds_left: float) -> None:
        self._lifetimes.at().observe(seconds_left)

    @contextmanager
    def token_lookup(self, *, is_hit: bool) -> Iterator[None]:
        """Count a lookup in the cache of tokens, and while it waits for an answer."""
        started, status = time.perf_counter(), "hit" if is_hit else "miss"
        waiting = self._active.at("blocked")
        waiting.value += not is_hit
        try:
            yield
        finally:
            waiting.value -= not is_hit
            self._lookups.at(status).value += 1
            self._lookup_duration.at(status).observe(time.perf_counter() - started)

    def token_fetch_began(self) -> None:
        self._active.at("in_flight").value += 1

    def token_fetch_ended(self, *, is_known: bool) -> None:
        """A token was reviewed: its user is known, or it is wrong or the review has failed."""
        self._active.at("in_flight").value -= 1
        self._fetches.at("ok" if is_known else "error").value += 1


def _shown_user(name: str) -> str:
    if name in _SHOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"


def _counter(name: str, help_text: str, *labels: str) -> Family[Value]:
    return Family(name, "counter", f"[ALPHA] {help_text}".strip(), labels, Value)


def _histogram(
    name: str, help_text: str, bounds: tuple[float, ...], *labels: str
) -> Family[Histogram]:
    text = f"[ALPHA] {help_text}".strip()
    return Family(name, "histogram", text, labels, lambda: Histogram(bounds))
