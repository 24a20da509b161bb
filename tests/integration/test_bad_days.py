"""The scheduler as a process, on both API servers: bad days.

Whatever happens, every pod ends bound exactly once or queued again, and no node gets more than it
can hold. The auditor only reads the API.
"""

from __future__ import annotations

import signal
import socket
import time
from collections import Counter

import pytest

from stowplan.lab.faults import Fault
from tests.integration.target import Scheduler, Target
from tests.waiting import wait_for

BINDING = r"/binding$"
LEASE = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=500ms",
    "--leader-elect-resource-namespace=default",
    "--leader-elect-resource-name=it",
)


def audit(target: Target, *, pods_per_node: int) -> None:
    """No node holds more pods than it may."""
    nodes = Counter(pod["spec"].get("nodeName", "") for pod in target.pods().values())
    nodes.pop("", None)
    assert max(nodes.values()) <= pods_per_node, nodes


def binding_requests(target: Target, pod: str) -> int:
    path = f"/api/v1/namespaces/default/pods/{pod}/binding"
    return sum(request == ("POST", path) for request in target.proxy.requests)


# The process


def test_kill_9_in_the_middle_of_binds_and_restart(target: Target) -> None:
    target.create_nodes(*(f"n{i}" for i in range(6)), pods=10)
    names = [f"p{i}" for i in range(60)]
    target.create_pods(*names)
    target.proxy.inject(Fault("POST", BINDING, times=1000, delay_s=0.3))
    first = target.start()
    wait_for(
        "some binds", lambda: sum(1 for p in target.pods().values() if p["spec"].get("nodeName"))
    )
    first.kill()
    target.proxy.clear()

    target.start()

    target.wait_bound(*names)
    audit(target, pods_per_node=10)


def test_the_second_replica_takes_over_when_the_leader_is_killed(target: Target) -> None:
    target.create_nodes("n1", "n2", pods=10)
    leader = target.start(*LEASE, leader_elect=True)
    leader.wait_until_scheduling()
    standby = target.start(*LEASE, leader_elect=True)
    names = [f"p{i}" for i in range(20)]
    target.create_pods(*names[:10])
    target.wait_bound(*names[:10])
    assert '"Scheduling"' not in standby.log, "only the leader schedules"

    leader.kill()
    target.create_pods(*names[10:])

    target.wait_bound(*names)
    audit(target, pods_per_node=10)
    lease = target.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/it")
    assert lease["spec"]["leaseTransitions"] == 1


def test_a_standby_whose_watches_lag_does_not_overcommit(target: Target) -> None:
    """The barrier: what it binds after winning, it decides on what is true after winning.

    The leader cannot bind the pods `late*`, but fills the nodes with others. The standby has seen
    the former pending and the nodes empty, and nothing since.
    """
    target.create_nodes("n1", "n2", pods=4)
    target.proxy.inject(Fault("POST", r"/late\d/binding$", times=100_000, status=422))
    leader = target.start(*LEASE, leader_elect=True)
    leader.wait_until_scheduling()
    late = [f"late{i}" for i in range(4)]
    target.create_pods(*late)
    standby = target.start(*LEASE, leader_elect=True, proxy=target.second_proxy)
    wait_for(
        "the standby to know them", lambda: standby.log.count("Add event for unscheduled pod") == 4
    )
    target.second_proxy.is_stalled = True
    others = [f"p{i}" for i in range(8)]
    target.create_pods(*others)
    target.wait_bound(*others)

    leader.kill()
    standby.wait_until_scheduling()

    condition = target.wait_condition("late0", "False")
    wait_for(
        "its word", lambda: "Too many pods" in target.wait_condition("late0", "False")["message"]
    )
    assert condition["reason"] in ("Unschedulable", "SchedulerError")
    audit(target, pods_per_node=4)


def test_a_leader_that_was_frozen_does_not_overcommit(target: Target) -> None:
    """It wakes up with pods to place, and knows neither of its successor nor of the full nodes."""
    target.create_nodes("n1", "n2", pods=4)
    target.proxy.inject(Fault("POST", r"/late\d/binding$", times=100_000, status=422))
    leader = target.start(*LEASE, leader_elect=True)
    leader.wait_until_scheduling()
    standby = target.start(*LEASE, leader_elect=True, proxy=target.second_proxy)
    late = [f"late{i}" for i in range(4)]
    target.create_pods(*late)
    wait_for("the leader to try them", lambda: all(binding_requests(target, n) for n in late))

    target.proxy.is_stalled = True
    leader.process.send_signal(signal.SIGSTOP)
    target.proxy.clear()
    for number in range(8):
        target.create_pods(f"p{number}", nodeName=f"n{number % 2 + 1}")
    standby.wait_until_scheduling()
    leader.process.send_signal(signal.SIGCONT)

    assert leader.wait_for_exit() == 1
    assert "lost the lease" in leader.log or "could not be renewed" in leader.log
    assert "Traceback" not in leader.log
    audit(target, pods_per_node=4)


