"""`stowplan static` on both API servers: once, as a daemon, on bad days, with few rights."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.fault_proxy import Spoiler
from tests.integration.static_kit import EXAMPLE, PREFIX, StaticStage
from tests.integration.target import Target, wait_for

BINDING = r"/binding$"
COMMAND = f"kubectl label node NODE {PREFIX}.default/"


@pytest.fixture
def stage(target: Target, tmp_path: Path) -> Iterator[StaticStage]:
    running = StaticStage(target, tmp_path)
    try:
        yield running
    finally:
        running.clean()


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
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert sorted(asked) == [
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/default/pods/a/binding"),
        ("POST", "/api/v1/namespaces/default/pods/b/binding"),
        *[("POST", events)] * 3,
    ]


@pytest.mark.parametrize(
    ("spoiler", "problem"),
    [
        (
            Spoiler("GET", "/api/v1/nodes$", status=403),
            "spoiled with 403; deploy/static has the role that is needed",
        ),
        (Spoiler("GET", "/api/v1/pods$", status=500), "spoiled with 500"),
        (Spoiler("GET", "/api/v1/pods$", refuse=True), "GET /api/v1/pods: "),
    ],
)
def test_once_fails_in_one_line_where_the_cluster_cannot_be_read(
    stage: StaticStage, spoiler: Spoiler, problem: str
) -> None:
    stage.target.proxy.spoil(replace(spoiler, seen=0))
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
    stage.target.proxy.spoil(Spoiler("POST", r"/bad/binding$", status=status))
    assert stage.once() == (
        1,
        [
            "2 pods of scheduler test: 1 placed, 0 waiting, 1 failed",
            "  placed   default/good on node n1",
            f"  failed   default/bad on node n1: spoiled with {status}",
            "Error: 1 of 2 pods could not be placed; default/bad on node n1: "
            f"spoiled with {status}",
        ],
    )
    assert stage.once()[0] == 0
    assert stage.target.node_of("bad") == "n1"


def test_once_a_pod_that_somebody_else_took_or_removed_is_no_failure(stage: StaticStage) -> None:
    stage.target.create_nodes("n1", "n2")
    stage.pin("n1", "gone", "taken", "lost")
    stage.pods("gone", "taken", "lost")
    proxy = stage.target.proxy
    proxy.spoil(
        Spoiler("POST", r"/gone/binding$", before=lambda _: stage.target.delete_pod("gone"))
    )
    proxy.spoil(
        Spoiler("POST", r"/taken/binding$", before=lambda _: stage.target.bind("taken", "n2"))
    )
    proxy.spoil(Spoiler("POST", r"/lost/binding$", lose_answer=True))
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


# Trouble


@pytest.mark.parametrize(
    ("spoiler", "status", "reason"),
    [
        (Spoiler("POST", BINDING, status=409), "409", "Conflict"),
        (Spoiler("POST", BINDING, status=404), "404", "Not Found"),
        (Spoiler("POST", BINDING, status=403), "403", "Forbidden"),
        (Spoiler("POST", BINDING, status=500), "500", "Internal Server Error"),
        (Spoiler("POST", BINDING, refuse=True), "0", "ConnectionLost"),
    ],
)
def test_a_failed_binding_is_counted_survived_and_made_up_for(
    stage: StaticStage, spoiler: Spoiler, status: str, reason: str
) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    stage.target.proxy.spoil(replace(spoiler, seen=0))
    daemon = stage.daemon()
    stage.pods("web-0")
    assert stage.target.wait_bound("web-0") == {"web-0": "n1"}
    daemon.wait_line("Pod web-0 scheduled on node n1")
    labels = 'namespace="default",node="n1",pod="web-0",scheduler="test"'
    own = f'http_status="{status}",namespace="default",node="n1",pod="web-0",reason="{reason}"'
    assert daemon.metrics() == {
        f"schedule_request_total{{{labels}}}": 2.0,
        f"schedule_request_success_total{{{labels}}}": 1.0,
        f'schedule_request_failure_total{{{own},scheduler="test"}}': 1.0,
    }
    (told,) = [line for line in daemon.told("WARNING") if line.startswith("__main__")]
    assert told.startswith("__main__ - WARNING - Pod web-0 could not be scheduled on node n1: ")
    assert stage.bindings("web-0") == 2


def test_a_binding_whose_answer_was_lost_is_not_sent_again(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    stage.target.proxy.spoil(Spoiler("POST", BINDING, lose_answer=True))
    daemon = stage.daemon()
    stage.pods("web-0")
    daemon.wait_line("Pod web-0 scheduled on node n1")
    assert stage.bindings("web-0") == 1
    failures = [name for name in daemon.metrics() if "failure" in name]
    assert len(failures) == 1
    assert 'http_status="0"' in failures[0]


@pytest.mark.slow
def test_a_binding_that_arrives_after_it_was_given_up(stage: StaticStage) -> None:
    """It timed out and had not taken effect when that was looked up; a second one had meanwhile."""
    stage.target.create_nodes("n1", "n2")
    stage.pin("n1", "web-0")
    late = stage.target.proxy.spoil(Spoiler("POST", BINDING, delay_s=13.0))
    daemon = stage.daemon()
    stage.pods("web-0")
    assert stage.target.wait_bound("web-0") == {"web-0": "n1"}
    daemon.wait_line("Pod web-0 scheduled on node n1")
    failures = [name for name in daemon.metrics() if "failure" in name]
    assert len(failures) == 1
    assert 'http_status="0"' in failures[0]
    assert 'reason="Timeout"' in failures[0]
    wait_for("the first one to arrive", lambda: late.answered)
    assert stage.target.node_of("web-0") == "n1"
    assert stage.bindings("web-0") == 2


def test_one_pod_that_cannot_be_bound_holds_up_no_other(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.target.proxy.spoil(Spoiler("POST", r"/bad/binding$", status=403, times=10**6))
    daemon = stage.daemon("--delay=0.1")
    stage.pin("n1", "bad", "good-0", "good-1")
    stage.pods("bad", "good-0")
    stage.target.wait_bound("good-0")
    wait_for("it to be tried again", lambda: stage.bindings("bad") >= 2)
    stage.pods("good-1")
    stage.target.wait_bound("good-1")
    assert stage.target.node_of("bad") == ""
    assert daemon.process.poll() is None


def test_without_watch_and_events_it_lists_warns_once_and_binds(stage: StaticStage) -> None:
    """The original's role: list nodes and pods, create bindings, nothing else."""
    proxy = stage.target.proxy
    proxy.spoil(Spoiler("GET", ".", times=10**6, query="watch=", status=403))
    proxy.spoil(Spoiler("POST", "/events$", times=10**6, status=403))
    stage.target.create_nodes("n1", "n2")
    daemon = stage.daemon("--delay=0.2")
    stage.pods("web-0")
    daemon.wait_line("Pod web-0 stays pending")
    stage.pin("n2", "web-0")
    assert stage.target.wait_bound("web-0") == {"web-0": "n2"}
    stage.target.delete_pod("web-0")
    stage.pods("web-0", "web-1")
    stage.pin("n1", "web-1")
    assert stage.target.wait_bound("web-0", "web-1") == {"web-0": "n2", "web-1": "n1"}
    wait_for("one more list", lambda: "Pod web-1 scheduled on node n1" in daemon.text)
    (warning,) = [line for line in daemon.told("WARNING") if "role" in line]
    assert "listed every 0.2 seconds" in warning
    watches = [path for _, path in proxy.requests if "watch=" in path]
    assert len(watches) == 2, "asked once for each kind"
    assert stage.bindings("web-0") == 2
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait_for_exit() == 0


