"""Rows of upstream's rule for added nodes: who waits for one hears of taints too.

A node often comes with a taint that goes when it is ready. There is no hint, so any taint that
comes or goes brings the pod back; here it is one that keeps nobody away.
"""

from __future__ import annotations

from tests.unit.scheduler.requeue import (
    rows_binding,
    rows_devices,
    rows_nodes,
    rows_pods,
    rows_volumes,
)
from tests.unit.scheduler.requeue.matrix import Pair, Row, gets_soft_taint
from tests.unit.scheduler.requeue.registered_events import ADD, NODE, TAINT, TAINTS_TOO

_ALL = [
    *rows_nodes.ROWS,
    *rows_pods.ROWS,
    *rows_volumes.ROWS,
    *rows_binding.ROWS,
    *rows_devices.ROWS,
]


def _row(pair: Pair) -> Row:
    """The plugin's first row about an added node, with another change."""
    like = next(row for row in _ALL if row.pair == Pair(pair.plugin, NODE, ADD))
    names = tuple(pod.metadata.name for pod in like.waiting)
    is_artificial = pair.plugin == "NodeName"
    return Row(
        Pair(pair.plugin, NODE, TAINT),
        "a taint comes",
        like.cluster,
        like.waiting,
        gets_soft_taint("n1"),
        placed=names if is_artificial else (),
        tried=() if is_artificial else names,
        arrives=like.arrives,
    )


ROWS = [_row(pair) for pair in sorted(TAINTS_TOO)]
