"""A decision that is deferred goes on where it was: no list of a pod makes it begin again.

Each size of `bench.hostile_sizes` is decided once at a stretch and once in the parts that a live
scheduler allows. If nothing of a try remained, it would be deferred a hundred times, until it may
spend more.
"""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from stowplan.cluster.work import DECISION_WORK
from stowplan.config.defaults import default_config
from stowplan.lab.bench.hostile_sizes import POD_SIZES
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Deferral, Placement
from stowplan.testing import node, pod
from tests.perf.doubling import Stage

#: As many as a pod of some hundred kilobytes holds; with these nodes, terms take several tries.
_SIZE = 4_000
_NODES = 1_000
#: Every node has as many labels: it is the nodes that are large then.
_SIZES = [size for size in POD_SIZES if size != "node selector"]


def _stage(size: str) -> Stage:
    stage = Stage({size: _SIZE, "nodes": _NODES}, crowded=False)
    stage.prepare()
    return stage


@pytest.mark.parametrize("size", _SIZES)
def test_a_deferred_decision_keeps_what_it_has_done(size: str) -> None:
    whole, deferrals = _stage(size).decide_in_parts(inf)
    assert not deferrals
    _, deferrals = _stage(size).decide_in_parts(DECISION_WORK)
    assert deferrals <= 2 * whole / DECISION_WORK


def test_node_selector_terms_on_labels_that_nodes_carry() -> None:
    """Each looks at all nodes; what the sizes above hold is mostly of labels that no node has."""
    engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
    handlers = EventHandlers(engine)
    for number in range(2_000):
        handlers.add_node(node(f"n{number}", labels={"rack": "1", "disk": "ssd"}))
    both = ({"key": "rack", "operator": "In"}, {"key": "disk", "operator": "In"})
    terms = [
        {"matchExpressions": [{**each, "values": [f"x{number}"]} for each in both]}
        for number in range(6_000)
    ]
    terms.append({"matchExpressions": [{"key": "rack", "operator": "Exists"}]})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    handlers.add_pod(pod("asker", affinity={"nodeAffinity": required}))
    engine.decision_work = DECISION_WORK
    outcomes = [engine.advance()]
    while isinstance(outcomes[-1], Deferral) and len(outcomes) < 30:
        outcomes.append(engine.advance())
    assert isinstance(outcomes[-1], Placement), f"{len(outcomes)} tries"
    assert len(outcomes) > 1, "it took more than one try"
