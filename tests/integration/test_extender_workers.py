"""`stowplan extender --workers`: connections in turn, one that dies is replaced, none is left."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.integration.extender_kit import NOP, ExtenderProcess, UnixConnection, extender
from tests.integration.warm_python import WarmProcess
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

ARGS = {"Pod": {"metadata": {"name": "a", "namespace": "default"}}, "NodeNames": ["n1"]}
COUNT = re.compile(r'^wca_scheduler_filter\{worker="(\d)"\} (\d+)$', re.MULTILINE)
UP = re.compile(r'^wca_scheduler_worker_up\{worker="(\d)"\} 1$', re.MULTILINE)


def workers_of(running: ExtenderProcess) -> list[int]:
    pid = running.process.pid
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    """Or at least waits only to be noticed by whoever has to."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def crew(directory: Path, *flags: str, count: int = 2) -> Iterator[ExtenderProcess]:
    with extender(directory, NOP, f"--workers={count}", *flags) as running:
        wait_for("the workers", lambda: len(workers_of(running)) == count)
        workers = workers_of(running)
        yield running
    wait_for("all to be gone", lambda: all(map(is_gone, workers)))


def text_of(running: ExtenderProcess, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def metrics_of(running: ExtenderProcess) -> str:
    """The page, once all workers tell theirs."""

    def page() -> str | None:
        found = text_of(running, "/metrics")
        return found if found.count("worker_up{") == len(UP.findall(found)) else None

    return wait_for("every worker's metrics", page)


def counts(running: ExtenderProcess) -> dict[str, int]:
    """Requests to filter by worker."""
    return {worker: int(count) for worker, count in COUNT.findall(metrics_of(running))}


def test_connections_are_dealt_out_in_turn(tmp_path: Path) -> None:
    with crew(tmp_path) as running:
        clients = [http.client.HTTPConnection("127.0.0.1", running.port) for _ in range(6)]
        for _ in range(5):
            for client in clients:
                client.request("POST", "/filter", json.dumps(ARGS))
                assert json.loads(client.getresponse().read())["NodeNames"] == ["n1"]
        assert counts(running) == {"0": 15, "1": 15}
        for client in clients:
            client.close()
        assert running.end() == 0
        assert running.log.count('"Ending"') == 3
        assert running.log.count('"Stopped"') == 3


def test_metrics_tell_of_every_worker_in_one_place(tmp_path: Path) -> None:
    with crew(tmp_path) as running:
        lines = metrics_of(running).splitlines()
        types = Counter(line for line in lines if line.startswith("# TYPE"))
        assert set(types.values()) == {1}
        cpu = [line for line in lines if line.startswith("process_cpu_seconds_total")]
        assert [line.split(" ")[0] for line in cpu] == [
            'process_cpu_seconds_total{worker="0"}',
            'process_cpu_seconds_total{worker="1"}',
        ]
        assert 'wca_scheduler_request_duration_seconds_count{worker="1",verb="bind"} 0' in lines


def is_replaced(running: ExtenderProcess, worker: int) -> bool:
    workers = workers_of(running)
    return len(workers) == 2 and worker not in workers


def test_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with crew(tmp_path) as running:
        for killed in workers_of(running):
            os.kill(killed, signal.SIGKILL)
            wait_for("another", partial(is_replaced, running, killed))
            line = rf'"A worker ended; starting another" worker=\d pid={killed} how="signal 9"'
            assert re.search(line, running.log), running.log
        for _ in range(4):
            assert running.ask("/filter", ARGS)["NodeNames"] == ["n1"]
        assert sum(counts(running).values()) == 4
        new = workers_of(running)
        assert running.end() == 0
        assert all(map(is_gone, new))


def test_the_end_waits_for_requests_under_way(tmp_path: Path) -> None:
    body = json.dumps(ARGS).encode()
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with crew(tmp_path) as running:
        clients = [socket.create_connection(("127.0.0.1", running.port), 30) for _ in range(2)]
        for client in clients:
            client.sendall(head + body[:-1])
        counts(running)  # so that both have taken what was sent before
        running.process.send_signal(signal.SIGINT)
        wait_for("the end to begin", lambda: running.log.count('"Ending"') == 3)
        for client in clients:
            client.sendall(body[-1:])
            answer = b""
            while piece := client.recv(65536):
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"\r\nConnection: close\r\n" in answer
            client.close()
        assert running.process.wait(30) == 0


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with (
        crew(tmp_path) as running,
        socket.create_connection(("127.0.0.1", running.port), 30) as client,
    ):
        client.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\n")
        counts(running)
        running.process.send_signal(signal.SIGTERM)
        wait_for("the end to begin", lambda: '"Ending"' in running.log)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 1


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with crew(tmp_path) as running:
        counts(running)
        running.process.kill()
        running.process.wait(30)


def test_a_socket_and_a_port(tmp_path: Path) -> None:
    path = tmp_path / "extender.sock"
    with crew(tmp_path, f"--socket={path}") as running:
        wait_for("the socket", path.exists)
        for _ in range(2):
            connection = UnixConnection(path)
            connection.request("POST", "/filter", json.dumps(ARGS))
            assert json.loads(connection.getresponse().read())["NodeNames"] == ["n1"]
            connection.close()
            assert running.ask("/status") is True
        assert sum(counts(running).values()) == 2
        assert running.end() == 0
        assert not path.exists()


def test_every_worker_serves_https(tmp_path: Path) -> None:
    authority = Authority("ours")
    pair = authority.server()
    (tmp_path / "tls.crt").write_bytes(pair.cert)
    (tmp_path / "tls.key").write_bytes(pair.key)
    flags = (
        f"--tls-cert-file={tmp_path}/tls.crt",
        f"--tls-private-key-file={tmp_path}/tls.key",
        f"--socket={tmp_path}/extender.sock",
    )
    context = ssl.create_default_context(cadata=authority.cert.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with crew(tmp_path, *flags) as running:
        with socket.create_connection(("127.0.0.1", running.port), 30) as rude:
            rude.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not rude.recv(100).startswith(b"HTTP/1.1 200")
        names = [f"node-{number:030}" for number in range(50_000)]
        for _ in range(4):
            client = http.client.HTTPSConnection(
                "127.0.0.1", running.port, timeout=30, context=context
            )
            client.request("POST", "/filter", json.dumps(ARGS | {"NodeNames": names}))
            assert json.loads(client.getresponse().read())["NodeNames"] == names
            client.close()
        connection = UnixConnection(tmp_path / "extender.sock")
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        assert sorted(COUNT.findall(page)) == [("0", "2"), ("1", "2")]
        assert running.end() == 0


def test_a_wrong_file_is_told_once(tmp_path: Path) -> None:
    config, log = tmp_path / "config.yaml", tmp_path / "log"
    config.write_text(NOP)
    words = ["-m", "stowplan", "extender", f"--config={config}", "--workers=2", "--port=0"]
    assert WarmProcess([*words, f"--token-file={tmp_path}/none"], log).wait(30) == 2
    assert log.read_text().count("Error: --token-file: cannot read") == 1
    assert "worker" not in log.read_text()
