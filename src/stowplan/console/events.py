"""Server-sent events: what happened, to every page that is open, with resume.

Every event has an id. A browser that reconnects names the last one it has; it gets what it missed,
or `reset` if that is no longer kept or is of another process, and then reads everything again. A
client that does not read is cut off (`http.server_connection`), and so reconnects.
"""

from __future__ import annotations

from collections import deque
from http import HTTPStatus
from typing import Any, Final

import msgspec

from stowplan.http.messages import Outlet, Response, Stream, error_response
from stowplan.loader.numbers import whole_number

MOST_CLIENTS: Final = 16
KEPT_EVENTS: Final = 120
_KEPT_BYTES: Final = 2 << 20
_RETRY_MS: Final = 1000


class EventHub:
    """Publishes events to all clients."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._outlets: set[Outlet] = set()

    def __len__(self) -> int:
        return len(self._outlets)

    def publish(self, event: str, data: Any) -> None:
        """Send an event to all clients, and keep it for those that reconnect."""
        self._number += 1
        frame = self._frame(event, data)
        self._kept.append((self._number, frame))
        self._kept_bytes += len(frame)
        while len(self._kept) > KEPT_EVENTS or self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft()[1])
        self._send(frame)

    def heartbeat(self) -> None:
        """Send a comment, so that both sides notice a dead connection."""
        self._send(b":\n\n")

    def stream(self, last_id: str) -> Response:
        """The response to a client that knows everything up to an event, or nothing."""
        if len(self._outlets) >= MOST_CLIENTS:
            problem = f"{MOST_CLIENTS} pages are open already; close one"
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, problem, Retry_After="5")
        found: list[Outlet] = []

        def opened(outlet: Outlet) -> None:
            found.append(outlet)
            if outlet.send(b"retry: %d\n\n" % _RETRY_MS + self._missed(last_id)):
                self._outlets.add(outlet)

        def closed() -> None:
            self._outlets.difference_update(found)

        return Stream(b"", 200, "text/event-stream", {}, opened, closed)

    def close(self) -> None:
        """End all streams."""
        for outlet in list(self._outlets):
            outlet.end()
        self._outlets.clear()

    def _missed(self, last_id: str) -> bytes:
        boot, _, number = last_id.rpartition(".")
        known = whole_number(number)
        if boot == self._boot and known is not None:
            oldest = self._kept[0][0] if self._kept else self._number + 1
            if oldest - 1 <= known <= self._number:
                return b"".join(frame for at, frame in self._kept if at > known)
        return self._frame("reset", {})

    def _frame(self, event: str, data: Any) -> bytes:
        text = msgspec.json.encode(data)
        return b"id: %b.%d\nevent: %b\ndata: %b\n\n" % (
            self._boot.encode(),
            self._number,
            event.encode(),
            text,
        )

    def _send(self, frame: bytes) -> None:
        for outlet in list(self._outlets):
            if not outlet.send(frame):
                self._outlets.discard(outlet)