def test_a_leader_that_ends_gives_the_lease_up(target: Target) -> None:
    flags = ("--leader-elect-resource-namespace=default", "--leader-elect-resource-name=it")
    leader = target.start(*flags, leader_elect=True)
    leader.wait_until_scheduling()
    leader.process.send_signal(signal.SIGTERM)
    assert leader.wait_for_exit() == 0
    lease = target.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/it")
    assert lease["spec"].get("holderIdentity", "") == ""


def test_a_leader_that_cannot_renew_ends_with_1(target: Target) -> None:
    leader = target.start(*LEASE, leader_elect=True)
    leader.wait_until_scheduling()
    target.proxy.inject(Fault("PUT", r"/leases/it$", times=1000, status=500))
    assert leader.wait_for_exit() == 1
    assert "the lease default/it could not be renewed" in leader.log
    assert "Traceback" not in leader.log


def test_sigterm_lets_binds_finish(target: Target) -> None:
    target.create_nodes("n1")
    target.proxy.inject(Fault("POST", BINDING, delay_s=1.0))
    scheduler = target.start()
    target.create_pods("a")
    wait_for("the bind to be under way", lambda: binding_requests(target, "a"))
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.wait_for_exit() == 0
    assert target.node_of("a") == "n1"
    assert target.events_of("a", "Scheduled"), "its event is written before the process ends"


# The API server


def test_an_api_server_that_is_away_is_waited_for(target: Target) -> None:
    target.create_nodes("n1")
    target.create_pods("a")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kubeconfig = target.kubeconfig(f"http://127.0.0.1:{port}")
    scheduler = target.start("--kubeconfig", str(kubeconfig))
    wait_for("the complaint", lambda: _complaints(scheduler))
    time.sleep(1.5)
    assert len(_complaints(scheduler)) == 1, "said once"
    target.proxy.listen_on(port)
    assert target.wait_bound("a") == {"a": "n1"}


def _complaints(scheduler: Scheduler) -> list[str]:
    lines = scheduler.log.splitlines()
    return [line for line in lines if line[:1] in "WE" and "default plugins" not in line]


def test_an_api_server_that_comes_and_goes_loses_nothing(target: Target) -> None:
    target.create_nodes("n1", "n2", pods=50)
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    names = [f"p{i}" for i in range(30)]
    for start in range(0, 30, 10):
        target.proxy.go_away()
        target.create_pods(*names[start : start + 10])
        target.proxy.come_back()
        target.wait_bound(*names[: start + 10])
    assert scheduler.process.poll() is None


def test_cut_watches_and_expired_versions_lead_to_a_new_list(target: Target) -> None:
    target.create_nodes("n1", pods=2)
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    target.create_pods("a", "b")
    target.wait_bound("a", "b")
    # While nobody watches, one pod goes and two come; then the old version is too old to resume.
    target.proxy.inject(Fault("GET", r"^/api/v1/(pods|nodes)$", times=2, status=410))
    target.proxy.cut_watches()
    target.delete_pod("a")
    target.create_pods("c", "d")

    wait_for("one of the two to get the free place", lambda: _bound(target, "c", "d") == 1)
    audit(target, pods_per_node=2)


def _bound(target: Target, *names: str) -> int:
    return sum(1 for name in names if target.node_of(name))


# A binding request


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", BINDING, status=409),
        Fault("POST", BINDING, status=429, headers={"Retry-After": "1"}),
        Fault("POST", BINDING, status=500),
        Fault("POST", BINDING, status=503, times=3),
        Fault("POST", BINDING, reset="before"),
        Fault("POST", BINDING, reset="after"),
        Fault("POST", BINDING, status=404),
    ],
    ids=["409", "429", "500", "503x3", "reset", "done-but-no-answer", "404"],
)
def test_a_bad_answer_to_a_binding(target: Target, fault: Fault) -> None:
    fault.seen = 0
    target.create_nodes("n1", "n2", pods=2)
    target.proxy.inject(fault)
    target.start()
    target.create_pods("a")

    target.wait_bound("a")

    target.create_pods("b", "c", "d")
    target.wait_bound("b", "c", "d")
    audit(target, pods_per_node=2)
    if fault.reset == "after":
        wait_for("its event", lambda: target.events_of("a", "Scheduled"))
        assert len(target.events_of("a", "Scheduled")) == 1


