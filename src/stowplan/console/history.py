"""The numbers of all nodes over the last minutes, for the slider of the map.

Moments are kept every few seconds, within a number of bytes. A moment remembers the names of its
nodes, so that it can be shown after nodes have come and gone: new nodes were empty then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.console.columns import NodeColumns

EVERY_S: Final = 5.0
KEPT_S: Final = 600.0
KEPT_BYTES: Final = 16 << 20
_MOST: Final = np.iinfo(np.int32).max


class Moment(NamedTuple):
    """Pods, then what was used of every resource, by place in `names`."""

    time: float
    names: Sequence[str]
    resources: Sequence[str]
    numbers: NDArray[np.int32]


class NodeHistory:
    """Keeps moments; `record` is called every second."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._moments: deque[Moment] = deque()
        self._bytes = 0

    def record(self, time: float) -> None:
        """Keep the columns as they are, if the last moment is long enough ago."""
        if self._moments and time - self._moments[-1].time < EVERY_S:
            return
        columns = self._columns
        numbers = np.minimum(columns.numbers(), _MOST).astype(np.int32)
        self._moments.append(Moment(time, columns.names, columns.resources, numbers))
        self._bytes += numbers.nbytes
        while self._bytes > KEPT_BYTES or time - self._moments[0].time > KEPT_S:
            self._bytes -= self._moments.popleft().numbers.nbytes

    def at(self, time: float) -> dict[str, Any] | None:
        """The last moment until a time, else the first, in today's layout; None if none is kept."""
        if not self._moments:
            return None
        times = [moment.time for moment in self._moments]
        moment = self._moments[max(bisect_right(times, time) - 1, 0)]
        columns = self._columns
        place = {name: at for at, name in enumerate(moment.names)}
        there = [place.get(name, -1) for name in columns.names]
        # The last column stands for nodes that were not there.
        padded = np.pad(moment.numbers, ((0, 1), (0, 1)))
        line = {name: at for at, name in enumerate(moment.resources, start=1)}
        return {
            "layout": columns.layout,
            "time": moment.time,
            "pods": padded[0, there].tolist(),
            "used": [padded[line.get(name, -1), there].tolist() for name in columns.resources],
        }
