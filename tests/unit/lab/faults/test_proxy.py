"""Every fault does to a request what it says, seen by a plain HTTP client."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stowplan.lab.faults import ALWAYS, Fault, FaultProxy
from tests.embedded_fixtures import EmbeddedServer
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

NAMESPACES = "/api/v1/namespaces"
CONFIGS = f"{NAMESPACES}/default/configmaps"


class Client:
    """One connection to the proxy, and a second one past it."""

    def __init__(self, proxy: str, server: str) -> None:
        self.proxied = http.client.HTTPConnection(urlsplit(proxy).netloc, timeout=10)
        self.direct = http.client.HTTPConnection(urlsplit(server).netloc, timeout=10)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return _ask(self.proxied, method, path, body)

    def exists(self, name: str) -> bool:
        return _ask(self.direct, "GET", f"{CONFIGS}/{name}")[0] == 200

    def create(self, name: str) -> tuple[int, Any]:
        return self.ask("POST", CONFIGS, config(name))

    def close(self) -> None:
        self.proxied.close()
        self.direct.close()


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    raw = None if body is None else json.dumps(body)
    connection.request(method, path, raw, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.fixture
def proxy(embedded_server: EmbeddedServer) -> Iterator[FaultProxy]:
    with FaultProxy(embedded_server.url, seed=3) as running:
        yield running


@pytest.fixture
def client(proxy: FaultProxy, embedded_server: EmbeddedServer) -> Iterator[Client]:
    made = Client(proxy.url, embedded_server.url)
    yield made
    for item in _ask(made.direct, "GET", CONFIGS)[1]["items"]:
        _ask(made.direct, "DELETE", f"{CONFIGS}/{item['metadata']['name']}")
    made.close()


def test_without_a_fault_requests_pass_on_one_connection(proxy: FaultProxy, client: Client) -> None:
    assert client.create("a")[0] == 201
    first = client.proxied.sock
    assert client.ask("GET", f"{CONFIGS}/a")[1]["metadata"]["name"] == "a"
    assert client.proxied.sock is first
    assert proxy.requests == [("POST", CONFIGS), ("GET", f"{CONFIGS}/a")]


@pytest.mark.parametrize("status", [409, 410, 429, 500, 503])
def test_a_status_instead_of_the_answer(proxy: FaultProxy, client: Client, status: int) -> None:
    fault = proxy.inject(Fault("create", resource="configmaps", status=status))
    answered, body = client.create("a")
    assert (answered, body["kind"], body["code"]) == (status, "Status", status)
    assert not client.exists("a")
    assert client.create("a")[0] == 201
    assert (fault.seen, fault.answered) == (1, 0)


@pytest.mark.parametrize("fields", [{}, {"Retry-After": "7"}])
def test_429_with_and_without_retry_after(
    proxy: FaultProxy, client: Client, fields: dict[str, str]
) -> None:
    proxy.inject(Fault("list", resource="configmaps", status=429, headers=fields))
    client.proxied.request("GET", CONFIGS)
    answer = client.proxied.getresponse()
    answer.read()
    assert (answer.status, answer.getheader("Retry-After")) == (429, fields.get("Retry-After"))


def test_a_delay_comes_before_the_effect(proxy: FaultProxy, client: Client) -> None:
    seen: list[bool] = []
    proxy.inject(Fault("create", delay_s=0.2, before=lambda _: seen.append(client.exists("a"))))
    began = time.monotonic()
    assert client.create("a")[0] == 201
    assert time.monotonic() - began >= 0.2
    assert seen == [False]


def test_reset_before_the_request_took_effect(proxy: FaultProxy, client: Client) -> None:
    proxy.inject(Fault("create", reset="before"))
    with pytest.raises(ConnectionResetError):
        client.create("a")
    assert not client.exists("a")


def test_reset_after_the_request_took_effect(proxy: FaultProxy, client: Client) -> None:
    fault = proxy.inject(Fault("create", reset="after"))
    with pytest.raises(ConnectionResetError):
        client.create("a")
    assert client.exists("a")
    assert fault.answered == 1


def test_delivery_after_the_connection_broke(proxy: FaultProxy, client: Client) -> None:
    fault = proxy.inject(Fault("create", late_s=0.3))
    with pytest.raises(ConnectionResetError):
        client.create("a")
    assert not client.exists("a")
    wait_for("the request to arrive", lambda: fault.answered)
    assert client.exists("a")


def test_half_a_response(proxy: FaultProxy, client: Client) -> None:
    proxy.inject(Fault("list", half=True))
    client.proxied.request("GET", CONFIGS)
    answer = client.proxied.getresponse()
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        answer.read()


def test_a_slow_peer(proxy: FaultProxy, client: Client) -> None:
    proxy.inject(Fault("list", resource="configmaps", bytes_per_s=2000))
    began = time.monotonic()
    status, answer = client.ask("GET", CONFIGS)
    assert (status, answer["items"]) == (200, [])
    assert time.monotonic() - began >= 0.1


def test_a_duplicated_list(proxy: FaultProxy, client: Client) -> None:
    client.create("a")
    client.create("b")
    proxy.inject(Fault("list", resource="configmaps", duplicated=True))
    names = [item["metadata"]["name"] for item in client.ask("GET", CONFIGS)[1]["items"]]
    assert names == ["a", "a", "b", "b"]


def test_a_stale_list_is_the_first_one_seen(proxy: FaultProxy, client: Client) -> None:
    first = client.ask("GET", CONFIGS)
    client.create("a")
    assert len(client.ask("GET", CONFIGS)[1]["items"]) == 1
    proxy.inject(Fault("list", resource="configmaps", stale=True))
    assert client.ask("GET", f"{CONFIGS}?resourceVersion=0") == first
    assert len(client.ask("GET", CONFIGS)[1]["items"]) == 1


def test_a_fault_is_aimed_by_verb_resource_path_and_query(
    proxy: FaultProxy, client: Client
) -> None:
    missed = [
        proxy.inject(Fault("list", resource="pods", times=ALWAYS, status=500)),
        proxy.inject(Fault("get", resource="configmaps", times=ALWAYS, status=500)),
        proxy.inject(Fault("POST", path="/pods$", times=ALWAYS, status=500)),
        proxy.inject(Fault("GET", query="limit=9", times=ALWAYS, status=500)),
    ]
    assert client.create("a")[0] == 201
    assert client.ask("GET", CONFIGS)[0] == 200
    assert [fault.seen for fault in missed] == [0, 0, 0, 0]
    assert client.ask("GET", f"{CONFIGS}/a")[0] == 500
    assert client.ask("GET", f"{CONFIGS}?limit=9")[0] == 500


def test_chance_follows_the_seed(embedded_server: EmbeddedServer) -> None:
    def play(seed: int) -> list[int]:
        with FaultProxy(embedded_server.url, seed=seed) as proxy:
            proxy.inject(Fault("list", times=ALWAYS, chance=0.5, status=500))
            client = Client(proxy.url, embedded_server.url)
            statuses = [client.ask("GET", CONFIGS)[0] for _ in range(30)]
            client.close()
        return statuses

    assert play(1) == play(1)
    assert play(1) != play(2)
    assert {*play(1)} == {200, 500}


def test_a_cut_breaks_old_and_new_connections_until_it_ends(
    proxy: FaultProxy, client: Client
) -> None:
    assert client.ask("GET", CONFIGS)[0] == 200
    proxy.go_away()
    for _ in range(2):
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            client.ask("GET", CONFIGS)
        client.proxied.close()
    proxy.come_back()
    assert client.ask("GET", CONFIGS)[0] == 200


def test_an_idle_client_notices_that_the_api_server_went() -> None:
    """As without a proxy: the kernel closes a killed server's connections."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        FaultProxy(f"http://127.0.0.1:{server.getsockname()[1]}") as proxy,
        socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port or 0), 10) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        upstream, _ = server.accept()
        with upstream:
            upstream.recv(1000)
            upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            assert client.recv(1000).endswith(b"ok")
        assert client.recv(1000) == b""


