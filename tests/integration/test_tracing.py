"""`stowplan run` and `stowplan extender` with a collector of spans, good and bad."""

from __future__ import annotations

import re
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.integration.extender_kit import NOP, extender
from tests.integration.otlp_receiver import Mood, Receiver, closed_port, otlp_receiver
from tests.integration.preempting import create, wait_leaving
from tests.integration.steered_extender import keep, nodes_of, steered_extender
from tests.integration.target import Json, Scheduler, Target
from tests.integration.warm_python import WarmProcess
from tests.waiting import wait_for

embedded_only = pytest.mark.parametrize("target", ["embedded"], indirect=True)

DECISION = ["PreFilter", "Filter", "PreScore", "Score"]
RESERVATION = ["Reserve", "Permit"]
BINDING = ["PreBindPreFlight", "PreBind", "Bind", "PostBind"]


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        yield receiver


def stop(scheduler: Scheduler) -> None:
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.wait_for_exit() == 0, scheduler.log


def test_each_attempt_is_one_trace(target: Target, collector: Receiver) -> None:
    target.create_nodes("n1", "n2")
    env = collector.env(
        OTEL_SERVICE_NAME="my-scheduler", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test"
    )
    scheduler = target.start(env=env)
    before = time.time_ns()
    target.create_pods("a", "b")
    target.create_pods("large", cpu="100")
    nodes = target.wait_bound("a", "b")
    refused = collector.wait_attempt("large", "unschedulable")
    roots = {name: collector.wait_attempt(name, "scheduled") for name in nodes}
    stop(scheduler)
    after = time.time_ns()

    collector.check_trees()
    for name, root in roots.items():
        assert before < root.start_ns <= root.end_ns < after
        assert root.attributes.pop("scheduler.queue_wait_seconds") >= 0
        assert root.attributes == {
            "k8s.namespace.name": "default",
            "k8s.pod.name": name,
            "k8s.pod.uid": target.pod(name)["metadata"]["uid"],
            "k8s.node.name": nodes[name],
            "scheduler.profile": "default-scheduler",
            "scheduler.attempt": 1,
            "scheduler.result": "scheduled",
            "scheduler.evaluated_nodes": 2,
            "scheduler.feasible_nodes": 2,
        }
        points = collector.children(root)
        assert [span.name for span in points] == DECISION + RESERVATION + BINDING
        bind = points[-2]
        (request,) = collector.children(bind)
        assert (request.name, request.attributes) == (
            "DefaultBinder",
            {"scheduler.status": "Success"},
        )
        assert root.resource["service.name"] == "my-scheduler"
        assert root.resource["deployment.environment"] == "test"
        assert root.resource["telemetry.sdk.name"] == "opentelemetry"

    assert not refused.is_error, "that a pod does not fit is no error of the scheduler"
    assert refused.attributes["scheduler.message"].startswith(
        "0/2 nodes are available: 2 Insufficient cpu."
    )
    assert refused.attributes["scheduler.feasible_nodes"] == 0
    points = collector.children(refused)
    assert [(span.name, span.attributes["scheduler.status"]) for span in points] == [
        ("PreFilter", "Success"),
        ("Filter", "Success"),
        ("PostFilter", "Unschedulable"),
    ]
    attempts = collector.attempts("large")
    numbers = [span.attributes["scheduler.attempt"] for span in attempts]
    assert numbers == list(range(1, len(attempts) + 1))


