"""Days of `SchedulerMachine` that once went wrong, step by step.

`make fuzz` prints a failing day in this form. Keep it here, shortened, when its cause is fixed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.property.test_scheduler_machine import SchedulerMachine

Day = Callable[[SchedulerMachine], None]


def a_reserved_place_becomes_free_when_another_scheduler_binds_the_pod_elsewhere(
    state: SchedulerMachine,
) -> None:
    """n1 has room for three of four pods; the fourth must get the place that `a` leaves."""
    state.start(sizes=[3], standing=[(0, 0, 0)])
    state.create(plans=[(0, 0, set(), ""), (0, 0, set(), "")])
    state.create(plans=[(0, 0, set(), ""), (0, 0, set(), "")])
    state.attempt(count=4, has_heard=True)
    state.bind_elsewhere(place=1, name="n2")


def a_nomination_ends_where_its_pod_does_not_go(state: SchedulerMachine) -> None:
    """`c` may not evict `a` from n3, which `d` is nominated to, until `d` has gone to n1."""
    state.start(sizes=[1], standing=[])
    state.create(plans=[(0, 0, set(), ""), (1, 1, set(), ""), (1, 1, set(), "")])
    state.bind_elsewhere(place=0, name="n3")
    state.put_node(name="n3", cpu=1, slots=1, taints=())
    state.create(plans=[(0, 1, set(), "n3")])


def a_pod_is_held_again_at_the_end_of_the_day(state: SchedulerMachine) -> None:
    """The status names its node already, so that only the hold is left to wait for."""
    state.start(sizes=[1], standing=[(0, 0, 0)])
    state.create(plans=[(0, 0, set(), ""), (0, 0, set(), ""), (0, 1, {"hold"}, "")])
    state.create(plans=[(0, 0, set(), ""), (0, 0, set(), "")])
    state.relist()
    state.attempt(count=1, has_heard=False)
    state.put_node(name="n2", cpu=1, slots=1, taints=())
    state.end_hold(is_allowed=False)


def a_lookup_knows_before_the_news_that_a_pod_is_bound_elsewhere(state: SchedulerMachine) -> None:
    state.start(sizes=[4], standing=[])
    state.create(plans=[(0, 0, set(), "")])
    state.attempt(count=1, has_heard=True)
    state.bind_elsewhere(place=0, name="n2")
    state.answer(place=0, how="done")
    state.answer(place=0, how="done")
    state.every_pod_is_in_one_place()


def a_binding_arrives_after_its_connection_broke(state: SchedulerMachine) -> None:
    """Two pods and one place: it must not be given to `b` while the binding of `a` may arrive."""
    state.start(sizes=[1], standing=[])
    state.create(plans=[(1, 0, set(), ""), (1, 0, set(), "")])
    state.attempt(count=2, has_heard=True)
    state.answer(place=0, how="late")
    for _ in range(3):
        state.time_goes_on(seconds=0.3)
        state.a_quiet_moment()
    state.arrive(place=0)


def a_victim_is_being_turned_back_when_it_is_chosen(state: SchedulerMachine) -> None:
    """`a` is held, and deleted but for its finalizer. `b` must come back although `a` stays."""
    state.start(sizes=[1], standing=[])
    state.create(plans=[(1, 0, {"kept", "hold"}, "")])
    state.a_quiet_moment()
    state.delete(place=0)
    state.create(plans=[(1, 5, set(), "")])
    state.a_quiet_moment()


def a_victim_is_held_here_and_bound_by_another_scheduler(state: SchedulerMachine) -> None:
    """To turn `a` back in memory frees nothing: `b` waits until `a` is deleted."""
    state.start(sizes=[1], standing=[])
    state.create(plans=[(1, 0, {"hold"}, "")])
    state.a_quiet_moment()
    state.bind_elsewhere(place=0, name="n1")
    state.create(plans=[(1, 5, set(), "")])
    state.a_quiet_moment()


DAYS: list[Day] = [
    a_reserved_place_becomes_free_when_another_scheduler_binds_the_pod_elsewhere,
    a_nomination_ends_where_its_pod_does_not_go,
    a_pod_is_held_again_at_the_end_of_the_day,
    a_lookup_knows_before_the_news_that_a_pod_is_bound_elsewhere,
    a_binding_arrives_after_its_connection_broke,
    a_victim_is_being_turned_back_when_it_is_chosen,
    a_victim_is_held_here_and_bound_by_another_scheduler,
]


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.__name__)
def test_a_day_that_once_went_wrong(day: Day) -> None:
    state = SchedulerMachine()
    try:
        day(state)
    finally:
        state.teardown()
