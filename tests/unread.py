"""A client that does not read what it is sent."""

from __future__ import annotations

import asyncio
import socket
from typing import cast


async def open_unread(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to this machine, with reading paused.

    The receive buffer is small. The system would let it grow to tens of megabytes, which take whole
    answers, so that the server has an idle client, not a slow one.
    """
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client)
    cast(asyncio.Transport, writer.transport).pause_reading()
    return reader, writer