@embedded_only
@pytest.mark.usefixtures("priorities")
def test_extenders_are_told_their_span(target: Target, collector: Receiver) -> None:
    """Filter, prioritize and bind are children of the attempt, preempt of PostFilter."""
    target.create_nodes("n1", "n2")
    with steered_extender() as steered:
        steered.says["filter"] = lambda args: keep(args, *nodes_of(args))
        steered.says["prioritize"] = lambda args: [
            {"Host": name, "Score": 1} for name in nodes_of(args)
        ]
        steered.says["preempt"] = lambda args: {
            "NodeNameToMetaVictims": args["NodeNameToMetaVictims"]
        }
        verbs = ("filter", "prioritize", "preempt")
        config = target.config_file(steered.entry(*verbs, weight=1, nodeCacheCapable=True))
        scheduler = target.start("--config", str(config), env=collector.env())
        create(target, "low1", "low")
        create(target, "low2", "low")
        target.wait_bound("low1", "low2")
        create(target, "high", "high")
        refused = collector.wait_attempt("high", "unschedulable")
        node = refused.attributes["scheduler.nominated_node"]
        assert refused.attributes["scheduler.victims"] == 1
        low = next(name for name in ("low1", "low2") if target.node_of(name) == node)
        wait_leaving(target, low)
        target.delete_pod(low)
        target.wait_bound("high")
        placed = collector.wait_attempt("high", "scheduled")
        stop(scheduler)

        collector.check_trees()
        requests = [span for span in collector.spans() if span.name.startswith("extender ")]
        assert sorted(span.traceparent for span in requests) == sorted(steered.traceparents)
        for span in requests:
            assert span.kind == "CLIENT"
            verb = span.name.removeprefix("extender ")
            assert span.attributes["url.full"] == f"{steered.url}/{verb}"
    (post_filter,) = (span for span in collector.children(refused) if span.name == "PostFilter")
    assert post_filter.attributes["scheduler.status"] == "Success"
    assert [span.name for span in collector.children(post_filter)] == ["extender preempt"]
    assert placed.attributes["scheduler.attempt"] > refused.attributes["scheduler.attempt"]
    names = [span.name for span in collector.children(placed)]
    assert names == ["PreFilter", "Filter", "extender filter", *RESERVATION, *BINDING]


@embedded_only
def test_a_binding_by_an_extender_is_a_span(target: Target, collector: Receiver) -> None:
    def bind(args: Json) -> Json:
        target.bind(args["PodName"], args["Node"])
        return {}

    target.create_nodes("n1")
    with steered_extender() as steered:
        steered.says["bind"] = bind
        config = target.config_file(steered.entry("bind"))
        scheduler = target.start("--config", str(config), env=collector.env())
        target.create_pods("a")
        root = collector.wait_attempt("a", "scheduled")
        stop(scheduler)
        collector.check_trees()
        (request,) = collector.spans("extender bind")
        assert steered.traceparents == [request.traceparent]
    assert request.parent_id == root.span_id
    assert not collector.spans("Bind"), "no plugin binds"


@embedded_only
def test_an_extender_that_fails_is_an_error_in_the_trace(
    target: Target, collector: Receiver
) -> None:
    target.create_nodes("n1")
    with steered_extender() as steered:
        config = target.config_file(steered.entry("filter"))  # to which it says 500
        scheduler = target.start("--config", str(config), env=collector.env())
        target.create_pods("a")
        failed = collector.wait_attempt("a", "error")
        stop(scheduler)
    assert failed.is_error
    (request,) = (span for span in collector.children(failed) if span.name == "extender filter")
    assert request.is_error
    assert failed.attributes["scheduler.message"].endswith("code 500")


@embedded_only
@pytest.mark.parametrize("workers", [1, 2])
def test_our_extender_continues_the_trace(
    target: Target, collector: Receiver, tmp_path: Path, workers: int
) -> None:
    target.create_nodes("n1", "n2")
    flag = f"--workers={workers}"
    with extender(tmp_path, NOP, flag, env=collector.env()) as service:
        entry = (
            f'extenders: [{{urlPrefix: "{service.url}", filterVerb: filter, '
            "prioritizeVerb: prioritize, weight: 1, nodeCacheCapable: true}]\n"
        )
        scheduler = target.start("--config", str(target.config_file(entry)), env=collector.env())
        target.create_pods("a")
        root = collector.wait_attempt("a", "scheduled")
        stop(scheduler)
        wait_for("the span of the extender", lambda: collector.spans("POST /prioritize"))
        service.ask("/filter", {"Pod": {"metadata": {"name": "x"}}, "NodeNames": ["n1"]})
        assert service.end() == 0, service.log
    collector.check_trees()
    for verb in ("filter", "prioritize"):
        (asked,) = collector.spans(f"extender {verb}")
        assert (asked.parent_id, asked.service) == (root.span_id, "stowplan")
        (heard,) = collector.children(asked)
        assert (heard.name, heard.kind, heard.service) == (
            f"POST /{verb}",
            "SERVER",
            "stowplan-extender",
        )
        assert heard.attributes["http.response.status_code"] == 200
    (alone,) = (span for span in collector.spans("POST /filter") if not span.parent_id)
    assert alone.trace_id != root.trace_id, "a caller without a trace: one of its own"


