"""What is told of pods as they come, wait, are placed, finish and go."""

from __future__ import annotations

import msgspec

from stowplan.api.objects import Condition, Pod, PodStatus
from stowplan.clock import VirtualClock
from stowplan.demo.chronicle import RATE_WINDOW_S, Chronicle, Happening, NewsKind
from stowplan.demo.cluster import STAYS_PENDING
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement
from stowplan.testing.builders import node, pod
from tests.unit.demo.rehearsal import new_engine


def on_node(given: Pod, name: str, phase: str = "Pending") -> Pod:
    spec = msgspec.structs.replace(given.spec, node_name=name)
    return msgspec.structs.replace(given, spec=spec, status=PodStatus(phase=phase))


def refused(given: Pod, message: str) -> Pod:
    condition = Condition(
        type="PodScheduled", status="False", reason="Unschedulable", message=message
    )
    status = PodStatus(phase="Pending", conditions=(condition,))
    return msgspec.structs.replace(given, status=status)


def told(chronicle: Chronicle) -> list[str]:
    return [happening.text for happening in chronicle.happenings]


def test_a_pods_way() -> None:
    clock = VirtualClock()
    chronicle = Chronicle(clock)
    heard: list[Happening] = []
    chronicle.on_happening = heard.append
    web = pod("web-1")
    chronicle.add(web)
    assert chronicle.happenings == type(chronicle.happenings)()
    waiting = refused(web, "0/1 nodes are available: 1 Insufficient cpu.")
    chronicle.update(web, waiting)
    assert [s.reason for s in chronicle.waiting()] == [
        "0/1 nodes are available: 1 Insufficient cpu."
    ]
    clock.advance(2.0)
    placed = on_node(web, "n1")
    chronicle.update(waiting, placed)
    running = on_node(web, "n1", "Running")
    chronicle.update(placed, running)
    clock.advance(3.0)
    finished = on_node(web, "n1", "Succeeded")
    chronicle.update(running, finished)
    chronicle.delete(finished)
    assert told(chronicle) == [
        "pending default/web-1: 0/1 nodes are available: 1 Insufficient cpu.",
        "placed default/web-1 on n1",
        "finished default/web-1 on n1 after 3.0s",
    ]
    assert [(h.at, h.kind) for h in heard] == [
        (0.0, NewsKind.PENDING),
        (2.0, NewsKind.PLACED),
        (5.0, NewsKind.FINISHED),
    ]
    assert (chronicle.placed, chronicle.finished) == (1, 1)
    assert chronicle.ever_placed == {"default/web-1"}
    assert not chronicle.pods


def test_a_reason_is_told_once_and_again_when_it_changes() -> None:
    chronicle = Chronicle(VirtualClock())
    web = pod("web-1")
    first, second = refused(web, "no cpu"), refused(web, "no memory")
    for old, new in ((web, first), (first, first), (first, second), (second, first)):
        chronicle.add(old) if old is web else chronicle.update(old, new)
        chronicle.update(old, new)
    assert told(chronicle) == [
        "pending default/web-1: no cpu",
        "pending default/web-1: no memory",
        "pending default/web-1: no cpu",
    ]


def test_a_pod_that_stays_pending_is_told_as_such_and_listed_last() -> None:
    clock = VirtualClock()
    chronicle = Chronicle(clock)
    huge = refused(pod("huge", annotations={STAYS_PENDING: "is too big"}), "no cpu")
    chronicle.add(huge)
    clock.advance(1.0)
    chronicle.add(pod("web-1"))
    assert told(chronicle) == ["pending default/huge: no cpu (expected to stay pending)"]
    assert [s.pod.metadata.name for s in chronicle.waiting()] == ["web-1", "huge"]
    assert chronicle.waiting()[1].stays_pending == "is too big"


def test_deleted_pods() -> None:
    chronicle = Chronicle(VirtualClock())
    running, waiting = pod("a", node="n1", phase="Running"), pod("b")
    chronicle.add(running)
    chronicle.add(waiting)
    chronicle.delete(running)
    chronicle.delete(waiting)
    chronicle.delete(waiting)
    assert told(chronicle)[1:] == ["deleted default/a from n1", "deleted default/b"]


def test_a_namesake_is_another_pod() -> None:
    chronicle = Chronicle(VirtualClock())
    old, new = pod("a", node="n1"), pod("a")
    chronicle.add(old)
    chronicle.update(old, new)
    assert list(chronicle.pods) == [new.uid]
    assert [s.pod for s in chronicle.waiting()] == [new]


def test_the_verdict_comes_from_the_schedulers_own_decision() -> None:
    engine = new_engine()
    handlers = EventHandlers(engine)
    for name in ("n1", "n2", "n3"):
        handlers.add_node(node(name, cpu=4))
    handlers.add_node(node("n4", cpu=4, unschedulable=True))
    handlers.add_node(node("big", cpu=16))
    chronicle = Chronicle(VirtualClock())
    for waiting in (pod("web-1", cpu=1), pod("big-1", cpu=10), pod("huge", cpu=100)):
        chronicle.add(waiting)
        handlers.add_pod(waiting)
        outcome = engine.attempt()
        assert outcome is not None
        chronicle.outcome(outcome)
        if isinstance(outcome, Placement):
            chronicle.update(waiting, outcome.pod)
    first, second = told(chronicle)
    assert first.startswith("placed default/web-1 on ")
    assert first.endswith(", 4 of 5 nodes fit)")
    score = int(first.partition("(score ")[2].partition(",")[0])
    assert 0 < score <= 1000
    assert second == "placed default/big-1 on big (the only one of 5 nodes that fits)"


def test_the_rate_is_of_the_last_seconds() -> None:
    clock = VirtualClock()
    chronicle = Chronicle(clock)
    assert chronicle.rate == 0
    for number in range(10):
        chronicle.add(pod(f"web-{number}", node="n1"))
    clock.advance(5.0)
    assert chronicle.rate == 2.0
    clock.advance(RATE_WINDOW_S - 5.0)
    assert chronicle.rate == 1.0
    clock.advance(0.1)
    assert chronicle.rate == 0.0


def test_old_happenings_are_forgotten() -> None:
    chronicle = Chronicle(VirtualClock())
    for number in range(1000):
        chronicle.tell(NewsKind.OTHER, str(number))
    assert len(chronicle.happenings) < 500
    assert told(chronicle)[-1] == "999"
