"""Parts of the extender that list and watch a cluster.

Invariant: denied or failed requests are retried for as long as the part runs. Meanwhile decisions
use the data that is there.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.extender.background import Troubles, end

_RETRY_S: Final = 5.0


class Follower:
    """A part that runs (see `background.Runs`): subclasses choose what to follow."""

    def __init__(self, config: ClusterConfig, what: str) -> None:
        self._config = config
        self._client: ApiClient | None = None
        self._informers: dict[str, Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._troubles = Troubles(what)
        #: The last error of each informer that failed.
        self._refusals: dict[str, str] = {}

    async def start(self) -> None:
        if self._client is None:
            self._client = ApiClient(self._config, user_agent="stowplan-extender")
            self._follow_all(self._client)

    def _follow_all(self, client: ApiClient) -> None:
        """Call `_follow` for each informer."""
        raise NotImplementedError

    async def stop(self) -> None:
        await end(*self._tasks)
        self._tasks.clear()
        if self._client is not None:
            await self._client.close()
            self._client = None

    def note(self) -> str | None:
        if self._client is not None and self._client.reachability.is_away:
            return "the API server cannot be reached: using the last known state"
        return None

    def _unlisted(self) -> list[str]:
        return [what for what, informer in self._informers.items() if not informer.synced.is_set()]

    def _follow(self, what: str, informer: Informer[Any]) -> None:
        self._informers[what] = informer

        async def follow() -> None:
            while True:
                try:
                    await informer.run()
                except Exception as error:  # denied: an administrator may still grant access
                    self._refusals[what] = str(error)
                    self._troubles.add(f"{what}: {error}")
                await asyncio.sleep(_RETRY_S)

        self._tasks.append(asyncio.create_task(follow(), name=f"follow {what}"))