def test_killed_in_the_middle_and_started_again(stage: StaticStage) -> None:
    nodes = [f"n{number}" for number in range(4)]
    stage.target.create_nodes(*nodes)
    wanted = {f"web-{number}": nodes[number % 4] for number in range(40)}
    for node in nodes:
        stage.pin(node, *(pod for pod, where in wanted.items() if where == node))
    stage.pods(*wanted)
    stage.target.proxy.spoil(Spoiler("POST", BINDING, times=1000, delay_s=0.3))
    first = stage.daemon()
    wait_for(
        "some to be bound",
        lambda: any(pod["spec"].get("nodeName") for pod in stage.target.pods().values()),
    )
    first.process.kill()
    first.process.wait(30.0)
    stage.target.proxy.clear()
    second = stage.daemon()
    assert stage.target.wait_bound(*wanted) == wanted
    conflicts = [name for name in second.metrics() if "failure" in name]
    assert all('http_status="409"' in name for name in conflicts), "only what the first had sent"


def test_two_of_one_name_place_every_pod_once(stage: StaticStage) -> None:
    stage.target.create_nodes("n1", "n2")
    names = [f"web-{number}" for number in range(30)]
    for node in ("n1", "n2"):
        stage.pin(node, *names)
    daemons = [stage.daemon(), stage.daemon()]
    for each in daemons:
        each.wait_line("Running scheduler")
    stage.pods(*names)
    nodes = stage.target.wait_bound(*names)
    assert set(nodes.values()) == {"n1", "n2"}, "chance chooses"

    def successes() -> float:
        pages = [daemon.metrics() for daemon in daemons]
        return sum(n for page in pages for name, n in page.items() if "success" in name)

    wait_for("all to be counted", lambda: successes() == len(names))
    assert stage.target.wait_bound(*names) == nodes


def test_sigterm_lets_binds_finish(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    stage.target.proxy.spoil(Spoiler("POST", BINDING, delay_s=1.0))
    daemon = stage.daemon()
    stage.pods("web-0")
    wait_for("the bind to be under way", lambda: stage.bindings("web-0"))
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait_for_exit() == 0
    assert stage.target.node_of("web-0") == "n1"
    assert "Pod web-0 scheduled on node n1" in daemon.text


def test_an_api_server_that_goes_and_comes_back(stage: StaticStage) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    stage.target.proxy.go_away()
    daemon = stage.start("-d", "--prometheus-disable")
    daemon.wait_line("stowplan.api.reachability - WARNING - API server cannot be reached")
    stage.pods("web-0")
    stage.target.proxy.come_back()
    assert stage.target.wait_bound("web-0") == {"web-0": "n1"}
    assert len(daemon.lines) == 1, "told once, even to who asked for errors only"


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
    # Not a word about the pods that would have to go: nobody is evicted.
    assert not [path for method, path in stage.target.proxy.requests if method == "DELETE"]
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
        f"Error: SCHED_PROMETHEUS_PORT: cannot listen on 0.0.0.0:{port}: Address already in use; "
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
