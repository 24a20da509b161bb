"""How long `stowplan explain` takes: ``python -m stowplan.bench.explain [--nodes N] [--pods N]``.

On a real kube-apiserver with nodes, pods on them and one pod that fits nowhere: the command from
cold, which lists the cluster; the command that asks a running scheduler; and the scheduler's own
answer over one connection. Wall time, start of Python included, beside the CPU time of the command,
which suffers less from whatever else runs on the machine.
"""

from __future__ import annotations

import argparse
import http.client
import os
import resource
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

from stowplan.api.kubeconfig import load_cluster_config
from stowplan.errors import ConfigError
from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.sender import Sender, run_interruptibly
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port

_PENDING: Final = "too-large"
_PODS: Final = "/api/v1/namespaces/default/pods"
_READY_S: Final = 120.0


@dataclass(frozen=True)
class Taken:
    """Seconds of several calls."""

    what: str
    #: What the issue asks for; 0: nothing.
    wanted_s: float
    wall: Sequence[float]
    cpu: Sequence[float] = ()

    def __str__(self) -> str:
        cells = [f"{self.what:<42}", _ms(min(self.wall)), _ms(median(self.wall))]
        cells += [_ms(median(self.cpu)) if self.cpu else f"{'':>10}", _ms(self.wanted_s)]
        return "".join(cells)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:>7.0f} ms"


def manifests(nodes: int, pods: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths and objects: nodes of 32 cores, small pods on them, and one that fits nowhere."""
    offers = {"cpu": "32", "memory": "256Gi", "pods": "256"}
    for number in range(nodes):
        name = f"node-{number:05}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 10}"}
        status = {"allocatable": offers, "capacity": offers}
        yield "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
    for number in range(pods):
        yield _PODS, _pod(f"standing-{number}", "100m", f"node-{number % nodes:05}")
    yield _PODS, _pod(_PENDING, "64")


def _pod(name: str, cpu: str, node: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "labels": {"app": f"a{len(name) % 7}"}}, "spec": spec}


async def _create(plane: ControlPlane, nodes: int, pods: int) -> None:
    config = load_cluster_config(kubeconfig=str(plane.kubeconfig))
    async with Sender(config) as sender:
        made = manifests(nodes, pods)
        first = [sender.request(*next(made)) for _ in range(nodes)]
        for some in (first, (sender.request(path, body) for path, body in made)):
            sender.submit(chain(some))
            await sender.drain()


@contextmanager
def _scheduler(plane: ControlPlane) -> Iterator[str]:
    """The address of a running scheduler that has tried the pending pod."""
    port = free_port()
    log = plane.directory / "explain-scheduler.log"
    command = [*(sys.executable, "-m", "stowplan", "run", f"--kubeconfig={plane.kubeconfig}")]
    command += [f"--secure-port={port}", "--leader-elect=false"]
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        until = time.monotonic() + _READY_S
        while not _is_tried(port, plane.admin_token):
            if process.poll() is not None or time.monotonic() > until:
                raise ConfigError(f"the scheduler does not answer: {log.read_text()[-500:]}")
            time.sleep(0.2)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _connection(port: int) -> http.client.HTTPSConnection:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # its own, on loopback
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=tls)


def _get(connection: http.client.HTTPSConnection, path: str, token: str) -> int:
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    response.read()
    return response.status


def _is_tried(port: int, token: str) -> bool:
    connection = _connection(port)
    try:
        return _get(connection, f"/v1/attempts/default/{_PENDING}", token) == 200
    except OSError:
        return False
    finally:
        connection.close()


def _commands(what: str, wanted_s: float, times: int, words: Sequence[str]) -> Taken:
    """Run a command several times, after once for the caches of the machine."""
    wall: list[float] = []
    cpu: list[float] = []
    # Compiled files, as an installation has them.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for _ in range(times + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, env=env)
        wall.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if done.returncode or "is pending" not in done.stdout:
            raise ConfigError(f"{' '.join(words)}: {done.stderr or done.stdout}")
    return Taken(what, wanted_s, wall[1:], cpu[1:])


def _answers(url: str, token: str, times: int) -> Taken:
    connection = _connection(urlsplit(url).port or 0)
    wall: list[float] = []
    try:
        for _ in range(times * 10 + 1):
            began = time.perf_counter()
            status = _get(connection, f"/v1/explain/default/{_PENDING}", token)
            wall.append(time.perf_counter() - began)
            if status != 200:
                raise ConfigError(f"the scheduler answers with status {status}")
    finally:
        connection.close()
    return Taken("the running scheduler's answer", 0.05, wall[1:])


def measure(nodes: int, pods: int, times: int) -> Iterator[Taken]:
    """Measure one thing after the other."""
    with ControlPlane() as plane:
        _say(f"creating {nodes:,} nodes and {pods:,} pods")
        run_interruptibly(_create(plane, nodes, pods))
        explain = [sys.executable, "-m", "stowplan", "explain", _PENDING]
        explain += [f"--kubeconfig={plane.kubeconfig}"]
        _say("from cold")
        yield _commands("explain POD, from cold", 3.0, times, explain)
        _say("from a running scheduler")
        with _scheduler(plane) as url:
            yield _answers(url, plane.admin_token, times)
            words = [*explain, "--server", url, "--insecure-skip-tls-verify"]
            yield _commands("explain POD --server, start included", 0.6, times, words)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.explain",
        description="How long `stowplan explain` takes on a real kube-apiserver.",
    )
    parser.add_argument("--nodes", type=int, default=5_000, metavar="N", help="[default: 5000]")
    parser.add_argument("--pods", type=int, default=20_000, metavar="N", help="[default: 20000]")
    parser.add_argument("--times", type=int, default=5, metavar="N", help="[default: 5]")
    options = parser.parse_args(arguments)
    if min(options.nodes, options.pods, options.times) < 1:
        parser.error("--nodes, --pods and --times are at least 1")
    load = os.getloadavg()[0]
    found = list(measure(options.nodes, options.pods, options.times))
    print(
        f"{options.nodes:,} nodes, {options.pods:,} pods; load {load:.1f} on {os.cpu_count()} CPUs"
    )
    print(f"{'':<42}{'best':>10}{'median':>10}{'CPU':>10}{'wanted':>10}")
    for each in found:
        print(each)
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