def test_a_binding_that_arrives_late_finds_its_place(target: Target) -> None:
    """Its connection broke: until it is known what became of it, nobody else gets the room."""
    target.create_nodes("n1", cpu="1")
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    late = target.proxy.inject(Fault("POST", r"/a/binding$", late_s=1.5))
    target.create_pods("a", cpu="700m")
    wait_for("the binding to get lost", lambda: late.seen)
    target.create_pods("b", cpu="700m")
    wait_for("the binding to arrive", lambda: late.answered)
    assert target.wait_bound("a") == {"a": "n1"}
    assert "Insufficient cpu" in target.wait_condition("b", "False")["message"]
    assert target.node_of("b") == ""


def test_somebody_else_binds_the_pod_first(target: Target) -> None:
    target.create_nodes("n1", "n2", pods=1)
    target.create_nodes("n3", pods=1, unschedulable=True)
    target.proxy.inject(Fault("POST", BINDING, before=lambda _: target.bind("a", "n3")))
    target.start()
    target.create_pods("a")
    assert target.wait_bound("a") == {"a": "n3"}
    # The place that was set aside for it is free again.
    target.create_pods("b", "c")
    assert sorted(target.wait_bound("b", "c").values()) == ["n1", "n2"]


def test_a_pod_deleted_while_it_is_bound(target: Target) -> None:
    target.create_nodes("n1", pods=1)
    target.proxy.inject(Fault("POST", BINDING, before=lambda _: target.delete_pod("a")))
    target.start()
    target.create_pods("a")
    wait_for("the pod to go", lambda: "a" not in target.pods())
    target.create_pods("b")
    assert target.wait_bound("b") == {"b": "n1"}


def test_a_namesake_takes_the_place_of_a_pod_that_is_being_bound(target: Target) -> None:
    """The binding carries the UID: the new pod is not bound by the old one's request."""

    def replace(_: str) -> None:
        target.delete_pod("a")
        target.create_pods("a", cpu="200m")

    target.create_nodes("n1", pods=1)
    target.proxy.inject(Fault("POST", BINDING, before=replace))
    target.start()
    target.create_pods("a")
    wait_for("a second binding", lambda: binding_requests(target, "a") >= 2)
    target.wait_bound("a")
    container = target.pod("a")["spec"]["containers"][0]
    assert container["resources"]["requests"]["cpu"] == "200m"


def test_a_node_deleted_under_a_pod_that_is_being_bound(target: Target) -> None:
    def remove(_: str) -> None:
        target.api.delete("/api/v1/nodes/n1")

    target.create_nodes("n1")
    target.proxy.inject(Fault("POST", BINDING, before=remove))
    scheduler = target.start()
    target.create_pods("a")
    target.wait_bound("a")
    target.create_nodes("n2")
    target.create_pods("b")
    assert target.wait_bound("b") == {"b": "n2"}
    assert scheduler.process.poll() is None


# Mistakes of the user


def ended(scheduler: Scheduler) -> tuple[int, str]:
    code = scheduler.wait_for_exit()
    assert "Traceback" not in scheduler.log
    return code, scheduler.log


def test_a_wrong_configuration_ends_with_2_and_names_the_field(target: Target) -> None:
    config = target.config_file(
        "profiles: [{schedulerName: a, plugins: {filter: {enabeld: []}}}]\n"
    )
    code, log = ended(target.start("--config", str(config)))
    assert code == 2
    assert f"{config}: " in log
    assert "profiles[0].plugins.filter.enabeld" in log


def test_a_missing_kubeconfig_ends_with_2(target: Target) -> None:
    code, log = ended(target.start("--kubeconfig", "/does/not/exist"))
    assert code == 2
    assert "/does/not/exist" in log


def test_refused_credentials_end_with_1(target: Target) -> None:
    target.proxy.inject(Fault("GET", ".", times=1000, status=401))
    target.proxy.inject(Fault("POST", ".", times=1000, status=401))
    code, log = ended(target.start())
    assert code == 1
    assert log.count('] "command failed" err="') == 1
