"""Passing a response on to the client, whole or in the way a fault wants it.

Called by the proxy when the API server has answered. Answers other than watches are read to their
end first; watches are passed on piece by piece, as they come.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from stowplan.lab.faults.fault import Fault
from stowplan.lab.faults.wire import Head, chunk, reset, write_head

_FRAMING = ("transfer-encoding", "content-length", "connection")
_SLICES_PER_S = 20
_EXPIRED = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected: too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}
_REASONS = {404: "NotFound", 409: "Conflict", 410: "Expired", 429: "TooManyRequests"}


class Broken(Exception):
    """The fault has cut the connection."""


def status_answer(code: int, fields: dict[str, str]) -> bytes:
    """A refusal in the form of an API server's."""
    answer = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"injected: {code}",
        "reason": _REASONS.get(code, ""),
        "code": code,
    }
    body = json.dumps(answer).encode()
    sizes = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return write_head(["HTTP/1.1", str(code), "Injected"], [*sizes, *fields.items()]) + body


async def send_whole(
    writer: asyncio.StreamWriter, head: Head, body: bytes, fault: Fault | None
) -> None:
    """Send a response of known size."""
    # A 204 has no length.
    sizes = [("Content-Length", str(len(body)))] if body or head.get("content-length") else []
    message = write_head(head.words, [*head.without(*_FRAMING), *sizes]) + body
    if fault is not None and fault.half:
        writer.write(message[: len(message) - (len(body) // 2 or len(message) // 2)])
        await writer.drain()
        reset(writer)
        raise Broken
    await _send(writer, message, fault)


async def send_watch(
    writer: asyncio.StreamWriter,
    head: Head,
    events: AsyncIterator[bytes],
    fault: Fault | None,
    flowing: asyncio.Event,
    is_muted: Callable[[], bool],
) -> None:
    """Send a stream; `flowing` and `is_muted` are the proxy's own switches."""
    fields = [*head.without(*_FRAMING), ("Transfer-Encoding", "chunked")]
    writer.write(write_head(head.words, fields))
    await writer.drain()
    passed = 0
    if await _strike(writer, fault, passed):
        return
    async for piece in events:
        await flowing.wait()
        passed += 1
        is_silent = fault is not None and fault.silent and passed > fault.after
        if is_silent or is_muted():
            continue
        if fault is not None and fault.half and passed > fault.after:
            await _send(writer, chunk(piece)[: len(piece) // 2], fault)
            reset(writer)
            raise Broken
        await _send(writer, chunk(piece), fault)
        if await _strike(writer, fault, passed):
            return
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _strike(writer: asyncio.StreamWriter, fault: Fault | None, passed: int) -> bool:
    """Do what a fault does between events, after `passed` of them; True if the stream ended."""
    if fault is None or passed != fault.after:
        return False
    if fault.garbage:
        await _send(writer, chunk(fault.garbage), fault)
    if fault.expires:
        await _send(writer, chunk(json.dumps(_EXPIRED).encode() + b"\n"), fault)
    if fault.expires or fault.ends:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
    return False


async def _send(writer: asyncio.StreamWriter, message: bytes, fault: Fault | None) -> None:
    rate = fault.bytes_per_s if fault is not None else 0
    size = max(1, rate // _SLICES_PER_S) if rate else len(message)
    for start in range(0, len(message), size):
        writer.write(message[start : start + size])
        await writer.drain()
        if rate:
            await asyncio.sleep(1 / _SLICES_PER_S)
