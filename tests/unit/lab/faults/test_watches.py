"""Every fault of a watch does what it says, seen by a plain HTTP client."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from stowplan.lab.faults import Fault, FaultProxy
from tests.embedded_fixtures import EmbeddedServer
from tests.unit.lab.faults.test_proxy import CONFIGS, _ask, config
from tests.waiting import wait_for


class Stage:
    """A server with a proxy, a watch through it, and a way past it to make events."""

    def __init__(self, proxy: FaultProxy, server: EmbeddedServer) -> None:
        self.proxy = proxy
        self._direct = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        self._made = 0

    def happen(self, count: int = 1) -> None:
        for _ in range(count):
            self._made += 1
            assert _ask(self._direct, "POST", CONFIGS, config(f"w{self._made}"))[0] == 201

    @contextmanager
    def watch(self) -> Iterator[http.client.HTTPResponse]:
        version = _ask(self._direct, "GET", CONFIGS)[1]["metadata"]["resourceVersion"]
        address = urlsplit(self.proxy.url).netloc
        connection = http.client.HTTPConnection(address, timeout=1.5)
        connection.request("GET", f"{CONFIGS}?watch=1&resourceVersion={version}")
        answer = connection.getresponse()
        yield answer
        answer.close()
        connection.close()

    def end(self) -> None:
        for item in _ask(self._direct, "GET", CONFIGS)[1]["items"]:
            _ask(self._direct, "DELETE", f"{CONFIGS}/{item['metadata']['name']}")
        self._direct.close()


@pytest.fixture
def stage(embedded_server: EmbeddedServer) -> Iterator[Stage]:
    with FaultProxy(embedded_server.url) as proxy:
        made = Stage(proxy, embedded_server)
        yield made
        made.end()


def names(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


def test_events_pass_as_they_come(stage: Stage) -> None:
    with stage.watch() as answer:
        stage.happen()
        assert names([answer.readline()]) == ["w1"]
        stage.happen()
        assert names([answer.readline()]) == ["w2"]


def test_garbage_between_events(stage: Stage) -> None:
    stage.proxy.inject(Fault("watch", after=1, garbage=b"\xff{{\n"))
    with stage.watch() as answer:
        stage.happen(2)
        lines = [answer.readline() for _ in range(3)]
    assert lines[1] == b"\xff{{\n"
    assert names([lines[0], lines[2]]) == ["w1", "w2"]


def test_a_silent_watch_stays_open(stage: Stage) -> None:
    stage.proxy.inject(Fault("watch", after=1, silent=True))
    with stage.watch() as answer:
        stage.happen(2)
        assert names([answer.readline()]) == ["w1"]
        with pytest.raises(TimeoutError):
            answer.readline()


def test_a_watch_that_ends(stage: Stage) -> None:
    stage.proxy.inject(Fault("watch", after=1, ends=True))
    with stage.watch() as answer:
        stage.happen(2)
        assert names(answer.readlines()) == ["w1"]


def test_an_expired_version_in_the_stream(stage: Stage) -> None:
    stage.proxy.inject(Fault("watch", expires=True))
    with stage.watch() as answer:
        (event,) = map(json.loads, answer.readlines())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_half_an_event(stage: Stage) -> None:
    stage.proxy.inject(Fault("watch", after=1, half=True))
    with stage.watch() as answer:
        stage.happen(2)
        assert names([answer.readline()]) == ["w1"]
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            answer.read()


def test_cut_watches_break_and_new_ones_work(stage: Stage) -> None:
    with stage.watch() as answer:
        stage.happen()
        answer.readline()
        stage.proxy.cut_watches()
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            answer.read()
    with stage.watch() as answer:
        stage.happen()
        assert names([answer.readline()]) == ["w2"]


def test_swallowed_watches_are_silent_and_new_ones_work(stage: Stage) -> None:
    with stage.watch() as answer:
        stage.happen()
        answer.readline()
        stage.proxy.swallow_watches()
        with stage.watch() as another:
            stage.happen()
            assert names([another.readline()]) == ["w2"]
        with pytest.raises(TimeoutError):
            answer.readline()


def test_stalled_watches_deliver_later(stage: Stage) -> None:
    with stage.watch() as answer:
        stage.happen()
        answer.readline()
        stage.proxy.is_stalled = True
        wait_for("the stall", lambda: stage.proxy.is_stalled)
        stage.happen()
        stage.proxy.is_stalled = False
        assert names([answer.readline()]) == ["w2"]
