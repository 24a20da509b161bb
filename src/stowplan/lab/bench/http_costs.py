"""Compare our HTTP client and server with aiohttp: ``python -m stowplan.bench.http_costs``.

docs/http.md records its figures. Three comparisons on loopback, each contestant in its own process
and with the same work: binds over TLS (client), an extender's filter of 100 node names (server) and
/healthz (server). CPU time is that of the measured process alone. A start lasts from the start of
the process to the first answer, because a scheduler that starts pays for it. Contestants take
turns; the lowest value of all rounds counts, which other load on the machine changes least.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.extender_load import Effort, LoadError, Verb, ask_once, put_load
from stowplan.lab.bench.observe import cpu_seconds
from stowplan.lab.controlplane.processes import free_port

_NODES: Final = [f"node-{number}" for number in range(100)]
_ARGS: Final = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": _NODES}).encode()
_HEALTHZ: Final = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
_FILTER: Final = (
    b"POST /filter HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_ARGS), _ARGS)
)
_START_S: Final = 30.0
_COMMAND: Final = [sys.executable, "-m", "stowplan.lab.bench.http_contestants"]


class ServerCost(NamedTuple):
    cpu_us: float
    rss_kib: float
    #: From the start of the process to the first answer.
    start_ms: float


@contextmanager
def _running(name: str, *arguments: str, wait: bool = True) -> Iterator[tuple[int, int, float]]:
    """Port, process id, and seconds until the first answer."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen([*_COMMAND, "serve", name, str(port), *arguments])
    try:
        while wait and time.perf_counter() - began < _START_S:
            try:
                ask_once(port, _HEALTHZ)
                break
            except LoadError:
                time.sleep(0.001)
        yield port, process.pid, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()


def _server_cost(name: str, request: bytes, seconds: float) -> ServerCost:
    with _running(name) as (port, pid, started_s):
        rss = _rss_kib(pid)
        verb = Verb(request, len(ask_once(port, request)))
        put_load(port, [verb], 8, Effort(0.2))
        cpu = cpu_seconds(pid)
        load = put_load(port, [verb], 8, Effort(seconds))
        assert not load.errors, load.errors[0]
        used = cpu_seconds(pid) - cpu
    return ServerCost(used / len(load.latencies_s) * 1e6, rss, started_s * 1e3)


def _rss_kib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return float(next(line for line in status.split("\n") if line.startswith("VmRSS")).split()[1])


def _client_costs(binds: int, rounds: int) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {"ours": [], "aiohttp": []}
    with tempfile.TemporaryDirectory() as folder:
        cert = Path(folder) / "server.pem"
        _make_certificate(cert)
        with _running("api", str(cert), wait=False) as (port, _, _):
            time.sleep(1.5)
            for _ in range(rounds):
                for name, found in costs.items():
                    command = [*_COMMAND, "bind", name, f"https://localhost:{port}", str(cert)]
                    shown = subprocess.check_output([*command, str(binds)], text=True)
                    found.append(float(shown))
    return costs


def _make_certificate(path: Path) -> None:
    """Make a self-signed certificate, with its key in the same file."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout - -out -"
    )
    made = subprocess.run(command.split(), check=True, capture_output=True)
    path.write_bytes(made.stdout)


def _report(binds: int, seconds: float, rounds: int) -> None:
    clients = _client_costs(binds, rounds)
    ours, theirs = (min(clients[name]) for name in ("ours", "aiohttp"))
    print("                       ours     aiohttp    ratio")
    print(f"bind, CPU us       {ours:8.1f}  {theirs:10.1f}  {theirs / ours:6.1f}x")
    for kind, request in (("extender", _FILTER), ("health", _HEALTHZ)):
        found: dict[str, list[ServerCost]] = {"ours": [], "aiohttp": []}
        for _ in range(rounds):
            for name, costs in found.items():
                costs.append(_server_cost(f"{kind}-{name}", request, seconds))
        for field, title in (
            ("cpu_us", "CPU us"),
            ("rss_kib", "RSS KiB"),
            ("start_ms", "start ms"),
        ):
            a, b = (min(getattr(cost, field) for cost in found[name]) for name in found)
            print(f"{kind + ', ' + title:18} {a:8.1f}  {b:10.1f}  {b / a:6.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stowplan.bench.http_costs")
    parser.add_argument("--binds", type=int, default=6400, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args()
    _report(options.binds, options.seconds, options.rounds)


if __name__ == "__main__":
    sys.exit(as_command(main, "the figures above are complete"))
