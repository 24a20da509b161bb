"""Secrets of a configuration and a kubeconfig are planted everywhere, and shown nowhere."""

from __future__ import annotations

import base64
import json
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from stowplan.config.load import load_config
from tests.integration.target import Target
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

MARK = "pl4nted"
_AUTHORITY = Authority()
_CLIENT = _AUTHORITY.client("scheduler")
_DATA = {
    name: base64.b64encode(data).decode()
    for name, data in (
        ("caData", _AUTHORITY.cert),
        ("certData", _CLIENT.cert),
        ("keyData", _CLIENT.key),
    )
}
#: What must not be seen: the mark, as it is and in base64, and a piece of each file.
_PLANTED = [MARK, base64.b64encode(MARK.encode()).decode().rstrip("=")[:-1]]
_PLANTED += [data[len(data) // 2 :][:24] for data in _DATA.values()]


def secrets_in(text: str) -> list[str]:
    """Lines that hold a planted secret."""
    return [line for line in text.splitlines() if any(secret in line for secret in _PLANTED)]


def configuration(port: int) -> str:
    """Two extenders that cannot be reached: one with a password, one with a key of its own."""
    return "extenders: " + json.dumps(
        [
            {
                "urlPrefix": f"http://user:{MARK}@127.0.0.1:{port}/first",
                "filterVerb": "filter",
                "httpTimeout": "1s",
            },
            {
                "urlPrefix": f"https://{MARK}@127.0.0.1:{port}/second",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "enableHTTPS": True,
                "tlsConfig": _DATA,
                "httpTimeout": "1s",
            },
        ]
    )


def kubeconfig(directory: Path, server: str) -> Path:
    path = directory / "secret-kubeconfig"
    key = base64.b64encode(MARK.encode()).decode()
    user = {"token": MARK, "client-key-data": key, "client-certificate-data": key}
    cluster = {"server": server.replace("://", f"://user:{MARK}@")}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": user}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
        )
    )
    return path


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_running_scheduler_shows_no_secret(
    target: Target, tmp_path: Path, free_port: int, log_format: str
) -> None:
    config = target.config_file(configuration(1))
    target.create_nodes("n1")
    target.create_pods("a")
    scheduler = target.start(
        *("--config", str(config), "--kubeconfig", str(kubeconfig(tmp_path, target.proxy.url))),
        *(f"--port={free_port}", "-v=10", f"--log-format={log_format}"),
    )
    event = target.wait_event("a", "FailedScheduling")
    condition = target.wait_condition("a", "False")

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{free_port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    paths = json.loads(get("/"))["paths"]
    assert "/configz" in paths
    shown = {path: get(path) for path in paths}
    target.proxy.go_away()  # whose address is told then
    wait_for("the server to be missed", lambda: "API server cannot be reached" in scheduler.log)
    target.proxy.come_back()
    scheduler.process.send_signal(signal.SIGUSR2)
    wait_for("the dump of the queue", lambda: "Dump of scheduling queue" in scheduler.log)
    scheduler.process.send_signal(signal.SIGTERM)
    scheduler.wait_for_exit()

    shown |= {"log": scheduler.log, "event": str(event), "condition": str(condition)}
    assert {name: found for name, text in shown.items() if (found := secrets_in(text))} == {}
    extenders = json.loads(shown["/configz"])["componentconfig"]["extenders"]
    assert extenders[0]["urlPrefix"] == "http://user:xxxxx@127.0.0.1:1/first"
    assert extenders[1]["tlsConfig"] == dict.fromkeys(("certData", "keyData", "caData"), "REDACTED")
    assert "user:xxxxx@127.0.0.1:1/first" in shown["event"]


def stowplan(*words: str) -> str:
    """Everything that a command prints."""
    run = subprocess.run(
        [sys.executable, "-m", "stowplan", *words], capture_output=True, text=True, check=False
    )
    return run.stdout + run.stderr


def test_commands_show_no_secret_and_the_written_file_loads(target: Target, tmp_path: Path) -> None:
    config = target.config_file(configuration(1))

    for output in ("yaml", "json"):
        shown = stowplan("config", "check", str(config), "-o", output)
        assert not secrets_in(shown)
        assert f"Warning: {config}: secrets are left out of the output" in shown
        assert "REDACTED" in shown

    written = tmp_path / "written.yaml"
    assert stowplan("run", "--config", str(config), "--write-config-to", str(written)) == ""
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert load_config(str(written)).extenders == load_config(str(config)).extenders


def test_mistakes_show_no_secret(target: Target, tmp_path: Path) -> None:
    for extenders in (
        [{"urlPrefix": f"http://user:{MARK}/x@host:1", "filterVerb": "f"}],
        [{"urlPrefix": f"user:{MARK} x@host:1", "filterVerb": "f"}],
        [{"urlPrefix": f"http://host?token={MARK}", "filterVerb": "f"}],
        [{"urlPrefix": "http://host", "tlsConfig": {"keyData": f"{MARK}!"}}],
        [{"urlPrefix": "https://host", "tlsConfig": {"keyData": _PLANTED[1] + "A=="}}],
        [{"urlPrefix": "http://host", "tlsConfig": {"keyData": {"x": MARK}}}],
    ):
        config = target.config_file("extenders: " + json.dumps(extenders))
        for command in (["config", "check"], ["run", "--kubeconfig=none", "--port=0", "--config"]):
            shown = stowplan(*command, str(config))
            is_refused = "Error: " in shown or '"command failed"' in shown
            assert is_refused or command[0] == "config", "it does not look at URLs"
            assert not secrets_in(shown)
    for server in (f"http://user:{MARK}/x@127.0.0.1:1", f"ftp://user:{MARK}@127.0.0.1"):
        file = tmp_path / "wrong"
        file.write_text(
            kubeconfig(tmp_path, "x").read_text().replace('"server": "x"', f'"server": "{server}"')
        )
        shown = stowplan("run", "--kubeconfig", str(file), "--port=0", "--leader-elect=false")
        assert '"command failed"' in shown
        assert not secrets_in(shown)
