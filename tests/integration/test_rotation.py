"""A live scheduler goes on when the API server's certificate or its own token is replaced."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stowplan.lab.controlplane.api_access import ApiAccess
from stowplan.lab.faults import FaultProxy
from tests.embedded_fixtures import running_embedded_server
from tests.integration.target import Scheduler, Target
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for


@dataclass
class Secured:
    """A server that is reached with TLS and a token from a file."""

    target: Target
    proxy: FaultProxy
    authority: Authority
    token: Path

    def start(self) -> Scheduler:
        kubeconfig = self.token.with_name("secured.kubeconfig")
        authority = base64.b64encode(self.authority.cert).decode()
        cluster = f"{{server: '{self.proxy.url}', certificate-authority-data: {authority}}}"
        kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters: [{{name: test, cluster: {cluster}}}]\n"
            f"users: [{{name: test, user: {{tokenFile: '{self.token}'}}}}]\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
        )
        scheduler = self.target.start("--kubeconfig", str(kubeconfig))
        scheduler.wait_until_scheduling()
        return scheduler


def certificate(authority: Authority, file: Path) -> Path:
    pair = authority.server()
    file.write_bytes(pair.cert + pair.key)
    return file


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    authority = Authority()
    token = tmp_path / "token"
    token.write_text("first")
    with (
        running_embedded_server(tmp_path) as server,
        FaultProxy(server.url, certificate=certificate(authority, tmp_path / "first.pem")) as proxy,
    ):
        proxy.accepted_token = "first"
        api = ApiAccess(server.url, ssl.create_default_context())
        target = Target(api, lambda: proxy, tmp_path)
        target.create_nodes("n1")
        yield Secured(target, proxy, authority, token)
        target.clean()


def test_a_new_certificate_of_the_same_authority(secured: Secured, tmp_path: Path) -> None:
    scheduler = secured.start()
    secured.proxy.rotate_certificate(certificate(secured.authority, tmp_path / "second.pem"))
    secured.proxy.go_away()
    secured.proxy.come_back()
    secured.target.create_pods("a")
    assert secured.target.wait_bound("a") == {"a": "n1"}
    assert scheduler.process.poll() is None


def test_a_certificate_of_another_authority_is_refused_until_the_right_one_is_back(
    secured: Secured, tmp_path: Path
) -> None:
    scheduler = secured.start()
    secured.proxy.rotate_certificate(certificate(Authority("other"), tmp_path / "wrong.pem"))
    secured.proxy.go_away()
    secured.proxy.come_back()
    secured.target.create_pods("a")
    asked = len(secured.proxy.requests)
    wait_for("the complaint", lambda: "certificate" in scheduler.log.lower())
    assert len(secured.proxy.requests) == asked, "nothing is sent to a server that is not trusted"
    secured.proxy.rotate_certificate(tmp_path / "first.pem")
    assert secured.target.wait_bound("a") == {"a": "n1"}
    assert scheduler.process.poll() is None
    assert "Traceback" not in scheduler.log


@pytest.mark.parametrize("is_written_first", [True, False])
def test_a_new_token(secured: Secured, is_written_first: bool) -> None:
    """The file may be replaced before the old token ends, or, on a bad day, after it."""
    scheduler = secured.start()
    if is_written_first:
        secured.token.write_text("second")
    secured.proxy.accepted_token = "second"
    secured.proxy.cut_watches()
    secured.target.create_pods("a")
    if not is_written_first:
        wait_for("a refusal", lambda: "401" in scheduler.log or "nauthorized" in scheduler.log)
        secured.token.write_text("second")
    assert secured.target.wait_bound("a") == {"a": "n1"}
    assert scheduler.process.poll() is None
    assert "Traceback" not in scheduler.log
