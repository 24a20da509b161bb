"""The schedule of faults: what happens when, from a seed and a number of minutes.

Pure: the same seed and minutes give the same steps. Faults that interrupt scheduling are spread
over the run, one in each slot, so that the recovery of each can be seen; changes of objects come
at any time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """What goes wrong."""

    KILL = "scheduler kill"
    FREEZE = "freeze"
    APISERVER = "API server kill"
    ETCD = "etcd kill"
    CUT = "cut"
    STORM = "storm"
    CLOCK = "clock jump"
    NODE_GONE = "node deleted"
    NODE_SMALLER = "node smaller"
    NODE_RELABELLED = "node relabelled"
    NAMESAKES = "namesakes"
    NAMESPACE = "namespace deleted"


#: Per minute: 34 minutes have 204 kills of schedulers, 51 freezes, 20 API server and 10 etcd kills.
INTERRUPTIONS = {
    Kind.KILL: 6.0,
    Kind.FREEZE: 1.5,
    Kind.APISERVER: 0.6,
    Kind.ETCD: 0.3,
    Kind.CUT: 0.5,
    Kind.STORM: 1.0,
    Kind.CLOCK: 0.5,
}
CHANGES = {
    Kind.NODE_GONE: 0.6,
    Kind.NODE_SMALLER: 1.0,
    Kind.NODE_RELABELLED: 1.0,
    Kind.NAMESAKES: 1.0,
    Kind.NAMESPACE: 0.3,
}
#: An interruption begins in this part of its slot.
_EARLIEST, _LATEST = 0.05, 0.6


@dataclass(frozen=True)
class Step:
    """One fault. `number` selects its victim or variant, `size` is its strength, from 0 to 1."""

    at_s: float
    kind: Kind
    number: int
    size: float


def make_plan(seed: int, minutes: float, only: Sequence[Kind] = ()) -> list[Step]:
    """All steps in order; every kind that is asked for happens at least once.

    With `only` these kinds take the slots of all interruptions.
    """
    dice = random.Random(seed)
    length_s = minutes * 60
    chosen = {kind: rate for kind, rate in INTERRUPTIONS.items() if not only or kind in only}
    more = sum(INTERRUPTIONS.values()) / sum(chosen.values()) if chosen else 1.0
    interruptions = [
        kind for kind, rate in chosen.items() for _ in range(max(1, round(rate * more * minutes)))
    ]
    dice.shuffle(interruptions)
    slot_s = length_s / max(1, len(interruptions))
    times = [(n + dice.uniform(_EARLIEST, _LATEST)) * slot_s for n in range(len(interruptions))]
    planned = list(zip(times, interruptions, strict=True))
    for kind, rate in CHANGES.items():
        if not only or kind in only:
            count = max(1, round(rate * minutes))
            planned += [(dice.uniform(0, length_s), kind) for _ in range(count)]
    planned.sort()
    return [
        Step(round(at_s, 2), kind, dice.randrange(10**6), round(dice.random(), 3))
        for at_s, kind in planned
    ]


def write_plan(plan: Sequence[Step], seed: int, file: Path) -> None:
    """A line of JSON a step, after one with the seed."""
    lines = [json.dumps({"seed": seed, "steps": len(plan)})]
    lines += [json.dumps(asdict(step)) for step in plan]
    file.write_text("\n".join(lines) + "\n")
