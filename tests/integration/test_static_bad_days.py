"""`stowplan static` on both API servers: bad days, and roles that allow little.

Whatever happens, a pod ends on a node that is labelled for it, once, or waits.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from stowplan.lab.faults import Fault
from tests.integration.static_kit import StaticStage
from tests.waiting import wait_for

BINDING = r"/binding$"


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        (Fault("POST", BINDING, status=409), "409", "Conflict"),
        (Fault("POST", BINDING, status=404), "404", "Not Found"),
        (Fault("POST", BINDING, status=403), "403", "Forbidden"),
        (Fault("POST", BINDING, status=500), "500", "Internal Server Error"),
        (Fault("POST", BINDING, reset="before"), "0", "ConnectionLost"),
    ],
)
def test_a_failed_binding_is_counted_survived_and_made_up_for(
    stage: StaticStage, fault: Fault, status: str, reason: str
) -> None:
    stage.target.create_nodes("n1")
    stage.pin("n1", "web-0")
    stage.target.proxy.inject(replace(fault, seen=0))
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
    stage.target.proxy.inject(Fault("POST", BINDING, reset="after"))
    daemon = stage.daemon()
    stage.pods("web-0")
    daemon.wait_line("Pod web-0 scheduled on node n1")
    assert stage.bindings("web-0") == 1
    failures = [name for name in daemon.metrics() if "failure" in name]
    assert len(failures) == 1
    assert 'http_status="0"' in failures[0]


def test_a_crowd_with_every_kind_of_trouble_at_once(stage: StaticStage) -> None:
    nodes = [f"n{number}" for number in range(5)]
    stage.target.create_nodes(*nodes)
    troubles: list[dict[str, Any]] = [
        {},
        *({"status": status} for status in (403, 404, 409, 500, 503)),
        {"reset": "before"},
        {"reset": "after"},
        {"delay_s": 0.2},
    ]
    wanted = {f"web-{number}": nodes[number % 5] for number in range(36)}
    for number, pod in enumerate(wanted):
        trouble = troubles[number % len(troubles)]
        if trouble:
            stage.target.proxy.inject(Fault("POST", rf"/{pod}/binding$", **trouble))
    for node in nodes:
        stage.pin(node, *(pod for pod, where in wanted.items() if where == node))
    daemon = stage.daemon()
    stage.pods(*wanted)

    assert stage.target.wait_bound(*wanted) == wanted
    for pod, node in wanted.items():
        daemon.wait_line(f"Pod {pod} scheduled on node {node}")
    counts: Counter[str] = Counter()
    for series, value in daemon.metrics().items():
        counts[series.partition("{")[0]] += int(value)
        if "failure" in series:
            counts[series.partition('http_status="')[2].partition('"')[0]] += int(value)
    rounds = len(wanted) // len(troubles)
    assert counts == {
        "schedule_request_total": len(wanted) + 6 * rounds,
        "schedule_request_success_total": len(wanted) - rounds,
        "schedule_request_failure_total": 7 * rounds,
        **dict.fromkeys(("403", "404", "409", "500", "503"), rounds),
        "0": 2 * rounds,
    }, "a lost answer is a failure, although the pod was bound and is not sent again"


@pytest.mark.slow
def test_a_binding_that_arrives_after_it_was_given_up(stage: StaticStage) -> None:
    """It timed out and had not taken effect when that was looked up; a second one had meanwhile."""
    stage.target.create_nodes("n1", "n2")
    stage.pin("n1", "web-0")
    late = stage.target.proxy.inject(
        Fault("POST", BINDING, before=lambda _: stage.target.wait_bound("web-0"))
    )
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
    stage.target.proxy.inject(Fault("POST", r"/bad/binding$", status=403, times=10**6))
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
    proxy.inject(Fault("GET", ".", times=10**6, query="watch=", status=403))
    proxy.inject(Fault("POST", "/events$", times=10**6, status=403))
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
    stage.target.proxy.inject(Fault("POST", BINDING, times=1000, delay_s=0.3))
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
    stage.target.proxy.inject(Fault("POST", BINDING, delay_s=1.0))
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
