"""A live cluster into a recording.

Changes are written as they arrive. Each carries its resourceVersion, so a reader that needs the
order of etcd can restore it. Times are seconds by a clock that does not jump. Disk trouble ends the
recording with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.resources import Resource
from stowplan.clock import Clock, SystemClock, rfc3339
from stowplan.recording.entries import (
    FORMAT,
    Entry,
    EntryType,
    Header,
    entry_line,
    header_line,
)
from stowplan.recording.files import Output
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
            client, on_change=self._changed, on_gap=self._gap, clock=self._clock
        )
        self._origin = 0.0
        self._is_following = False
        self._waiting: list[Entry] = []
        #: Entries and gaps written so far, to tell the user.
        self.entries = 0
        self.gaps = 0

    @property
    def written(self) -> int:
        """Bytes in the current file."""
        return self._output.lines.written

    @property
    def unread(self) -> dict[str, str]:
        """Kinds that cannot be read, and why."""
        return self._watching.unread

    async def run(self) -> None:
        """Raises ApiError if nodes or pods cannot be read, OSError if the disk refuses."""
        version = (await self._client.version()).get("gitVersion")
        self._kubernetes = version if isinstance(version, str) else ""
        try:
            async with self._watching:
                self._begin_file()
                self._is_following = True
                if self._on_progress is not None:
                    self._on_progress(self)
                while True:
                    await self._watching.wait(_FLUSH_S)
                    if self._output.is_due:
                        self._end("rotated")
                        self._output.rotate()
                        self._begin_file()
                    self._write()
                    if self._on_progress is not None:
                        self._on_progress(self)
        finally:
            if self._is_following:
                self._end("stopped")
            self._output.close()

    def _begin_file(self) -> None:
        """A header and the whole cluster, of one moment."""
        self._origin = self._clock.monotonic()
        header = Header(
            recording=FORMAT,
            started_at=rfc3339(self._clock.time()),
            stowplan=self._stowplan,
            kubernetes=self._kubernetes,
            kinds=self._watching.kinds,
            names="kept" if self._hashed is None else "hashed",
            unread=self.unread,
        )
        self._output.lines.add(header_line(header))
        for kind, obj in self._watching.objects():
            self._tell(EntryType.ADDED, kind.kind, self._encoded(obj))
        self._tell(EntryType.SYNCED)
        self._write()

    def _end(self, note: str) -> None:
        self._tell(EntryType.END, note=note)
        self._write()

    def _changed(self, what: EntryType, kind: Resource[Any], obj: Any) -> None:
        if not self._is_following:
            return  # it will be in the snapshot
        if what is EntryType.DELETED:
            told = identity(obj) if self._hashed is None else self._hashed.identity(obj)
            self._tell(what, kind.kind, msgspec.Raw(_encode(told)))
        else:
            self._tell(what, kind.kind, self._encoded(obj))

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
        """Not called from handlers, whose errors an informer only logs."""
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            self._output.lines.add(entry_line(entry))
        self._output.lines.flush()
        self.entries += len(waiting)
