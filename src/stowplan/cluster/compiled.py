"""One cache for everything that is compiled from the spec of a pod.

Pods of one template spell their affinity, selectors and containers the same, so a compiled value is
kept by how it is spelled: the bytes of its MessagePack form. All such values share a budget of
bytes, and each lookup of any of them is a tick of their time: what a deleted pod left behind is
evicted after some thousand other pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from stowplan.cluster.bytes_lru import BytesLru

T = TypeVar("T")

#: A compiled value takes about so many times the bytes of its spelling.
_GROWTH: Final = 12
_ENTRY_BYTES: Final = 300
_LIMIT_BYTES: Final = 24 << 20
_kept: Final[BytesLru[tuple[str, bytes], Any]] = BytesLru(_LIMIT_BYTES)

#: The spelling of a part of a pod.
spell: Final = msgspec.msgpack.Encoder().encode


def compile_once(kind: str, spelled: bytes, make: Callable[[], T]) -> T:
    """What was made of a spelling; `kind` says what it is and so who may ask for it."""
    key = (kind, spelled)
    value: T | None = _kept.get(key)
    if value is None:
        value = make()
        _kept.put(key, value, _GROWTH * len(spelled) + _ENTRY_BYTES)
    return value


def kept_bytes() -> int:
    """What all compiled values take, about."""
    return _kept.nbytes
