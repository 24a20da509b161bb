"""HTTPS files that cannot be used: `stowplan run` ends with one line that says which, and why."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.api.tls_kit import Authority, Pair

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


def ended(folder: Path, *flags: str) -> tuple[int, list[str]]:
    """Exit code and errors of a scheduler whose API server does not answer."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    command = [sys.executable, "-m", "stowplan", "run", f"--kubeconfig={kubeconfig}", *flags]
    command.append("--logging-format=json")
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert "Traceback" not in result.stderr
    return result.returncode, [line["err"] for line in lines if line["msg"] == "command failed"]


def write(folder: Path, pair: Pair) -> tuple[Path, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    return certificate, key


def missing(folder: Path) -> None:
    (folder / "tls.crt").unlink()


def swapped(folder: Path) -> None:
    (folder / "tls.key").write_bytes(Authority().server().key)


def half_written(folder: Path) -> None:
    (folder / "tls.crt").write_bytes((folder / "tls.crt").read_bytes()[:200])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (missing, "--tls-cert-file: cannot read {0}: No such file or directory"),
        (swapped, "--tls-cert-file, --tls-private-key-file: {0} and {1} are not a certificate"),
        (
            half_written,
            "--tls-cert-file, --tls-private-key-file: {0} and {1} are not a certificate",
        ),
    ],
)
def test_unusable_certificates(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    certificate, key = write(tmp_path, Authority().server())
    damage(tmp_path)
    code, lines = ended(
        tmp_path,
        "--secure-port=1",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
    )
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith(message.format(certificate, key))


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = ended(tmp_path, f"--secure-port={port}")
    assert code == 2
    assert lines == [
        f"--secure-port, --bind-address: cannot listen on 127.0.0.1:{port}: Address already in use"
        "; choose another address or port"
    ]
