"""The server as a whole: start and stop, credentials, health, what it does not serve."""

from __future__ import annotations

import io

import aiohttp
import pytest
import yaml

from stowplan.apiserver.server import ApiServer
from tests.unit.apiserver.serving import NO_KUBELET, PODS, Api, pod, serving


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
async def test_health(api: Api, path: str) -> None:
    answer = await api.request("GET", path)
    assert (answer.status, answer.raw) == (200, b"ok")


async def test_version(api: Api) -> None:
    version = await api.get("/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.36.3", "1", "36")


async def test_every_cluster_begins_with_these(api: Api) -> None:
    namespaces = await api.get("/api/v1/namespaces")
    assert [item["metadata"]["name"] for item in namespaces["items"]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    first = namespaces["items"][0]
    assert first["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert first["status"] == {"phase": "Active"}
    classes = await api.get("/apis/scheduling.k8s.io/v1/priorityclasses")
    assert {item["metadata"]["name"]: item["value"] for item in classes["items"]} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/podz", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/apps/v1/pods", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", f"{PODS}/a/exec", 404),
        ("GET", f"{PODS}/a/b/c/d", 404),
        ("GET", "/api/v1/namespaces//pods", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", PODS, 405),
        ("PATCH", PODS, 405),
        ("DELETE", "/api/v1/pods", 405),
        ("GET", "/api/v1/namespaces/default/bindings", 405),
        ("TRACE", PODS, 405),
    ],
)
async def test_what_is_not_served(api: Api, method: str, path: str, status: int) -> None:
    body = pod() if method in ("POST", "PUT", "PATCH") else None
    answer = await api.request(method, path, body)
    assert answer.status == status
    assert answer.body["kind"] == "Status"
    if status == 404:
        assert answer.message == "the server could not find the requested resource"


async def test_a_token_is_asked_for_when_there_is_one() -> None:
    async with serving(token="secret") as api:
        answer = await api.request("GET", PODS)
        assert (answer.status, answer.reason) == (401, "Unauthorized")
        for token, status in (("wrong", 401), ("secret", 200)):
            headers = {"Authorization": f"Bearer {token}"}
            async with api.session.get(PODS, headers=headers) as response:
                assert response.status == status
        config = yaml.safe_load(api.server.kubeconfig())
        assert config["users"][0]["user"] == {"token": "secret"}


async def test_the_kubeconfig_points_at_the_server(api: Api) -> None:
    config = yaml.safe_load(api.server.kubeconfig())
    assert config["clusters"][0]["cluster"]["server"] == api.server.url
    assert config["current-context"] == config["contexts"][0]["name"]


async def test_objects_survive_a_restart_in_the_same_process(api: Api) -> None:
    await api.create(PODS, pod("a"))
    port = api.server.port
    await api.server.stop()
    with pytest.raises(aiohttp.ClientError):
        await api.request("GET", PODS)
    await api.server.start(port=port)
    assert len((await api.get(PODS))["items"]) == 1


async def test_stop_ends_open_watches_and_can_be_repeated() -> None:
    async with serving() as api:
        async with api.watch(PODS) as watch:
            await api.server.stop()
            assert await watch.rest() == []
        await api.server.stop()


async def test_a_port_that_is_taken() -> None:
    async with serving() as api:
        other = ApiServer(kubelet=NO_KUBELET)
        with pytest.raises(OSError, match="address already in use"):
            await other.start(port=api.server.port)
        await other.stop()


async def test_objects_can_be_created_without_http(api: Api) -> None:
    created = api.server.create("", "v1", "pods", pod("a"), namespace="default")
    assert created["spec"]["schedulerName"] == "default-scheduler"
    assert await api.get(f"{PODS}/a") == created


async def test_a_body_that_is_too_large(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    headers = {"Content-Type": "application/json"}
    for size, status in ((2_500_000, 201), (4_000_000, 413)):
        text = b'{"metadata":{"name":"a"},"data":{"x":"%s"}}' % (b"x" * size)
        async with api.session.post(path, data=io.BytesIO(text), headers=headers) as response:
            assert response.status == status
            if status == 413:
                body = await response.json()
                assert body["message"] == "Request entity too large: limit is 3145728"


async def test_a_name_of_a_web_page_is_refused_on_loopback(api: Api) -> None:
    for host, status in {
        "attacker.example": 421,
        "127.0.0.1.attacker.example": 421,
        "[::": 421,
        "": 421,
        "localhost:1": 200,
        "[::1]": 200,
    }.items():
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{api.server.url}/api/v1/pods", headers={"Host": host})
            assert answer.status == status, host


@pytest.mark.parametrize(
    ("media", "body", "problem"),
    [
        (
            "application/yaml",
            b"a: &a [x, x, x, x, x, x, x, x]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (name, name, b", ".join([b"*%c" % (name - 1)] * 8))
                for name in b"bcdefghijk"
            ),
            "yaml: line 6: the aliases up to here stand for more than 100,000 values",
        ),
        ("application/yaml", b"- " * 100_000, "yaml: is nested too deeply"),
        ("application/json", b"[" * 100_000, "is nested too deeply"),
        ("application/json", b'{"a": ' + b"9" * 5000 + b"}", "a number of 5000 digits"),
    ],
)
async def test_hostile_bodies_are_refused(api: Api, media: str, body: bytes, problem: str) -> None:
    async with aiohttp.ClientSession() as session:
        url = f"{api.server.url}/api/v1/namespaces/default/pods"
        answer = await session.post(url, data=body, headers={"Content-Type": media})
        assert answer.status == 400
        assert problem in await answer.text()
