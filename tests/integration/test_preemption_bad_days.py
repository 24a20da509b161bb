"""Bad days while room is made for important pods, on both API servers.

Whatever happens: nobody dies for a pod that is gone, nobody dies twice for one pod, and the room
that was made goes to the pod it was made for.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest

from stowplan.lab.faults import Fault
from tests.integration.preempting import (
    create,
    is_leaving,
    make_room_on_n1,
    nominated,
    wait_leaving,
)
from tests.integration.target import Target
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("priorities")

PATCH, DELETE = "PATCH", "DELETE"


def leaving(target: Target, *names: str) -> list[str]:
    return [name for name in names if is_leaving(target, name)]


def test_two_schedulers_race_for_one_pod(target: Target) -> None:
    """The slower one is told 409, says nothing and goes on."""
    target.create_nodes("n1", pods=2)
    # Both have chosen before either binds, and the slow one arrives when the other has.
    late = Fault("POST", r"/a/binding$", before=lambda _: target.wait_bound("a"))
    target.proxy.inject(late)
    target.second_proxy.inject(
        Fault("POST", r"/a/binding$", before=lambda _: wait_for("the other", lambda: late.seen))
    )
    slow = target.start()
    quick = target.start(proxy=target.second_proxy)
    slow.wait_until_scheduling()
    quick.wait_until_scheduling()
    target.create_pods("a")
    target.wait_bound("a")
    wait_for("the slow one to have lost", lambda: "although the binding request failed" in slow.log)
    target.create_pods("b")
    target.wait_bound("b")
    target.wait_event("b", "Scheduled")
    assert len(target.events_of("a", "Scheduled")) == 1
    assert target.events_of("a", "FailedScheduling") == []


def test_a_preemptor_deleted_in_the_middle(target: Target) -> None:
    """Of its four victims some are told already; the others stay."""
    target.create_nodes("n1")
    scheduler = target.start()
    victims = ("v1", "v2", "v3", "v4")
    for name in victims:
        create(target, name, "low", cpu="1")
    target.wait_bound(*victims)

    # Three evictions go out at once, and wait until the scheduler has seen the preemptor end.
    def wait_heard(_: str) -> None:
        heard = '"Delete event for unscheduled pod" pod="default/high"'
        wait_for("the scheduler to hear of it", lambda: heard in scheduler.log)

    target.proxy.inject(Fault(PATCH, r"/pods/v\d/status$", times=3, before=wait_heard))
    create(target, "high", "high", cpu="4")
    wait_for("the first request", lambda: _requests(target, PATCH, "/pods/v"))
    target.delete_pod("high")
    wait_for("what had begun to end", lambda: len(leaving(target, *victims)) >= 3)
    time.sleep(1.0)
    assert len(leaving(target, *victims)) == 3, "the last one is spared"


def test_a_slow_victim_and_a_stream_of_lesser_pods(target: Target) -> None:
    make_room_on_n1(target, "high")
    stream = [f"m{number}" for number in range(6)]
    for number, name in enumerate(stream):
        create(target, name, "middle", cpu="2")
        target.wait_condition(name, "False")
        if number == 3:
            # Room comes free while they queue: it is not theirs.
            target.delete_pod("low")
    assert target.wait_bound("high") == {"high": "n1"}
    assert [name for name in stream if target.node_of(name)] == []
    # What is beside the nominated room is anybody's.
    create(target, "tiny", "low", cpu="1")
    assert target.wait_bound("tiny") == {"tiny": "n1"}


def test_kill_9_between_the_eviction_and_the_bind(target: Target) -> None:
    target.create_nodes("n1", "n2")
    first = target.start()
    create(target, "a", "low")
    create(target, "b", "low")
    target.wait_bound("a", "b")
    create(target, "high", "high")
    wait_for("a victim", lambda: leaving(target, "a", "b"))
    wait_for("the nomination", lambda: nominated(target, "high"))
    first.kill()
    (victim,) = leaving(target, "a", "b")
    (other,) = {"a", "b"} - {victim}
    room = target.node_of(victim)

    second = target.start()
    second.wait_until_scheduling()
    target.delete_pod(victim)

    assert target.wait_bound("high") == {"high": room}
    assert not is_leaving(target, other)


def test_kill_9_before_the_nomination_is_written(target: Target) -> None:
    """The victim is told and nobody knows for whom: it is enough, nobody else has to go."""
    target.create_nodes("n1", "n2")
    target.proxy.inject(Fault(PATCH, r"/pods/high/status$", times=100, delay_s=30.0))
    first = target.start()
    create(target, "a", "low")
    create(target, "b", "low")
    target.wait_bound("a", "b")
    create(target, "high", "high")
    wait_for("a victim", lambda: leaving(target, "a", "b"))
    first.kill()
    target.proxy.clear()
    (victim,) = leaving(target, "a", "b")
    target.delete_pod(victim)

    target.start()

    target.wait_bound("high")
    assert leaving(target, *({"a", "b"} - {victim})) == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault(DELETE, r"/pods/low$", status=500),
        Fault(DELETE, r"/pods/low$", status=429),
        Fault(DELETE, r"/pods/low$", reset="before"),
        Fault(DELETE, r"/pods/low$", reset="after"),
        Fault(PATCH, r"/pods/low/status$", status=500),
        Fault(PATCH, r"/pods/low/status$", reset="after"),
        Fault(PATCH, r"/pods/high/status$", status=500),
    ],
    ids=[
        "delete-500",
        "delete-429",
        "delete-reset",
        "delete-lost",
        "told-500",
        "told-lost",
        "nomination-500",
    ],
)
def test_requests_of_an_eviction_that_fail(target: Target, fault: Fault) -> None:
    fault.seen = 0
    target.create_nodes("n1")
    target.proxy.inject(fault)
    target.start()
    create(target, "low", "low")
    target.wait_bound("low")
    create(target, "beside", "low", cpu="1")
    target.wait_bound("beside")
    create(target, "high", "high")
    wait_leaving(target, "low")
    target.delete_pod("low")
    assert target.wait_bound("high") == {"high": "n1"}
    assert not is_leaving(target, "beside"), "one victim is enough"


def _requests(target: Target, method: str, path: str) -> int:
    seen = Counter(request[0] for request in target.proxy.requests if path in request[1])
    return seen[method]
