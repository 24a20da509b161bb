"""A client of this process gets what one over HTTP gets: answers, watches, errors, faults."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kinds import PODS as KIND
from stowplan.errors import (
    AlreadyExists,
    ApiUnavailable,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    Throttled,
)
from stowplan.loader.json_text import load_json

_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.fixture
def client(cluster: EmbeddedCluster) -> ApiClient:
    return ApiClient(ClusterConfig(server=SERVER), transport=InProcess(cluster))


async def test_objects_are_created_read_bound_and_deleted(client: ApiClient) -> None:
    await client.create(PODS, _POD, namespace="default")
    pod = await client.get(PODS, "web", namespace="default")
    await client.bind("default", "web", pod.uid, "n1")
    assert (await client.get(PODS, "web", namespace="default")).spec.node_name == "n1"
    listed = await client.list_all(PODS, namespace="default")
    assert [each.metadata.name for each in listed.items] == ["web"]
    await client.delete(PODS, "web", namespace="default", grace_period_s=0)
    with pytest.raises(NotFound, match='pods "web" not found'):
        await client.get(PODS, "web", namespace="default")


async def test_what_is_sent_is_copied_as_json_would(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    labels = {"app": "web"}
    tolerations = ({"key": "a", "operator": "Exists", "tolerationSeconds": None},)
    pod = {
        **_POD,
        "metadata": {"name": "web", "labels": labels},
        "spec": {**_POD["spec"], "tolerations": tolerations},
    }
    await client.create(PODS, pod, namespace="default")
    labels["app"] = "other"
    found = cluster.store.require(KIND, "default", "web").object
    assert found["metadata"]["labels"] == {"app": "web"}
    assert found["spec"]["tolerations"][0] == {"key": "a", "operator": "Exists"}
    assert type(found["spec"]["tolerations"]) is list
    assert pod["spec"] == {**_POD["spec"], "tolerations": tolerations}, "nothing is filled in"


async def test_an_answer_that_nobody_reads_is_not_written(client: ApiClient) -> None:
    assert await client.create(PODS, _POD, namespace="default", reads_answer=False) == b""
    other = {**_POD, "metadata": {"name": "other"}}
    shown = load_json(await client.create(PODS, other, namespace="default"))
    assert shown["metadata"]["name"] == "other"
    with pytest.raises(AlreadyExists, match='pods "web" already exists'):
        await client.create(PODS, _POD, namespace="default", reads_answer=False)


async def test_errors_are_those_of_http(client: ApiClient) -> None:
    await client.create(PODS, _POD, namespace="default")
    with pytest.raises(AlreadyExists):
        await client.create(PODS, _POD, namespace="default")
    with pytest.raises(Conflict):
        await client.bind("default", "web", "another", "n1")
    with pytest.raises(Invalid):
        await client.create(NODES, {"metadata": {"name": "No Name"}})
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await client.request("GET", "/apis/nowhere/v1/things")


async def test_a_watch_tells_what_changes_and_ends_when_it_is_left(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    version = (await client.list_all(PODS)).resource_version
    seen: list[str] = []

    async def watch() -> None:
        async for event in client.watch(PODS, resource_version=version):
            seen.append(f"{event.type} {event.object.key}")
            if event.type == "DELETED":
                return

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await client.create(PODS, _POD, namespace="default")
    await client.delete(PODS, "web", namespace="default", grace_period_s=0)
    await asyncio.wait_for(watching, 10)
    assert seen == ["ADDED default/web", "MODIFIED default/web", "DELETED default/web"]


async def test_a_watch_from_a_forgotten_past_is_gone(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    await client.create(PODS, _POD, namespace="default")
    cluster.compact()
    with pytest.raises(Gone):
        async for _ in client.watch(PODS, resource_version="1"):
            pass


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(path="/pods", status=500), ServerError),
        (Fault(path="/pods", status=429, retry_after_s=3), Throttled),
        (Fault(path="/pods", action="drop"), ApiUnavailable),
    ],
)
async def test_faults_come_before_anything_is_done(
    cluster: EmbeddedCluster, client: ApiClient, fault: Fault, error: type[Exception]
) -> None:
    cluster.faults.append(fault)
    with pytest.raises(error):
        await client.create(PODS, _POD, namespace="default")
    assert not (await client.list_all(PODS)).items


async def test_an_answer_may_get_lost(cluster: EmbeddedCluster, client: ApiClient) -> None:
    cluster.faults.append(Fault(path="/pods", method="POST", action="lose-answer"))
    with pytest.raises(ApiUnavailable):
        await client.create(PODS, _POD, namespace="default")
    assert len((await client.list_all(PODS)).items) == 1
