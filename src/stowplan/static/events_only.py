"""A reporter for roles that allow only events: it writes no conditions and no nominations."""

from __future__ import annotations

from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.reporter import Reporter


class EventsOnly(Reporter):
    """Pods are left as they are; the API server itself says PodScheduled when one is bound."""

    def condition(self, failure: Failure) -> None:
        """Would be a patch."""

    async def expected(self, placement: Placement) -> None:
        """Would be a patch."""
