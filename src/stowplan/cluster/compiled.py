"""One cache for everything that is compiled from the spec of a pod.

Pods of one template spell their affinity, selectors and containers the same, so a compiled value is
kept by how it is spelled: the bytes of its MessagePack form. All such values share a budget of
bytes, and each lookup of any of them is a tick of their time: what a deleted pod left behind is
evicted after some thousand other pods, and after some hundred if it is large. Of a spec that is
large the spelling is kept too, because queueing hints look it up with every event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from stowplan.api.objects import PodSpec
from stowplan.cluster.bytes_lru import BytesLru

T = TypeVar("T")
_Key: TypeAlias = tuple[str, bytes]

#: A compiled value takes about so many times the bytes of its spelling.
_GROWTH: Final = 12
_ENTRY_BYTES: Final = 300
#: Spellings above this size are large.
_LARGE: Final = 16 << 10
_small: BytesLru[_Key, Any]
_large: BytesLru[_Key, Any]
#: Kind and identity of a spec -> the spec, which keeps the identity from being used again, and its
#: large spelling.
_spelled: BytesLru[tuple[str, int], tuple[PodSpec, _Key]]


def clear() -> None:
    """Drop every compiled value."""
    global _small, _large, _spelled  # noqa: PLW0603 - one cache for the process
    _small = BytesLru(16 << 20, ticks_by_use=True)
    _large = BytesLru(24 << 20, idle_ticks=512)
    _spelled = BytesLru(24 << 20, idle_ticks=512)


clear()


@contextmanager
def anew() -> Iterator[None]:
    """Compile with empty caches inside the block; restore the previous caches at its end."""
    global _small, _large, _spelled
    before = _small, _large, _spelled
    clear()
    try:
        yield
    finally:
        _small, _large, _spelled = before


_encode: Final = msgspec.msgpack.Encoder().encode


def compile_once(kind: str, parts: object, make: Callable[[], T], spec: PodSpec | None = None) -> T:
    """The cached result of `make` for some parts of a pod, keyed by `kind` and the parts.

    Pass `spec` if the parts depend on nothing else.
    """
    if _large.nbytes or _spelled.nbytes:
        _large.advance(1)
        _spelled.advance(1)
        known = _spelled.get((kind, id(spec)))
        if known is not None:
            return _find(_large, known[1], make)
    try:
        spelled = _encode(parts)
    except OverflowError:  # an amount is a number beyond 64 bits, which no API server writes
        return make()
    key = (kind, spelled)
    if len(spelled) <= _LARGE:
        value: T | None = _small.get(key)
        return value if value is not None else _find(_small, key, make)
    if spec is not None:
        _spelled.put((kind, id(spec)), (spec, key), 10 * len(spelled))
    return _find(_large, key, make)


def _find(kept: BytesLru[_Key, Any], key: _Key, make: Callable[[], T]) -> T:
    value: T | None = kept.get(key)
    if value is None:
        value = make()
        kept.put(key, value, _GROWTH * len(key[1]) + _ENTRY_BYTES)
    return value


def kept_bytes() -> int:
    """What all compiled values take, about."""
    return _small.nbytes + _large.nbytes + _spelled.nbytes
