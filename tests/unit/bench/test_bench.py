"""What of `stowplan.bench` needs no control plane: figures, table, validity, and its client."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.bench import __main__ as command_line
from stowplan.bench import contestants, observe, raw, report
from stowplan.bench.report import Run, Spread
from stowplan.testing.builders import pod

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[ClusterConfig]]


def run(contestant: str, pods_per_s: float, round_number: int = 1) -> Run:
    return Run(
        contestant=contestant,
        round=round_number,
        pods=3000,
        pods_per_s=pods_per_s,
        created_per_s=1200.0,
        first_bind_s=0.5,
        startup_cpu_s=0.6,
        cpu_per_1000=0.8,
        server_cpu_per_1000=2.0,
        peak_rss_mib=110.0,
        events_at_last_bind=400,
        events=3000,
        last_event_s=2.5,
        event_lag_p99_s=3.0,
        latency_p50_s=None,
        latency_p99_s=None,
        others_cores=0.1,
    )


# -- figures --------------------------------------------------------------------------------------


def test_throughput_counts_the_intervals_between_first_and_last() -> None:
    assert report.throughput([10.0, 12.0, 11.0, 10.5, 11.5]) == 2.0
    assert report.throughput([10.0]) == 0.0


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0), (0.991, 100.0)]
)
def test_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert report.percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_percentile_of_one_value() -> None:
    assert report.percentile([7.0], 0.5) == 7.0


def test_ratios_are_of_medians_and_round_by_round() -> None:
    runs = [
        run("ours", 900, 1),
        run("theirs", 300, 1),
        run("ours", 400, 2),
        run("theirs", 200, 2),
        run("theirs", 100, 3),
        run("ours", 500, 3),
    ]
    (ratio,) = report.ratios(runs, "ours", ["absent", "theirs"])
    assert (ratio.above, ratio.below, ratio.value) == ("ours", "theirs", 2.5)
    assert ratio.rounds == Spread(3.0, 2.0, 5.0)


def test_no_ratio_without_both_sides() -> None:
    assert report.ratios([run("theirs", 300)], "ours", ["theirs"]) == []
    assert report.ratios([run("ours", 300)], "ours", ["theirs"]) == []


def test_no_ratio_to_a_contestant_that_never_got_going() -> None:
    assert report.ratios([run("ours", 300), run("theirs", 0)], "ours", ["theirs"]) == []


def test_ratio_lines() -> None:
    one = report.Ratio("stowplan", "kube-scheduler", 3.14, Spread(3.14, 3.14, 3.14))
    assert report.ratio_line(one, is_limit=False) == "stowplan / kube-scheduler = 3.1x"
    several = report.Ratio("stowplan", "raw", 0.798, Spread(0.8, 0.7, 0.85))
    assert (
        report.ratio_line(several, is_limit=True) == "stowplan / raw = 0.80 (by round 0.70..0.85)"
    )


def test_whoever_beats_the_limit_makes_the_run_invalid() -> None:
    runs = [run("ours", 900, 1), run("raw", 1000, 1), run("raw", 800, 2), run("ours", 801, 2)]
    (fault,) = report.faults(runs, "raw")
    assert fault.startswith("round 2: ours bound 801 pods/s, more than raw with 800 ")
    assert "0.1 and 0.1 cores" in fault
    assert report.faults(runs[:2], "raw") == []


def test_without_the_limit_nothing_is_known_to_be_wrong() -> None:
    assert report.faults([run("ours", 900)], "raw") == []


def test_a_shared_machine_is_mentioned() -> None:
    quiet, noisy = run("ours", 900), replace(run("raw", 900), others_cores=0.8)
    assert report.disturbance([quiet, quiet]) == ""
    assert report.disturbance([quiet, noisy]).startswith("1 of 2 runs had to share the machine")


def test_table_has_medians_in_the_order_asked_for_and_no_empty_columns() -> None:
    runs = [run("theirs", 100, 1), run("ours", 200, 1), run("ours", 240, 2), run("ours", 210, 3)]
    header, *rows = report.table(runs, ["absent", "ours", "theirs"]).splitlines()
    assert header.startswith("contestant")
    assert "p50 ms" not in header
    assert [row.split()[:3] for row in rows] == [
        ["ours", "210", "200..240"],
        ["theirs", "100", "100..100"],
    ]
    assert len({len(line) for line in (header, *rows)}) == 1


def test_table_shows_a_dash_where_only_some_have_a_figure() -> None:
    runs = [run("ours", 200), replace(run("raw", 300), last_event_s=None, event_lag_p99_s=None)]
    header, ours, without_events = report.table(runs, ["ours", "raw"]).splitlines()
    assert header.endswith("event lag p99 s")
    assert ours.split()[-2:] == ["2.50", "3.00"]
    assert without_events.split()[-2:] == ["-", "-"]


def test_document_is_json_and_says_whether_it_is_valid() -> None:
    runs = [run("ours", 900), run("raw", 800)]
    text = json.dumps(
        report.document(
            runs,
            report.ratios(runs, "ours", ["raw"]),
            report.faults(runs, "raw"),
            {"kubernetes": "v1"},
        )
    )
    document = json.loads(text)
    assert document["valid"] is False
    assert len(document["faults"]) == 1
    assert document["ratios"][0]["value"] == 1.125
    assert document["pods_per_s"]["raw"] == {"median": 800, "low": 800, "high": 800}
    assert [one["contestant"] for one in document["runs"]] == ["ours", "raw"]
    assert document["kubernetes"] == "v1"


# -- who takes part -------------------------------------------------------------------------------


def test_only_takes_a_row_and_those_below_it() -> None:
    def keys(text: str) -> list[str]:
        return [one.key for one in command_line._parse_contestants(text)]

    assert keys("raw,stowplan") == ["stowplan", "raw", "raw/events"]
    assert keys("kube-scheduler/same-plugins") == ["kube-scheduler/same-plugins"]
    with pytest.raises(argparse.ArgumentTypeError, match="'nobody'; there is: stowplan,"):
        keys("raw,nobody")


def test_each_round_begins_with_another_and_forgets_nobody() -> None:
    everyone = contestants.CONTESTANTS
    orders = [command_line.rotated(everyone, number) for number in range(1, len(everyone) + 2)]
    assert orders[0] == list(everyone)
    assert len({order[0].key for order in orders}) == len(everyone)
    assert orders[-1] == orders[0]
    assert all({one.key for one in order} == {one.key for one in everyone} for order in orders)


@pytest.mark.parametrize(
    ("noise", "expected_rate", "measured"),
    [
        ([0.1], 0, 1),
        ([0.9, 0.2], 1, 2),
        ([0.9, 0.8, 0.6, 0.7, 0.95, 0.0], 2, 5),
    ],
)
def test_disturbed_runs_are_repeated_but_not_for_ever(
    noise: list[float], expected_rate: int, measured: int
) -> None:
    left = [replace(run("ours", rate), others_cores=others) for rate, others in enumerate(noise)]
    kept = command_line.least_disturbed(lambda: left.pop(0), max_noise=0.3)
    assert kept.pods_per_s == expected_rate
    assert len(noise) - len(left) == measured


def test_kube_scheduler_may_send_as_much_as_it_likes() -> None:
    config = yaml.safe_load(contestants.kube_scheduler_config(Path("some.kubeconfig")))
    assert config["clientConnection"] == {
        "kubeconfig": "some.kubeconfig",
        "qps": 5000,
        "burst": 5000,
    }
    assert "profiles" not in config
    assert "percentageOfNodesToScore" not in config


def test_same_plugins_are_ours_with_upstreams_weights() -> None:
    plugins = contestants.same_plugins()
    config = yaml.safe_load(contestants.kube_scheduler_config(Path("k"), plugins))
    multi_point = config["profiles"][0]["plugins"]["multiPoint"]
    assert multi_point["disabled"] == [{"name": "*"}]
    assert {"name": "TaintToleration", "weight": 3} in multi_point["enabled"]
    assert {"name": "PrioritySort"} in multi_point["enabled"]
    names = [plugin["name"] for plugin in multi_point["enabled"]]
    assert "NodeNumber" not in names, "upstream has no such plugin"
    assert names[-1] == "NodeDeclaredFeatures"


def test_stowplan_is_profiled_only_when_asked() -> None:
    start = contestants.Start(Path(), Path("k"), pods=3)
    plain = contestants.STOWPLAN.command(start)
    profiled = contestants.STOWPLAN.command(replace(start, profile=Path("x.prof")))
    assert "cProfile" not in plain
    assert profiled == [plain[0], "-m", "cProfile", "-o", "x.prof", *plain[1:]]


# -- what is seen from outside --------------------------------------------------------------------


def test_cpu_time_includes_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        of_child = observe.cpu_seconds(child.pid)
        of_both = observe.cpu_seconds(os.getpid())
        child.communicate(b"\n")
    assert of_child >= 0.15  # the kernel counts in ticks
    assert of_both >= of_child
    assert observe.machine_cpu_seconds() >= of_child


def test_peak_memory_is_that_of_the_process() -> None:
    assert 1 < observe.peak_rss_mib(os.getpid()) < 100_000


def test_an_event_is_counted_once_for_its_pod() -> None:
    observer = observe.Observer()
    observer.note_event("pod-00001.18a3b2", 5.0)
    observer.note_event("pod-00001.18a3b3", 6.0)
    observer.note_event(f"{observe.WARM_UP}.18a3b4", 7.0)
    assert observer.events == {"pod-00001": 5.0}


# -- the client that sends requests without thinking ----------------------------------------------


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> ClusterConfig:
        app = web.Application()
        app.router.add_post("/{path:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return ClusterConfig(server=f"http://{host}:{port}", token="secret")

    yield start
    for runner in runners:
        await runner.cleanup()


async def test_sender_keeps_all_connections_busy_and_answers_are_waited_for(serve: Serve) -> None:
    bodies: list[tuple[str, object]] = []
    under_way, most = 0, 0
    all_busy = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal under_way, most
        assert request.headers["Authorization"] == "Bearer secret"
        under_way += 1
        most = max(most, under_way)
        if under_way == 4:
            all_busy.set()
        await all_busy.wait()
        bodies.append((request.path, await request.json()))
        under_way -= 1
        return web.json_response({"kind": "Status"}, status=201)

    config = await serve(handler)
    async with raw.Sender(config, connections=4) as sender:
        sender.submit(sender.request("/a", {"number": number}) for number in range(10))
        sender.submit([sender.request("/b", {"text": "ü"})])
        await sender.drain()
        assert len(bodies) == 11
        sender.submit([sender.request("/c", {})])
        await sender.drain()
    assert most == 4
    assert ("/b", {"text": "ü"}) in bodies
    assert [path for path, _ in bodies].count("/a") == 10


async def test_sender_understands_an_answer_in_chunks(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=201)
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for _ in range(3):
            await answer.write(b"x" * 5000)
            await asyncio.sleep(0)
        await answer.write_eof()
        return answer

    config = await serve(handler)
    async with raw.Sender(config, connections=1) as sender:
        sender.submit(sender.request("/a", {}) for _ in range(3))
        await sender.drain()


async def test_sender_reports_what_the_server_refused(serve: Serve) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"message": "pod is bound already"}, status=409)

    config = await serve(handler)
    async with raw.Sender(config, connections=2) as sender:
        sender.submit([sender.request("/a", {})])
        with pytest.raises(raw.SendError, match="pod is bound already"):
            await sender.drain()


async def test_sender_takes_requests_only_when_it_can_send_them(serve: Serve) -> None:
    answered = 0
    taken_when: list[int] = []

    async def handler(_: web.Request) -> web.Response:
        nonlocal answered
        answered += 1
        return web.Response(status=201)

    config = await serve(handler)
    async with raw.Sender(config, connections=1) as sender:

        def requests() -> Iterator[bytes]:
            for _ in range(3):
                taken_when.append(answered)
                yield sender.request("/a", {})

        sender.submit(requests())
        await sender.drain()
    assert taken_when == [0, 1, 2]


def test_binding_and_event_name_the_pod_by_uid() -> None:
    chosen = pod("web-0", namespace="shop")
    binding = raw.binding(chosen, "n1")
    assert binding["metadata"] == {"name": "web-0", "namespace": "shop", "uid": chosen.uid}
    assert binding["target"] == {"kind": "Node", "name": "n1"}
    event = raw.scheduled_event(chosen, "n1")
    assert event["note"] == "Successfully assigned shop/web-0 to n1"
    assert event["regarding"]["uid"] == chosen.uid
    assert event["metadata"]["name"].rpartition(".")[0] == "web-0"
