"""What `stowplan run` shows of itself: the flags in use, and the error that ends it."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from stowplan.lab.controlplane.processes import free_port
from tests.embedded_fixtures import running_embedded_server
from tests.integration.test_https_flags import KUBECONFIG
from tests.waiting import wait_for

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 20s, resourceName: mine}
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def command(folder: Path, *flags: str, program: str = "run") -> list[str]:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    return [sys.executable, "-m", "stowplan", program, f"--kubeconfig={kubeconfig}", *flags]


def failed(words: list[str]) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_flags_in_use_are_logged(tmp_path: Path, port: int) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    ledger = tmp_path / "attempts.db"
    log = failed(
        command(
            tmp_path,
            f"--config={config}",
            f"--secure-port={port}",
            "-v=3",
            "--verify-decisions=7",
            f"--ledger={ledger}",
        )
    )
    flags = dict(re.findall(r'"FLAG: --([\w-]+)=\\"(.*)\\""', log))
    assert flags["v"] == "3"
    assert flags["logging-format"] == "text"
    assert flags["kubeconfig"] == str(tmp_path / "kubeconfig")
    assert flags["bind-address"] == "127.0.0.1"
    assert flags["secure-port"] == str(port)
    assert flags["leader-elect-lease-duration"] == "20s"
    assert flags["leader-elect-resource-name"] == "mine"
    own = {
        "context": "",
        "console": "",
        "ledger": str(ledger),
        "ledger-memory": str(16 << 20),
        "ledger-size": str(256 << 20),
        "namespace": "",
        "plugin": "[]",
        "port": "0",
        "scheduler-name": "",
        "verify-decisions": "7",
    }
    assert {name: flags.get(name) for name in own} == own
    assert "log-format" not in flags


def test_flagz_shows_them_too(tmp_path: Path) -> None:
    with running_embedded_server(tmp_path) as api:
        port = free_port()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "stowplan", "run", f"--kubeconfig={api.kubeconfig_path}"),
                *(f"--port={port}", "--leader-elect=false", "--verify-decisions=7", "-v=1"),
            ],
            stderr=subprocess.DEVNULL,
        )
        page = ""

        def is_served() -> bool:
            nonlocal page
            assert process.poll() is None
            try:
                page = urlopen(f"http://127.0.0.1:{port}/flagz").read().decode()
            except OSError:
                return False
            return True

        try:
            wait_for("/flagz", is_served)
        finally:
            process.terminate()
            assert process.wait(30) == 0
    lines = page.splitlines()
    for line in (
        f"kubeconfig {api.kubeconfig_path}",
        f"port {port}",
        "leader-elect false",
        "secure-port 0",
        "verify-decisions 7",
        "v 1",
    ):
        assert line in lines


@pytest.mark.parametrize("program", ["run", "kube-scheduler"])
def test_the_last_error_has_the_format_of_the_log(tmp_path: Path, port: int, program: str) -> None:
    words = command(tmp_path, f"--secure-port={port}", "--bind-address=127.0.0.1", program=program)
    error = f"--secure-port, --bind-address: cannot listen on 127.0.0.1:{port}: Address already"
    *_, text = failed(words).splitlines()
    assert re.match(rf'E\d{{4}} .*\] "command failed" err="{error}', text)
    *_, line = failed([*words, "--logging-format=json"]).splitlines()
    read = json.loads(line)
    assert read["msg"] == "command failed"
    assert read["err"].startswith(error)


def test_a_terminal_gets_one_short_line(tmp_path: Path, port: int) -> None:
    ours, theirs = pty.openpty()
    words = command(tmp_path, f"--secure-port={port}")
    done = subprocess.run(words, stderr=theirs, stdin=theirs, timeout=60)
    os.close(theirs)
    assert done.returncode == 2
    shown = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    assert shown[-1].startswith("Error: --secure-port, --bind-address: cannot listen on ")


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        (
            "lease-duration=5s",
            "--leader-elect-lease-duration: 5s must be greater than "
            "--leader-elect-renew-deadline, which is 10s",
        ),
        (
            "retry-period=9s",
            "--leader-elect-renew-deadline: 10s must be greater than 1.2 times "
            "--leader-elect-retry-period, which is 9s",
        ),
    ],
)
def test_contradicting_durations_name_both_flags(tmp_path: Path, flag: str, error: str) -> None:
    log = failed([*command(tmp_path, f"--leader-elect-{flag}"), "--logging-format=json"])
    assert json.loads(log)["err"] == error
