"""What happens between the decision to evict and the eviction, on both API servers.

The lease is lost, budgets come and go, victims vanish. Whatever it is: nobody dies for nothing or
in place of another, and the pod that room is made for gets it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

import pytest

from stowplan.lab.faults import Fault, FaultProxy
from tests.integration.preempting import create, is_leaving, nominated, wait_leaving
from tests.integration.target import Scheduler, Target
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("priorities")

PATCH, DELETE = "PATCH", "DELETE"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASE_FLAGS = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=500ms",
    "--leader-elect-resource-namespace=default",
    "--leader-elect-resource-name=it",
)
#: For watches to deliver what was written just now.
_NEWS_S = 2.0
_PATIENCE_S = 60.0


def sent(proxy: FaultProxy, method: str, name: str) -> int:
    """How many requests of that method there were for a pod, or its status."""
    paths = (f"{PODS}/{name}", f"{PODS}/{name}/status")
    return sum(each == method and path.split("?")[0] in paths for each, path in proxy.requests)


# The lease


def leader_and_standby(target: Target) -> tuple[Scheduler, Scheduler]:
    leader = target.start(*LEASE_FLAGS, leader_elect=True)
    leader.wait_until_scheduling()
    standby = target.start(*LEASE_FLAGS, leader_elect=True, proxy=target.second_proxy)
    return leader, standby


def depose(target: Target, leader: Scheduler, standby: Scheduler) -> None:
    target.proxy.inject(Fault("PUT", r"/leases/it$", times=1000, status=500))
    assert leader.wait_for_exit() == 1
    assert "Traceback" not in leader.log
    standby.wait_until_scheduling()


def test_the_lease_is_lost_between_two_victims(target: Target) -> None:
    """One is told to go already, the other not: the next leader finishes what was begun."""
    target.create_nodes("n1", "n2")
    leader, standby = leader_and_standby(target)
    create(target, "other", "middle", cpu="4")
    target.wait_bound("other")
    create(target, "v1", "low", cpu="2")
    create(target, "v2", "low", cpu="2")
    room = target.wait_bound("v1", "v2")["v1"]
    target.proxy.inject(Fault(PATCH, r"/pods/v\d/status$"))  # lets the first one pass
    target.proxy.inject(Fault(PATCH, r"/pods/v\d/status$", times=100, delay_s=60.0))

    create(target, "high", "high", cpu="4")
    wait_for("a victim", lambda: is_leaving(target, "v1") or is_leaving(target, "v2"))
    wait_for("the nomination", lambda: nominated(target, "high"))
    depose(target, leader, standby)

    first, second = ("v1", "v2") if is_leaving(target, "v1") else ("v2", "v1")
    assert not is_leaving(target, second), "the lease was lost in the middle"
    target.delete_pod(first)
    wait_leaving(target, second)
    target.delete_pod(second)
    assert target.wait_bound("high") == {"high": room}
    assert not is_leaving(target, "other")
    assert sent(target.proxy, DELETE, first) == 1
    assert sent(target.second_proxy, DELETE, first) == 0, "nobody dies twice"
    assert sent(target.second_proxy, DELETE, second) == 1


def test_an_eviction_that_arrives_after_the_lease_is_lost(target: Target) -> None:
    """It is on its way for so long that a namesake stands where the victim was."""
    target.create_nodes("n1")
    arrive = Event()
    late = target.proxy.inject(
        Fault(DELETE, r"/pods/victim$", before=lambda _: arrive.wait(_PATIENCE_S))
    )
    leader, standby = leader_and_standby(target)
    create(target, "victim", "low")
    target.wait_bound("victim")
    create(target, "high", "high")
    wait_for("the eviction to be sent", lambda: late.seen)
    wait_for("the nomination", lambda: nominated(target, "high"))
    depose(target, leader, standby)

    wait_leaving(target, "victim")
    target.delete_pod("victim")
    create(target, "victim", "low", cpu="1")
    assert target.wait_bound("high", "victim") == {"high": "n1", "victim": "n1"}
    arrive.set()
    wait_for("the late eviction", lambda: late.answered)
    assert not is_leaving(target, "victim"), "it is another pod, by its uid"


# Budgets


def protect(target: Target, name: str) -> None:
    """A budget that allows no disruption of one pod."""
    target.api.patch(f"{PODS}/{name}", {"metadata": {"labels": {"budget": name}}})
    target.api.create(
        BUDGETS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"budget": name}}},
        },
    )


def unprotect(target: Target, name: str) -> None:
    target.api.delete(f"{BUDGETS}/{name}")


@pytest.fixture
def two_choices(target: Target) -> Callable[[], dict[str, str]]:
    """Two full nodes; `cheap` is the victim that is chosen, unless there is a budget for it."""

    def fill() -> dict[str, str]:
        target.create_nodes("n1", "n2")
        target.start()
        create(target, "cheap", "low")
        create(target, "dear", "middle")
        return target.wait_bound("cheap", "dear")

    return fill


def test_a_budget_that_comes_too_late(
    target: Target, two_choices: Callable[[], dict[str, str]]
) -> None:
    """As in kube-scheduler a budget counts when it is decided who goes, not afterwards."""
    room = two_choices()
    target.proxy.inject(
        Fault(
            PATCH,
            r"/pods/cheap/status$",
            before=lambda _: protect(target, "cheap"),
            delay_s=_NEWS_S,
        )
    )
    create(target, "high", "high")
    wait_leaving(target, "cheap")
    target.delete_pod("cheap")
    assert target.wait_bound("high") == {"high": room["cheap"]}
    assert not is_leaving(target, "dear")
    unprotect(target, "cheap")


def test_a_budget_that_goes_too_late(
    target: Target, two_choices: Callable[[], dict[str, str]]
) -> None:
    room = two_choices()
    protect(target, "cheap")
    time.sleep(_NEWS_S)
    target.proxy.inject(
        Fault(
            PATCH,
            r"/pods/dear/status$",
            before=lambda _: unprotect(target, "cheap"),
            delay_s=_NEWS_S,
        )
    )
    create(target, "high", "high")
    wait_leaving(target, "dear")
    target.delete_pod("dear")
    assert target.wait_bound("high") == {"high": room["dear"]}
    assert not is_leaving(target, "cheap")


def test_an_eviction_that_fails_is_decided_anew_with_the_new_budget(
    target: Target, two_choices: Callable[[], dict[str, str]]
) -> None:
    room = two_choices()
    target.proxy.inject(
        Fault(
            DELETE,
            r"/pods/cheap$",
            before=lambda _: protect(target, "cheap"),
            delay_s=_NEWS_S,
            status=500,
        )
    )
    create(target, "high", "high")
    wait_leaving(target, "dear")
    target.delete_pod("dear")
    assert target.wait_bound("high") == {"high": room["dear"]}
    assert not is_leaving(target, "cheap"), "it has a budget now"
    unprotect(target, "cheap")


# Victims and nodes that vanish


@pytest.mark.parametrize(
    ("method", "path"),
    [(PATCH, r"/pods/cheap/status$"), (DELETE, r"/pods/cheap$")],
    ids=["before-it-is-told", "before-it-is-deleted"],
)
def test_a_victim_that_vanishes(
    target: Target, two_choices: Callable[[], dict[str, str]], method: str, path: str
) -> None:
    room = two_choices()
    target.proxy.inject(Fault(method, path, before=lambda _: target.delete_pod("cheap")))
    create(target, "high", "high")
    assert target.wait_bound("high") == {"high": room["cheap"]}
    assert not is_leaving(target, "dear")


def test_a_victim_whose_place_a_namesake_takes(
    target: Target, two_choices: Callable[[], dict[str, str]]
) -> None:
    room = two_choices()

    def replace(_: str) -> None:
        target.delete_pod("cheap")
        create(target, "cheap", "low")

    target.proxy.inject(Fault(DELETE, r"/pods/cheap$", before=replace))
    create(target, "high", "high")
    assert target.wait_bound("high") == {"high": room["cheap"]}
    assert not is_leaving(target, "dear")
    assert not is_leaving(target, "cheap"), "it is another pod, by its uid"
    assert target.node_of("cheap") == ""


def test_all_of_several_victims_vanish_while_one_is_told(target: Target) -> None:
    target.create_nodes("n1")
    target.start()
    victims = ("v1", "v2", "v3")
    for name in victims:
        create(target, name, "low", cpu="1")
    target.wait_bound(*victims)

    def vanish(_: str) -> None:
        for name in victims:
            target.delete_pod(name)

    target.proxy.inject(Fault(PATCH, r"/pods/v\d/status$", before=vanish, delay_s=_NEWS_S))
    create(target, "high", "high", cpu="4")
    assert target.wait_bound("high") == {"high": "n1"}


def test_the_node_goes_in_between(
    target: Target, two_choices: Callable[[], dict[str, str]]
) -> None:
    """The victim has gone for nothing; the pod finds room elsewhere."""
    room = two_choices()

    def remove_node(_: str) -> None:
        target.api.delete(f"/api/v1/nodes/{room['cheap']}")

    target.proxy.inject(Fault(PATCH, r"/pods/cheap/status$", before=remove_node, delay_s=_NEWS_S))
    create(target, "high", "high")
    wait_leaving(target, "cheap")
    target.delete_pod("cheap")
    wait_leaving(target, "dear")
    target.delete_pod("dear")
    assert target.wait_bound("high") == {"high": room["dear"]}
