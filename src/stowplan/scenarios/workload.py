"""Arrivals that somebody else made up, played as one step: scheduler_perf, traces, generators."""

from __future__ import annotations

from stowplan.errors import ConfigError
from stowplan.scenarios.actions import Place, Play
from stowplan.scenarios.cluster import Cluster


async def play_workload(cluster: Cluster, played: Play, place: Place) -> None:
    """To its end: every pod arrived, and whatever it waits for itself has happened."""
    raise ConfigError(f"`{played.source}` cannot be played yet", where=str(place))
