"""Decode untrusted bytes, and report every kind of failure as one kind of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stowplan.errors import ApiUnavailable
from stowplan.loader.json_text import UNREADABLE

T = TypeVar("T")


def decode_answer(decode: Callable[[bytes], T], body: bytes, *, request: str, kind: str) -> T:
    """The answer to `request`, or ApiUnavailable where it is not the `kind` asked for."""
    try:
        return decode(body)
    except UNREADABLE as error:
        raise ApiUnavailable(f"{request}: the answer is not {kind}: {error}") from error
