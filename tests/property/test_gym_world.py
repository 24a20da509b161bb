"""Whatever happens to a cluster, and whatever the agent answers, its books are right."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from stowplan.config.defaults import default_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.sim.gym.simulation import Simulation
from stowplan.sim.traces import Arrival, Disruption, Event, Removal
from stowplan.sim.traces.manifests import priority_class
from tests.unit.sim.gym.clusters import some_node, some_pod, trace_of

NODES = ("a", "b")
REGISTRY = in_tree_registry()
PODS = st.builds(
    lambda cpu_milli, run_s, priority: (cpu_milli, run_s, priority),
    st.sampled_from([1000, 2500, 4000, 5000]),
    st.sampled_from([None, None, 5.0, 40.0]),
    st.sampled_from(["low", "high", "shy"]),
)
TROUBLE = st.one_of(
    st.builds(
        Disruption,
        st.just(0.0),
        st.sampled_from(["fail", "recover", "drain", "cordon", "uncordon"]),
        st.sampled_from(NODES),
    ),
    st.sampled_from([Removal(0.0, "v1", "Node", "", name) for name in NODES]),
    st.sampled_from([Arrival(0.0, some_node(name)) for name in NODES]),
    st.builds(
        lambda name, is_clean_up: Removal(0.0, "v1", "Pod", "default", name, is_clean_up),
        st.sampled_from(["0", "2"]),
        st.booleans(),
    ),
    st.builds(
        lambda name, run_s: some_pod(0.0, name, run_s=run_s, priorityClassName="low"),
        st.sampled_from(["0", "2-r1"]),
        st.sampled_from([None, 10.0]),
    ),
)


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    made: list[Event] = []
    at = 0.0
    for number, what in enumerate(
        draw(st.lists(st.one_of(PODS, PODS, PODS, TROUBLE), min_size=4, max_size=25))
    ):
        at += draw(st.sampled_from([0.0, 1.0, 15.0]))
        match what:
            case (cpu_milli, run_s, priority):
                made.append(
                    some_pod(
                        at,
                        str(number),
                        cpu_milli=cpu_milli,
                        run_s=run_s,
                        priorityClassName=priority,
                    )
                )
            case Disruption():
                made.append(Disruption(at, what.kind, what.node))
            case Arrival():
                made.append(replace(what, at=at))
            case Removal():
                made.append(replace(what, at=at))
    return made


@given(events(), st.randoms(use_true_random=False))
def test_the_books_are_right(happening: list[Event], rng: Random) -> None:
    objects = [
        priority_class("low", 1),
        priority_class("high", 100),
        priority_class("shy", 100, preempts=False),
        *(some_node(name) for name in NODES),
    ]
    trace = trace_of(objects, happening)
    world = Simulation(trace, default_config(), REGISTRY, max_nodes=len(NODES), seed=0)
    answers = placed = 0
    last = 0.0
    while (question := world.next_question()) is not None and answers < 200:
        check(world)
        assert world.clock.monotonic() >= last
        last = world.clock.monotonic()
        assert world.table.valid[question.feasible].all()
        answers += 1
        # Now and then an infeasible one.
        row = None if rng.random() < 0.1 else rng.choice(question.feasible.tolist())
        has_placed = world.answer(row)
        assert has_placed == (row is not None)
        placed += has_placed
        assert world.placed == placed
    check(world)


def check(world: Simulation) -> None:
    table = world.table
    live = table.live_rows
    assert (table.requested[:, live] <= table.allocatable[:, live]).all()
    assert (table.pod_count[live] <= table.allowed_pods[live]).all()
    counts = world.engine.queue.counts
    assert sum(counts) == world.waiting
    assert world.engine.cache.assumed_count == 0
    assert not list(table.ghost_names()), "no pod stands on a node that is gone"
