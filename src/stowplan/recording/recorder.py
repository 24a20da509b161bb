"""Records a live cluster.

Changes are written as they arrive. Each has its resourceVersion, from which readers can restore the
order of writes in etcd. Times are seconds of a monotonic clock. An error of the disk ends the
recording.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.resources import DEVICE_TAINT_RULES, Resource
from stowplan.clock import Clock, SystemClock, rfc3339
from stowplan.recording.decisions import Decision, SchedulingEvent, of_event
from stowplan.recording.entries import (
    FORMAT,
    KINDS,
    Entry,
    EntryType,
    Header,
    entry_line,
)
from stowplan.recording.files import Output
from stowplan.recording.reading import ROTATED
from stowplan.recording.scrub import Hashed, identity, kept
from stowplan.recording.watching import Watching

_FLUSH_S: Final = 1.0
_GAP: Final = "listed again: changes before this moment may be missing"
_NOTHING: Final = msgspec.Raw(b"")
_encode = msgspec.json.Encoder().encode


class Recorder:
    """Records until `run` is cancelled."""

    def __init__(
        self,
        client: ApiClient,
        output: Output,
        *,
        hashed: Hashed | None = None,
        clock: Clock | None = None,
        version: str = "",
        on_progress: Callable[[Recorder], None] | None = None,
    ) -> None:
        """`version` is Stowplan's, for the header."""
        self._client = client
        self._output = output
        self._hashed = hashed
        self._clock = clock or SystemClock()
        self._stowplan = version
        self._kubernetes = ""
        self._on_progress = on_progress
        self._watching = Watching(
            client,
            KINDS,
            on_change=self._changed,
            on_gap=self._gap,
            on_event=self._event,
            # Most servers do not serve them, and most roles do not name them.
            optional=[DEVICE_TAINT_RULES],
            clock=self._clock,
        )
        self._origin = 0.0
        #: The session that is recorded.
        self._session = ""
        self._is_following = False
        self._waiting: list[Entry] = []
        #: Objects in the first lists, and entries and gaps so far; shown to the user.
        self.listed = 0
        self.entries = 0
        self.gaps = 0
        #: Why changes before the end are missing; empty if none are.
        self.outage = ""

    @property
    def warnings(self) -> list[str]:
        """Messages about kinds that cannot be read."""
        return self._watching.warnings("are not recorded")

    async def run(self) -> None:
        """Record. Raises ApiError if nodes or pods cannot be read, OSError if the disk fails."""
        version = (await self._client.version()).get("gitVersion")
        self._kubernetes = version if isinstance(version, str) else ""
        try:
            async with self._watching:
                self._begin_file()
                self.listed = self.entries - 1  # without SYNCED
                try:
                    await self._follow()
                finally:
                    if self._is_following:
                        self._end("stopped")
        finally:
            self._output.close()

    async def _follow(self) -> None:
        """Write what the watches tell, until cancelled."""
        while True:
            if self._on_progress is not None:
                self._on_progress(self)
            await self._watching.wait(_FLUSH_S)
            if self._output.is_due:
                self._end(ROTATED)
                self._output.rotate()
                self._begin_file()
            self._write()

    def _begin_file(self) -> None:
        """Write a header and a consistent snapshot of the cluster."""
        self._origin = self._clock.monotonic()
        continued, self._session = self._session, secrets.token_hex(8)
        header = Header(
            recording=FORMAT,
            started_at=rfc3339(self._clock.time()),
            session=self._session,
            continues=continued,
            stowplan=self._stowplan,
            kubernetes=self._kubernetes,
            kinds=self._watching.kinds,
            names="kept" if self._hashed is None else "hashed",
            key_id="" if self._hashed is None else self._hashed.key_id,
            unread=self._watching.unread,
            cluster=self._watching.cluster,
        )
        self._output.begin(header)
        # The snapshot has one time: the seconds that writing it takes say nothing of the cluster.
        self._waiting += [
            Entry(0.0, EntryType.ADDED, kind.kind, self._encoded(obj))
            for kind, obj in self._watching.objects()
        ]
        self._waiting.append(Entry(0.0, EntryType.SYNCED))
        self._write()
        self._output.finish_snapshot()
        self._is_following = True

    def _end(self, note: str) -> None:
        """End the file. A watch that is not connected now is a gap: no list will show it."""
        self._is_following = False  # there is no file to end if none can be opened
        self.outage = self._watching.outage()
        if self.outage:
            self.gaps += 1
            self._tell(EntryType.GAP, note=self.outage)
        self._tell(EntryType.END, note=note)
        self._write()

    def _changed(self, what: EntryType, kind: Resource[Any], obj: Any) -> None:
        if not self._is_following:
            return  # the snapshot will have it
        if what is EntryType.DELETED:
            told = identity(obj) if self._hashed is None else self._hashed.identity(obj)
            self._tell(what, kind.kind, msgspec.Raw(_encode(told)))
        else:
            self._tell(what, kind.kind, self._encoded(obj))

    def decided(self, decision: Decision) -> None:
        """Record an attempt that a scheduler reported."""
        if self._is_following:
            told = decision if self._hashed is None else self._hashed.decision(decision)
            self._tell(EntryType.DECISION, obj=msgspec.Raw(_encode(told)))

    def _event(self, event: SchedulingEvent) -> None:
        decision = of_event(event)
        if decision is not None:
            self.decided(decision)

    def _gap(self, kind: Resource[Any]) -> None:
        if self._is_following:
            self.gaps += 1
            self._tell(EntryType.GAP, kind.kind, note=_GAP)

    def _encoded(self, obj: Any) -> msgspec.Raw:
        return msgspec.Raw(kept(obj) if self._hashed is None else self._hashed(obj))

    def _tell(
        self, what: EntryType, kind: str = "", obj: msgspec.Raw = _NOTHING, *, note: str = ""
    ) -> None:
        at = round(self._clock.monotonic() - self._origin, 3)
        self._waiting.append(Entry(at, what, kind, obj, note))

    def _write(self) -> None:
        """Must not be called from handlers of informers, which only log errors."""
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            self._output.lines.add(entry_line(entry))
        self._output.lines.flush()
        self.entries += len(waiting)
