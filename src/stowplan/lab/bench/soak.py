"""Churn for half an hour: `python -m stowplan.bench.soak [--minutes 30] [--nodes 2000] [--rate N]`.

`stowplan run` on a real control plane while pods come and go at a fifth of the rate at which bare
binding requests are taken here, nodes flap, pods wait and preempt. At the end its memory must be
flat, its cache equal to what the API server lists, and every pod bound. Nothing is ever stopped
but what was started here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import aiohttp

from stowplan.api.kubeconfig import load_cluster_config
from stowplan.lab.bench.as_command import EXIT_INTERRUPTED, as_command
from stowplan.lab.bench.churn import NODES, PODS, ChurnLoad
from stowplan.lab.bench.churn_objects import NODE_CPUS, NodeLayout, PodKind, PodMaker, node_name
from stowplan.lab.bench.contestants import scheduler_kubeconfig
from stowplan.lab.bench.sender import Sender, SendError
from stowplan.lab.bench.soak_figures import (
    FEWEST_SAMPLES,
    Sample,
    SoakOutcome,
    count_log_lines,
    document,
    faults,
    table,
)
from stowplan.lab.bench.soak_sampler import Sampler
from stowplan.lab.controlplane.binaries import BinaryMissing
from stowplan.lab.controlplane.cluster import ControlPlane
from stowplan.lab.controlplane.components import ADMISSION_OFF_IN_SCHEDULER_PERF
from stowplan.lab.controlplane.processes import ControlPlaneError, ServerProcess, free_port
from stowplan.output_file import check_output_file

RESULTS = Path("bench-results")
SHARE_OF_RAW = 0.2
PODS_PER_NODE = 5
WARM_UP_MINUTES = 5.0
#: Binding requests for the yardstick; the pods stay as the first ones to leave.
RAW_BINDS = 3000
PROGRESS_S = 30.0
#: Events would fill etcd, and old ones are not needed.
_API_SERVER_FLAGS = ("--event-ttl=5m",)
#: There is no other candidate for the lease, and a busy machine must not end half an hour's run.
_PATIENT_LEASE = ("--leader-elect-lease-duration=150s", "--leader-elect-renew-deadline=120s")
_PATIENCE_S = 180.0


def say(clock: float, text: str) -> None:
    print(f"[{time.monotonic() - clock:5.0f}s] {text}", file=sys.stderr, flush=True)


class Soak:
    """One run; `measure` may be called once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._seconds: float = options.minutes * 60
        self._layout = NodeLayout(options.nodes)
        self._seed: int = options.seed
        #: 0: a share of what bare binding requests reach.
        self._rate: float = options.rate or 0.0
        self._raw_per_s = 0.0
        self._verify: int = options.verify_decisions
        self._interval_s: float = options.interval
        # A third of a run that is shorter than the warm-up of a long one.
        self._warm_up_s = min(WARM_UP_MINUTES * 60, self._seconds / 3)
        self._clock = time.monotonic()
        self._samples: list[Sample] = []

    def measure(self, keep_log: Path) -> SoakOutcome:
        with ControlPlane(
            disabled_admission_plugins=ADMISSION_OFF_IN_SCHEDULER_PERF,
            apiserver_flags=_API_SERVER_FLAGS,
        ) as servers:
            return asyncio.run(self._measure(servers, keep_log))

    async def _measure(self, servers: ControlPlane, log: Path) -> SoakOutcome:
        config = load_cluster_config(kubeconfig=str(servers.kubeconfig))
        population = self._layout.nodes * PODS_PER_NODE
        async with Sender(config) as sender:
            await self._set_up(sender, population)
            churn = ChurnLoad(
                sender, self._layout, rate=self._rate, population=population, seed=self._seed
            )
            port = free_port()
            process = ServerProcess(
                "stowplan", _command(servers, port, self._verify), log, f"http://127.0.0.1:{port}"
            )
            try:
                async with churn.watching(config), aiohttp.ClientSession() as web:
                    await _until_ready(process, web)
                    self._say("Stowplan is ready; the churn begins")
                    await self._churn(churn, process, web)
                    agrees = await self._ask_to_compare(process)
                    dropped = int(self._samples[-1].series.get("stowplan_events_dropped_total", 0))
            finally:
                process.stop(grace=30.0)
        unbound, overfull = judge_pods(servers.api.get(PODS)["items"])
        with log.open(encoding="utf-8", errors="replace") as lines:
            log_lines = count_log_lines(lines)
        tally = churn.tally
        return SoakOutcome(
            samples=self._samples,
            warm_up_s=self._warm_up_s,
            raw_per_s=self._raw_per_s,
            rate=self._rate,
            created=tally.created,
            bound=tally.bound,
            deleted=tally.deleted,
            preempted=tally.preempted,
            never_bound=tally.never_bound,
            unbound=unbound,
            overfull=overfull,
            agrees=agrees,
            log_lines=log_lines,
            events_dropped=dropped,
        )

    async def _set_up(self, sender: Sender, population: int) -> None:
        """Nodes, and the first pods, bound by hand as fast as it goes: that is the yardstick."""
        sender.submit(
            sender.request(NODES, self._layout.node(number)) for number in range(self._layout.nodes)
        )
        await sender.drain()
        pods = _first_pods(self._layout, min(RAW_BINDS, population))
        sender.submit(sender.request(PODS, pod) for pod in pods)
        await sender.drain()
        began = time.monotonic()
        ordinary = self._layout.ordinary()
        sender.submit(
            sender.request(f"{PODS}/{pod['metadata']['name']}/binding", _binding(pod, node))
            for pod, node in zip(pods, _in_turn(ordinary), strict=False)
        )
        await sender.drain()
        self._raw_per_s = len(pods) / (time.monotonic() - began)
        self._rate = self._rate or self._raw_per_s * SHARE_OF_RAW
        self._say(f"{self._raw_per_s:.0f} bare binds/s; pods will come at {self._rate:.0f}/s")

    async def _churn(
        self, churn: ChurnLoad, process: ServerProcess, web: aiohttp.ClientSession
    ) -> None:
        began = time.monotonic()
        sampler = Sampler(churn, process, web, began)
        work = asyncio.create_task(churn.run(self._seconds))
        said = began
        try:
            while not work.done():
                await asyncio.wait([work], timeout=self._interval_s)
                self._samples.append(await sampler.take())
                if time.monotonic() - said >= min(PROGRESS_S, self._seconds / 4):
                    said = time.monotonic()
                    self._say(progress(self._samples[-1], churn.tally.preempted))
            await work
        finally:
            work.cancel()
        self._say(f"no more arrivals; {len(churn.waiting)} pods wait")
        await churn.settle()
        self._say(f"{len(churn.waiting)} pods wait")

    async def _ask_to_compare(self, process: ServerProcess) -> bool | None:
        """Send SIGUSR2, as for kube-scheduler; the result is in the log."""
        seen = process.log.stat().st_size
        os.kill(process.pid, signal.SIGUSR2)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            process.check_running()
            with process.log.open("rb") as log:
                log.seek(seen)
                text = log.read()
            for answer, agrees in ((b"agree", True), (b"differ", False)):
                if b'"Cache and API server ' + answer in text:
                    return agrees
            await asyncio.sleep(0.2)
        return None

    def _say(self, text: str) -> None:
        say(self._clock, text)


