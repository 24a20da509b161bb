"""A local copy of one resource, kept true by list and watch, with handlers for what changes.

The scheduler's loop runs one a resource and keeps its cache from the handlers. All changes are
applied (`local_copy`) in one task, in order, without awaiting in between. A stream that breaks is
resumed from the last resourceVersion seen; one that cannot be (410) leads to a new list, which is
compared with the store, so that handlers see only real differences. Nothing a server sends ends
`run`. With `InformerOptions.poll_s`, an informer that may list but not watch lists periodically.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import msgspec

from stowplan.api.backoff import Backoff
from stowplan.api.client import WATCH_INACTIVITY_S, ApiClient
from stowplan.api.local_copy import HasMetadata, LocalCopy
from stowplan.api.paging import is_older
from stowplan.api.resources import Resource
from stowplan.api.watch import AnyEvent
from stowplan.clock import Clock, SystemClock
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Forbidden,
    Gone,
    StowplanError,
    Throttled,
    Unauthorized,
)
from stowplan.loader.numbers import whole_number
from stowplan.logs import V2, V3, get_logger, kv

log = get_logger(__name__)
T = TypeVar("T", bound=HasMetadata)

_MIN_WATCH_S = 300.0
_SHORT_WATCH_S = 1.0
_FAILURES_BEFORE_RELIST = 3
#: How long lists are refused that are older than what was seen.
_OLDER_S = 20.0


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """How an informer lists, watches and retries; the defaults suit a scheduler."""

    page_size: int = 500
    #: A watch that sends nothing for so long, not even a bookmark, is opened again.
    inactivity_s: float = WATCH_INACTIVITY_S
    #: Backoff after errors.
    retry_initial_s: float = 0.5
    retry_limit_s: float = 15.0
    #: How often to list once watching was refused (403); None: retry the watch until it is allowed.
    poll_s: float | None = None
    #: Called once, when watching was refused and lists replace it.
    on_watch_refused: Callable[[Forbidden], None] | None = None


class Informer(Generic[T]):
    """See the module. Start `run` as a task, wait for `synced`, read `store`."""

    def __init__(
        self,
        client: ApiClient,
        resource: Resource[T],
        *,
        on_add: Callable[[T], None],
        on_update: Callable[[T, T], None],
        on_delete: Callable[[T], None],
        on_raw: Callable[[T, bytes | msgspec.Raw | None], None] | None = None,
        on_relist: Callable[[], None] | None = None,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        options: InformerOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`on_raw` is called before the other handlers, with an object's JSON; None: it is gone.
        `on_relist` is called before the differences that a list shows, other than the first one.
        """
        self._copy = LocalCopy(
            resource,
            client.decoder(resource),
            on_add=on_add,
            on_update=on_update,
            on_delete=on_delete,
            on_raw=on_raw,
        )
        self.store = self._copy.store
        self.synced = asyncio.Event()
        self.list_started_at = 0.0
        self.lists_applied = 0
        #: When (monotonic) the server last sent anything, a list or a part of a watch.
        self.heard_at = 0.0
        #: Since when (monotonic) no watch tells what changes; None while one does.
        self.unwatched_since: float | None = None
        self._client = client
        self._resource = resource
        self._on_listed = None if on_raw is None else self._copy.tell_raw
        self._on_relist = on_relist
        self._namespace = namespace
        self._field_selector = field_selector
        self._label_selector = label_selector
        self._options = options = options or InformerOptions()
        self._polls = False
        self._clock: Clock = clock or SystemClock()
        self._backoff = Backoff(options.retry_initial_s, options.retry_limit_s)
        self._source = f"{resource.plural}/{namespace}/{field_selector}/{label_selector}"
        self._must_list = True
        self._watch_failures = 0
        self._is_connected = False
        self._told = ""
        self._relist_waiters: list[asyncio.Future[None]] = []
        self._interruptible: asyncio.Timeout | None = None
        self._is_over = False
        self._is_following = False
        self._has_delivered = False
        #: Since when the server answers with lists that are older than what it sent before.
        self._older_since = inf

    async def run(self) -> None:
        """For ever, until cancelled. Raises only where the very first list is refused (401, 403)
        or a programming error makes it impossible to go on."""
        self._log("Starting reflector", V3, resyncPeriod="0s")
        try:
            while True:
                if self._must_list:
                    await self._try(self._list)
                elif self._polls:
                    assert self._options.poll_s is not None
                    await self._pause(self._options.poll_s)
                    self._must_list = True
                else:
                    await self._try(self._watch)
        finally:
            self._log("Stopping reflector", V3, resyncPeriod="0s")
            self._is_over = True
            for waiter in self._relist_waiters:
                if not waiter.done():
                    waiter.set_exception(self._stopped())
            self._relist_waiters.clear()

    async def list_once(self) -> None:
        """List and apply, without `run`; raises where that cannot be done."""
        await self._list()

    async def relist(self) -> None:
        """Ask for a consistent list that is begun from now on; returns when it was applied."""
        if self._is_over:
            raise self._stopped()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relist_waiters.append(waiter)
        self._must_list = True
        if self._interruptible is not None:
            self._interruptible.reschedule(asyncio.get_running_loop().time())
        await waiter

    @property
    def resource_version(self) -> int:
        """The newest version of the cluster that is known here; 0 if it is no number."""
        return whole_number(self._copy.version) or 0

    @property
    def must_list(self) -> bool:
        """Whether what changed since the last watch is not known until the next list."""
        return self._must_list

    @property
    def is_polling(self) -> bool:
        """Watching was refused; lists come every `poll_s` seconds."""
        return self._polls

    def reconnect(self) -> None:
        """Open the watch again, from the last version seen, because it is known to be silent."""
        if self._is_following and self._interruptible is not None:
            self._interruptible.reschedule(asyncio.get_running_loop().time())

    def _stopped(self) -> StowplanError:
        return StowplanError(f"the informer of {self._name()} has stopped")

    # One attempt, and what follows from its failure

    async def _try(self, attempt: Callable[[], Awaitable[None]]) -> None:
        self._is_connected = False
        try:
            await attempt()
        except Gone as error:
            log.log(
                V2, "History is gone, listing again", extra=kv(resource=self._name(), err=error)
            )
            if self._must_list:  # even the list: do not ask again at once
                await self._pause(self._backoff.next_s())
            self._must_list = True
        except (Unauthorized, Forbidden) as error:
            if not self.synced.is_set():
                raise
            may_poll = self._options.poll_s is not None and not self._must_list
            if may_poll and isinstance(error, Forbidden):
                self._polls = True
                if self._options.on_watch_refused is not None:
                    self._options.on_watch_refused(error)
                return
            self._tell(error)
            await self._pause(self._backoff.next_s())
        except ApiUnavailable as error:
            if self._is_connected:  # a broken stream says nothing about the server yet
                log.log(V2, "Watch ended", extra=kv(resource=self._name(), err=error))
                # Bookmarks come while nothing changes. A stream without any may be one that a
                # network swallows, and so may the next: in the end a list must tell.
                is_pause = isinstance(error.__cause__, TimeoutError) and self._has_delivered
                self._watch_failures += not is_pause
            else:
                self._client.reachability.failed(self._source, error)
            await self._pause(self._backoff.next_s())
        except ApiError as error:
            if not isinstance(error, Throttled):
                self._watch_failures += not self._must_list
            self._tell(error)
            wished_s = error.retry_after_s if isinstance(error, Throttled) else 0.0
            await self._pause(max(wished_s, self._backoff.next_s()))
        if self._watch_failures >= _FAILURES_BEFORE_RELIST:
            self._must_list = True

    def _succeeded(self) -> None:
        """The server gave us what we asked for."""
        self._watch_failures = 0
        self._backoff.reset()
        self._client.reachability.recovered(self._source)
        if self._told:
            self._told = ""
            log.info("Reading works again", extra=kv(resource=self._name()))

    def _tell(self, error: StowplanError) -> None:
        """Log a problem once, until it is over."""
        if str(error) != self._told:
            self._told = str(error)
            log.warning(
                "Cannot read, trying again", extra=kv(resource=self._name(), err=self._told)
            )

    async def _pause(self, seconds: float) -> None:
        await self._interruptibly(asyncio.sleep(seconds))

    async def _interruptibly(self, awaitable: Awaitable[None]) -> None:
        """Await it unless `relist` is called meanwhile."""
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._interruptible = scope
                await awaitable
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._interruptible = None

    def _log(self, message: str, level: int, **fields: object) -> None:
        """Log in the words of client-go's reflector, which an informer corresponds to."""
        version = self._resource.api_version.rpartition("/")[2]
        kind = f"*{version}.{self._resource.kind}"
        log.log(level, message, extra=kv(type=kind, **fields, reflector=__name__))

    def _name(self) -> str:
        plural = self._resource.plural
        return f"{plural} in {self._namespace}" if self._namespace else plural

    # Listing

    async def _list(self) -> None:
        self._log("Listing and watching", V3)
        waiters, self._relist_waiters = self._relist_waiters, []
        started_at = self._clock.monotonic()
        try:
            result = await self._client.list_all(
                self._resource,
                namespace=self._namespace,
                page_size=self._options.page_size,
                field_selector=self._field_selector,
                label_selector=self._label_selector,
                on_raw=self._on_listed,
            )
            if is_older(result.resource_version, self._copy.version):
                self._refuse_older(result.resource_version)
        except BaseException:
            self._relist_waiters = waiters + self._relist_waiters
            raise
        self._succeeded()
        self._older_since = inf
        self.list_started_at = self.unwatched_since = started_at
        self.heard_at = self._clock.monotonic()
        if self._on_relist is not None and self.lists_applied:
            self._on_relist()
        self._copy.apply_list(result)
        self._must_list = bool(self._relist_waiters)
        self.lists_applied += 1
        if not self.synced.is_set():
            self._log("Caches populated", V2)
        self.synced.set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _refuse_older(self, version: str) -> None:
        """Raise, because going back in time would give away the places of pods bound since then.

        If lists stay that old they count: etcd was restored from a backup, or the server is new.
        """
        now = self._clock.monotonic()
        self._older_since = min(self._older_since, now)
        if now - self._older_since < _OLDER_S:
            raise ApiUnavailable(
                f"the list of {self._name()} is of version {version}, older than"
                f" {self._copy.version}"
            )

    # Watching

    async def _watch(self) -> None:
        opened_at = self._clock.monotonic()
        version = self._copy.version
        await self._interruptibly(self._follow())
        is_short = self._clock.monotonic() - opened_at < _SHORT_WATCH_S
        if is_short and self._copy.version == version and not self._must_list:
            # A server that ends every stream at once must not be asked in a tight loop.
            self._watch_failures += 1
            await self._pause(self._backoff.next_s())

    async def _follow(self) -> None:
        async with self._client.open_watch(
            self._resource,
            resource_version=self._copy.version,
            namespace=self._namespace,
            timeout_s=_MIN_WATCH_S * random.uniform(1.0, 2.0),
            inactivity_s=self._options.inactivity_s,
            field_selector=self._field_selector,
            label_selector=self._label_selector,
        ) as stream:
            self._is_connected = self._is_following = True
            self._has_delivered = False
            self._client.reachability.recovered(self._source)
            before, self.unwatched_since = self.unwatched_since, None
            try:
                await stream.deliver(self._receive)
            except Gone:  # the server accepted the watch only to say that it lost the changes
                if not self._has_delivered:
                    self.unwatched_since = before
                raise
            finally:
                self._is_following = False
                if self.unwatched_since is None:
                    self.unwatched_since = self._clock.monotonic()

    def _receive(self, batch: Sequence[AnyEvent]) -> None:
        self.heard_at = self._clock.monotonic()
        for event in batch:
            self._copy.apply_event(event)
        if not self._has_delivered:
            self._has_delivered = True
            self._succeeded()
