"""A console beyond loopback: HTTPS and a token, over plain requests and in a real browser."""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.browser import Tab, open_browser
from tests.embedded_fixtures import EmbeddedServer
from tests.integration.test_console_pages import (
    STATUS,
    TEXT,
    press,
    serious_findings,
    until,
    until_text,
)
from tests.waiting import wait_for

TOKEN = "a-long-token-of-this-test"
COOKIE = "__Host-stowplan-console"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: http.client.HTTPMessage


class Client:
    """Requests to a console on HTTPS whose certificate is self-signed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"https://127.0.0.1:{port}"

    def ask(self, path: str, method: str = "GET", body: object = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        tls = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=tls)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, f"/console/{path}", sent, named)
            response = connection.getresponse()
            text = response.read()
            is_json = response.headers["Content-Type"] == "application/json"
            return Answer(response.status, json.loads(text) if is_json else text, response.headers)
        finally:
            connection.close()

    @contextmanager
    def events(self, cookie: str) -> Iterator[http.client.HTTPResponse]:
        """The stream of events of a session."""
        tls = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=tls)
        try:
            connection.request("GET", "/console/api/events", headers={"Cookie": cookie})
            yield connection.getresponse()
        finally:
            connection.close()

    def sign_in(self, token: str, **headers: str) -> Answer:
        own = {"Origin": self.url, "Content-Type": "application/json", **headers}
        return self.ask("api/session", "POST", {"token": token}, **own)


@contextmanager
def serving(log: Path, *arguments: str) -> Iterator[Client]:
    """A console with sign-in as a process."""
    command = [sys.executable, "-m", "stowplan", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:

        def port() -> str | None:
            assert process.poll() is None, log.read_text()
            found = re.search(r"https://[^/ ]+:(\d+)/console/", log.read_text())
            return found[1] if found else None

        yield Client(int(wait_for("the console's address", port)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
        assert TOKEN not in log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(scope="module")
def client(
    embedded_server: EmbeddedServer, token_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    log = tmp_path_factory.mktemp("console") / "log"
    options = ("--bind-address", "0.0.0.0", "--port", "0", "--token-file", str(token_file))
    kubeconfig = str(embedded_server.kubeconfig_path)
    with serving(log, "console", *options, "--kubeconfig", kubeconfig) as opened:
        yield opened


def test_what_needs_a_token(client: Client) -> None:
    refused = client.ask("api/cluster")
    assert (refused.status, "sign in" in refused.body["Error"]) == (401, True)
    assert refused.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for path in ("api/queue", "api/flow", "api/pods", "api/events", "api/session", "api/nothing"):
        assert client.ask(path).status == 401
    assert client.ask("api/cluster", Authorization="Bearer wrong").status == 401
    assert client.ask("api/cluster", Authorization=f"Basic {TOKEN}").status == 401
    assert client.ask("api/cluster", Authorization=f"Bearer {TOKEN}").status == 200
    # The pages themselves are files of the package.
    assert client.ask("").status == client.ask("sign-in.html").status == 200


def test_a_session_begins_and_ends(client: Client) -> None:
    begun = client.sign_in(TOKEN)
    assert (begun.status, begun.body) == (200, {"user": "token file token"})
    cookie = begun.headers["Set-Cookie"]
    named, *attributes = cookie.split("; ")
    assert named.startswith(f"{COOKIE}=")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"} == {*attributes}
    assert TOKEN not in cookie
    assert client.ask("api/cluster", Cookie=f"theme=dark; {named}").status == 200
    assert client.ask("api/session", Cookie=named).body == {"user": "token file token"}
    assert client.ask("api/cluster", Cookie=f"{named}x").status == 401
    with client.events(named) as stream:
        assert stream.readline() == b"retry: 1000\n"
        ended = client.ask("api/session", "DELETE", Cookie=named, Origin=client.url)
        stream.read()  # to its end
    assert (ended.status, "Max-Age=0" in ended.headers["Set-Cookie"]) == (200, True)
    assert client.ask("api/cluster", Cookie=named).status == 401


def test_other_sites_and_rebound_names_are_refused(client: Client) -> None:
    assert client.sign_in(TOKEN, Origin="https://evil.example.com").status == 403
    assert client.sign_in(TOKEN, Origin="null").status == 403
    assert client.sign_in(TOKEN, Content_Type="text/plain").status in (403, 415)
    sent = {"Origin": client.url, "Content-Type": "text/plain"}
    assert client.ask("api/session", "POST", {"token": TOKEN}, **sent).status == 415
    named = client.sign_in(TOKEN).headers["Set-Cookie"].partition(";")[0]
    foreign = client.ask("api/cluster", Cookie=named, Sec_Fetch_Site="cross-site")
    assert foreign.status == 403
    assert client.ask("api/session", "DELETE", Cookie=named).status == 403
    assert client.ask("api/cluster", Cookie=named, Host="evil.example.com").status == 421
    assert (
        client.sign_in(TOKEN, Host="evil.example.com", Origin="https://evil.example.com").status
        == 421
    )
    assert client.ask("api/cluster", Cookie=named, Host="10.1.2.3:10270").status == 200
    assert client.ask("api/cluster", Cookie=named, Host=f"localhost:{client.port}").status == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.ask("api/cluster", method, Cookie=named, Origin=client.url).status == 405


def test_plain_http_is_explained(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.request("GET", "/console/")
    assert connection.getresponse().status == 400
    connection.close()


def test_a_replaced_token_ends_sessions(embedded_server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    kubeconfig = str(embedded_server.kubeconfig_path)
    options = ("--port", "0", "--token-file", str(file), "--kubeconfig", kubeconfig)
    with serving(tmp_path / "log", "console", *options) as client:
        named = client.sign_in(TOKEN).headers["Set-Cookie"].partition(";")[0]
        assert client.ask("api/flow", Cookie=named).status == 200
        file.write_text("another-token-of-this-test")
        wait_for("the new token", lambda: client.ask("api/flow", Cookie=named).status == 401)
        for _ in range(9):
            assert client.sign_in("wrong").status == 401
        assert client.sign_in("another-token-of-this-test").status == 200
        assert client.sign_in("wrong").status == 401
        limited = client.sign_in("another-token-of-this-test")
        assert limited.status == 429
        assert 0 < int(limited.headers["Retry-After"]) <= 60


@pytest.mark.parametrize(
    ("command", "flag", "remedy"),
    [
        (("console", "--bind-address=0.0.0.0", "--port=0"), "--bind-address", "--token-file FILE"),
        (
            ("run", "--leader-elect=false", "--secure-port=0", "--console=:0"),
            "--console",
            "--console-token-file FILE",
        ),
    ],
    ids=["console", "run"],
)
def test_without_a_way_to_check_tokens_it_does_not_start(
    command: tuple[str, ...], flag: str, remedy: str, embedded_server: EmbeddedServer
) -> None:
    kubeconfig = ("--kubeconfig", str(embedded_server.kubeconfig_path))
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", *command, *kubeconfig],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    error = done.stderr.splitlines()[-1]
    assert f"{flag}: 0.0.0.0 is not loopback, so users must sign in" in error
    assert f"it has no TokenReview or SubjectAccessReview. Fix: use {remedy}" in error


def test_a_scheduler_with_sign_in(
    embedded_server: EmbeddedServer, token_file: Path, tmp_path: Path
) -> None:
    run = ("run", "--leader-elect=false", "--secure-port=0", "--console=:0")
    options = ("--console-token-file", str(token_file))
    kubeconfig = ("--kubeconfig", str(embedded_server.kubeconfig_path))
    with serving(tmp_path / "log", *run, *options, *kubeconfig) as client:
        assert client.ask("api/flow").status == 401
        bearer = f"Bearer {TOKEN}"
        wait_for("the lists", lambda: client.ask("api/flow", Authorization=bearer).body["live"])


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with open_browser("--ignore-certificate-errors") as opened:
        yield opened


@pytest.mark.slow
async def test_signing_in_and_out_in_a_browser(tab: Tab, client: Client) -> None:
    await tab.open(f"{client.url}/console/#/flow", width=390, height=800)
    await until(tab, "document.title", lambda said: said.startswith("Sign in"))
    assert await serious_findings(tab) == []
    assert await tab.ask("document.documentElement.scrollWidth") <= 390
    await until(tab, "document.activeElement.id", lambda said: said == "token")
    for letter in "wrong":
        await press(tab, letter, letter)
    await press(tab, "Enter", "\r")
    await until_text(tab, "The token is not valid")
    await tab.ask(f"document.getElementById('token').value = {json.dumps(TOKEN)}")
    await press(tab, "Enter", "\r")
    await until(tab, STATUS, lambda said: said == "live")
    await until_text(tab, "Pods bound")
    assert await tab.ask("location.hash") == "#/flow"
    assert await tab.ask("document.cookie") == ""
    await until(
        tab, "document.querySelector('header').innerText", lambda s: "token file token" in s
    )
    assert await serious_findings(tab) == []
    assert await tab.ask("document.documentElement.scrollWidth") <= 390
    await tab.ask("document.querySelector('.user button').click()")
    await until(tab, "document.title", lambda said: said.startswith("Sign in"))
    await tab.open(f"{client.url}/console/#/queue")
    await until(tab, "document.title", lambda said: said.startswith("Sign in"))
    assert "Unschedulable" not in await tab.ask(TEXT)
