"""Browsers that have signed in, and addresses whose sign-ins failed; both in bounded memory.

A session keeps the token, and `sign_in` checks it again with every request: a session ends with its
token. Only a digest of the session's id is kept.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from stowplan.clock import Clock
from stowplan.http.messages import Outlet

LASTS_S: Final = 8 * 3600
MOST_SESSIONS: Final = 64
#: So many failures of one address within the window; then it has to wait.
MOST_FAILURES: Final = 10
WINDOW_S: Final = 60.0
MOST_ADDRESSES: Final = 1024


@dataclass(slots=True, eq=False)
class Session:
    token: str
    ends: float
    #: Streams of events that end with it.
    outlets: set[Outlet] = field(default_factory=set)


class Sessions:
    """One more than MOST_SESSIONS ends the oldest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, token: str) -> str:
        """Begin a session, and return its id."""
        self._end_expired()
        while len(self._open) >= MOST_SESSIONS:
            _close(self._open.popitem(last=False)[1])
        name = secrets.token_urlsafe(32)
        self._open[_digest(name)] = Session(token, self._clock.monotonic() + LASTS_S)
        return name

    def find(self, name: str) -> Session | None:
        self._end_expired()
        return self._open.get(_digest(name))

    def end(self, name: str) -> None:
        found = self._open.pop(_digest(name), None)
        if found is not None:
            _close(found)

    def _end_expired(self) -> None:
        now = self._clock.monotonic()
        while self._open and next(iter(self._open.values())).ends <= now:
            _close(self._open.popitem(last=False)[1])


class FailedSignIns:
    """The latest failures by address; the address that failed longest ago is forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: How many, and since when.
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """How long the address must wait; 0 if it may try."""
        count, since = self._counts.get(address, (0, 0.0))
        left = since + WINDOW_S - self._clock.monotonic()
        return max(left, 0.0) if count >= MOST_FAILURES else 0.0

    def add(self, address: str) -> None:
        now = self._clock.monotonic()
        count, since = self._counts.pop(address, (0, now))
        self._counts[address] = (1, now) if now - since >= WINDOW_S else (count + 1, since)
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)


def _digest(name: str) -> bytes:
    return sha256(name.encode("latin-1", "replace")).digest()


def _close(session: Session) -> None:
    for outlet in list(session.outlets):
        outlet.end()
    session.outlets.clear()
