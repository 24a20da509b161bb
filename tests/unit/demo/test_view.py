"""A moment of the demo, read from a real engine and chronicle."""

from __future__ import annotations

from stowplan.clock import VirtualClock
from stowplan.demo.chronicle import Chronicle
from stowplan.demo.cluster import GPU, STAYS_PENDING
from stowplan.demo.view import NEWS_S, NodePanel, ShownPod, look
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement
from stowplan.testing.builders import node, pod
from tests.unit.demo.rehearsal import new_engine
from tests.unit.demo.test_chronicle import on_node, refused

GIB = 1024**3


def test_nodes_pods_and_queue() -> None:
    clock = VirtualClock()
    engine = new_engine(clock)
    handlers, chronicle = EventHandlers(engine), Chronicle(clock)
    cordon = "node.kubernetes.io/unschedulable:NoSchedule"
    handlers.add_node(
        node("n2", cpu=4, memory="8Gi", zone="b", unschedulable=True, taints=[cordon])
    )
    handlers.add_node(
        node("n1", cpu=2, memory="4Gi", zone="a", taints=["x=y:NoSchedule"], resources={GPU: 2})
    )
    standing = [
        pod("web-10", cpu="500m", memory="1Gi", node="n1", phase="Running"),
        pod("web-9", cpu="500m", memory="1Gi", requests={GPU: 1}, node="n1", phase="Running"),
    ]
    for given in standing:
        handlers.add_pod(given)
        chronicle.add(given)
        clock.advance(NEWS_S)
    huge = pod("huge", cpu=64, priority=5, annotations={STAYS_PENDING: "is too big"})
    gated = pod("audit", gates=["example.com/g"])
    starting = pod("other", namespace="ns", node="n1", phase="Pending", cpu=None, memory=None)
    for given in (huge, gated, starting):
        handlers.add_pod(given)
        chronicle.add(given)
    outcome = engine.attempt()
    assert outcome is not None
    chronicle.update(huge, refused(huge, "0/2 nodes are available."))
    clock.advance(1.0)

    view = look(engine, chronicle, url="http://x", seed=3, kubectl="kubectl get pods")

    assert (view.url, view.seed, view.kubectl) == ("http://x", 3, "kubectl get pods")
    assert view.elapsed_s == 2 * NEWS_S + 1.0
    assert view.nodes == (
        NodePanel(
            name="n1",
            zone="a",
            cpu_used=1000,
            cpu_total=2000,
            memory_used=2 * GIB,
            memory_total=4 * GIB,
            pods=3,
            taints=("x=y",),
            extras=("gpu 1/2",),
            arrivals=(
                ShownPod("ns/other", is_news=True),
                ShownPod("web-9", is_news=False),
                ShownPod("web-10", is_news=False),
            ),
        ),
        NodePanel("n2", "b", 0, 4000, 0, 8 * GIB, 0, is_cordoned=True),
    )
    assert [(p.name, p.node, p.status) for p in view.placed] == [
        ("default/web-9", "n1", "Running"),
        ("default/web-10", "n1", "Running"),
        ("ns/other", "n1", "Starting"),
    ]
    audit, last = view.pending
    assert (audit.name, audit.status, audit.attempts) == ("default/audit", "Gated", 0)
    assert audit.why == "waiting for scheduling gates: [example.com/g]"
    assert (last.name, last.status, last.attempts) == ("default/huge", "Pending", 1)
    assert (last.why, last.age_s) == ("0/2 nodes are available.", 1.0)
    assert (last.is_critical, last.stays_pending) == (True, "is too big")
    assert (view.queue.unschedulable, view.queue.gated, view.queue.active) == (1, 1, 0)
    assert (view.placed_total, view.finished_total) == (3, 0)


def test_finished_pods_stay_in_the_list_but_not_on_their_node() -> None:
    clock = VirtualClock()
    engine, chronicle = new_engine(clock), Chronicle(clock)
    EventHandlers(engine).add_node(node("n1"))
    job = pod("report-1", node="n1", phase="Running")
    chronicle.add(job)
    chronicle.update(job, on_node(job, "n1", "Succeeded"))
    leaving = pod("web-1", node="n1", phase="Running", terminating=True)
    chronicle.add(leaving)
    view = look(engine, chronicle)
    assert [arrival.pod for arrival in view.nodes[0].arrivals] == ["web-1"]
    assert [p.status for p in view.placed] == ["Succeeded", "Terminating"]


def test_a_pod_that_is_decided_but_not_bound_waits_no_more() -> None:
    clock = VirtualClock()
    engine, chronicle = new_engine(clock), Chronicle(clock)
    handlers = EventHandlers(engine)
    handlers.add_node(node("n1"))
    web = pod("web-1")
    handlers.add_pod(web)
    chronicle.add(web)
    assert [(p.name, p.status) for p in look(engine, chronicle).pending] == [
        ("default/web-1", "Pending")
    ]
    assert isinstance(engine.attempt(), Placement)
    view = look(engine, chronicle)
    assert view.pending == ()
    assert [(p.name, p.node, p.status) for p in view.placed] == [("default/web-1", "n1", "Binding")]


def test_nothing_at_all() -> None:
    clock = VirtualClock()
    view = look(new_engine(clock), Chronicle(clock))
    assert (view.nodes, view.pending, view.placed, view.happenings) == ((), (), (), ())