def test_other_tokens_than_the_accepted_one_are_refused(proxy: FaultProxy, client: Client) -> None:
    def status(token: str) -> int:
        client.proxied.request("GET", CONFIGS, headers={"Authorization": f"Bearer {token}"})
        answer = client.proxied.getresponse()
        answer.read()
        return answer.status

    proxy.accepted_token = "old"
    assert (status("old"), status("new")) == (200, 401)
    proxy.accepted_token = "new"
    assert (status("old"), status("new")) == (401, 200)


def test_a_rotated_certificate_is_shown_to_new_connections(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    authority = Authority()
    files = [tmp_path / "one.pem", tmp_path / "two.pem"]
    for file in files:
        pair = authority.server()
        file.write_bytes(pair.cert + pair.key)
    context = ssl.create_default_context(cadata=authority.cert.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def shown(proxy: FaultProxy) -> Any:
        address = urlsplit(proxy.url).netloc
        connection = http.client.HTTPSConnection(address, context=context, timeout=10)
        assert _ask(connection, "GET", CONFIGS)[0] == 200
        certificate = connection.sock.getpeercert(binary_form=True)
        connection.close()
        return certificate

    with FaultProxy(embedded_server.url, certificate=files[0]) as proxy:
        first = shown(proxy)
        assert shown(proxy) == first
        proxy.rotate_certificate(files[1])
        assert shown(proxy) != first
