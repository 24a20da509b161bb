"""Every bound pod has one `Scheduled` event: soon, and also when its scheduler was killed."""

from __future__ import annotations

from collections import Counter
from threading import Event

from stowplan.lab.faults import Fault
from tests.integration.target import NAMESPACE, Target
from tests.waiting import PATIENCE_S, wait_for

EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


def scheduled(target: Target) -> Counter[str]:
    """How many events each pod has."""
    found = target.api.get(EVENTS)["items"]
    return Counter(e["regarding"]["name"] for e in found if e["reason"] == "Scheduled")


def test_events_lost_by_kill_9_are_written_by_the_next(target: Target) -> None:
    target.create_nodes("n1", "n2")
    first = [f"first{number}" for number in range(20)]
    second = [f"second{number}" for number in range(20)]
    # No event of the first scheduler arrives, and few of the second.
    target.proxy.inject(Fault("POST", r"/events$", times=10_000, reset="before"))
    killed = target.start()
    target.create_pods(*first)
    target.wait_bound(*first)
    killed.kill()
    target.proxy.clear()
    killed = target.start()
    target.create_pods(*second)
    target.wait_bound(*second)
    killed.kill()

    target.start().wait_until_scheduling()
    names = {*first, *second}
    wait_for("all events", lambda: scheduled(target).keys() >= names)
    assert {scheduled(target)[name] for name in names} == {1}


def test_a_restart_writes_no_event_twice(target: Target) -> None:
    target.create_nodes("n1")
    target.create_pods("a", "b", "c")
    scheduler = target.start()
    for name in ("a", "b", "c"):
        target.wait_event(name, "Scheduled")
    scheduler.kill()

    target.start()
    target.create_pods("d")
    target.wait_event("d", "Scheduled")  # written after those of the others were refused
    assert [len(target.events_of(name, "Scheduled")) for name in "abcd"] == [1, 1, 1, 1]


def test_a_bind_under_way_holds_up_no_event_of_others(target: Target) -> None:
    target.create_nodes("n1")
    target.start().wait_until_scheduling()
    may_go = Event()
    slow = target.proxy.inject(
        Fault("POST", r"/slow/binding$", before=lambda _: may_go.wait(PATIENCE_S))
    )
    target.create_pods("slow")
    wait_for("the slow bind", lambda: slow.seen == 1)
    target.create_pods("a")
    target.wait_event("a", "Scheduled")
    assert slow.answered == 0
    may_go.set()
    target.wait_event("slow", "Scheduled")