@embedded_only
def test_the_last_spans_are_sent_at_the_end(target: Target, collector: Receiver) -> None:
    target.create_nodes("n1")
    scheduler = target.start(env=collector.env(OTEL_BSP_SCHEDULE_DELAY="3600000"))
    target.create_pods("a")
    target.wait_bound("a")
    stop(scheduler)
    assert collector.attempts("a", "scheduled")
    assert "Spans were not delivered" not in scheduler.log


@embedded_only
def test_what_is_not_sampled_is_not_sent_and_extenders_know(
    target: Target, collector: Receiver
) -> None:
    target.create_nodes("n1")
    with steered_extender() as steered:
        steered.says["filter"] = lambda args: keep(args, *nodes_of(args))
        config = target.config_file(steered.entry("filter"))
        env = collector.env(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG="0")
        scheduler = target.start("--config", str(config), env=env)
        target.create_pods("a")
        target.wait_bound("a")
        stop(scheduler)
        (header,) = steered.traceparents
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", header)
    assert collector.requests == 0


@embedded_only
@pytest.mark.parametrize("mood", ["down", "500", "junk", "endless", "silent"])
def test_a_bad_collector_costs_spans_and_nothing_else(
    target: Target, collector: Receiver, mood: Mood | str
) -> None:
    target.create_nodes("n1", "n2")
    env = collector.env(OTEL_BSP_MAX_QUEUE_SIZE="50", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="20")
    if mood == "down":
        env["OTEL_EXPORTER_OTLP_ENDPOINT"] = closed_port()
    else:
        collector.mood = cast(Mood, mood)
    port = free_port()
    scheduler = target.start(f"--port={port}", env=env)
    names = [f"p{number}" for number in range(12)]
    target.create_pods(*names)
    target.wait_bound(*names)
    if mood == "endless":  # which is an answer all the same: its status is 200
        wait_for("spans to count", lambda: _counted(port, "exported_total") > 0)
    else:
        wait_for("spans to be dropped", lambda: _counted(port, "dropped_total") > 0)
        assert _counted(port, "exported_total") == 0

    def waiting() -> float:
        return 12 * 11 - _counted(port, "dropped_total") - _counted(port, "exported_total")

    # The last spans end a moment after their pods are bound.
    wait_for("no more than a queue and a batch to be kept", lambda: waiting() <= 50 + 20)
    stop(scheduler)

    problems = [line for line in scheduler.log.splitlines() if "Problem with tracing" in line]
    assert len(problems) < 10, scheduler.log
    assert "Traceback" not in scheduler.log
    if mood != "endless":
        assert problems
        assert "Spans were not delivered" in scheduler.log


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _counted(port: int, series: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    found = re.findall(rf"^stowplan_spans_{series}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


@embedded_only
def test_without_the_extra_one_line_says_what_to_install(target: Target, tmp_path: Path) -> None:
    target.create_nodes("n1")
    target.create_pods("a")
    log = tmp_path / "log"
    run = f"""
import runpy, sys
sys.modules["opentelemetry"] = None
sys.argv = ["stowplan", "run", "--kubeconfig", {str(target.kubeconfig())!r}, "--port=0",
            "--leader-elect=false"]
runpy.run_module("stowplan", run_name="__main__")
"""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    process = WarmProcess(["-c", run], log, env)
    try:
        target.wait_bound("a")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
    finally:
        process.kill()
    (line,) = (line for line in log.read_text().splitlines() if "Tracing" in line)
    assert '"Tracing is off"' in line
    assert re.search(
        r"the extra otel is not installed \(opentelemetry\S* is missing\)\. Fix: pip install "
        r"'stowplan\[otel\]'; for an image or a pex, see docs/tracing\.md",
        line,
    )