def progress(sample: Sample, preempted: int) -> str:
    pending = ", ".join(
        f"{name.partition(',')[2]} {value:.0f}"
        for name, value in sample.series.items()
        if name.startswith("scheduler_pending_pods")
    )
    return (
        f"{sample.rss_mib:.1f} MiB, {sample.cpu_cores:.2f} cores, {sample.created_per_s:.0f} "
        f"created/s, {sample.bound_per_s:.0f} bound/s, {sample.deleted_per_s:.0f} deleted/s, "
        f"{preempted} preempted; {pending}"
    )


def judge_pods(pods: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Pods without a node, and nodes that hold more than they have."""
    unbound: list[str] = []
    used: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        if node:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            used[node] = used.get(node, 0) + _milli_cpus(requests["cpu"])
        else:
            unbound.append(pod["metadata"]["name"])
    overfull = [node for node, cpus in used.items() if cpus > NODE_CPUS * 1000]
    return sorted(unbound), sorted(overfull)


def _milli_cpus(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _first_pods(layout: NodeLayout, count: int) -> list[dict[str, Any]]:
    """Pods that no scheduler looks at."""
    maker = PodMaker(layout, seed=0)
    pods = [maker.make(PodKind.PLAIN) for _ in range(count)]
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] = f"{PodKind.PLAIN}-first-{number:05}"
        pod["spec"]["schedulerName"] = "nobody"
    return pods


def _in_turn(numbers: range) -> Iterator[str]:
    while True:
        yield from map(node_name, numbers)


def _binding(pod: dict[str, Any], node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"]},
        "target": {"kind": "Node", "name": node},
    }


def _command(servers: ControlPlane, port: int, verify: int) -> list[str]:
    flags = [
        f"--kubeconfig={scheduler_kubeconfig(servers)}",
        f"--port={port}",
        f"--verify-decisions={verify}",
        *_PATIENT_LEASE,
    ]
    return [sys.executable, "-m", "stowplan", "run", *flags]


async def _until_ready(process: ServerProcess, web: aiohttp.ClientSession) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        process.check_running()
        try:
            async with web.get(f"{process.url}/readyz") as answer:
                if answer.status == 200:
                    return
        except (aiohttp.ClientError, TimeoutError):
            pass  # not yet
        if time.monotonic() > deadline:
            raise ControlPlaneError(f"Stowplan does not get ready:\n{process.tail()}")
        await asyncio.sleep(0.1)


# -- the command line -----------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.soak",
        description="Stowplan under churn on a real control plane: is its memory flat, its cache "
        "true, and every pod bound?",
    )
    parser.add_argument("--minutes", type=_positive, default=30.0, metavar="N")
    parser.add_argument("--nodes", type=int, default=2000, metavar="N", help="at least 10")
    parser.add_argument(
        "--rate",
        type=_positive,
        metavar="N",
        help="pods a second [default: a fifth of the rate of bare binding requests]",
    )
    parser.add_argument("--interval", type=_positive, default=5.0, help="seconds between samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--verify-decisions",
        type=int,
        default=1000,
        metavar="N",
        help="make every N-th decision again on a rebuilt cluster; a difference fails the run "
        "[default: 1000]",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help=f"[default: {RESULTS}/soak-<time>.json]"
    )
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _terminate(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _kept(log: Path) -> str:
    return f"the scheduler's log is {log}" if log.exists() else "nothing was kept"


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.nodes < 10:
        parser.error("--nodes: at least 10")
    if options.minutes * 60 / options.interval < FEWEST_SAMPLES * 2:
        parser.error(f"--interval: at least {FEWEST_SAMPLES * 2} samples are needed")
    # A signal also ends our child processes, in order.
    signal.signal(signal.SIGTERM, _terminate)
    began = datetime.now(UTC)
    path: Path = options.json or RESULTS / f"soak-{began:%Y%m%dT%H%M%SZ}.json"
    if options.json is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    check_output_file(path, "--json")
    soak = Soak(options)
    log = path.with_suffix(".log")
    log.unlink(missing_ok=True)
    try:
        outcome = soak.measure(log)
    except (BinaryMissing, ControlPlaneError, SendError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\ninterrupted; no figures were written, {_kept(log)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    found = faults(outcome)
    about = {
        "began": began.isoformat(timespec="seconds"),
        "minutes": options.minutes,
        "nodes": options.nodes,
        "seed": options.seed,
    }
    path.write_text(document(outcome, about))
    print(table(outcome))
    for fault in found:
        print(f"FAULT: {fault}")
    print(f"All figures are in {path}, the scheduler's log is beside it.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
