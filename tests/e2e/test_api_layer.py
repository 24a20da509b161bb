"""The client, informer, lease and recorder against the real kube-apiserver."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from stowplan.api.client import ApiClient, Lane
from stowplan.api.informer import Informer, InformerOptions
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.lease import LeaderElector
from stowplan.api.objects import Pod
from stowplan.api.recorder import EventRecorder
from stowplan.api.resources import LEASES, NAMESPACES, NODES, PODS
from stowplan.clock import VirtualClock
from stowplan.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    Unauthorized,
)
from stowplan.lab.controlplane import ControlPlane
from tests.unit.api.api_kit import until

pytestmark = pytest.mark.e2e


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[ApiClient]:
    config = load_cluster_config(kubeconfig=str(control_plane.kubeconfig))
    async with ApiClient(config) as ready:
        yield ready


@pytest.fixture
async def namespace(client: ApiClient) -> AsyncIterator[str]:
    name = f"api-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    account = {"metadata": {"name": "default", "namespace": name}}
    await client.request(
        "POST", f"/api/v1/namespaces/{name}/serviceaccounts", body=msgspec.json.encode(account)
    )
    yield name
    await client.delete(NAMESPACES, name)


async def create_pod(client: ApiClient, namespace: str, name: str, **spec: Any) -> Pod:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "test"} | spec,
    }
    return msgspec.json.decode(await client.create(PODS, body, namespace=namespace), type=Pod)


@asynccontextmanager
async def informed(client: ApiClient, namespace: str, log: list[str]) -> AsyncIterator[Any]:
    informer = Informer(
        client,
        PODS,
        namespace=namespace,
        options=InformerOptions(page_size=2),
        on_add=lambda pod: log.append(f"+{pod.metadata.name}"),
        on_update=lambda old, new: log.append(f"~{new.metadata.name}"),
        on_delete=lambda pod: log.append(f"-{pod.metadata.name}"),
    )
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced.wait(), 20)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_version_and_rights(client: ApiClient) -> None:
    assert (await client.version())["gitVersion"].startswith("v1.36")
    assert await client.can_i("create", "pods", namespace="default", subresource="binding")


async def test_wrong_token(control_plane: ControlPlane) -> None:
    path = control_plane.write_kubeconfig("wrong", "not-a-token")
    async with ApiClient(load_cluster_config(kubeconfig=str(path))) as client:
        with pytest.raises(Unauthorized):
            await client.list_all(PODS)


async def test_errors_have_their_types(client: ApiClient, namespace: str) -> None:
    with pytest.raises(NotFound, match='pods "none" not found'):
        await client.get(PODS, "none", namespace=namespace)
    await create_pod(client, namespace, "p")
    with pytest.raises(AlreadyExists):
        await create_pod(client, namespace, "p")
    with pytest.raises(Invalid):
        await create_pod(client, namespace, "Not_A_Name")
    with pytest.raises(BadRequest):
        await client.create(PODS, b"{", namespace=namespace)
    with pytest.raises(Conflict):
        await client.delete(PODS, "p", namespace=namespace, uid="other")


async def test_list_watch_and_bind(client: ApiClient, namespace: str) -> None:
    node = f"node-{namespace}"
    await client.create(NODES, {"metadata": {"name": node}})
    pods = [await create_pod(client, namespace, f"p{number}") for number in range(5)]
    log: list[str] = []
    async with informed(client, namespace, log) as informer:
        assert log == [f"+p{number}" for number in range(5)]
        await client.bind(namespace, "p0", pods[0].uid, node)
        await until(lambda: "~p0" in log)
        assert informer.store[f"{namespace}/p0"].spec.node_name == node
        with pytest.raises(Conflict):
            await client.bind(namespace, "p0", pods[0].uid, node)
        with pytest.raises(Conflict):
            await client.bind(namespace, "p1", "another-uid", node)
        with pytest.raises(NotFound):
            await client.bind(namespace, "gone", "u", node)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"conditions": [condition]}}
        await client.patch(PODS, "p1", status, namespace=namespace, subresource="status")
        await until(lambda: "~p1" in log)
        await client.delete(PODS, "p2", namespace=namespace, uid=pods[2].uid, grace_period_s=0)
        await until(lambda: "-p2" in log)
        before = informer.resource_version
        await create_pod(client, namespace, "late")
        await informer.relist()
        assert informer.resource_version > before
        assert f"{namespace}/late" in informer.store
        assert log.count("+late") == 1
    await client.delete(NODES, node)


async def test_series_on_the_real_events_api(client: ApiClient, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    clock = VirtualClock()
    recorder = EventRecorder(client, clock=clock)
    task = asyncio.create_task(recorder.run())

    def report() -> None:
        recorder.event(
            pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note="n" * 3000,
            reporting_controller="test-scheduler",
        )

    async def events() -> list[dict[str, Any]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        listed = msgspec.json.decode(await client.request("GET", path), type=dict[str, Any])
        found: list[dict[str, Any]] = listed["items"]
        return found

    report()
    assert await recorder.drain(20)
    report()
    report()
    assert await recorder.drain(20)
    (event,) = await events()
    assert event["series"]["count"] in (2, 3)
    assert len(event["note"]) == 1024
    assert event["regarding"]["uid"] == pod.uid
    await client.request(
        "DELETE",
        f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/{event['metadata']['name']}",
    )
    clock.advance(7 * 60)
    recorder.sweep()
    assert await recorder.drain(20)
    (again,) = await events()
    assert again["series"]["count"] == 3
    assert (recorder.written, recorder.dropped) == (3, 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_two_electors_on_a_real_lease(client: ApiClient, namespace: str) -> None:
    first, second = (
        LeaderElector(
            client,
            "lock",
            namespace,
            identity,
            lease_duration_s=20,
            renew_deadline_s=15,
            retry_period_s=0.1,
        )
        for identity in ("one", "two")
    )
    await first.acquire()
    assert not await second.try_acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(0.5)
    assert first.is_leader
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await first.release()
    await asyncio.wait_for(waiting, 10)
    lease = await client.get(LEASES, "lock", namespace=namespace, lane=Lane.LEASE)
    assert lease.spec.holder_identity == "two"
    assert lease.spec.lease_transitions == 1
    assert lease.spec.lease_duration_seconds == 20
