"""What the paths answer, with algorithms that are good, odd, slow or broken."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from stowplan.clock import VirtualClock
from stowplan.extender import (
    Algorithm,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)
from stowplan.extender.metrics import Metric, MetricMetadata, MetricRegistry, MetricType
from stowplan.logs import FOLDED_S
from tests.unit.extender.kit import ARGS, ARGS_TEXT, Calls, Stage, ThreadedCalls, stage
from tests.unit.extender.test_reading import body, content


def raising(error: BaseException) -> Any:
    def call(_: object) -> NoReturn:
        raise error

    return call


async def metric(served: Stage, name: str) -> float:
    """The value of a series on the page; the name is without its prefix."""
    page = (await served.ask("/metrics")).body.decode()
    for line in page.splitlines():
        if line.startswith(f"wca_scheduler_{name} "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no {name} in:\n{page}")


async def test_the_small_paths() -> None:
    async with stage() as served:
        client = await served.connect()
        for path, text in (
            ("/status", b"true"),
            ("/healthz", b"ok"),
            ("/readyz", b"ok"),
            ("/api/scheduler/test", b"Hello World"),
        ):
            reply = await client.ask(path)
            assert (reply.status, reply.body) == (200, text)
        assert (await client.ask("/status")).headers["content-type"] == "application/json"


@pytest.mark.parametrize("prefix", ["", "/api/scheduler"])
async def test_nop_takes_everything_with_score_0(prefix: str) -> None:
    async with stage() as served:
        client = await served.connect()
        reply = await client.ask(f"{prefix}/filter", ARGS_TEXT)
        assert reply.content == {
            "Nodes": None,
            "NodeNames": ["n1", "n2"],
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }
        assert reply.headers["content-type"] == "application/json"
        reply = await client.ask(f"{prefix}/prioritize", body("args nodes"))
        assert reply.content == [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 0}]
        reply = await client.ask(f"{prefix}/filter", body("args nodes"))
        assert reply.content["Nodes"] == content("args nodes")["Nodes"]
        assert await metric(served, "filter") == 2
        assert await metric(served, "prioritize") == 1


async def test_preempt_changes_nothing_unless_an_algorithm_does() -> None:
    async with stage() as served:
        client = await served.connect()
        reply = await client.ask("/preempt", body("preemption args whole"))
        assert reply.content["NodeNameToMetaVictims"] == {
            "n1": {"Pods": [{"UID": "uid-b"}, {"UID": "uid-c"}], "NumPDBViolations": 1},
            "n2": {"Pods": [], "NumPDBViolations": 0},
        }
        reply = await client.ask("/preempt", body("preemption args meta"))
        assert reply.content["NodeNameToMetaVictims"]["n1"] == {
            "Pods": [{"UID": "uid-b"}],
            "NumPDBViolations": 2,
        }
        assert await metric(served, "preempt") == 2


async def test_bind_says_that_it_is_not_there() -> None:
    async with stage() as served:
        reply = await served.ask("/bind", body("binding args"))
        assert reply.status == 200
        assert reply.content == {
            "Error": "NOPAlgorithm does not bind pods: remove bindVerb from the extender's entry "
            "in kube-scheduler's configuration"
        }


class Binder(Calls):
    def __init__(self) -> None:
        super().__init__()
        self.bound: list[ExtenderBindingArgs] = []

    def preempt(self, extender_args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        kept = {"n1": extender_args.NodeNameToMetaVictims["n1"]}
        return ExtenderPreemptionResult(kept)

    async def bind(self, extender_args: ExtenderBindingArgs) -> ExtenderBindingResult:
        await asyncio.sleep(0)
        self.bound.append(extender_args)
        return ExtenderBindingResult()


async def test_an_algorithm_that_preempts_and_binds() -> None:
    binder = Binder()
    async with stage(binder) as served:
        reply = await served.ask("/preempt", body("preemption args meta"))
        assert list(reply.content["NodeNameToMetaVictims"]) == ["n1"]
        assert (await served.ask("/bind", body("binding args"))).content == {"Error": ""}
    assert binder.bound == [ExtenderBindingArgs("a", "shop", "uid-a", "n1")]


async def test_scores_are_clamped_and_counted() -> None:
    scores = [HostPriority("n1", 20), HostPriority("n2", -3), HostPriority("n3", 4)]
    async with stage(Calls(prioritize=lambda _: scores)) as served:
        reply = await served.ask("/prioritize", ARGS_TEXT)
        assert [each["Score"] for each in reply.content] == [10, 0, 4]
        assert await metric(served, "clamped_scores") == 2


HERE = os.path.relpath(__file__)


class Racks(Algorithm):
    """Fails in a line of its own, in one of a library, and with an answer of the wrong type."""

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        return ExtenderFilterResult(NodeNames=[str(1 // len(extender_args.Nodes or ()))])

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        json.loads("no JSON")
        return []

    def preempt(self, extender_args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        return NOTHING


NOTHING: ExtenderPreemptionResult = None  # type: ignore[assignment]  # wrong on purpose


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


async def test_a_filter_that_raises_is_an_error_in_the_answer() -> None:
    async with stage(Racks()) as served:
        reply = await served.ask("/filter", ARGS_TEXT)
        assert reply.status == 200
        assert reply.content["Error"] == (
            "Racks.filter: ZeroDivisionError: integer division or modulo by zero "
            f"({HERE}:{line_of('1 // len(')})"
        )
        assert reply.content["NodeNames"] is None


async def test_the_line_is_one_of_the_algorithm() -> None:
    async with stage(Racks()) as served:
        reply = await served.ask("/prioritize", ARGS_TEXT)
        assert reply.problem.endswith(f"({HERE}:{line_of('json.loads(')})")
        reply = await served.ask("/preempt", body("preemption args meta"))
        assert reply.problem.startswith("Racks.preempt: BadAnswer: the answer is None, not an ")
        assert reply.problem.endswith(f"({HERE}:{line_of('return NOTHING') - 1})")


async def test_one_traceback_and_repeats_are_folded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    async with stage(Racks(), clock=clock) as served:
        for _ in range(5):
            await served.ask("/filter", ARGS_TEXT)
        await served.ask("/prioritize", ARGS_TEXT)
        clock.advance(FOLDED_S)
        await served.ask("/filter", ARGS_TEXT)
        await served.ask("/filter", ARGS_TEXT)
        assert await metric(served, 'errors{verb="filter"}') == 7
    told = [
        (each.message, each.exc_info is not None, each.__dict__["kv"].get("othersSinceLast"))
        for each in caplog.records
        if each.levelno >= logging.ERROR
    ]
    assert told == [
        ("The algorithm failed", True, None),
        ("The algorithm failed", True, None),
        ("The algorithm failed", False, 4),
    ]


async def test_others_that_raise() -> None:
    class Broken(Calls):
        preempt = raising(ValueError("p"))
        bind = raising(ValueError("b"))

    async with stage(Broken(prioritize=raising(ValueError("x")))) as served:
        reply = await served.ask("/prioritize", ARGS_TEXT)
        assert reply.status == 500
        assert reply.problem.startswith("Broken.prioritize: ValueError: x (")
        reply = await served.ask("/preempt", body("preemption args meta"))
        assert reply.status == 500
        reply = await served.ask("/bind", body("binding args"))
        assert reply.status == 200
        assert "Traceback" not in reply.problem
        for verb in ("prioritize", "preempt", "bind"):
            assert await metric(served, f'errors{{verb="{verb}"}}') == 1


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), RecursionError("deep"), MemoryError(), Mute(), StopIteration()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", [Calls, ThreadedCalls])
async def test_nothing_that_an_algorithm_raises_ends_the_service(
    kind: type[Calls], error: BaseException
) -> None:
    async with stage(kind(raising(error))) as served:
        client = await served.connect()
        reply = await client.ask("/filter", ARGS_TEXT)
        assert reply.status == 200
        assert reply.content["Error"].startswith(f"{kind.__name__}.filter: ")
        assert (await client.ask("/status")).body == b"true"


async def test_an_error_whose_text_is_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "stowplan.extender")  # nor could pytest pass it on
    broken = raising(ValueError("a\ud800b"))
    async with stage(Calls(broken, broken)) as served:
        reply = await served.ask("/filter", ARGS_TEXT)
        assert reply.content["Error"].startswith("Calls.filter: ValueError: a?b (")
        assert (await served.ask("/prioritize", ARGS_TEXT)).problem.startswith(
            "Calls.prioritize: ValueError: a?b ("
        )


async def test_an_answer_of_the_wrong_kind_is_the_algorithms_error() -> None:
    wrong = Calls(lambda _: {"NodeNames": []}, lambda _: [HostPriority("n1", "x")])  # type: ignore[arg-type]  # wrong on purpose
    async with stage(wrong) as served:
        reply = await served.ask("/filter", ARGS_TEXT)
        assert reply.content["Error"].startswith(
            "Calls.filter: BadAnswer: the answer is a dict, not an ExtenderFilterResult ("
        )
        assert (await served.ask("/prioritize", ARGS_TEXT)).status == 500
        assert await metric(served, 'errors{verb="filter"}') == 1


async def test_what_is_wrong_with_a_body_is_not_the_algorithms_error() -> None:
    text = b'{"Pod":{"spec":1e999},"NodeNames":["n1"]}'
    looks = Calls(lambda args: ExtenderFilterResult(NodeNames=list(args.Pod)))
    for kind in (looks, ThreadedCalls(looks.filter)):
        async with stage(kind) as served:
            reply = await served.ask("/filter", text)
            assert reply.status == 400
            assert reply.problem.startswith("the body is not usable: Pod: Number out of range")
            assert await metric(served, 'errors{verb="filter"}') == 0
            assert await metric(served, 'refused_requests{code="400"}') == 1


async def test_a_slow_algorithm_in_a_thread_keeps_nobody_waiting() -> None:
    release = threading.Event()

    def filter_(_: ExtenderArgs) -> ExtenderFilterResult:
        release.wait(10)
        return ExtenderFilterResult(NodeNames=["n2"])

    async with stage(ThreadedCalls(filter_)) as served:
        waiting = asyncio.create_task(served.ask("/filter", ARGS_TEXT))
        assert (await served.ask("/status")).body == b"true"
        assert not waiting.done()
        release.set()
        assert (await waiting).content["NodeNames"] == ["n2"]


async def test_an_algorithm_that_takes_too_long_is_an_error_in_the_answer() -> None:
    release = threading.Event()
    slow = ThreadedCalls(lambda _: release.wait(10))
    async with stage(slow, algorithm_timeout_s=0.05) as served:
        reply = await served.ask("/filter", ARGS_TEXT)
        assert reply.content["Error"].startswith(
            "ThreadedCalls.filter: AlgorithmTimeout: no answer within 0.05 s ("
        )
        release.set()


async def test_a_timeout_of_the_algorithm_itself_is_told_as_such() -> None:
    async with stage(ThreadedCalls(raising(TimeoutError("Prometheus")))) as served:
        reply = await served.ask("/filter", ARGS_TEXT)
        assert reply.content["Error"].startswith("ThreadedCalls.filter: TimeoutError: Prometheus (")


async def test_a_client_that_leaves_while_an_algorithm_works() -> None:
    release, ended = threading.Event(), threading.Event()

    def filter_(_: ExtenderArgs) -> ExtenderFilterResult:
        release.wait(10)
        ended.set()
        return ExtenderFilterResult()

    async with stage(ThreadedCalls(filter_)) as served:
        client = await served.connect()
        asking = asyncio.create_task(client.ask("/filter", ARGS_TEXT))
        while not served.service.metrics.requests["filter"]:  # noqa: ASYNC110 - a counter
            await asyncio.sleep(0.001)
        client.writer.transport.abort()
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await asking
        release.set()
        assert await asyncio.to_thread(ended.wait, 10)
        assert (await served.ask("/status")).body == b"true"


async def test_all_namespaces_are_served_unless_told_otherwise() -> None:
    picky = Calls(lambda _: ExtenderFilterResult(), lambda _: [HostPriority("n1", 9)])
    async with stage(picky) as served:
        assert (await served.ask("/filter", ARGS_TEXT)).content["NodeNames"] == []


async def test_pods_of_other_namespaces_are_let_through(caplog: pytest.LogCaptureFixture) -> None:
    picky = Calls(lambda _: ExtenderFilterResult(), lambda _: [HostPriority("n1", 9)])
    other = json.dumps({**ARGS, "Pod": {"metadata": {"name": "x", "namespace": "other"}}}).encode()
    caplog.set_level(logging.DEBUG, "stowplan.extender")
    async with stage(picky, monitored_namespaces=("shop", "lab")) as served:
        assert (await served.ask("/filter", ARGS_TEXT)).content["NodeNames"] == []
        assert (await served.ask("/filter", other)).content["NodeNames"] == ["n1", "n2"]
        assert len((await served.ask("/prioritize", ARGS_TEXT)).content) == 1
        assert (await served.ask("/prioritize", other)).content == []
        assert await metric(served, "pod_ignore_filter") == 1
        assert await metric(served, "pod_ignore_prioritize") == 1
        assert await metric(served, "filter") == 2
    texts = [each.getMessage() for each in caplog.records]
    assert "[Filter] Trying to filter nodes for Pod 'a'" in texts
    assert "[Filter] Ignoring Pod 'x' : Different namespace!" in texts
    assert "[Prioritize-server] Trying to prioritize nodes for Pod 'a'" in texts
    assert "[Prioritize-server] Ignoring Pod 'x' : Different namespace!" in texts
    assert "[Prioritize-server] Result: [n1=9]" in texts
    assert any(text.startswith("[Filter] Result: ExtenderFilterResult(") for text in texts)


async def test_preemption_of_other_namespaces_is_let_through() -> None:
    async with stage(Binder(), monitored_namespaces=("lab",)) as served:
        reply = await served.ask("/preempt", body("preemption args meta"))
        assert list(reply.content["NodeNameToMetaVictims"]) == ["n1", "n2", "n3"]


async def test_readiness_with_checks_and_notes() -> None:
    async with stage() as served:
        problem: str | None = None
        served.service.ready_checks["cache"] = lambda: problem
        served.service.ready_notes["prometheus"] = lambda: None
        assert (await served.ask("/readyz")).body == b"ok"
        served.service.ready_notes["cache"] = lambda: None
        reply = await served.ask("/readyz?verbose")
        assert reply.body == b"[+]cache ok\n[+]prometheus ok\nreadyz check passed\n", "each once"
        assert (await served.ask("/readyz?quiet=verbose")).body == b"ok"
        served.service.ready_notes["prometheus"] = lambda: "down for 7 s"
        reply = await served.ask("/readyz")
        assert reply.status == 200
        assert b"[+]prometheus ok: down for 7 s\n" in reply.body
        problem = "not synced"
        reply = await served.ask("/readyz?exclude=cache")
        assert (reply.status, reply.body.splitlines()[0]) == (200, b"[+]cache excluded: ok")
        reply = await served.ask("/readyz")
        assert (reply.status, reply.body.splitlines()[0]) == (503, b"[-]cache failed: not synced")
        served.service.ready_checks["cache"] = lambda: str(1 // 0)
        reply = await served.ask("/readyz")
        assert b"[-]cache failed: ZeroDivisionError: " in reply.body
        assert (await served.ask("/healthz")).body == b"ok"


class Measuring(Calls):
    def __init__(self) -> None:
        super().__init__()
        metadata = MetricMetadata("Free \\ after\nbinding.", MetricType.GAUGE)
        seen = MetricMetadata("Seen.", MetricType.COUNTER)
        self.registry = MetricRegistry({"node_free_resource": metadata, "seen": seen})

    def get_metrics_registry(self) -> MetricRegistry:
        return self.registry


async def test_metrics_of_the_algorithm_are_on_the_page() -> None:
    measuring = Measuring()
    labels = {"node": 'n"1\\', "resource": "cpu"}
    measuring.registry.extend(
        [
            Metric("node_free_resource", 2.0, labels),
            Metric("node_free_resource", 1.5, labels),
            Metric("seen", 1),
            Metric("seen", 2),
        ]
    )
    async with stage(measuring) as served:
        page = (await served.ask("/metrics")).body.decode()
    for line in (
        "# HELP wca_scheduler_node_free_resource Free \\\\ after\\nbinding.",
        "# TYPE wca_scheduler_node_free_resource gauge",
        'wca_scheduler_node_free_resource{node="n\\"1\\\\",resource="cpu"} 1.5',
        "wca_scheduler_seen 3.0",
    ):
        assert line in page.splitlines()
    with pytest.raises(KeyError):
        measuring.registry.add(Metric("unheard_of", 1.0))
    measuring.registry.clean()
    assert measuring.registry.get_names() == []


async def test_the_page_of_metrics_can_be_read_by_prometheus() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    async with stage() as served:
        await served.ask("/filter", ARGS_TEXT)
        await served.ask("/prioritize", b"junk")
        page = (await served.ask("/metrics")).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    took = families["wca_scheduler_request_duration_seconds"]
    assert took.type == "histogram"
    counts = {
        sample.labels["verb"]: sample.value
        for sample in took.samples
        if sample.name.endswith("_count")
    }
    assert counts == {"filter": 1, "prioritize": 0, "preempt": 0, "bind": 0}
    buckets = [s.value for s in took.samples if s.labels == {"verb": "filter", "le": "+Inf"}]
    assert buckets == [1]
    assert "process_resident_memory_bytes" in families


async def test_metrics_that_break_leave_the_others() -> None:
    class Broken(Calls):
        get_metrics_registry = raising(ValueError("x"))

    async with stage(Broken()) as served:
        assert await metric(served, "filter") == 0


class TwentyNineteen(Algorithm):
    """As people wrote them for the WCA scheduler: only the import is another."""

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        filter_result = ExtenderFilterResult()
        for node in extender_args.NodeNames:
            if extender_args.Pod["metadata"]["labels"]["app"] in node:
                filter_result.NodeNames.append(node)
            else:
                filter_result.FailedNodes[node] = "Not for this app!"
        return filter_result

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        return [HostPriority(node, i) for i, node in enumerate(sorted(extender_args.NodeNames))]


async def test_an_old_algorithm_works_in_both_modes() -> None:
    pod = {"metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}}}
    names = ["web-1", "db-1", "web-2"]
    nodes = {"metadata": {}, "items": [{"metadata": {"name": name}} for name in names]}
    failed = {"db-1": "Not for this app!"}
    async with stage(TwentyNineteen()) as served:
        by_name = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
        reply = await served.ask("/filter", by_name)
        assert (reply.content["NodeNames"], reply.content["FailedNodes"]) == (
            ["web-1", "web-2"],
            failed,
        )
        whole = json.dumps({"Pod": pod, "Nodes": nodes, "NodeNames": None}).encode()
        reply = await served.ask("/filter", whole)
        kept = [node["metadata"]["name"] for node in reply.content["Nodes"]["items"]]
        assert (kept, reply.content["FailedNodes"]) == (["web-1", "web-2"], failed)
        reply = await served.ask("/prioritize", whole)
        assert [(each["Host"], each["Score"]) for each in reply.content] == [
            ("db-1", 0),
            ("web-1", 1),
            ("web-2", 2),
        ]
