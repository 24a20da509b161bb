"""Wait until something is so, as every suite that starts processes does.

While a server starts, looking at it fails in many ways: nothing listens yet, it answers 503 or 404,
its file is missing or half written, a field is not there. All of these mean "not yet". A failed
assertion in the look ends the wait at once: that is how a test says that it cannot come true.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from typing import TypeVar

from stowplan.lab.controlplane.api_access import ApiError

T = TypeVar("T")

PATIENCE_S = 30.0
#: OSError includes refused connections, timeouts, missing files and the statuses of urllib;
#: ValueError half of a JSON document; LookupError a field or line that is not there.
_NOT_YET = (OSError, http.client.HTTPException, ApiError, ValueError, LookupError)


def wait_for(what: str, look: Callable[[], T | None], timeout_s: float = PATIENCE_S) -> T:
    """The first true answer. After `timeout_s`, AssertionError with the last problem."""
    deadline = time.monotonic() + timeout_s
    while True:
        problem: Exception | None = None
        try:
            answer = look()
            if answer:
                return answer
        except _NOT_YET as not_yet:
            problem = not_yet
        if time.monotonic() > deadline:
            last = f"; the last look failed: {problem!r}" if problem is not None else ""
            raise AssertionError(
                f"timed out after {timeout_s:g} s waiting for: {what}{last}"
            ) from problem
        time.sleep(0.05)
