"""Says once that the API server is away and once that it is back, however many of us notice.

One per client; informers report to it. Without it twenty informers would log twenty times.
"""

from __future__ import annotations

from stowplan.logs import get_logger, kv
from stowplan.redaction import redact_url

log = get_logger(__name__)


class Reachability:
    """Away from the first source's failure until every source that failed has recovered."""

    def __init__(self, server: str) -> None:
        self._server = redact_url(server)
        self._failing: set[str] = set()

    @property
    def is_away(self) -> bool:
        return bool(self._failing)

    def failed(self, source: str, error: Exception) -> None:
        if not self._failing:
            log.warning(
                "API server cannot be reached, trying again until it can",
                extra=kv(server=self._server, err=error),
            )
        self._failing.add(source)

    def recovered(self, source: str) -> None:
        if source in self._failing:
            self._failing.remove(source)
            if not self._failing:
                log.info("API server can be reached again", extra=kv(server=self._server))
