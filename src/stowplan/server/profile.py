"""/debug/pprof/profile: the CPU time of the process by stack, for `go tool pprof` and speedscope.

A thread looks at the stacks of all others a hundred times a second, and counts the CPU time that
each has used since the last look for the stack it is in now. `serving` adds the route; only clients
with rights reach it. Invariant: one profile at a time, for a bounded time, in bounded memory.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from types import FrameType
from typing import Final, TypeAlias

from stowplan.http.messages import TEXT, Request, Response
from stowplan.server.health import query_of

_EVERY_S: Final = 0.01
_DEFAULT_S: Final = 30.0
_MAX_S: Final = 300.0
_MAX_DEPTH: Final = 200
_MAX_STACKS: Final = 20_000

#: Function, file, line; innermost first.
Frame: TypeAlias = tuple[str, str, int]
Stack: TypeAlias = tuple[Frame, ...]


class Profiler:
    """The route."""

    def __init__(self) -> None:
        self._is_busy = False

    async def __call__(self, request: Request) -> Response:
        text = query_of(request).get("seconds", [""])[0]
        try:
            seconds = min(float(text), _MAX_S) if text else _DEFAULT_S
        except ValueError:
            seconds = 0.0
        if not seconds > 0:
            return _problem(
                HTTPStatus.BAD_REQUEST, f"seconds={text[:20]!a} is not a positive number"
            )
        if self._is_busy:
            return _problem(HTTPStatus.CONFLICT, "a profile is being taken; try again later")
        self._is_busy = True
        try:
            body = await asyncio.to_thread(take_profile, seconds)
        finally:
            self._is_busy = False
        name = 'attachment; filename="profile"'
        return Response(body, 200, "application/octet-stream", {"Content-Disposition": name})


def _problem(status: HTTPStatus, text: str) -> Response:
    return Response(f"{text}\n".encode(), status.value, TEXT)


def take_profile(seconds: float) -> bytes:
    """Sample for so many seconds; the profile in pprof's format."""
    started, began = time.time_ns(), time.monotonic()
    found: dict[Stack, list[int]] = {}
    used: dict[int, int] = {}
    while time.monotonic() - began < seconds:
        for thread, frame in sys._current_frames().items():
            if thread == threading.get_ident():
                continue
            now = _cpu_time_ns(thread)
            spent = now - used.get(thread, now)
            used[thread] = now
            stack = _stack(frame)
            if spent > 0 and (stack in found or len(found) < _MAX_STACKS):
                count = found.setdefault(stack, [0, 0])
                count[0] += 1
                count[1] += spent
        time.sleep(_EVERY_S)
    return encode(found, started, int((time.monotonic() - began) * 1e9))


def _cpu_time_ns(thread: int) -> int:
    try:
        return time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
    except OSError:  # it has ended
        return 0


def _stack(frame: FrameType | None) -> Stack:
    frames: list[Frame] = []
    while frame is not None and len(frames) < _MAX_DEPTH:
        code = frame.f_code
        frames.append((code.co_qualname, code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(frames)


# pprof's profile.proto, whose fields are numbered


def encode(stacks: dict[Stack, list[int]], started_ns: int, lasted_ns: int) -> bytes:
    """Stacks with their counts and CPU times as a gzipped profile.proto."""
    strings: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[Frame, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    def kind(name: str, unit: str) -> bytes:
        return _number(1, text(name)) + _number(2, text(unit))

    parts = [_block(1, kind("samples", "count")), _block(1, kind("cpu", "nanoseconds"))]
    for stack, counted in stacks.items():
        ids = [locations.setdefault(frame, len(locations) + 1) for frame in stack]
        parts.append(_block(2, _numbers(1, ids) + _numbers(2, counted)))
    for (name, file, line), number in locations.items():
        function = functions.setdefault((name, file), len(functions) + 1)
        line_part = _block(4, _number(1, function) + _number(2, line))
        parts.append(_block(4, _number(1, number) + line_part))
    for (name, file), number in functions.items():
        named = _number(2, text(name)) + _number(3, text(name)) + _number(4, text(file))
        parts.append(_block(5, _number(1, number) + named))
    period = _block(11, kind("cpu", "nanoseconds")) + _number(12, int(_EVERY_S * 1e9))
    parts += [_block(6, each.encode("utf-8", "replace")) for each in strings]
    parts += [_number(9, started_ns), _number(10, lasted_ns), period]
    return gzip.compress(b"".join(parts))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _numbers(field: int, values: Iterable[int]) -> bytes:
    return _block(field, b"".join(map(_varint, values)))
