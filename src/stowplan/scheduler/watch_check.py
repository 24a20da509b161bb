"""Notice a watch that fell silent, by own binds that it does not deliver.

A network may keep a connection alive and swallow what it should carry. Bookmarks, about one a
minute, reveal that after 75 s (`client.WATCH_INACTIVITY_S`). A scheduler that binds pods can know
sooner: every bind is a change that the watch of pods must deliver. `process` runs one of these
beside the loop. Invariants: at most one read per interval, however many pods are unconfirmed; a
server that is slow or away is not asked for anything else; a watch that delivers anything at all is
left alone, because it is only behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.clock import Clock
from stowplan.errors import StowplanError
from stowplan.logs import V2, get_logger, kv

log = get_logger(__name__)

#: How long a watch may take to deliver a bind, and the time between two checks ...
_CONFIRM_WITHIN_S: Final = 10.0
#: ... which doubles up to this while recovering does not help.
_LONGEST_INTERVAL_S: Final = 80.0
_READ_TIMEOUT_S: Final = 5.0


class WatchCheck:
    """Compares own binds with what the watch of pods delivered."""

    def __init__(
        self,
        client: ApiClient,
        pods: Informer[Pod],
        informers: Collection[Informer[Any]],
        clock: Clock,
    ) -> None:
        """`informers`, `pods` among them, are reconnected together: the others have no such means
        to notice that the same network swallowed their events.
        """
        self._client = client
        self._pods = pods
        self._informers = informers
        self._clock = clock
        #: By UID, oldest first: when a bind was answered.
        self._unconfirmed: dict[str, tuple[float, Pod]] = {}
        self._has_work = asyncio.Event()
        self._interval_s = _CONFIRM_WITHIN_S
        #: The bind for which the watch was already reconnected, without success.
        self._reconnected_for = ""

    def bound(self, pod: Pod) -> None:
        """The API server has accepted a bind of ours."""
        if not self._pods.is_polling:
            self._unconfirmed[pod.uid] = (self._clock.monotonic(), pod)
            self._has_work.set()

    async def run(self) -> None:
        """Check until cancelled; costs nothing while there are no binds."""
        while True:
            await self._has_work.wait()
            await asyncio.sleep(self._interval_s)
            await self.check()
            if not self._unconfirmed:
                self._has_work.clear()

    async def check(self) -> None:
        """Read the oldest overdue bind from the server, and reconnect if the watch withheld it."""
        overdue = self._overdue()
        if overdue is None:
            self._interval_s = _CONFIRM_WITHIN_S
            return
        try:
            found = await self._client.list_all(
                PODS,
                namespace=overdue.metadata.namespace,
                field_selector=f"metadata.name={overdue.metadata.name}",
                timeout_s=_READ_TIMEOUT_S,
            )
        except StowplanError as problem:
            log.log(
                V2,
                "Cannot check an unconfirmed bind, trying again later",
                extra=kv(pod=overdue.key, err=problem),
            )
            return
        if self._is_confirmed(overdue) or found.undecodable:
            return
        current = next(iter(found.items), None)
        if current is not None and current.uid == overdue.uid and not current.spec.node_name:
            # Only an extender or a Bind plugin can claim a bind that did not happen.
            del self._unconfirmed[overdue.uid]
            return
        if self._silent_for_s(self._pods) >= _CONFIRM_WITHIN_S:
            await self._recover(overdue)

    def _overdue(self) -> Pod | None:
        """The oldest bind that was not delivered in time; confirmed ones are forgotten."""
        for uid, (bound_at, pod) in list(self._unconfirmed.items()):
            if self._is_confirmed(pod):
                del self._unconfirmed[uid]
            elif self._clock.monotonic() - bound_at >= _CONFIRM_WITHIN_S:
                return pod
        return None

    def _is_confirmed(self, pod: Pod) -> bool:
        known = self._pods.store.get(pod.key)
        return known is None or known.uid != pod.uid or bool(known.spec.node_name)

    def _silent_for_s(self, informer: Informer[Any]) -> float:
        return self._clock.monotonic() - informer.heard_at

    async def _recover(self, pod: Pod) -> None:
        self._interval_s = min(2 * self._interval_s, _LONGEST_INTERVAL_S)
        seconds = round(self._silent_for_s(self._pods), 1)
        if self._reconnected_for == pod.uid:
            # The new watch is silent as well. A list does not depend on it.
            log.warning("Watch is still silent, listing pods", extra=kv(seconds=seconds))
            with suppress(StowplanError):  # the informer has stopped, and so will this
                await self._pods.relist()
            return
        self._reconnected_for = pod.uid
        log.warning("Watch fell silent, reconnecting", extra=kv(pod=pod.key, seconds=seconds))
        for informer in self._informers:
            if self._silent_for_s(informer) >= _CONFIRM_WITHIN_S:
                informer.reconnect()
