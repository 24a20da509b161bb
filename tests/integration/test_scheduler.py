"""The scheduler as a process, on the embedded and on the real API server: good days."""

from __future__ import annotations

import signal
import time

from tests.integration.preempting import nominated
from tests.integration.target import Target
from tests.waiting import wait_for


def test_pods_are_bound_and_told_so(target: Target) -> None:
    target.create_nodes("n1", "n2")
    scheduler = target.start()
    target.create_pods("a", "b", "c", "d")

    nodes = target.wait_bound("a", "b", "c", "d")

    assert sorted(nodes.values()) == ["n1", "n1", "n2", "n2"], "the least allocated node is taken"
    condition = target.wait_condition("a", "True")
    assert "reason" not in condition
    event = target.wait_event("a", "Scheduled")
    assert event["note"] == f"Successfully assigned default/a to {nodes['a']}"
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert event["reportingController"] == "default-scheduler"
    assert event["regarding"]["uid"] == target.pod("a")["metadata"]["uid"]
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.wait_for_exit() == 0


def test_a_pod_whose_claim_is_missing_waits_and_is_not_bound_without_it(target: Target) -> None:
    target.create_nodes("n1")
    target.start()
    claim = {"name": "gpu", "resourceClaimName": "gpu"}
    target.create_pods("claims", resourceClaims=[claim])
    target.create_nodes("n2")
    target.create_pods("plain")
    target.wait_bound("plain")
    assert "nodeName" not in target.pod("claims")["spec"]


def test_a_pod_that_fits_nowhere_says_why_and_goes_when_a_node_comes(target: Target) -> None:
    target.create_nodes("small", cpu="1")
    target.create_nodes("closed", unschedulable=True)
    target.create_nodes(
        "tainted", taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    )
    target.start()
    target.create_pods("big", cpu="2")

    condition = target.wait_condition("big", "False")

    message = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. no new claims to deallocate, preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert (condition["reason"], condition["message"]) == ("Unschedulable", message)
    event = target.wait_event("big", "FailedScheduling")
    assert (event["type"], event["action"], event["note"]) == ("Warning", "Scheduling", message)
    target.create_nodes("large", cpu="8")
    assert target.wait_bound("big") == {"big": "large"}


def test_only_pods_that_ask_for_us_are_served(target: Target) -> None:
    target.create_nodes("n1")
    target.start("--scheduler-name=ours")
    target.create_pods("theirs")
    target.create_pods("mine", schedulerName="ours")
    target.wait_bound("mine")
    assert target.node_of("theirs") == ""


def test_two_profiles_share_one_view_of_the_cluster(target: Target) -> None:
    """What one profile has placed, the other sees at once: no overcommitment between them."""
    target.create_nodes("n1", pods=2)
    target.create_nodes("n2", pods=2)
    config = target.config_file(
        "profiles: [{schedulerName: one}, {schedulerName: two, pluginConfig: [{name: "
        "NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]\n"
    )
    target.start("--config", str(config))
    target.create_pods("a1", "a2", schedulerName="one")
    target.create_pods("b1", "b2", schedulerName="two")
    nodes = target.wait_bound("a1", "a2", "b1", "b2")
    assert sorted(nodes.values()) == ["n1", "n1", "n2", "n2"]


def test_a_gated_pod_waits_for_its_gate(target: Target) -> None:
    target.create_nodes("n1")
    target.start()
    target.create_pods("gated", schedulingGates=[{"name": "example.com/later"}])
    target.create_pods("free")
    target.wait_bound("free")
    assert target.node_of("gated") == ""
    target.api.patch("/api/v1/namespaces/default/pods/gated", {"spec": {"schedulingGates": []}})
    target.wait_bound("gated")


def test_important_pods_go_first(target: Target) -> None:
    """Both wait for a node and have waited out their backoff; there is room for one pod only."""
    for name, value in (("it-high", 1000), ("it-low", 1)):
        target.api.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            },
        )
    try:
        target.create_nodes("closed", unschedulable=True)
        target.start().wait_until_scheduling()
        target.create_pods("low", priorityClassName="it-low")
        target.create_pods("high", priorityClassName="it-high")
        target.wait_condition("low", "False")
        target.wait_condition("high", "False")
        time.sleep(2.5)  # else the one whose backoff ends first would come first
        target.create_nodes("n1", pods=1)
        target.wait_bound("high")
        assert target.node_of("low") == ""
    finally:
        for name in ("it-high", "it-low"):
            target.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def test_permit_holds_a_pod_and_deleting_it_frees_the_node(target: Target) -> None:
    """NodeNumber holds a pod for as many seconds as the node's digit; only one pod fits."""
    target.create_nodes("node9", pods=1)
    config = target.config_file(
        "profiles: [{schedulerName: default-scheduler, "
        "plugins: {multiPoint: {enabled: [{name: NodeNumber}]}}}]\n"
    )
    scheduler = target.start("--config", str(config))
    target.create_pods("held")
    scheduler.wait_until_scheduling()
    target.create_pods("next")
    target.wait_condition("next", "False")
    assert target.node_of("held") == "", "Permit holds it for nine seconds"
    target.delete_pod("held")
    wait_for("the next to be held there", lambda: nominated(target, "next") == "node9")


def test_metrics_and_health_are_served(target: Target) -> None:
    import socket
    import urllib.request

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target.create_nodes("n1")
    target.start(f"--port={port}", "--bind-address=127.0.0.1").wait_until_scheduling()
    target.create_pods("a")
    target.create_pods("huge", cpu="100")
    target.wait_bound("a")
    target.wait_condition("huge", "False")

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    assert get("/healthz") == "ok"
    assert get("/readyz") == "ok"
    wait_for("the attempt to be counted", lambda: 'result="scheduled"' in get("/metrics"))
    metrics = get("/metrics")
    for line in (
        'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
        'scheduler_pending_pods{queue="unschedulable"} 1.0',
        'scheduler_cache_size{type="nodes"} 1.0',
    ):
        assert line in metrics
