"""Waits of the test suites and of the control plane: "not yet" in every form, and what ends one."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stowplan.lab.controlplane.api_access import ApiAccess
from tests.waiting import wait_for

UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 8\r\n\r\nnot yet\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
CUT_OFF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhal"
NO_HTTP = b"?\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
STARTING = (b"", NO_HTTP, NOT_FOUND, UNAVAILABLE, CUT_OFF)


@contextmanager
def answering(answers: Sequence[bytes]) -> Iterator[str]:
    """A server that gives these answers, one a connection, and closes each."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def read(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content


def test_a_server_that_starts_is_waited_for() -> None:
    with answering([*STARTING, OK]) as url:
        assert wait_for("the server", lambda: read(f"{url}/readyz") == b"ok")
        nowhere = url
    with pytest.raises(AssertionError, match=r"waiting for: the server; .*Connection refused"):
        wait_for("the server", lambda: read(nowhere), timeout_s=0)


def test_requests_to_a_control_plane_that_starts_are_waited_for() -> None:
    with answering([*STARTING, OK]) as url:
        api = ApiAccess(url, ssl.create_default_context())
        assert [api.answers("/readyz") for _ in STARTING] == [False] * len(STARTING)
        assert api.answers("/readyz")
    with answering([UNAVAILABLE, OK]) as url:
        api = ApiAccess(url, ssl.create_default_context())
        assert wait_for("the API server", lambda: api.raw("GET", "/readyz")) == "ok"


def test_a_file_is_waited_for_until_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    contents = iter(['{"ready": tr', "{}", '{"ready": true}'])

    def look() -> bool:
        ready: bool = json.loads(file.read_text())["ready"] if file.exists() else False
        return ready

    def look_and_write() -> bool:
        try:
            return look()
        finally:
            file.write_text(next(contents, "{}"))

    assert wait_for("the file", look_and_write)


def test_an_assertion_ends_the_wait() -> None:
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        raise AssertionError("the process has ended")

    with pytest.raises(AssertionError, match="the process has ended"):
        wait_for("something", look)
    assert len(looks) == 1
