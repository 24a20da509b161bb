"""`stowplan extender` as a process: its lines, ports, sockets, certificates and end."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import stat
from pathlib import Path

import pytest

from stowplan.extender.serving import BANNER
from tests.integration.extender_kit import NOP, UnixConnection, extender
from tests.integration.warm_python import WarmProcess
from tests.unit.api.tls_kit import Authority, Pair
from tests.waiting import wait_for

SEED = """\
loggers:
  scheduler.main: DEBUG
algorithm: !NOPAlgorithm
  ...
"""
ARGS = {
    "Pod": {"metadata": {"name": "a", "namespace": "default"}},
    "Nodes": None,
    "NodeNames": ["n1"],
}


def test_the_originals_example_with_its_lines(tmp_path: Path) -> None:
    with extender(tmp_path, SEED) as running:
        assert running.ask("/status") is True
        assert running.end() == 0
        assert running.log.startswith("W")
        lines = [BANNER, f"started PID={running.process.pid}", "Starting wca-scheduler."]
        assert [line for line in lines if line not in running.log] == []


def test_the_lines_about_requests(tmp_path: Path) -> None:
    levels = "loggers: {scheduler.main: DEBUG, scheduler.server: DEBUG}\n"
    with extender(tmp_path, levels + NOP) as running:
        assert running.ask("/filter", ARGS)["NodeNames"] == ["n1"]
        assert running.ask("/api/scheduler/prioritize", ARGS) == [{"Host": "n1", "Score": 0}]
        assert running.end() == 0
        log = running.log
    lines = [
        BANNER,
        f"started PID={running.process.pid}",
        "Starting wca-scheduler.",
        "[Filter] Trying to filter nodes for Pod 'a'",
        "[Filter] Result: ExtenderFilterResult(",
        "[Prioritize-server] Trying to prioritize nodes for Pod 'a'",
        "[Prioritize-server] Result: [n1=0]",
        '"Stopped"',
    ]
    places = [log.find(line) for line in lines]
    assert places == sorted(places), log
    assert -1 not in places, log


def test_a_quiet_one_says_nothing_about_pods(tmp_path: Path) -> None:
    with extender(tmp_path) as running:
        running.ask("/filter", ARGS)
        assert running.end() == 0
        assert BANNER in running.log
        assert "[Filter]" not in running.log


def test_the_end_waits_for_a_request_under_way(tmp_path: Path) -> None:
    with extender(tmp_path) as running:
        idle = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        idle.request("GET", "/status")
        idle.getresponse().read()
        body = json.dumps(ARGS).encode()
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
            client.sendall(head + body[:-1])
            running.ask("/status")  # so that what was sent before is with the server
            running.process.send_signal(signal.SIGTERM)
            wait_for("the end to begin", lambda: '"Ending"' in running.log)
            client.sendall(body[-1:])
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nConnection: close\r\n" in answer
        assert running.process.wait(30) == 0
        idle.close()
        assert "Requests did not end in time" not in running.log


def test_the_end_does_not_wait_for_ever(tmp_path: Path) -> None:
    with (
        extender(tmp_path, NOP, "--drain-timeout=100ms") as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=30) as client,
    ):
        client.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\n")
        running.ask("/status")
        assert running.end() == 0
        assert '"Requests did not end in time" connections=1' in running.log


BY_GET = """\
kubeapi: !Kubeapi {host: 'http://127.0.0.1', port: 1}
reschedule_by_get: true
algorithm: !NOPAlgorithm
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_get_that_deletes_pods_is_warned_about_and_reads_its_query(
    tmp_path: Path, workers: int
) -> None:
    with extender(tmp_path, BY_GET, f"--workers={workers}") as running:
        assert running.log.count('"GET /reschedule deletes pods"') == 1
        assert 'hint="prefer POST with reschedule_token_file"' in running.log
        in_vain = '"Rescheduling is on, but the algorithm never names a pod"'
        assert running.log.count(f'{in_vain} algorithm="NOPAlgorithm"') == 1
        for path, problem in (
            ("/reschedule?dryrun=true", "did you mean dryRun"),
            ("/reschedule?dryRun=true", "nodes and pods of the cluster are not known yet"),
        ):
            for _ in range(workers):  # one after the other
                with pytest.raises(AssertionError, match=problem):
                    running.ask(path)


