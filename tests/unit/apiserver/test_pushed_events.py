"""A reader in this process is called with the events of a watch: informers, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.history import Subscription
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kinds import PODS as KIND
from stowplan.errors import Gone

_POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.fixture
def client(cluster: EmbeddedCluster) -> ApiClient:
    return ApiClient(ClusterConfig(server=SERVER), transport=InProcess(cluster))


class _Seen:
    """An informer's handlers, and what they were called with."""

    def __init__(self) -> None:
        self.adds: list[Pod] = []
        self.updates: list[tuple[Pod, Pod]] = []
        self.deletes: list[Pod] = []

    @asynccontextmanager
    async def informer(self, client: ApiClient, selector: str = "") -> AsyncIterator[Informer[Pod]]:
        informer = Informer(
            client,
            PODS,
            on_add=self.adds.append,
            on_update=lambda old, new: self.updates.append((old, new)),
            on_delete=self.deletes.append,
            field_selector=selector,
        )
        running = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await _turns()
        try:
            yield informer
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _set_phase(cluster: EmbeddedCluster, phase: str) -> None:
    record = cluster.store.require(KIND, "default", "web")
    status = {**record.object["status"], "phase": phase}
    cluster.store.update(KIND, {**record.object, "status": status}, record)


async def test_parts_that_did_not_change_are_not_decoded_again(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    seen = _Seen()
    async with seen.informer(client, "status.phase!=Succeeded"):
        await client.create(PODS, _POD, namespace="default")
        await _turns()
        await client.bind("default", "web", seen.adds[0].uid, "n1")
        await _turns()
        _set_phase(cluster, "Running")
        await _turns()
        _set_phase(cluster, "Succeeded")
        await _turns()
    (pending, bound), (before, running) = seen.updates
    assert (pending.spec.node_name, bound.spec.node_name) == ("", "n1")
    assert before is bound
    assert running.spec is bound.spec
    assert (bound.status.phase, running.status.phase) == ("Pending", "Running")
    (left,) = seen.deletes
    assert left.spec is running.spec
    assert left.status is running.status
    assert int(left.metadata.resource_version) == int(running.metadata.resource_version) + 1


async def test_what_an_informer_keeps_is_what_a_new_list_shows(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    seen = _Seen()
    async with seen.informer(client) as informer:
        await client.create(PODS, _POD, namespace="default")
        await client.bind("default", "web", "", "n1")
        _set_phase(cluster, "Running")  # three changes in one batch
        await _turns()
        patch: dict[str, Any] = {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}}
        await client.patch(PODS, "web", patch, namespace="default")
        await _turns()
        patch = {"metadata": {"labels": None}}
        await client.patch(PODS, "web", patch, namespace="default")
        await _turns()
        kept = informer.store["default/web"]
    assert kept == (await client.list_all(PODS)).items[0]
    assert kept == msgspec.convert(cluster.store.require(KIND, "default", "web").object, Pod)


async def test_changes_that_a_handler_makes_are_delivered_in_the_same_turn(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    seen = _Seen()
    async with seen.informer(client) as informer:
        informer._copy._on_add = lambda _: _set_phase(cluster, "Running")
        await client.create(PODS, _POD, namespace="default")
        await asyncio.sleep(0)
        assert [new.status.phase for _, new in seen.updates] == ["Running"]


async def test_a_pushed_watch_of_a_forgotten_past_raises(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    await client.create(PODS, _POD, namespace="default")
    cluster.compact()
    received: list[object] = []
    async with client.open_watch(PODS, resource_version="1") as stream:
        with pytest.raises(Gone):
            await stream.deliver(received.append)
    assert not received


async def test_a_pushed_watch_ends_after_its_time(client: ApiClient) -> None:
    async with client.open_watch(PODS, resource_version="", timeout_s=1) as stream:
        async with asyncio.timeout(10):
            await stream.deliver(lambda _: None)


async def test_dropped_watches_end(cluster: EmbeddedCluster, client: ApiClient) -> None:
    async with client.open_watch(PODS, resource_version="") as stream:
        delivering = asyncio.create_task(stream.deliver(lambda _: None))
        await _turns()
        assert cluster.drop_watches() == 1
        await asyncio.wait_for(delivering, 10)


def _subscribed(cluster: EmbeddedCluster) -> Subscription:
    return cluster.store.subscribe(KIND)


async def test_what_a_follower_raises_ends_following(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    subscription = _subscribed(cluster)

    def look() -> None:
        subscription.take()
        raise RuntimeError("of the reader")

    following = asyncio.create_task(subscription.follow(look))
    await _turns()
    await client.create(PODS, _POD, namespace="default")
    with pytest.raises(RuntimeError, match="of the reader"):
        await following


async def test_a_follower_is_not_called_after_it_was_cancelled(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    subscription = _subscribed(cluster)
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        subscription.take()

    following = asyncio.create_task(subscription.follow(look))
    await _turns()
    await client.create(PODS, _POD, namespace="default")
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await _turns()
    assert looks == 0
    assert subscription.has_news
