"""The watched view on the embedded API server: changes, relists, refusals, absence, deletions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.errors import ConfigError, Conflict, NotFound, StowplanError
from stowplan.extender import background, followers
from stowplan.extender.background import Runs
from stowplan.extender.kubeapi import Kubeapi
from tests.unit.api.api_kit import until
from tests.unit.extender.cluster_kit import following, running_cluster


def measured(part: Kubeapi, name: str) -> float:
    (value,) = [metric.value for metric in part.measures() if metric.name == name]
    return value


async def test_what_happens_in_the_cluster_is_seen() -> None:
    async with running_cluster() as cluster:
        cluster.node("n1", cpu="3920m", memory="16Gi")
        cluster.node("boss", labels={"node-role.kubernetes.io/control-plane": ""})
        cluster.pod("web-0", node="n1")
        api = cluster.kubeapi()
        assert isinstance(api, Runs)
        assert api.why_not_ready() == "not started"
        async with following(api):
            view = api.view
            assert api.why_not_ready() is None
            assert api.note() is None
            assert view.counts() == ({"n1": {"web": ["web-0"]}}, {})
            cluster.node("n2")
            cluster.pod("web-1")
            await until(lambda: view.counts()[1] == {"web": 1})
            async with ApiClient(ClusterConfig(cluster.server.url)) as client:
                uid = (await client.get(PODS, "web-1", namespace="default")).uid
                await client.bind("default", "web-1", uid, "n2")
                await until(lambda: view.counts()[0].get("n2") == {"web": ["web-1"]})
                status = {"status": {"phase": "Succeeded"}}
                await client.patch(PODS, "web-0", status, namespace="default", subresource="status")
                await until(lambda: view.counts()[0]["n1"] == {})
                await client.delete(NODES, "n2")
                await until(lambda: list(view.basics()) == ["n1"])
            assert measured(api, background.KUBEAPI_SYNCED) == 1
            assert measured(api, background.KUBEAPI_NODES) == 1
            assert measured(api, background.KUBEAPI_PODS) == 1


async def test_only_monitored_namespaces_are_watched() -> None:
    async with running_cluster() as cluster:
        cluster.node("n1")
        for namespace in ("shop", "other"):
            cluster.namespace(namespace)
            cluster.pod("web-0", namespace=namespace, node="n1")
        async with following(cluster.kubeapi(monitored_namespaces=["default", "shop"])) as api:
            assert api.view.counts()[0] == {"n1": {"web": ["shop/web-0"]}}


async def test_streams_that_break_and_history_that_is_gone_lose_nothing() -> None:
    async with running_cluster() as cluster:
        cluster.node("n1")
        cluster.pod("web-0", node="n1")
        async with following(cluster.kubeapi()) as api:
            cluster.server.drop_watches()
            cluster.pod("web-1", node="n1")
            cluster.server.compact()
            await until(lambda: api.view.counts()[0] == {"n1": {"web": ["web-0", "web-1"]}})


async def test_it_asks_nothing_while_nothing_happens() -> None:
    async with running_cluster() as cluster:
        cluster.node("n1")
        async with following(cluster.kubeapi()) as api:
            never = cluster.fault("/api/", times=None)
            for _ in range(1000):
                api.view.counts()
                api.view.basics()
            assert never.hits == 0


async def test_it_starts_without_an_api_server_and_finds_it_when_it_comes() -> None:
    async with running_cluster() as gone:
        port = gone.port
    api = Kubeapi("http://127.0.0.1", port)
    await api.start()
    try:
        await until(lambda: api.note() is not None)
        assert str(api.why_not_ready()).startswith("not listed yet: nodes, pods in default")
        async with running_cluster(port) as cluster:
            cluster.node("n1")
            await until(lambda: api.is_synced and bool(api.view.basics()))
            assert api.note() is None
        await until(lambda: api.note() is not None)
        assert api.why_not_ready() is None, "what was known is still answered with"
        assert list(api.view.basics()) == ["n1"]
    finally:
        await api.stop()


async def test_being_refused_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "_RETRY_S", 0.05)
    async with running_cluster() as cluster:
        cluster.node("n1")
        refusal = cluster.fault("/pods", status=403, message="not you", times=None)
        api = cluster.kubeapi()
        await api.start()
        try:
            await until(lambda: refusal.hits >= 2)
            assert "pods in default (" in str(api.why_not_ready())
            assert "not you" in str(api.why_not_ready())
            assert measured(api, background.KUBEAPI_ERRORS) >= 1
            assert measured(api, background.KUBEAPI_SYNCED) == 0
            cluster.server.faults.clear()
            await until(lambda: api.is_synced)
        finally:
            await api.stop()


async def test_a_pod_is_deleted_by_its_uid() -> None:
    async with running_cluster() as cluster:
        cluster.node("n1")
        cluster.pod("web-0", node="n1")
        async with following(cluster.kubeapi()) as api:
            (old,) = api.view.pods_named("web-0")
            async with ApiClient(ClusterConfig(cluster.server.url)) as client:
                await client.delete(PODS, "web-0", namespace="default", grace_period_s=0)
                cluster.pod("web-0", node="n1")
                with pytest.raises(Conflict):
                    await api.delete_pod(old)
                await until(lambda: api.view.pods_named("web-0")[0].uid != old.uid)
                await api.delete_pod(api.view.pods_named("web-0")[0])
                deleted = await client.get(PODS, "web-0", namespace="default")
                assert deleted.is_terminating
            assert measured(api, background.KUBEAPI_ERRORS) == 1
        with pytest.raises(StowplanError, match="closed"):
            await api.delete_pod(old)


async def test_stopping_twice_or_before_starting_is_no_mistake() -> None:
    async with running_cluster() as cluster:
        api = cluster.kubeapi()
        await api.stop()
        await api.start()
        await api.start()
        await api.stop()
        await api.stop()


def test_the_original_s_arguments(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    api = Kubeapi("10.0.0.1", "6443", client_token_path=str(token), server_cert_ca_path=None)
    assert api._config.server == "https://10.0.0.1:6443"
    assert api._config.token_file == str(token)
    assert api.monitored_namespaces == ("default",)
    assert "secret" not in repr(api._config)
    plain = Kubeapi("http://api", 80, client_token_path=str(token), server_cert_ca_path=None)
    assert plain._config.token_file == "", "no secrets over a line that anybody may read"
    assert Kubeapi("http://[fd00::1]", 1)._config.server == "http://[fd00::1]:1"
    assert Kubeapi("http://fd00::1", 1)._config.server == "http://[fd00::1]:1"


def test_a_kubeconfig_instead(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],"
        " clusters: [{name: k, cluster: {server: 'http://1.2.3.4:80'}}],"
        " users: [{name: u, user: {}}]}"
    )
    assert Kubeapi(kubeconfig=str(path))._config.server == "http://1.2.3.4:80"


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"host": "x", "port": "y"}, "port: 'y' is not a port"),
    ({"host": "x", "port": 0}, "port: 0 is not a port"),
    ({"host": "ftp://x"}, "host: 'ftp://x' is not an http or https address"),
    ({"host": "x", "timeout": 0.5}, "timeout: 0.5 is not from 1 to 60 seconds"),
    ({"host": "http://x", "monitored_namespaces": ["a", ""]}, "monitored_namespaces: a namespace"),
    ({"host": "x", "kubeconfig": "y"}, "kubeconfig: cannot be used together with host"),
    ({"kubeconfig": "/no/such/file"}, "/no/such/file: no such file"),
    ({"host": "x", "client_token_path": "/no/token"}, "client_token_path: cannot read /no/token"),
    (
        {"host": "x", "client_token_path": None, "server_cert_ca_path": "/no/ca"},
        "server_cert_ca_path: cannot read /no/ca: No such file",
    ),
]


@pytest.mark.parametrize(("arguments", "problem"), MISTAKES)
def test_mistakes_name_the_field(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Kubeapi(**arguments)
    assert str(raised.value).startswith(problem)


def test_a_ca_that_is_none_is_a_mistake(tmp_path: Path) -> None:
    empty = tmp_path / "ca.crt"
    empty.write_text("hello")
    with pytest.raises(ConfigError, match="certificate authority is not usable"):
        Kubeapi("x", 1, client_token_path=None, server_cert_ca_path=str(empty))


async def test_a_pod_that_is_gone_is_not_found() -> None:
    async with running_cluster() as cluster:
        cluster.pod("web-0")
        async with following(cluster.kubeapi()) as api:
            (old,) = api.view.pods_named("web-0")
            async with ApiClient(ClusterConfig(cluster.server.url)) as client:
                await client.delete(PODS, "web-0", namespace="default", grace_period_s=0)
            with pytest.raises(NotFound):
                await api.delete_pod(old)
