"""`stowplan run` with an extender that the test steers, on the embedded and the real API server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from tests.integration.preempting import create, wait_leaving
from tests.integration.steered_extender import (
    SteeredExtender,
    keep,
    nodes_of,
    steered_extender,
)
from tests.integration.target import Json, Scheduler, Target
from tests.waiting import wait_for


@pytest.fixture
def extender() -> Iterator[SteeredExtender]:
    with steered_extender() as steered:
        yield steered


def start(target: Target, extenders: str) -> Scheduler:
    return target.start("--config", str(target.config_file(extenders)))


@pytest.mark.parametrize("capable", [True, False], ids=["names", "nodes"])
def test_an_extender_filters_and_prioritizes(
    target: Target, extender: SteeredExtender, capable: bool
) -> None:
    target.create_nodes("n1", "n2", "n3")
    extender.says["filter"] = lambda args: keep(args, "n2", "n3")
    extender.says["prioritize"] = lambda args: [
        {"Host": name, "Score": 10 * (name == "n3")} for name in nodes_of(args)
    ]
    start(target, extender.entry("filter", "prioritize", weight=1000, nodeCacheCapable=capable))
    target.create_pods("a", "b")
    assert target.wait_bound("a", "b") == {"a": "n3", "b": "n3"}

    first = extender.bodies("filter")[0]
    assert sorted(nodes_of(first)) == ["n1", "n2", "n3"]
    assert sorted(nodes_of(extender.bodies("prioritize")[0])) == ["n2", "n3"]
    assert first["Pod"]["spec"]["terminationGracePeriodSeconds"] == 30, "whole, as it was written"
    assert "managedFields" not in first["Pod"]["metadata"]
    if not capable:
        assert first["Nodes"]["items"][0]["status"]["capacity"]["cpu"] == "4"


def test_what_an_extender_refuses_is_told(target: Target, extender: SteeredExtender) -> None:
    target.create_nodes("n1", "n2", "n3")
    extender.says["filter"] = lambda args: {
        "NodeNames": [],
        "FailedNodes": {"n1": "no gpu", "n2": "no gpu"},
        "FailedAndUnresolvableNodes": {"n3": "never a gpu"},
    }
    start(target, extender.entry("filter", nodeCacheCapable=True))
    target.create_pods("a")

    condition = target.wait_condition("a", "False")

    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(
        "0/3 nodes are available: 1 never a gpu, 2 no gpu. no new claims to deallocate, preemption:"
    )
    extender.says["filter"] = lambda args: keep(args, "n1")
    target.create_nodes("n4")  # any event brings back what an extender refused
    assert target.wait_bound("a") == {"a": "n1"}


@pytest.mark.parametrize("ignorable", [True, False])
def test_an_extender_that_fails(target: Target, extender: SteeredExtender, ignorable: bool) -> None:
    target.create_nodes("n1")
    scheduler = start(target, extender.entry("filter", ignorable=ignorable))
    target.create_pods("a")  # there is nothing that it could say: 500
    if ignorable:
        target.wait_bound("a")
        assert "Skipping extender as it returned error and has ignorable flag set" in scheduler.log
        return
    condition = target.wait_condition("a", "False")
    url = f"{extender.url}/filter"
    problem = f"failed filter with extender at URL {url}, code 500"
    assert (condition["reason"], condition["message"]) == ("SchedulerError", problem)
    extender.says["filter"] = lambda args: keep(args, "n1")
    target.wait_bound("a")  # after its backoff, by itself


def test_the_cluster_holds_still_while_an_extender_thinks(
    target: Target, extender: SteeredExtender
) -> None:
    """What happens meanwhile is neither lost nor seen half-way through a decision."""
    target.create_nodes("n1", "n2")
    extender.says["filter"] = lambda args: keep(args, *nodes_of(args))
    start(target, extender.entry("filter", httpTimeout="25s")).wait_until_scheduling()
    extender.answers.clear()
    target.create_pods("thinking")
    extender.wait_heard("filter")

    target.create_pods("leaving", "staying")
    target.delete_pod("leaving")
    target.create_nodes("n3")
    target.api.delete("/api/v1/nodes/n2")
    time.sleep(2.0)  # for the news to get there: that it did cannot be seen from outside
    extender.answers.set()

    nodes = target.wait_bound("thinking", "staying")
    assert nodes["staying"] in ("n1", "n3"), "by then it is known that n2 is gone"
    heard = {body["Pod"]["metadata"]["name"]: nodes_of(body) for body in extender.bodies("filter")}
    assert sorted(heard["thinking"]) == ["n1", "n2"]
    assert sorted(heard["staying"]) == ["n1", "n3"]
    assert "leaving" not in heard


def test_a_scheduler_that_waits_for_an_extender_can_be_stopped(
    target: Target, extender: SteeredExtender
) -> None:
    target.create_nodes("n1")
    scheduler = start(target, extender.entry("filter", httpTimeout="25s"))
    extender.answers.clear()
    target.create_pods("a")
    extender.wait_heard("filter")
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.wait_for_exit() == 0
    assert target.node_of("a") == ""


@pytest.mark.parametrize("capable", [True, False], ids=["uids", "pods"])
def test_an_extender_has_a_say_in_preemption(
    target: Target, extender: SteeredExtender, priorities: None, capable: bool
) -> None:
    """The cheapest victim is spared because the extender takes its node off the list."""
    target.create_nodes("n1", "n2", cpu="4")
    field = "NodeNameToMetaVictims" if capable else "NodeNameToVictims"

    def only_n2(args: Json) -> Json:
        victims = args[field]["n2"]["Pods"]
        uids = [each["UID"] if capable else each["metadata"]["uid"] for each in victims]
        return {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": uid} for uid in uids]}}}

    extender.says["preempt"] = only_n2
    start(target, extender.entry("preempt", nodeCacheCapable=capable))
    create(target, "low", "low", nodeName="n1")
    create(target, "middle", "middle", nodeName="n2")
    create(target, "high", "high")

    wait_leaving(target, "middle")

    (body, *_) = extender.bodies("preempt")
    assert sorted(body[field]) == ["n1", "n2"]
    assert "deletionTimestamp" not in target.pod("low")["metadata"]
    if not capable:
        (pod,) = body[field]["n1"]["Pods"]
        assert pod["spec"]["containers"][0]["image"] == "example.test/main:1"
    target.delete_pod("middle")
    assert target.wait_bound("high") == {"high": "n2"}


def test_an_extender_binds(target: Target, extender: SteeredExtender) -> None:
    target.create_nodes("n1")

    def bind(args: Json) -> Json:
        target.bind(args["PodName"], args["Node"])
        return {}

    extender.says["bind"] = bind
    start(target, extender.entry("bind"))
    target.create_pods("a")
    target.wait_bound("a")
    event = target.wait_event("a", "Scheduled")
    assert event["note"] == "Successfully assigned default/a to n1"
    (body,) = extender.bodies("bind")
    uid = target.pod("a")["metadata"]["uid"]
    assert body == {"PodName": "a", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}


def test_an_extender_that_bound_and_failed_to_say_so(
    target: Target, extender: SteeredExtender
) -> None:
    """The pod is looked up, and counts as bound: not bound twice, not told to have failed."""
    target.create_nodes("n1")

    def bind(args: Json) -> Json:
        target.bind(args["PodName"], args["Node"])
        raise RuntimeError("after the deed")

    extender.says["bind"] = bind
    start(target, extender.entry("bind"))
    target.create_pods("a")
    target.wait_event("a", "Scheduled")
    assert len(extender.bodies("bind")) == 1
    assert target.events_of("a", "FailedScheduling") == []


def test_an_extender_that_fails_to_bind(target: Target, extender: SteeredExtender) -> None:
    target.create_nodes("n1")
    extender.says["bind"] = lambda _: {"Error": "no hands"}
    start(target, extender.entry("bind"))
    target.create_pods("a")
    event = target.wait_event("a", "FailedScheduling")
    assert event["note"] == "no hands"
    target.wait_condition("a", "False")

    def bind(args: Json) -> Json:
        target.bind(args["PodName"], args["Node"])
        return {}

    extender.says["bind"] = bind
    target.wait_bound("a")


def test_where_an_ignorable_extender_fails_to_bind_the_plugin_does(
    target: Target, extender: SteeredExtender
) -> None:
    target.create_nodes("n1")
    extender.says["bind"] = lambda _: {"Error": "no hands"}
    scheduler = start(target, extender.entry("bind", ignorable=True))
    target.create_pods("a")
    target.wait_bound("a")
    wait_for(
        "the log to say so",
        lambda: "Skipping extender in bind as it returned error" in scheduler.log,
    )


def test_a_resource_that_only_the_extender_counts(
    target: Target, extender: SteeredExtender
) -> None:
    """No node offers it; the extender says where it is, and hears of no other pods."""
    target.create_nodes("n1", "n2")
    extender.says["filter"] = lambda args: keep(args, "n2")
    resource = {"name": "example.com/fpga", "ignoredByScheduler": True}
    start(target, extender.entry("filter", managedResources=[resource]))
    wants = {"limits": {"example.com/fpga": "1"}, "requests": {"example.com/fpga": "1"}}
    container = {"name": "main", "image": "example.test/main:1", "resources": wants}
    target.create_pods("fpga", containers=[container])
    target.create_pods("plain")
    assert target.wait_bound("fpga", "plain")["fpga"] == "n2"
    assert [body["Pod"]["metadata"]["name"] for body in extender.bodies("filter")] == ["fpga"]
