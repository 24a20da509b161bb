"""RandomFilter and RandomScore: the random scheduler's predicate and priority, seedable.

They decide nothing useful on purpose: a start for reading, and noise for tests.
"""

from __future__ import annotations

from random import Random

import msgspec

from stowplan.api.objects import Pod
from stowplan.cluster.views import NodeView
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status, unschedulable


class RandomArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Without a seed, the process's random source is used."""

    seed: int | None = None


def _source(args: RandomArgs | None, handle: Handle | None) -> Random:
    if args is not None and args.seed is not None:
        return Random(args.seed)
    return handle.rng if handle is not None else Random()


class RandomFilter(Plugin):
    """Lets a node pass with a chance of one half."""

    name = "RandomFilter"
    Args = RandomArgs

    def __init__(self, args: RandomArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._random = _source(args, handle)

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        return None if self._random.randrange(2) == 0 else unschedulable("node(s) had bad luck")


class RandomScore(Plugin):
    """Scores a node anything from 0 to 99."""

    name = "RandomScore"
    Args = RandomArgs

    def __init__(self, args: RandomArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._random = _source(args, handle)

    def score(self, pod: Pod, node: NodeView) -> int:
        return self._random.randrange(100)
