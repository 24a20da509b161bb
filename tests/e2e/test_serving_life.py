"""Ports of `kube-scheduler` and of Stowplan in its place: while they start, wait, lead and stop.

Both programs get the same command line, and the same questions.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

OURS = (sys.executable, "-m", "stowplan", "kube-scheduler")
#: Nothing listens there.
NO_SERVER = "--master=http://127.0.0.1:1"


class Program:
    """One of the two, as a process with an HTTPS port."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.port = free_port()
        flags = (f"--secure-port={self.port}", "--bind-address=127.0.0.1")
        with log.open("w") as stream:
            self.process = subprocess.Popen([*command, *flags], stdout=stream, stderr=stream)
        self._log = log

    def get(self, path: str) -> tuple[int, str] | None:
        """The answer; None if there is no connection."""
        tls = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=tls)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (ConnectionError, http.client.HTTPException, ssl.SSLError):
            return None
        finally:
            connection.close()

    def answer(self, path: str) -> tuple[int, str]:
        """The first answer, once the port is open."""

        def look() -> tuple[int, str] | None:
            assert self.process.poll() is None, self._log.read_text()
            return self.get(path)

        return wait_for("the port to open", look)

    @property
    def log(self) -> str:
        return self._log.read_text()


@contextmanager
def both(folder: Path, *flags: str) -> Iterator[tuple[Program, Program]]:
    """kube-scheduler and Stowplan."""
    binary = require_binaries("kube-scheduler")["kube-scheduler"]
    with ExitStack() as stack:
        programs = []
        for name, command in (("kube", (binary,)), ("ours", OURS)):
            program = Program([*command, *flags], folder / f"{name}.log")
            stack.callback(program.process.wait, 30)
            stack.callback(program.process.kill)
            programs.append(program)
        yield programs[0], programs[1]


def checks(answer: tuple[int, str]) -> tuple[int, list[str]]:
    """The status and the lines of a health page, without the reasons, which upstream withholds."""
    return answer[0], re.sub(r" failed: .*", " failed", answer[1]).splitlines()


def test_health_before_the_api_server_answers(tmp_path: Path) -> None:
    """Three checks with leader election, two without; a scrape is answered from the start."""
    with both(tmp_path, NO_SERVER, "--authorization-always-allow-paths=*") as (upstream, ours):
        for path in ("/readyz?verbose", "/healthz?verbose", "/livez?verbose", "/healthz"):
            assert checks(ours.answer(path)) == checks(upstream.answer(path)), path
        status, lines = checks(ours.answer("/readyz?verbose"))
        assert status == 500
        assert lines == [
            "[+]leaderElection ok",
            "[+]shutdown ok",
            "[-]sched-handler-sync failed",
            "readyz check failed",
        ]
        scraped = ours.answer("/metrics")
        assert scraped[0] == 200
        assert "leader_election_master_status" in scraped[1]


def test_every_answer_while_it_starts_and_stops(tmp_path: Path) -> None:
    """Until it exits, a client gets no connection or a whole answer, and never waits for one."""
    with both(tmp_path, NO_SERVER, "--leader-elect=false") as (_, ours):
        ours.answer("/healthz")
        ours.process.terminate()
        answers = set()
        while ours.process.poll() is None:
            answers.add(ours.get("/readyz"))
        assert ours.process.wait(0) == 0
    for answer in answers - {None}:
        assert answer is not None
        assert answer[0] == 500


def test_a_standby_is_ready(tmp_path: Path) -> None:
    """As upstream's: it has synced, and waits for the lease that the first program holds."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ControlPlane() as plane:
        leader = plane.start_scheduler(None, "--leader-elect=true")
        port = leader.url.rpartition(":")[2]
        config = f"--config={plane.directory / f'kube-scheduler-{port}.yaml'}"
        with both(tmp_path, config, "--leader-elect=true") as (upstream, ours):
            programs = (upstream, ours)
            wait_for("readiness", lambda: all(p.answer("/readyz")[0] == 200 for p in programs))
            for path in ("/readyz?verbose", "/healthz?verbose", "/livez?verbose"):
                assert checks(ours.answer(path)) == checks(upstream.answer(path)), path
            assert checks(ours.answer("/readyz?verbose")) == (
                200,
                [
                    "[+]leaderElection ok",
                    "[+]shutdown ok",
                    "[+]sched-handler-sync ok",
                    "readyz check passed",
                ],
            )


def test_flags_that_are_reported(tmp_path: Path) -> None:
    """Versions and feature gates of the command line, as both show them on /metrics."""
    with both(
        tmp_path,
        NO_SERVER,
        "--leader-elect=false",
        "--authorization-always-allow-paths=*",
        "--version=v1.36.3-test.1",
        "--min-compatibility-version=kube=1.34",
        "--feature-gates=MemoryQoS=true,LoggingAlphaOptions=true",
        "--tls-min-version=VersionTLS10",
    ) as (upstream, ours):
        found = []
        for program in (upstream, ours):
            text = program.answer("/metrics")[1]
            gates = r'kubernetes_feature_enabled\{name="(?:MemoryQoS|LoggingAlphaOptions)".*'
            found.append(
                (
                    re.findall(r"version_info\{(.*)\} 1", text),
                    sorted(line.removesuffix(".0") for line in re.findall(gates, text)),
                    version_spoken(program.port, ssl.TLSVersion.TLSv1),
                )
            )
        assert found[1] == found[0]
        assert 'binary="1.36.3-test.1"' in found[1][0][0]
        assert found[1][1][0].endswith(" 1")
        assert found[1][2] == "TLSv1"


def version_spoken(port: int, version: ssl.TLSVersion) -> str | None:
    context = ssl._create_unverified_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
        context.wrap_socket(connection) as spoken,
    ):
        return spoken.version()


USABLE = Authority("serving")


def unusable(case: str, folder: Path) -> tuple[Path, Path]:
    """A certificate and a key of which one cannot be used."""
    pair, other = USABLE.server(), USABLE.server()
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    if case == "half a certificate":
        certificate.write_bytes(pair.cert[:100])
    elif case == "half a key":
        key.write_bytes(pair.key[:100])
    elif case == "another key":
        key.write_bytes(other.key)
    elif case == "no certificate":
        certificate.unlink()
    elif case == "a folder":
        key.unlink()
        key.mkdir()
    elif case == "empty":
        certificate.write_bytes(b"")
    return certificate, key


@pytest.mark.parametrize(
    "case",
    ["half a certificate", "half a key", "another key", "no certificate", "a folder", "empty"],
)
def test_unusable_certificates_at_start(case: str, tmp_path: Path) -> None:
    """Both programs exit; Stowplan with one line that names the flag and the file."""
    certificate, key = unusable(case, tmp_path)
    files = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    with both(tmp_path, NO_SERVER, *files) as (upstream, ours):
        assert upstream.process.wait(30) != 0
        assert ours.process.wait(30) == 2
    (line,) = [line for line in ours.log.splitlines() if "command failed" in line]
    assert ' "command failed" err="--tls-' in line
    assert str(certificate) in line or str(key) in line
    assert "Traceback" not in ours.log


def test_an_expired_certificate_is_served_with_a_warning(tmp_path: Path) -> None:
    """Probes do not verify it; a scheduler that exits would be worse."""
    pair = USABLE.server(hours=(-3, -2))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    files = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    with both(tmp_path, NO_SERVER, *files) as (upstream, ours):
        assert upstream.answer("/healthz") == (200, "ok")
        assert ours.answer("/healthz") == (200, "ok")
        assert ours.log.count("The certificate has expired") == 1
