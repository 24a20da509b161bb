"""Write Events without ever blocking the caller that reports them.

The scheduler calls `event`, which only counts and queues; `run` writes a few at a time on the
events lane. Repeats are folded into series (see `event_series`). When the API server is away or
the queue is full, events are lost rather than kept for ever: they are counted in `dropped`. While
more urgent requests are under way (`is_busy`), events yield to them (`event_throttle`).
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

from stowplan.api.backoff import Backoff
from stowplan.api.client import ApiClient, Lane, PatchKind
from stowplan.api.event_series import (
    REFRESH_AFTER_S,
    EventKey,
    RecordedEvent,
    Reference,
    event_name,
    in_place,
    only_event_name,
    truncate_note,
)
from stowplan.api.event_throttle import allowed_at_a_time
from stowplan.api.objects import Pod
from stowplan.clock import Clock, SystemClock
from stowplan.errors import (
    AlreadyExists,
    ApiError,
    ApiUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_LOOK_AGAIN_S = 0.02
_TRIES = 12
#: So long newer events wait for one that is tried again.
_IN_ORDER_S = 30.0
_SWEEP_PERIOD_S = 10.0
_COMPLAINT_PERIOD_S = 60.0
#: Where a repeat cannot be folded into its event: what says something new waits so long.
_NEWS_AFTER_S = 60.0
_encode = msgspec.json.Encoder().encode


class EventRecorder:
    """See the module. Create one a process; `run` it beside the scheduler."""

    def __init__(
        self,
        client: ApiClient,
        *,
        reporting_instance: str = "",
        clock: Clock | None = None,
        queue_size: int = 100_000,
        is_busy: Callable[[], bool] = lambda: False,
        remembered: int = 50_000,
        creates_only: bool = False,
        is_mute: bool = False,
        on_refused: Callable[[Forbidden], None] | None = None,
        retry_initial_s: float = 1.0,
        retry_limit_s: float = 10.0,
    ) -> None:
        """Without a `reporting_instance` each event's is `<its controller>-<host name>`.

        `remembered` bounds the events known for folding. DIVERGES: upstream remembers all of the
        last minutes, whatever that costs; here only the last word about an object, and of too many
        the oldest are forgotten; a repeat of one begins a new event. (An object that was patched
        has another resourceVersion, so that its older events are not repeated anyway.)

        `creates_only` is for roles that may create events but not patch them. Then a repeat becomes
        a new event after half an hour, or after a minute if its text differs; others are dropped.
        After the first denied create (403) `on_refused` is called and nothing more is written. With
        `is_mute` nothing is ever written.
        """
        self.written = 0
        self.dropped = 0
        self._client = client
        self._instance = reporting_instance
        self._host = socket.gethostname()
        self._clock: Clock = clock or SystemClock()
        self._is_busy = is_busy
        self._writing = 0
        self._write_ended = asyncio.Event()
        #: Writes that have failed and are tried again, and since when (monotonic) there are any.
        self._retrying = 0
        self._retrying_since = 0.0
        #: Events and when (monotonic) they were queued.
        self._queue: asyncio.Queue[tuple[float, RecordedEvent]] = asyncio.Queue(queue_size)
        self._remembered = remembered
        self._creates_only = creates_only
        self._on_refused = on_refused
        self._is_mute = is_mute
        self._retry_s = (retry_initial_s, retry_limit_s)
        #: What may be repeated: the last word about each object, oldest first.
        self._events: dict[str, RecordedEvent] = {}
        self._refreshed_at = self._clock.time()
        self._last_nanos = 0
        self._complained_at = float("-inf")
        self._dropped_since = 0

    def event(
        self,
        regarding: Pod,
        *,
        type: str,  # noqa: A002 - the API's name
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        related: Pod | None = None,
        once: bool = False,
        occurred_at: float | None = None,
    ) -> None:
        """Report something; returns at once.

        `once`: neither this nor what was said of the object before can happen to it again, so
        nothing need be remembered of it. Its name follows from the object's UID and the reason: a
        second report, even by another process, changes nothing. `occurred_at` (seconds since the
        epoch) is for what happened in the past: it waits for nothing that is more urgent.
        """
        if self._is_mute:
            return
        now = self._clock.time()
        key = self._key(regarding, type, reason, action, reporting_controller, related)
        subject = _subject(key)
        known = self._events.get(subject)
        if known is not None and (once or known.key != key):
            self._forget(subject)
            known = None
        if known is not None and self._creates_only:
            is_news = known.note != truncate_note(note)
            if now - known.event_time < (_NEWS_AFTER_S if is_news else REFRESH_AFTER_S):
                known.last_observed = now
                return
            del self._events[subject]
            known = None
        if known is not None:
            was_series = known.is_series
            known.observe_again(now)
            if not was_series:
                self._enqueue(known)
            return
        name = regarding.metadata.name
        new = RecordedEvent(
            key=key,
            name=only_event_name(name, regarding.uid, reason)
            if once and regarding.uid
            else self._new_name(name, reason),
            note=truncate_note(note),
            event_time=now if occurred_at is None else occurred_at,
        )
        is_late = occurred_at is not None
        if self._enqueue(new, float("-inf") if is_late else None) and not once:
            self._events[subject] = new
            if len(self._events) > self._remembered:
                self._forget(next(iter(self._events)))

    def leader_event(self, lease: Reference, note: str, component: str) -> None:
        """Report on the Lease who leads, as client-go does: with core/v1, and never in a series."""
        if self._is_mute:
            return
        event = RecordedEvent(
            key=EventKey("Normal", "", "LeaderElection", component, "", lease, None),
            name=self._new_name(lease.name, "LeaderElection"),
            note=truncate_note(note),
            event_time=self._clock.time(),
            is_core=True,
        )
        self._enqueue(event)

    async def exists(
        self,
        regarding: Pod,
        *,
        type: str,  # noqa: A002 - the API's name
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        once: bool = True,
    ) -> bool:
        """Whether an event that is reported `once` was written, by this process or another.

        False in a namespace that is being deleted: it is not known there, and must not be taken
        for a sign that the events before it were written.
        """
        assert once
        event = RecordedEvent(
            key=self._key(regarding, type, reason, action, reporting_controller, None),
            name=only_event_name(regarding.metadata.name, regarding.uid, reason),
            note=truncate_note(note),
            event_time=self._clock.time(),
        )
        try:
            await self._client.request(
                "POST",
                _collection(event),
                params={"dryRun": "All"},
                body=_encode(event.wire()),
                lane=Lane.EVENTS,
            )
        except AlreadyExists:
            return True
        except ApiError as error:
            if not _is_namespace_ending(error):
                raise
        return False

    def _key(
        self,
        regarding: Pod,
        type: str,  # noqa: A002 - the API's name
        reason: str,
        action: str,
        reporting_controller: str,
        related: Pod | None,
    ) -> EventKey:
        return EventKey(
            type=type,
            action=action,
            reason=reason,
            reporting_controller=reporting_controller,
            reporting_instance=self._instance or f"{reporting_controller}-{self._host}",
            regarding=Reference.to_pod(regarding),
            related=None if related is None else Reference.to_pod(related),
        )

    def _new_name(self, object_name: str, reason: str) -> str:
        """Never the same twice, whatever the clock does."""
        self._last_nanos = max(int(self._clock.time() * 1e9), self._last_nanos + 1)
        return event_name(object_name, in_place(reason, self._last_nanos))

    async def run(self) -> None:
        """For ever, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_all(tasks), name="events-queue")
            while True:
                await asyncio.sleep(_SWEEP_PERIOD_S * random.uniform(0.9, 1.1))
                self.sweep()

    @property
    def unwritten(self) -> int:
        """Events that wait to be written, or are being written."""
        return self._queue.qsize() + self._writing

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all is written that was reported so far; False where time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._queue.join()
        except TimeoutError:
            return False
        return True

    def sweep(self) -> None:
        """Finish series that have come to rest, refresh those that go on, forget the rest."""
        now = self._clock.time()
        for subject in [subject for subject, event in self._events.items() if event.is_idle(now)]:
            self._forget(subject)
        if now - self._refreshed_at >= REFRESH_AFTER_S:
            self._refreshed_at = now
            for event in self._events.values():
                if event.is_series:
                    self._enqueue(event)

    def _forget(self, subject: str) -> None:
        event = self._events.pop(subject)
        if event.is_series:
            self._enqueue(event)  # its final count

    def _enqueue(self, event: RecordedEvent, queued_at: float | None = None) -> bool:
        if not event.is_queued:
            if queued_at is None:
                queued_at = self._clock.monotonic()
            try:
                self._queue.put_nowait((queued_at, event))
            except asyncio.QueueFull:
                self._drop("the queue is full")
                return False
            event.is_queued = True
        event.is_dirty = True
        return True

    async def _write_all(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            queued_at, event = await self._queue.get()
            while self._writing >= self._allowed(queued_at) or self._keeps_order():
                self._write_ended.clear()
                # The limit changes with the event's age and with load, without a notification.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await self._write_ended.wait()
            self._writing += 1
            tasks.create_task(self._write_out(event), name=f"event {event.name}")

    def _allowed(self, queued_at: float) -> int:
        return allowed_at_a_time(self._clock.monotonic() - queued_at, is_busy=self._is_busy())

    def _keeps_order(self) -> bool:
        """True if newer events must wait for those that are tried again.

        A successor finds the events that a killed process left unwritten by their order
        (`scheduler.missed_events`), so the newest must not overtake one in trouble. One that
        stays in trouble does not hold up the others for ever.
        """
        now = self._clock.monotonic()
        return self._retrying > 0 and now - self._retrying_since < _IN_ORDER_S

    async def _write_out(self, event: RecordedEvent) -> None:
        try:
            # What is observed while a write is under way is written after it, never beside it.
            while event.is_dirty:
                event.is_dirty = False
                await self._write(event)
        except Exception as error:
            log.error("Writing an event failed", exc_info=error, extra=kv(event=event.name))
            self._drop(error)
        finally:
            event.is_queued = False
            self._writing -= 1
            self._write_ended.set()
            self._queue.task_done()

    async def _write(self, event: RecordedEvent) -> None:
        if (failure := await self._try(event)) is None:
            return
        if not self._retrying:
            self._retrying_since = self._clock.monotonic()
        self._retrying += 1
        try:
            backoff = Backoff(*self._retry_s)
            for _ in range(_TRIES - 1):
                await asyncio.sleep(backoff.next_s())
                if (failure := await self._try(event)) is None:
                    return
        finally:
            self._retrying -= 1
        if self._creates_only and self._events.get(_subject(event.key)) is event:
            del self._events[_subject(event.key)]  # its repeat is the next chance
        self._drop(failure)

    async def _try(self, event: RecordedEvent) -> StowplanError | str | None:
        """Send once; return why it must be sent again, None if that is over."""
        try:
            is_done = await self._send(event)
        except (ApiUnavailable, ServerError, Throttled, Conflict) as error:
            return error
        except ApiError as error:
            if _is_namespace_ending(error):
                return None
            if self._creates_only and isinstance(error, Forbidden) and not event.is_core:
                self._fall_silent(error)
            else:
                self._drop(error)
            return None
        if is_done:
            self.written += 1
            return None
        return f"{event.name} neither exists nor can be created"

    async def _send(self, event: RecordedEvent) -> bool:
        """Create or patch; False where it has to be sent once more."""
        collection = _collection(event)
        if event.is_created:
            try:
                await self._client.request(
                    "PATCH",
                    f"{collection}/{event.name}",
                    body=_encode({"series": event.series()}),
                    content_type=PatchKind.STRATEGIC.value,
                    lane=Lane.EVENTS,
                )
            except NotFound:  # it has outlived its time in the API server
                event.is_created = False
            else:
                return True
        try:
            await self._client.request(
                "POST", collection, body=_encode(event.wire()), lane=Lane.EVENTS
            )
        except AlreadyExists:
            # An earlier try had arrived after all, perhaps before it was a series.
            event.is_created = True
            return not event.is_series
        event.is_created = True
        return True

    def _fall_silent(self, error: Forbidden) -> None:
        """Stop writing events after denied access, and log that only once."""
        self.dropped += 1
        if not self._is_mute:
            self._is_mute = True
            self._events.clear()
            if self._on_refused is not None:
                self._on_refused(error)

    def _drop(self, why: object) -> None:
        self.dropped += 1
        self._dropped_since += 1
        now = self._clock.monotonic()
        if now - self._complained_at >= _COMPLAINT_PERIOD_S:
            log.warning("Events were lost", extra=kv(events=self._dropped_since, err=str(why)))
            self._complained_at = now
            self._dropped_since = 0


def _collection(event: RecordedEvent) -> str:
    version = "api/v1" if event.is_core else "apis/events.k8s.io/v1"
    return f"/{version}/namespaces/{event.namespace}/events"


def _subject(key: EventKey) -> str:
    """The object that an event is about; a test's or a mirror pod's may lack a UID."""
    about = key.regarding
    return about.uid or f"{about.namespace}/{about.name}"


def _is_namespace_ending(error: ApiError) -> bool:
    """True if the namespace is being deleted, so that its events do not matter."""
    if isinstance(error, NotFound):
        return "namespace" in error.message
    return isinstance(error, Forbidden) and "is being terminated" in error.message
