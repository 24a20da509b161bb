"""The client that asks extenders, the questions, and what counts as a right answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stowplan.lab.bench.extender import _parsed
from stowplan.lab.bench.extender_bodies import (
    Mode,
    WrongAnswer,
    check_filter,
    check_prioritize,
    node,
    node_name,
    question,
)
from stowplan.lab.bench.extender_load import Effort, LoadError, Verb, ask_once, put_load


class Server:
    """Answers each request on a connection as it is told to, in threads."""

    def __init__(self, answer: bytes, *, is_last: bool = False) -> None:
        self.answer = answer
        self.is_last = is_last
        self.accepted = 0
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while first := stream.readline():
                length = 0
                while (line := stream.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.requests.append(first + stream.read(length))
                connection.sendall(self.answer)
                if self.is_last:
                    return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def serving(answer: bytes, *, is_last: bool = False) -> Iterator[Server]:
    server = Server(answer, is_last=is_last)
    try:
        yield server
    finally:
        server.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
VERBS = (
    Verb(b"POST /filter HTTP/1.1\r\nContent-Length: 1\r\n\r\n1", 4),
    Verb(b"POST /prioritize HTTP/1.1\r\nContent-Length: 1\r\n\r\n2", 4),
)
SHORT = Effort(0.05, at_least=10, at_most_s=30)


def test_connections_are_kept_and_verbs_take_turns() -> None:
    with serving(OK) as server:
        load = put_load(server.port, VERBS, 2, SHORT)
    assert load.errors == []
    assert (load.connections_made, server.accepted) == (2, 2)
    assert len(load.latencies_s) == len(server.requests) >= 10
    filters = sum(each.startswith(b"POST /filter") for each in server.requests)
    assert abs(2 * filters - len(server.requests)) <= 2
    assert 0 < min(load.latencies_s) <= max(load.latencies_s) <= load.seconds


def test_a_server_that_closes_is_connected_to_anew() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 4\r\n\r\ntrue"
    with serving(closing, is_last=True) as server:
        load = put_load(server.port, VERBS, 3, SHORT)
    assert load.errors == []
    assert load.connections_made == len(load.latencies_s) >= 10


def test_long_bodies_both_ways() -> None:
    size = 5_000_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    body = b"y" * size
    verb = Verb(b"POST /filter HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size + body, size)
    with serving(answer) as server:
        load = put_load(server.port, [verb], 2, Effort(0.01))
        assert server.requests[0].endswith(body)
    assert load.errors == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\ntrue", "answered with status 500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes", "answered with 3 bytes instead of 4"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore than",
            "more was answered",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the connection was closed before the answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "answered with None bytes"),
    ],
)
def test_wrong_answers_are_counted_and_end_it(answer: bytes, problem: str) -> None:
    with (
        serving(answer, is_last=True) as server,
        pytest.raises(LoadError, match="100 requests failed; the last: ") as failed,
    ):
        put_load(server.port, VERBS, 2, Effort(30))
    assert problem in str(failed.value)


def test_nobody_there() -> None:
    with serving(OK) as server:
        port = server.port
    with pytest.raises(LoadError, match="cannot connect"):
        put_load(port, VERBS, 1, SHORT)
    with pytest.raises(LoadError):
        ask_once(port, VERBS[0].request)


def test_few_answers_take_longer() -> None:
    effort = Effort(2.0, at_least=32, at_most_s=6.0)
    assert not effort.is_over(1.9, 1000)
    assert effort.is_over(2.0, 32)
    assert not effort.is_over(5.9, 31)
    assert effort.is_over(6.0, 0)


@pytest.mark.parametrize("mode", list(Mode))
def test_questions_are_what_kube_scheduler_asks(mode: Mode) -> None:
    asked = question(mode, 3)
    filter_request, prioritize_request = asked.requests[0]
    head, _, body = filter_request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /filter HTTP/1.1\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    args = json.loads(body)
    assert list(args) == ["Pod", "Nodes", "NodeNames"]
    names = list(map(node_name, range(3)))
    if mode is Mode.NAMES:
        assert (args["Nodes"], args["NodeNames"]) == (None, names)
    else:
        assert args["NodeNames"] is None
        assert [each["metadata"]["name"] for each in args["Nodes"]["items"]] == names
    assert prioritize_request.startswith(b"POST /prioritize HTTP/1.1\r\n")
    assert prioritize_request.endswith(body)


def test_names_come_in_another_order_from_pod_to_pod() -> None:
    bodies = [
        filter_request.partition(b"\r\n\r\n")[2]
        for filter_request, _ in question(Mode.NAMES, 200).requests
    ]
    assert len(set(bodies)) == len(bodies) == 64
    orders = [json.loads(body)["NodeNames"] for body in bodies]
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}
    assert {len(body) for body in bodies} == {len(bodies[0])}


def test_a_node_is_as_large_as_a_real_one() -> None:
    assert 4 * 1024 < len(json.dumps(node(1), separators=(",", ":"))) < 10 * 1024
    assert len(set(map(node_name, range(5000)))) == 5000


def test_right_and_wrong_answers() -> None:
    names, nodes = question(Mode.NAMES, 2), question(Mode.NODES, 2)
    right: dict[str, object] = {"NodeNames": [node_name(0), node_name(1)], "Error": ""}
    check_filter(names, json.dumps(right).encode())
    whole = {"Nodes": {"items": [node(0), node(1)]}, "FailedNodes": {}}
    check_filter(nodes, json.dumps(whole).encode())
    scores = [{"Host": node_name(0), "Score": 0}, {"Host": node_name(1), "Score": 0}]
    check_prioritize(names, json.dumps(scores).encode())
    check_prioritize(nodes, json.dumps(scores).encode())
    for asked, wrong in (
        (names, right | {"NodeNames": [node_name(0)]}),
        (names, right | {"Error": "no"}),
        (names, right | {"FailedNodes": {node_name(1): "no"}}),
        (nodes, right),
        (nodes, {"Nodes": {"items": [node(0), node(2)]}}),
    ):
        with pytest.raises(WrongAnswer):
            check_filter(asked, json.dumps(wrong).encode())
    for wrong_scores in (scores[:1], scores[::-1], [scores[0], scores[1] | {"Score": 1}]):
        with pytest.raises(WrongAnswer):
            check_prioritize(names, json.dumps(wrong_scores).encode())
    with pytest.raises(WrongAnswer, match="not JSON"):
        check_prioritize(names, b"true or false")


def test_the_defaults_are_those_of_the_acceptance() -> None:
    options = _parsed([])
    assert (options.rounds, options.sizes, options.workers) == (3, (100, 1000, 5000), (1, 2, 4))
    assert (options.modes, options.gunicorn_worker_class) == (("names", "nodes"), "sync")
    quick = _parsed(["--quick"])
    assert (quick.rounds, quick.seconds) == (1, 0.4)


@pytest.mark.parametrize("flag", ["--rounds=-1", "--sizes=0,1", "--workers=x", "--modes=pods"])
def test_flags_that_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parsed([flag])
    assert "error:" in capsys.readouterr().err
