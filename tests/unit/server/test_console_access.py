"""Who may read a console beyond loopback: names of the certificate, and rights of the cluster.

tests/e2e/test_console.py asks the real API server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.console.sign_in import NotAllowed, NotKnown
from stowplan.errors import ApiUnavailable, ConfigError, Forbidden, NotFound
from stowplan.server.console_access import DelegatedCheck, check_delegation, console_access
from stowplan.server.serving_options import ConsoleOptions, ServingOptions
from tests.unit.api.tls_kit import Authority
from tests.unit.server.https_kit import Api, store

EVERYWHERE = ConsoleOptions("0.0.0.0", 0)


def client_of(api: Api) -> ApiClient:
    return ApiClient(ClusterConfig(server="http://127.0.0.1:1"), transport=api)  # type: ignore[arg-type]  # a stand-in for requests alone


async def test_names_follow_the_certificate(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = store(tmp_path, authority.server("console.example.com"))
    serving = ServingOptions(tls_cert_file=certificate, tls_private_key_file=key)
    async with console_access(EVERYWHERE, serving, client_of(Api())) as access:
        assert access.names() == {"localhost", "console.example.com"}
        store(tmp_path, authority.server("*.Apps.example.com"))
        access.tls.reload()
        assert access.names() == {"localhost", "*.apps.example.com"}
    kept = ServingOptions(cert_dir=tmp_path / "made")
    async with console_access(EVERYWHERE, kept, client_of(Api())) as access:
        assert "localhost" in access.names()
        assert (tmp_path / "made" / "kube-scheduler.crt").exists()


async def test_tokens_and_rights() -> None:
    api = Api()
    check = DelegatedCheck(ServingOptions(), client_of(api))
    with pytest.raises(NotKnown):
        await check("bad", "get")
    assert api.asked == ["tokenreviews"]
    with pytest.raises(
        NotAllowed,
        match=r'User "good" cannot get path /console/: it needs .* works after 10 s at most',
    ):
        await check("good", "get")  # the stand-in allows /metrics alone
    api.problem = ApiUnavailable("POST reviews: connection refused")
    with pytest.raises(ApiUnavailable):
        await check("good-too", "get")


async def test_credentials_are_probed_at_the_start(tmp_path: Path) -> None:
    api = Api()
    await check_delegation(EVERYWHERE, client_of(api))
    assert api.asked == ["tokenreviews", "subjectaccessreviews"]
    api.problem = Forbidden("tokenreviews is forbidden")
    with pytest.raises(ConfigError, match=r"--console: 0\.0\.0\.0 is not loopback, so users must"):
        await check_delegation(EVERYWHERE, client_of(api))
    api.problem = NotFound("the server could not find the requested resource")
    with pytest.raises(ConfigError, match="this API server cannot check tokens") as refused:
        await check_delegation(EVERYWHERE, client_of(api))
    assert "Fix: use --console-token-file FILE, or listen on 127.0.0.1" in str(refused.value)
    assert "auth-delegator" not in str(refused.value)
    # With a token of its own it asks nothing.
    await check_delegation(ConsoleOptions(token_file=tmp_path / "token"), client_of(api))
