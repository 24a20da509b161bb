"""A scheduler that has seen many pods come and go holds no more than one that has seen fewer.

Pods of all kinds, many of them like no other, are decided, bound, seen and deleted; what stays is
counted in blocks of memory, whoever holds them. The soak (`make soak`) asks the same of the whole
process.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import deque
from itertools import count
from random import Random

import msgspec
import pytest

from stowplan.api.objects import Node, Pod
from stowplan.config.defaults import default_config
from stowplan.lab.bench.churn_objects import NodeLayout, PodKind, PodMaker
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement

LAYOUT = NodeLayout(20)
#: Pods at a time.
POPULATION = 60
#: Twice as many are more than any cache of what single pods spell remembers: all have been full.
ARRIVALS = 1_000
KINDS = (*6 * (PodKind.ODD,), PodKind.PLAIN, PodKind.SPREAD, PodKind.APART, PodKind.TOGETHER)

_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_node = msgspec.json.Decoder(Node).decode


class Cluster:
    """An engine, and pods that come and go in their turn."""

    def __init__(self) -> None:
        self.engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
        self.handlers = EventHandlers(self.engine)
        self._maker = PodMaker(LAYOUT, seed=1)
        self._rng = Random(1)
        self._numbers = count()
        self._standing: deque[Pod] = deque()
        for number in range(LAYOUT.nodes):
            made = LAYOUT.node(number)
            made["status"]["allocatable"] = made["status"]["capacity"]
            self.handlers.add_node(_decode_node(json.dumps(made)))

    def arrive(self) -> None:
        """One pod comes, is bound and seen so; the oldest leaves."""
        made = self._maker.make(self._rng.choice(KINDS))
        number = next(self._numbers)
        made["metadata"] |= {"namespace": "default", "uid": f"uid-{number}"}
        made["spec"]["schedulerName"] = "default-scheduler"
        new = _decode_pod(json.dumps(made))
        self.handlers.add_pod(new)
        placement = self.engine.attempt()
        assert isinstance(placement, Placement), placement
        self.engine.permitted(placement)
        self.engine.bound(placement)
        bound = _decode_pod(msgspec.json.encode(placement.pod))
        self.handlers.update_pod(new, bound)
        self._standing.append(bound)
        if len(self._standing) > POPULATION:
            self.handlers.delete_pod(self._standing.popleft())

    def most_blocks(self, arrivals: int) -> int:
        """The most blocks of memory in use while so many pods come and go."""
        most = 0
        for number in range(arrivals):
            self.arrive()
            if number % 50 == 0:
                gc.collect()
                most = max(most, sys.getallocatedblocks())
        return most


def test_nothing_stays_of_pods_that_came_and_went(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is kept for some thousand pods need not be waited for here.
    monkeypatch.setattr("stowplan.cluster.bytes_lru.IDLE_LOOKUPS", 2_000)
    monkeypatch.setattr("stowplan.cluster.bytes_lru.SEEN_LIMIT", 200)
    monkeypatch.setattr("stowplan.cluster.bytes_lru.IDLE_TICKS", 1_000)
    cluster = Cluster()
    cluster.most_blocks(2 * ARRIVALS)
    before = cluster.most_blocks(ARRIVALS)
    after = cluster.most_blocks(ARRIVALS)
    assert cluster.engine.cache.pod_count == POPULATION
    # A pod is a hundred blocks; whatever is kept of one, if only its key, is more than two.
    assert after - before < 2 * ARRIVALS