def test_a_socket_for_a_proxy(tmp_path: Path) -> None:
    path = tmp_path / "extender.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with extender(tmp_path, NOP, f"--socket={path}", "--socket-mode=600", port=None) as running:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert f'"Serving" socket="{path}"' in running.log
        assert "url=" not in running.log
        connection = UnixConnection(path)
        connection.request("POST", "/filter", json.dumps(ARGS))
        assert json.loads(connection.getresponse().read())["NodeNames"] == ["n1"]
        connection.close()

        log = tmp_path / "second.log"
        config = tmp_path / "extender.yaml"
        second = WarmProcess(
            ["-m", "stowplan", "extender", f"--config={config}", f"--socket={path}"], log
        )
        assert second.wait(30) == 2
        assert f"Error: --socket: {path} is served by another process\n" in log.read_text()
        assert path.exists()

        assert running.end() == 0
        assert not path.exists()


def test_a_socket_beside_a_port(tmp_path: Path) -> None:
    path = tmp_path / "extender.sock"
    with extender(tmp_path, NOP, f"--socket={path}") as running:
        wait_for("the socket", path.exists)
        assert running.ask("/status") is True


def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    (tmp_path / "config.yaml").write_text(NOP)
    log = tmp_path / "log"
    words = ["-m", "stowplan", "extender", f"--config={tmp_path}/config.yaml", f"--socket={path}"]
    assert WarmProcess(words, log).wait(30) == 2
    assert log.read_text().endswith(f"Error: --socket: {path} exists and is not a socket\n")
    assert path.read_text() == "mine"


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with extender(tmp_path) as running:
        log = tmp_path / "second.log"
        words = ["-m", "stowplan", "extender", f"--config={tmp_path}/extender.yaml"]
        words += [f"--port={running.port}", "--bind-address=127.0.0.1"]
        assert WarmProcess(words, log).wait(30) == 2
        assert (
            f"Error: --port, --bind-address: cannot listen on 127.0.0.1:{running.port}: Address "
            "already in use; choose another address or port\n"
        ) in log.read_text()


def _store(tmp_path: Path, pair: Pair) -> None:
    (tmp_path / "tls.crt").write_bytes(pair.cert)
    (tmp_path / "tls.key").write_bytes(pair.key)


def _status(
    port: int,
    authority: Authority,
    client: Path | None = None,
    names: tuple[str, ...] = ("n1",),
) -> int:
    context = ssl.create_default_context(cadata=authority.cert.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if client is not None:
        context.load_cert_chain(client)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        connection.request("POST", "/filter", json.dumps(ARGS | {"NodeNames": names}))
        answer = connection.getresponse()
        content = json.loads(answer.read())
        assert answer.status != 200 or content["NodeNames"] == list(names)
        return answer.status
    finally:
        connection.close()


def test_https_with_files_that_change(tmp_path: Path) -> None:
    old, new, clients = Authority("old"), Authority("new"), Authority("clients")
    _store(tmp_path, old.server())
    (tmp_path / "ca.crt").write_bytes(clients.cert)
    pair = clients.client("kube-scheduler")
    certificate = tmp_path / "client.pem"
    certificate.write_bytes(pair.cert + pair.key)
    flags = (
        f"--tls-cert-file={tmp_path}/tls.crt",
        f"--tls-private-key-file={tmp_path}/tls.key",
        f"--client-ca-file={tmp_path}/ca.crt",
    )
    with extender(tmp_path, NOP, *flags) as running:
        assert _status(running.port, old, certificate) == 200
        assert _status(running.port, old) == 401
        many = tuple(f"node-{number:030}" for number in range(100_000))
        assert _status(running.port, old, certificate, many) == 200
        _store(tmp_path, new.server())
        wait_for("the new certificate", lambda: "Changed files are in use" in running.log)
        assert _status(running.port, new, certificate) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            _status(running.port, old, certificate)
        assert running.end() == 0
