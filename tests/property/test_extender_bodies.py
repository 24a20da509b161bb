"""Bodies that nobody should send, to a real extender over a real socket: junk, truncated, changed,
of the wrong types. Never an answer of 500 or more, never a stuck connection, never more memory.

A few hundred with the other tests; `make fuzz-extender` (or EXTENDER_BODIES=10000) sends more.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.extender_kit import ExtenderProcess, extender

BODIES = int(os.environ.get("EXTENDER_BODIES", "300"))
#: What a Python process may do with its memory without anything being kept.
SLACK = 6 * 1024 * 1024
DATA = Path(__file__).parents[1] / "data" / "extender_reference.json"
REAL = {case["name"]: case["text"].encode() for case in json.loads(DATA.read_text())["bodies"]}
PATHS = ("/filter", "/prioritize", "/preempt", "/bind", "/api/scheduler/filter", "/nowhere")
FINE = {200, 400, 404}
#: The timeout of a test is for all its examples.
pytestmark = pytest.mark.timeout(60 + BODIES // 5)
sent = settings(
    max_examples=BODIES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtenderProcess]:
    directory = tmp_path_factory.mktemp("extender")
    with extender(directory) as running:
        yield running
        assert "Traceback" not in running.log
        assert "internal error" not in running.log
        assert running.end() == 0


@pytest.fixture(scope="module")
def connection(served: ExtenderProcess) -> Iterator[http.client.HTTPConnection]:
    """One for all bodies: none may spoil it for the next."""
    opened = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    yield opened
    opened.close()


def post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, Any]:
    connection.request("POST", path, body)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    assert answer.status in FINE, (path, body, content)
    if answer.status != 200:
        assert isinstance(content["Error"], str)
        assert content["Error"]
    return answer.status, content


def changed(body: bytes, dice: random.Random) -> bytes:
    """A real body after a few accidents."""
    text = bytearray(body)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        at = dice.randrange(len(text) + 1)
        until = at + dice.choice((0, 1, 2, 10, 100))
        match dice.randrange(6):
            case 0:
                del text[at:]
            case 1:
                del text[at:until]
            case 2:
                text[at:until] = dice.randbytes(dice.randint(1, 8))
            case 3:
                text[at:at] = text[at:until] * dice.randint(1, 50)
            case 4:
                text[at:at] = dice.choice(
                    (b"null", b'"', b"{", b"[[[[", b"1e999", b"\\ud800", b"-", b"\x00", b"\xff")
                )
            case _:
                text[at:until] = text[at:until].swapcase()
        text = text or bytearray(b"{}")
    return bytes(text)


def path_of(name: str, dice: random.Random) -> str:
    """Mostly the one that a body is meant for."""
    if dice.random() < 0.8:
        for begin, paths in (
            ("args", ("/filter", "/prioritize")),
            ("preemption", ("/preempt",)),
            ("binding", ("/bind",)),
        ):
            if name.startswith(begin):
                return dice.choice(paths)
    return dice.choice(PATHS)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
metadata = st.fixed_dictionaries(
    {}, optional={"name": st.text() | json_values, "namespace": json_values, "uid": json_values}
)
objects = st.fixed_dictionaries({}, optional={"metadata": metadata | json_values})
victims = st.fixed_dictionaries(
    {}, optional={"Pods": st.lists(objects | json_values), "NumPDBViolations": json_values}
)
keys = {
    "Pod": objects | json_values,
    "Nodes": json_values
    | st.lists(objects | json_values)
    | st.fixed_dictionaries({"items": st.lists(objects) | json_values}),
    "NodeNames": st.lists(st.text()) | json_values,
    "NodeNameToVictims": st.dictionaries(st.text(), victims | json_values) | json_values,
    "NodeNameToMetaVictims": st.dictionaries(st.text(), victims | json_values) | json_values,
    "PodName": json_values,
    "PodNamespace": json_values,
    "PodUID": json_values,
    "Node": json_values,
}
almost_bodies = st.fixed_dictionaries({}, optional=keys)
cases = st.sampled_from([str, str.lower, str.upper, str.swapcase])


@sent
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=500))
def test_junk(connection: http.client.HTTPConnection, path: str, body: bytes) -> None:
    status, _ = post(connection, path, body)
    assert status != 200


@sent
@given(path=st.sampled_from(PATHS), content=almost_bodies | json_values, case=cases)
def test_wrong_types(
    connection: http.client.HTTPConnection, path: str, content: Any, case: Any
) -> None:
    if isinstance(content, dict):
        content = {case(key): value for key, value in content.items()}
    post(connection, path, json.dumps(content).encode())


@sent
@given(data=st.binary(max_size=300) | st.sampled_from(list(REAL.values())))
def test_junk_instead_of_http(served: ExtenderProcess, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


def test_real_bodies_after_accidents_and_memory_stays_flat(
    served: ExtenderProcess, connection: http.client.HTTPConnection
) -> None:
    dice = random.Random(8)
    seen: dict[int, int] = {}

    def send(count: int) -> int:
        for _ in range(count):
            name, body = dice.choice(list(REAL.items()))
            text = changed(body, dice) if dice.random() < 0.9 else body
            status, _ = post(connection, path_of(name, dice), text)
            seen[status] = seen.get(status, 0) + 1
        return served.resident_bytes()

    before = send(BODIES)
    after = send(2 * BODIES)
    assert after - before < SLACK, f"{before} bytes became {after}"
    assert min(seen[200], seen[400]) > BODIES // 10, seen


def test_a_large_body_leaves_no_memory_behind(
    served: ExtenderProcess, connection: http.client.HTTPConnection
) -> None:
    node = {"metadata": {"name": "n"}, "status": {"images": ["x" * 100] * 200}}
    body = json.dumps({"Pod": {}, "Nodes": {"items": [node] * 1000}}).encode()
    for _ in range(2):
        post(connection, "/filter", body)
    before = served.resident_bytes()
    for _ in range(4):
        status, content = post(connection, "/filter", body)
        assert (status, len(content["Nodes"]["items"])) == (200, 1000)
    assert served.resident_bytes() - before < SLACK + 2 * len(body)
