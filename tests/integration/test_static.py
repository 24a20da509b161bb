"""`stowplan static` on both API servers: once, as a daemon, and by its settings."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pytest

from stowplan.lab.faults import Fault
from tests.integration.static_kit import EXAMPLE, PREFIX, StaticStage
from tests.waiting import wait_for

COMMAND = f"kubectl label node NODE {PREFIX}.default/"


# Once


def test_a_stateful_set_takes_several_runs(stage: StaticStage) -> None:
    stage.target.create_nodes("n1", "n2")
    stage.pods("web-0")

    assert stage.once() == (
        0,
        [
            "1 pod of scheduler test: 0 placed, 1 waiting, 0 failed",
            f"  waiting  default/web-0 stays pending: no node is labelled for it; type: {COMMAND}"
            "web-0=",
        ],
    )
    assert "pin" in stage.target.wait_event("web-0", "FailedScheduling")["note"]

    stage.label("n1", f"{PREFIX}/web-0", value="whatever")
    assert stage.once("-vv") == (
        0,
        [
            "stowplan.plugins.static_placement.plugin - WARNING - Node labels that name no "
            f'namespace are deprecated pod="default/web-0" node="n1" label="{PREFIX}/web-0" '
            f'use="kubectl label node n1 {PREFIX}.default/web-0="',
            "__main__ - INFO - Pod web-0 scheduled on node n1",
            "1 pod of scheduler test: 1 placed, 0 waiting, 0 failed",
            "  placed   default/web-0 on node n1",
        ],
    )
    assert stage.target.node_of("web-0") == "n1"

    stage.pods("web-1", "web-2")
    stage.pin("n2", "web-1")
    code, lines = stage.once()
    assert (code, lines[0]) == (0, "2 pods of scheduler test: 1 placed, 1 waiting, 0 failed")
    assert stage.target.node_of("web-1") == "n2"
    stage.pin("n2", "web-2")
    assert stage.once()[0] == 0
    assert stage.target.node_of("web-2") == "n2"
    assert stage.once() == (0, ["No pod of scheduler test waits for a node"])


def test_once_reads_two_lists_and_binds(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "a", "b")
    stage.pods("a", "b", "c")
    stage.target.create_pods("gated", schedulerName="test", schedulingGates=[{"name": "x.io/y"}])
    stage.target.create_pods("foreign", schedulerName="other")
    code, lines = stage.once()
    assert code == 0
    assert lines[0] == "4 pods of scheduler test: 2 placed, 2 waiting, 0 failed"
    assert "  waiting  default/gated stays pending: it has scheduling gates" in lines
    asked = [(method, urlsplit(path).path) for method, path in stage.target.proxy.requests]
    (listed,) = [path for _, path in stage.target.proxy.requests if "/api/v1/pods?" in path]
    assert "spec.schedulerName=test" in unquote(listed), "pods of others are not even read"
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert sorted(asked) == [
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/default/pods/a/binding"),
        ("POST", "/api/v1/namespaces/default/pods/b/binding"),
        *[("POST", events)] * 3,
    ]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (
            Fault("GET", "/api/v1/nodes$", status=403),
            "injected: 403; deploy/static has the role that is needed",
        ),
        (Fault("GET", "/api/v1/pods$", status=500), "injected: 500"),
        (Fault("GET", "/api/v1/pods$", reset="before"), "GET /api/v1/pods: "),
    ],
)
def test_once_fails_in_one_line_where_the_cluster_cannot_be_read(
    stage: StaticStage, fault: Fault, problem: str
) -> None:
    stage.target.proxy.inject(replace(fault, seen=0))
    code, lines = stage.once()
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith("Error: ")
    assert problem in lines[0]


@pytest.mark.parametrize("status", [403, 409, 500])
def test_once_tells_of_a_binding_that_failed_and_exits_with_1(
    stage: StaticStage, status: int
) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "bad", "good")
    stage.pods("bad", "good")
    stage.target.proxy.inject(Fault("POST", r"/bad/binding$", status=status))
    assert stage.once() == (
        1,
        [
            "2 pods of scheduler test: 1 placed, 0 waiting, 1 failed",
            "  placed   default/good on node n1",
            f"  failed   default/bad on node n1: injected: {status}",
            f"Error: 1 of 2 pods could not be placed; default/bad on node n1: injected: {status}",
        ],
    )
    assert stage.once()[0] == 0
    assert stage.target.node_of("bad") == "n1"


def test_once_a_pod_that_somebody_else_took_or_removed_is_no_failure(stage: StaticStage) -> None:
    stage.target.create_nodes("n1", "n2")
    stage.pin("n1", "gone", "taken", "lost")
    stage.pods("gone", "taken", "lost")
    proxy = stage.target.proxy
    proxy.inject(Fault("POST", r"/gone/binding$", before=lambda _: stage.target.delete_pod("gone")))
    proxy.inject(
        Fault("POST", r"/taken/binding$", before=lambda _: stage.target.bind("taken", "n2"))
    )
    proxy.inject(Fault("POST", r"/lost/binding$", reset="after"))
    assert stage.once() == (
        0,
        [
            "1 pod of scheduler test: 1 placed, 0 waiting, 0 failed",
            "  placed   default/lost on node n1",
        ],
    )
    assert stage.target.node_of("taken") == "n2"


# Daemon


def test_a_daemon_places_a_pod_as_soon_as_a_node_is_labelled(stage: StaticStage) -> None:
    """Delay of an hour: only events can bring it about."""
    stage.target.create_nodes("n1", unschedulable=True)
    stage.target.create_nodes(
        "n2", cpu="1m", taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    )
    daemon = stage.start("-d", "-vv", "--prometheus-disable", "--delay=3600")
    stage.pods("web-0", "web-1")
    event = stage.target.wait_event("web-0", "FailedScheduling")
    assert f"{COMMAND}web-0=" in event["note"]
    assert (event["type"], event["reportingController"]) == ("Warning", "test")

    stage.pin("n1", "web-0")
    stage.pin("n2", "web-1")

    bound = stage.target.wait_bound("web-0", "web-1")
    assert bound == {"web-0": "n1", "web-1": "n2"}, "cordoned, tainted and full does not matter"
    stage.target.wait_event("web-1", "Scheduled")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait_for_exit() == 0
    waits = "stays pending: no node is labelled for it; type: " + COMMAND
    assert sorted(daemon.lines) == [
        "__main__ - INFO - Pod web-0 scheduled on node n1",
        "__main__ - INFO - Pod web-1 scheduled on node n2",
        f"__main__ - WARNING - Pod web-0 {waits}web-0=",
        f"__main__ - WARNING - Pod web-1 {waits}web-1=",
    ]
    for line in daemon.text.splitlines():
        assert re.match(
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - __main__ - (INFO|WARNING) - ", line
        )


def test_annotations_older_labels_namesakes_and_changes_of_mind(stage: StaticStage) -> None:
    stage.target.create_nodes("n1", "n2")
    long_name = "a-name-that-is-much-too-long-for-a-label-" + "x" * 40
    stage.annotate("n2", f"{PREFIX}.default/pods", f"other, {long_name}")
    stage.label("n1", f"{PREFIX}/old", f"{PREFIX}.elsewhere/web-0", "rf.scheduler.other/web-0")
    daemon = stage.daemon("--delay=3600")
    stage.pods(long_name, "old", "web-0")
    assert stage.target.wait_bound(long_name, "old") == {long_name: "n2", "old": "n1"}
    daemon.wait_line("Pod web-0 stays pending")
    stage.pin("n2", "web-0")
    stage.target.wait_bound("web-0")

    stage.label("n2", f"{PREFIX}.default/web-0", value=None)
    stage.pin("n1", "web-0")
    stage.pods("later")
    stage.pin("n1", "later")
    stage.target.wait_bound("later")
    assert stage.target.node_of("web-0") == "n2", "labels move no pod that has a node"
    stage.target.delete_pod("web-0")
    stage.pods("web-0")
    assert stage.target.wait_bound("web-0") == {"web-0": "n1"}


def test_a_daemon_of_few_words_and_few_rights(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    daemon = stage.start("--daemon", "--prometheus-disable", "--delay=0.1")
    stage.pods("web-0")
    stage.target.wait_event("web-0", "FailedScheduling")
    requests = stage.target.proxy.requests
    wait_for("both watches", lambda: sum("watch=" in path for _, path in requests) == 2)
    asked = len(stage.target.proxy.requests)
    time.sleep(0.5)  # rounds over what waits are made from memory
    stage.pin("n1", "web-0")
    stage.target.wait_bound("web-0")
    stage.target.wait_event("web-0", "Scheduled")
    assert len(stage.target.proxy.requests) == asked + 2, "a binding and an event"
    verbs = {
        (method, urlsplit(path).path, "watch=" in path)
        for method, path in stage.target.proxy.requests
    }
    assert verbs == {
        ("GET", "/api/v1/nodes", False),
        ("GET", "/api/v1/nodes", True),
        ("GET", "/api/v1/pods", False),
        ("GET", "/api/v1/pods", True),
        ("POST", "/api/v1/namespaces/default/pods/web-0/binding", False),
        ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", False),
    }
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.wait_for_exit() == 0
    assert daemon.text == ""


def test_the_metrics_page_answers_on_any_path(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    daemon = stage.daemon()
    stage.pods("web-0")
    stage.target.wait_bound("web-0")
    daemon.wait_line("Pod web-0 scheduled on node n1")
    labels = '{namespace="default",node="n1",pod="web-0",scheduler="test"}'
    expected = {
        f"schedule_request_total{labels}": 1.0,
        f"schedule_request_success_total{labels}": 1.0,
    }
    assert daemon.metrics("/metrics") == daemon.metrics("/any/path?x=1") == expected
    page = daemon.page("/")
    for line in (
        "# HELP schedule_request_total Total binding requests",
        "# HELP schedule_request_success_total Binding successful requests",
        "# HELP schedule_request_failure_total Binding failed requests",
        "# TYPE schedule_request_created gauge",
    ):
        assert line in page.splitlines()
    assert f"schedule_request_created{labels} " in page


# Settings


def test_respect_for_the_state_of_nodes(stage: StaticStage) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    stage.target.create_nodes("cordoned", unschedulable=True)
    stage.target.create_nodes("tainted", taints=[taint])
    stage.target.create_nodes("small", cpu="1m")
    stage.target.create_nodes("fine", "unlabelled")
    for node in ("cordoned", "tainted", "small"):
        stage.pin(node, "web-0", "web-1")
    stage.pods("web-0", "web-1")
    daemon = stage.daemon("--respect-node-state")
    line = daemon.wait_line("Pod web-0 stays pending")
    assert line == (
        "__main__ - WARNING - Pod web-0 stays pending: 0/5 nodes are available: 1 Insufficient "
        "cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 node(s) "
        "didn't satisfy plugin(s) [StaticPlacement]. no new claims to deallocate"
    )
    stage.pin("fine", "web-0")
    assert stage.target.wait_bound("web-0") == {"web-0": "fine"}
    stage.target.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": False}})
    assert stage.target.wait_bound("web-1") == {"web-1": "cordoned"}
    asked = stage.target.proxy.requests
    assert not [path for method, path in asked if method == "DELETE"], "nobody is evicted"
    assert not [path for _, path in asked if "schedulerName" in path], "all pods take room"
    code, _ = stage.once("--respect-node-state")
    assert code == 0


def test_flags_beat_the_environment(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.pods("web-0")
    stage.target.create_pods("theirs", schedulerName="other")
    by_variables = {
        "KUBECONFIG": str(stage.target.kubeconfig()),
        "SCHED_NAME": "other",
        "SCHED_DELAY": "no number",
        "SCHED_PROMETHEUS_PORT": "no port",
        "SCHED_PROMETHEUS": "False",
        "SCHED_INCLUSTER_BASE_PATH": "/does/not/exist",
    }
    run = stage.start_bare("--name=test", "--delay=1", "--prometheus-port=9", env=by_variables)
    assert run.wait_for_exit() == 0
    assert run.lines[0] == "1 pod of scheduler test: 0 placed, 1 waiting, 0 failed"
    run = stage.start_bare("--delay=1", env=by_variables)
    assert run.wait_for_exit() == 0
    assert run.lines[0] == "1 pod of scheduler other: 0 placed, 1 waiting, 0 failed"
    run = stage.start_bare("--kubeconfig=/nowhere", "--delay=1", env=by_variables)
    assert (run.wait_for_exit(), run.lines) == (2, ["Error: /nowhere: no such file"])


def test_an_occupied_port_is_one_line(stage: StaticStage) -> None:
    first = stage.daemon()
    port = first.wait_line("Starting prometheus exporter on ").rpartition(" ")[2]
    second = stage.start("-d", env={"SCHED_PROMETHEUS_PORT": port})
    assert second.wait_for_exit() == 2
    assert second.lines == [
        f"Error: SCHED_PROMETHEUS_PORT: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another address or port"
    ]
    third = stage.start("-d", env={"SCHED_PROMETHEUS_PORT": port, "SCHED_PROMETHEUS": "FALSE"})
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    stage.pods("web-0")
    stage.target.wait_bound("web-0")
    assert third.process.poll() is None


def test_the_script_is_the_command(stage: StaticStage) -> None:
    """`./scheduler.py --name test --daemon -vv`, as the original's README has it."""
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    daemon = stage.start("--daemon", "-vv", "--prometheus-disable", program=[str(EXAMPLE)])
    stage.pods("web-0")
    line = daemon.wait_line("Pod web-0")
    assert line == "__main__ - INFO - Pod web-0 scheduled on node n1"
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait_for_exit() == 0
