"""What a transport reports of its requests; `scheduler.request_metrics` counts it."""

from __future__ import annotations

from typing import Final, Protocol

#: client-go's code of a request without a response.
NO_CODE: Final = "<error>"


class RequestObserver(Protocol):
    """`host` is the API server as its URL names it, with the port if there is one."""

    def answered(self, method: str, host: str, code: str) -> None:
        """An HTTP response came, or none (`NO_CODE`); each retry counts by itself."""

    def retried(self, method: str, host: str, code: str) -> None:
        """A request is sent again after this code."""

    def limited(self, method: str, host: str, seconds: float) -> None:
        """A request waited this long for the rate limit."""

    def ended(
        self, method: str, host: str, seconds: float, sent: int, received: int | None
    ) -> None:
        """A request ended, with its retries; bytes of both bodies, None if it failed."""
