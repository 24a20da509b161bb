"""Credentials: tokens, token files that rotate, and real credential plugins."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.auth import ExecSource, StaticSource, credentials_for
from stowplan.api.client import ApiClient
from stowplan.api.exec_credentials import run_plugin
from stowplan.api.kubeconfig import ClusterConfig, ExecConfig
from stowplan.api.resources import PODS
from stowplan.clock import VirtualClock, rfc3339
from stowplan.errors import Unauthorized
from tests.unit.api.api_kit import reply, scripted_server, status_body, until
from tests.unit.api.tls_kit import Authority

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class Plugin:
    """A credential plugin written for one test; every run leaves a line in `runs`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "login"
        self.answer_path = folder / "answer.json"
        self.runs_path = folder / "runs"
        self.info_path = folder / "info.json"
        self.script(f'cat "{self.answer_path}"')

    def script(self, body: str) -> None:
        self.path.write_text(
            "#!/bin/sh\n"
            f'echo "$@" >> "{self.runs_path}"\n'
            f'printf %s "$KUBERNETES_EXEC_INFO" > "{self.info_path}"\n'
            f"{body}\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def answer(self, status: dict[str, Any] | None, version: str = V1) -> None:
        credential = {"kind": "ExecCredential", "apiVersion": version, "status": status}
        self.answer_path.write_text(json.dumps(credential))

    def config(self, **changes: Any) -> ExecConfig:
        return replace(ExecConfig(command=str(self.path), api_version=V1), **changes)

    @property
    def runs(self) -> list[str]:
        return self.runs_path.read_text().splitlines() if self.runs_path.exists() else []

    @property
    def info(self) -> Any:
        return json.loads(self.info_path.read_text())


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def accepts(valid: Callable[[], str]) -> Callable[[web.Request], Any]:
    async def handler(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != valid():
            return reply(status_body(401, "Unauthorized", "Unauthorized"), status=401)
        return reply({"ok": True})

    return handler


# Static


async def test_a_refused_token_is_not_tried_twice() -> None:
    async with scripted_server(accepts(lambda: "Bearer right")) as server:
        async with ApiClient(replace(server.config, token="right")) as client:
            await client.version()
        async with ApiClient(replace(server.config, token="wrong")) as client:
            with pytest.raises(Unauthorized):
                await client.version()
    assert len(server.seen) == 2


async def test_nothing_is_sent_where_there_is_nothing() -> None:
    credential = StaticSource(ClusterConfig(server="https://x")).cached()
    assert credential is not None
    assert credential.authorization == ""


# Token files


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    clock = VirtualClock()
    async with scripted_server(accepts(lambda: f"Bearer {path.read_text().strip()}")) as server:
        config = replace(server.config, token_file=str(path))
        async with ApiClient(config, clock=clock) as client:
            await client.version()
            path.write_text("two")
            clock.advance(60)
            await client.version()
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]


async def test_a_token_file_is_read_again_on_401(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    clock = VirtualClock()
    async with scripted_server(accepts(lambda: f"Bearer {path.read_text()}")) as server:
        config = replace(server.config, token_file=str(path))
        async with ApiClient(config, clock=clock) as client:
            await client.version()
            path.write_text("two")
            await client.version()
    tokens = [seen.headers["Authorization"] for seen in server.seen]
    assert tokens == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_watch_renews_its_token_too(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    async with scripted_server(accepts(lambda: f"Bearer {path.read_text()}")) as server:
        config = replace(server.config, token_file=str(path))
        async with ApiClient(config, clock=VirtualClock()) as client:
            await client.version()
            path.write_text("two")
            async with client.open_watch(PODS, resource_version="1"):
                pass
    assert server.seen[-1].headers["Authorization"] == "Bearer two"


async def test_a_token_file_that_vanishes_leaves_the_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    clock = VirtualClock()
    source = credentials_for(ClusterConfig(server="https://x", token_file=str(path)), clock=clock)
    first = await source.obtain()
    path.unlink()
    clock.advance(120)
    assert source.cached() is None
    assert await source.obtain() == first
    path.write_text("  \n")
    clock.advance(120)
    assert await source.obtain() == first


async def test_a_token_file_that_never_was(tmp_path: Path) -> None:
    config = ClusterConfig(server="https://x", token_file=str(tmp_path / "gone"))
    with pytest.raises(Unauthorized, match=r"token file .*/gone: .*No such file"):
        await credentials_for(config).obtain()


async def test_a_token_beside_a_token_file_is_what_is_used_until_the_file_can_be_read(
    tmp_path: Path,
) -> None:
    config = ClusterConfig(server="https://x", token="spare", token_file=str(tmp_path / "token"))
    source = credentials_for(config, clock=VirtualClock())
    assert (await source.obtain()).authorization == "Bearer spare"
    (tmp_path / "token").write_text("fresh")
    assert (await source.refresh(await source.obtain())).authorization == "Bearer fresh"


# Plugins


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_what_a_plugin_is_told_and_says(plugin: Plugin, version: str) -> None:
    plugin.answer({"token": "t", "expirationTimestamp": "2026-01-02T03:04:05Z"}, version)
    info = {"server": "https://x", "config": {"audience": "a"}}
    config = plugin.config(api_version=version, args=("--a", "b c"), cluster_info=info)
    answer = await run_plugin(config)
    assert answer.token == "t"
    assert answer.expires_at == 1767323045
    assert plugin.runs == ["--a b c"]
    assert plugin.info == {
        "kind": "ExecCredential",
        "apiVersion": version,
        "spec": {"cluster": info, "interactive": False},
    }


async def test_a_plugin_has_its_own_variables_on_top_of_ours(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "inherited")
    monkeypatch.setenv("BOTH", "inherited")
    plugin.script(
        'printf \'{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s"}}\' '
        f'{V1} "$OURS-$BOTH-$MINE"'
    )
    config = plugin.config(env=(("BOTH", "own"), ("MINE", "own")))
    assert (await run_plugin(config)).token == "inherited-own-own"
    assert plugin.info["spec"] == {"interactive": False}


async def test_interactive_modes(plugin: Plugin) -> None:
    plugin.answer({"token": "t"})
    for mode, is_terminal, told in (
        ("Never", True, False),
        ("IfAvailable", False, False),
        ("IfAvailable", True, True),
        ("Always", True, True),
    ):
        await run_plugin(plugin.config(interactive_mode=mode), stdin_is_terminal=is_terminal)
        assert plugin.info["spec"]["interactive"] is told, (mode, is_terminal)
    with pytest.raises(Unauthorized, match="standard input is not a terminal"):
        await run_plugin(plugin.config(interactive_mode="Always"), stdin_is_terminal=False)


async def test_a_plugin_runs_once_until_its_credential_expires(plugin: Plugin) -> None:
    clock = VirtualClock()
    source = ExecSource(plugin.config(), clock=clock)
    plugin.answer({"token": "one", "expirationTimestamp": rfc3339(clock.time() + 100)})
    answers = await asyncio.gather(*(source.obtain() for _ in range(10)))
    assert {answer.authorization for answer in answers} == {"Bearer one"}
    assert len(plugin.runs) == 1
    clock.advance(99)
    assert source.cached() == answers[0]
    plugin.answer({"token": "two"})
    clock.advance(2)
    assert source.cached() is None
    assert (await source.obtain()).authorization == "Bearer two"
    clock.advance(10**6)
    assert source.cached() is not None, "without an expiration it lasts for ever"
    assert len(plugin.runs) == 2


async def test_a_401_runs_the_plugin_once_for_all_who_wait(plugin: Plugin) -> None:
    plugin.answer({"token": "one"})
    valid = "Bearer one"
    async with scripted_server(accepts(lambda: valid)) as server:
        config = replace(server.config, exec=plugin.config())
        async with ApiClient(config) as client:
            await client.version()
            plugin.answer({"token": "two"})
            valid = "Bearer two"
            await asyncio.gather(*(client.version() for _ in range(10)))
    assert len(plugin.runs) == 2


async def test_credentials_that_stay_refused_do_not_run_the_plugin_for_every_request(
    plugin: Plugin,
) -> None:
    plugin.answer({"token": "refused"})
    clock = VirtualClock()
    async with scripted_server(accepts(lambda: "Bearer other")) as server:
        config = replace(server.config, exec=plugin.config())
        async with ApiClient(config, clock=clock) as client:
            for _ in range(5):
                with pytest.raises(Unauthorized):
                    await client.version()
            assert len(plugin.runs) == 2, "at first, and once because of the 401"
            clock.advance(11)
            with pytest.raises(Unauthorized):
                await client.version()
    assert len(plugin.runs) == 3


async def test_certificates_from_a_plugin_and_their_rotation(
    plugin: Plugin, tmp_path: Path
) -> None:
    authority = Authority()
    names: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        names.append(subject[0][0][1])
        if names == ["one", "one"]:
            return reply(status_body(401), status=401)
        return reply({})

    def answer(name: str) -> None:
        pair = authority.client(name)
        plugin.answer(
            {"clientCertificateData": pair.cert.decode(), "clientKeyData": pair.key.decode()}
        )

    context = authority.server_context(tmp_path, clients=authority)
    answer("one")
    async with scripted_server(handler, tls=context) as server:
        config = replace(server.config, ca_data=authority.cert, exec=plugin.config())
        async with ApiClient(config) as client:
            await client.version()
            answer("two")
            await client.version()
    assert names == ["one", "one", "two"]


async def test_a_plugin_whose_certificate_is_junk(plugin: Plugin) -> None:
    plugin.answer({"clientCertificateData": "junk", "clientKeyData": "junk"})
    config = ClusterConfig(server="https://127.0.0.1:1", exec=plugin.config())
    async with ApiClient(config) as client:
        with pytest.raises(Unauthorized, match="certificate and key are not usable"):
            await client.version()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'log in  first' >&2; exit 3", "exit code 3: log in first"),
        ("exit 1", "exit code 1$"),
        ("kill -9 $$", "exit code -9"),
        ("echo 'token: secret'", "its output is not an ExecCredential"),
        ("echo '[]'", "its output is not an ExecCredential"),
        ("true", "its output is not an ExecCredential"),
        (
            f'echo \'{{"kind":"ExecCredential","apiVersion":"{V1BETA1}"}}\'',
            f"configured for {V1} and answered ExecCredential of {V1BETA1}",
        ),
        (f'echo \'{{"kind":"Pod","apiVersion":"{V1}"}}\'', "answered Pod of"),
    ],
)
async def test_plugins_that_fail(plugin: Plugin, script: str, message: str) -> None:
    plugin.script(script)
    with pytest.raises(Unauthorized, match=message) as caught:
        await run_plugin(plugin.config())
    assert str(caught.value).startswith(f"getting credentials from exec plugin '{plugin.path}': ")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (None, "its answer has no status"),
        ({}, "neither a token nor a certificate"),
        ({"clientKeyData": "k"}, "a key without certificate"),
        ({"clientCertificateData": "c", "token": "t"}, "a certificate without key"),
        ({"token": 5}, "not an ExecCredential"),
        ({"token": "t", "expirationTimestamp": "soon"}, "'soon' is not a time"),
    ],
)
async def test_plugins_that_say_nonsense(
    plugin: Plugin, status: dict[str, Any] | None, message: str
) -> None:
    plugin.answer(status)
    with pytest.raises(Unauthorized, match=message):
        await run_plugin(plugin.config())


async def test_a_plugin_that_is_not_installed() -> None:
    config = ExecConfig(command="/no/such/login", api_version=V1, install_hint="Get it\nfrom us.")
    with pytest.raises(Unauthorized, match=r"cannot be run: No such file.*\. Get it from us\."):
        await run_plugin(config)


async def test_a_plugin_that_hangs_is_ended(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    plugin.script(f'echo $$ > "{pid_file}"; exec sleep 60')
    monkeypatch.setattr("stowplan.api.exec_credentials._TIMEOUT_S", 1.0)
    with pytest.raises(Unauthorized, match="no answer within"):
        await run_plugin(plugin.config())
    assert not Path("/proc", pid_file.read_text().strip()).exists()


async def test_a_cancelled_request_leaves_no_plugin_running(plugin: Plugin, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    plugin.script(f'echo $$ > "{pid_file}.new"; mv "{pid_file}.new" "{pid_file}"; exec sleep 60')
    task = asyncio.create_task(run_plugin(plugin.config()))
    await until(pid_file.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path("/proc", pid_file.read_text().strip()).exists()
