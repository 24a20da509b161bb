"""A cache of recently decoded lists of node names.

kube-scheduler calls prioritize for the nodes that filter has left, with the same body. `reading`
looks here first. It is done by bytes: a request that Go writes ends with

    ,"Nodes":null,"NodeNames":["node-1", ...]}

and one that ends with exactly the same bytes is about the same names, whatever its pod. Invariants:
a hit always equals what decoding the whole body would give, and the cache is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple, TypeAlias

Body: TypeAlias = bytes | bytearray

_FRONT: Final = b'{"Pod":'
_MIDDLE: Final = b',"Nodes":null,"NodeNames":'
#: Enough to tell lists of the same nodes in another order apart.
_LAST_BYTES: Final = 64
_MOST_LISTS: Final = 16
#: Shorter ones are decoded as quickly, longer ones would be too much to keep.
_SHORTEST: Final = 1024
_LONGEST: Final = 512 * 1024


class Known(NamedTuple):
    """The end of a body, and the names in it."""

    tail: bytes
    names: tuple[str, ...]

    @property
    def encoded(self) -> memoryview:
        """The list of names as it was sent."""
        return memoryview(self.tail)[len(_MIDDLE) : -1]


class KnownNames:
    """The lists that were asked about last."""

    def __init__(self) -> None:
        self._lists: OrderedDict[bytes, Known] = OrderedDict()

    def find(self, body: Body) -> Known | None:
        """What `body` ends with; all before it, and a brace, has to be an object with the rest."""
        key = bytes(body[-_LAST_BYTES:])
        known = self._lists.get(key)
        if known is None or not body.endswith(known.tail):
            return None
        self._lists.move_to_end(key)
        return known

    def remember(self, body: Body, pod: memoryview, names: list[str]) -> Known | None:
        """Of a body that was decoded to this pod, these names, and no nodes; None if it is not as
        Go writes it."""
        start = len(_FRONT) + len(pod)
        if not (
            _SHORTEST <= len(body) - start <= _LONGEST
            and body.startswith(_FRONT)
            and body.startswith(_MIDDLE, start)
            and body[len(_FRONT) : start] == bytes(pod)
        ):
            return None
        tail = bytes(body[start:])
        # With only one bracket that closes, at the end, there is nothing behind the list or in it
        # but names: no second Pod, for one.
        if not tail.endswith(b"]}") or tail.find(b"]") != len(tail) - 2:
            return None
        known = self._lists[bytes(body[-_LAST_BYTES:])] = Known(tail, tuple(names))
        if len(self._lists) > _MOST_LISTS:
            self._lists.popitem(last=False)
        return known
