"""One mailbox per worker, for connections from the parent and requests from other workers.

`workers` creates them before it starts the first worker, so that every process has all of them,
including processes started later. A message is a few bytes and a socket: that of a client, or one
on which the response is awaited. Invariant: when a worker dies, the worker that replaces it
receives the messages that were not read yet.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, TypeAlias

from stowplan.logs import get_logger

log = get_logger(__name__)

_MOST_BYTES: Final = 128 * 1024

#: Gets the bytes of a message and its socket.
Take: TypeAlias = Callable[[bytes, socket.socket], None]


class Mailboxes:
    """One for each of so many workers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)
        ]
        for pair in self._pairs:
            for end in pair:
                end.setblocking(False)

    def send(self, worker: int, message: bytes, connection: socket.socket) -> bool:
        """The worker gets a socket of its own for the connection; False if its mailbox is full."""
        try:
            socket.send_fds(self._pairs[worker][0], [message], [connection.fileno()])
        except OSError:
            return False
        return True

    def take_from(self, worker: int, take: Take) -> Callable[[], None]:
        """Take what comes, on the event loop, until the function that is returned is called."""
        inbox = self._pairs[worker][1]
        loop = asyncio.get_running_loop()

        def on_message() -> None:
            while True:
                try:
                    message, handles, _, _ = socket.recv_fds(
                        inbox, _MOST_BYTES, 1, socket.MSG_CMSG_CLOEXEC
                    )
                except BlockingIOError:
                    return
                except OSError:
                    log.exception("A message could not be read")
                    return
                for handle in handles:
                    taken = socket.socket(fileno=handle)
                    taken.setblocking(False)
                    take(message, taken)

        def leave() -> None:
            loop.remove_reader(inbox)

        loop.add_reader(inbox, on_message)
        return leave

    def close(self) -> None:
        for pair in self._pairs:
            for end in pair:
                end.close()
