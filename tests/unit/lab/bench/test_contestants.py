"""Who takes part, in which order, and how each is started."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import cache_from_source
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.lab.bench import contestants, observe
from stowplan.lab.bench.follow import Metadata
from stowplan.lab.bench.sender import Sender
from stowplan.lab.bench.session import least_disturbed, rotated
from stowplan.lab.controlplane.gates import gates_in
from stowplan.lab.controlplane.processes import ServerProcess
from tests.unit.lab.bench.runs import run


def test_a_name_chooses_a_row_and_those_below_it() -> None:
    def keys(*names: str) -> list[str]:
        return [one.key for one in contestants.CONTESTANTS if one.is_chosen_by(names)]

    assert keys("raw", "stowplan") == ["stowplan", "raw", "raw/events"]
    assert keys("raw/events") == ["raw/events"]
    assert keys("ra") == []


def test_each_round_begins_with_another_and_forgets_nobody() -> None:
    everyone = contestants.CONTESTANTS
    orders = [rotated(everyone, number) for number in range(1, len(everyone) + 2)]
    assert orders[0] == list(everyone)
    assert len({order[0].key for order in orders}) == len(everyone)
    assert orders[-1] == orders[0]
    assert all({one.key for one in order} == {one.key for one in everyone} for order in orders)


@pytest.mark.parametrize(
    ("noise", "expected_rate", "measured"),
    [
        ([0.1], 1, 1),
        ([0.9, 0.2], 2, 2),
        ([0.9, 0.8, 0.6, 0.7, 0.0], 3, 4),
    ],
)
def test_disturbed_runs_are_repeated_but_not_for_ever(
    noise: list[float], expected_rate: int, measured: int
) -> None:
    left = [run("ours", rate, others_cores=others) for rate, others in enumerate(noise, start=1)]
    kept = least_disturbed(lambda: left.pop(0), max_noise=0.3)
    assert kept.pods_per_s == expected_rate
    assert len(noise) - len(left) == measured


def test_raw_sends_at_least_as_many_bindings_at_a_time_as_stowplan() -> None:
    ours = inspect.signature(ApiClient).parameters["bind_concurrency"].default
    assert inspect.signature(Sender).parameters["connections"].default >= ours


def test_kube_scheduler_may_send_as_much_as_it_likes() -> None:
    config = yaml.safe_load(contestants.kube_scheduler_config(Path("some.kubeconfig")))
    assert config["clientConnection"] == {
        "kubeconfig": "some.kubeconfig",
        "qps": 5000,
        "burst": 5000,
    }
    assert "profiles" not in config
    assert "percentageOfNodesToScore" not in config


def test_the_workloads_own_configuration_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nparallelism: 3\n")
    config = yaml.safe_load(contestants.kube_scheduler_config(Path("k"), file))
    assert config["parallelism"] == 3
    assert config["clientConnection"]["qps"] == 5000


def test_stowplan_is_profiled_only_when_asked() -> None:
    start = contestants.Start(Path(), Path("k"), pods=3)
    plain = contestants.STOWPLAN.command(start)
    profiled = contestants.STOWPLAN.command(replace(start, profile=Path("x.prof")))
    assert plain[1:4] == ["-m", "stowplan", "run"]
    assert profiled[1:5] == ["-m", "stowplan.lab.bench.profiles", "x.prof", "run"]
    assert profiled[5:] == plain[4:]
    configured = contestants.STOWPLAN.command(replace(start, config=Path("c.yaml")))
    assert configured == [*plain, "--config=c.yaml"]


def test_gates_are_read_from_a_servers_help() -> None:
    text = """
      --feature-gates colonSeparated   A set of key=value pairs. Options are:
                                       kube:OpportunisticBatching=true|false (BETA - default=true)
                                       SchedulerAsyncAPICalls=true|false (BETA - default=false)
      --kubeconfig string              Path
    """
    assert gates_in(text) == {"OpportunisticBatching", "SchedulerAsyncAPICalls"}


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
    assert observe.machine_cpu().total >= of_child


@pytest.mark.parametrize(("leave_out_nice", "ticks"), [(True, (1035, 500)), (False, (1535, 0))])
def test_who_is_nice_is_counted_apart(leave_out_nice: bool, ticks: tuple[int, int]) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat = "cpu  700 500 300 9000 8000 20 10 5 600 400\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
    a_second = os.sysconf("SC_CLK_TCK")
    used = observe.read_cpu(stat, leave_out_nice=leave_out_nice)
    assert used == pytest.approx([each / a_second for each in ticks])


def test_everything_counts_for_a_nice_benchmark() -> None:
    """Its own processes are nice then as well, and are subtracted from what is counted."""
    script = (
        "import time, os\n"
        "from stowplan.lab.bench import observe\n"
        "before = observe.machine_cpu().total\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "print(observe.machine_cpu().total - before)\n"
    )
    command = ["nice", "-n", "5", sys.executable, "-c", script]
    counted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(counted) >= 0.25  # the kernel counts in ticks


def test_python_contestants_start_from_compiled_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    module = tmp_path / "lonely.py"
    module.write_text("print('here')\n")
    log = tmp_path / "log"
    process = ServerProcess(
        "python",
        [sys.executable, "-c", "import lonely"],
        log,
        environment=contestants.environment() | {"PYTHONPATH": str(tmp_path)},
    )
    try:
        process.wait_until(lambda: "here" in process.tail(), 30.0)
    finally:
        process.stop()
    assert list((tmp_path / "__pycache__").glob("lonely.*.pyc"))


def test_what_is_imported_at_a_start_is_compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    compiled = Path(cache_from_source(inspect.getfile(observe)))
    compiled.unlink(missing_ok=True)
    contestants.compile_modules.cache_clear()
    contestants.compile_modules()
    assert compiled.exists()


def test_peak_memory_is_that_of_the_process() -> None:
    assert 1 < observe.peak_rss_mib(os.getpid()) < 100_000


def test_an_event_is_counted_once_for_its_pod() -> None:
    observer = observe.BindObserver()
    observer.note_event(Metadata(name="pod-1.18a3b2", namespace="a"), 5.0)
    observer.note_event(Metadata(name="pod-1.18a3b3", namespace="a"), 6.0)
    observer.note_event(Metadata(name="pod-1.18a3b4", namespace="b"), 7.0)
    assert observer.events == {"a/pod-1": 5.0, "b/pod-1": 7.0}


def test_bound_pods_are_found_by_namespace_labels_and_time() -> None:
    observer = observe.BindObserver()
    observer.note_pod(Metadata(name="p", namespace="a", labels={"type": "unsched"}), 1.0)
    observer.note_pod(Metadata(name="p", namespace="a"), 9.0)
    observer.note_pod(Metadata(name="q", namespace="a"), 2.0)
    observer.note_pod(Metadata(name="p", namespace="b", labels={"type": "unsched"}), 3.0)
    assert observer.count == {"a": 2, "b": 1}
    assert observer.bound_in(frozenset("a"), {}, 0.0) == {"a/p": 1.0, "a/q": 2.0}
    assert observer.bound_in(frozenset("ab"), {"type": "unsched"}, 1.0) == {"a/p": 1.0, "b/p": 3.0}
    assert observer.bound_in(frozenset("ab"), {}, 1.5) == {"a/q": 2.0, "b/p": 3.0}


async def test_events_are_counted_cheaply_and_read_when_all_is_over() -> None:
    asked: list[dict[str, str]] = []
    written = datetime.now(UTC).replace(microsecond=0)

    async def events(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        names = ["p.1", "p.2", "q.3"][: int(request.query.get("limit", 3))]
        stamp = written.strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [
            {"metadata": {"name": name, "namespace": "a", "creationTimestamp": stamp}}
            for name in names
        ]
        left = {"remainingItemCount": 2} if "limit" in request.query else {}
        return web.json_response({"metadata": {"resourceVersion": "9", **left}, "items": items})

    async def pods(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": []})

    app = web.Application()
    app.router.add_get("/apis/events.k8s.io/v1/events", events)
    app.router.add_get("/api/v1/pods", pods)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = ClusterConfig(f"http://127.0.0.1:{runner.addresses[0][1]}")
    observer = observe.BindObserver()
    async with observer.watching(config):
        assert await observer.count_events() == 3
        await observer.read_events()
    await runner.cleanup()
    assert asked == [{"limit": "1"}, {"fieldSelector": "reason=Scheduled"}]
    assert set(observer.events) == {"a/p", "a/q"}
    by_the_clock = observer.events["a/p"] + time.time() - time.monotonic()
    assert by_the_clock == pytest.approx(written.timestamp() + 1.0, abs=0.1)
