"""Pods of one template share a stored spec: seen by no client, and no way around validation."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.apiserver import kinds
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.shared_specs import _MOST, _MOST_VALID, KnownSpec, SharedSpecs
from stowplan.errors import Forbidden, Invalid
from stowplan.workloads.kinds import find_resource


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "web:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers, **spec},
    }


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.fixture
def client(cluster: EmbeddedCluster) -> ApiClient:
    return ApiClient(ClusterConfig(server=SERVER), transport=InProcess(cluster))


def _stored(cluster: EmbeddedCluster, name: str) -> dict[str, Any]:
    return cluster.store.require(kinds.PODS, "default", name).object


async def test_a_change_of_one_pod_leaves_the_others(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    for name in "abc":
        await client.create(PODS, _pod(name), namespace="default")
    assert _stored(cluster, "a")["spec"] is _stored(cluster, "b")["spec"]
    before = dict(_stored(cluster, "c")["spec"])
    image = {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    await client.patch(PODS, "a", image, namespace="default")
    pod = await client.get(PODS, "b", namespace="default")
    await client.bind("default", "b", pod.uid, "n1")
    assert _stored(cluster, "c")["spec"] == before
    assert _stored(cluster, "a")["spec"]["containers"][0]["image"] == "web:2"
    await client.create(PODS, _pod("d"), namespace="default")
    assert _stored(cluster, "d")["spec"] == before


async def test_an_invalid_spec_is_refused_each_time(client: ApiClient) -> None:
    for name in ("a", "b"):
        with pytest.raises(Invalid, match="restartPolicy"):
            await client.create(PODS, _pod(name, restartPolicy="Maybe"), namespace="default")


async def test_the_rest_of_a_pod_is_validated_whatever_its_spec(client: ApiClient) -> None:
    await client.create(PODS, _pod("a"), namespace="default")
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await client.create(PODS, _pod("A_B"), namespace="default")


async def test_a_spec_with_unknown_fields_is_told_of_each_time(cluster: EmbeddedCluster) -> None:
    target = parse_path("/api/v1/namespaces/default/pods")
    assert target is not None
    for name in ("a", "b"):
        for validation in ("Ignore", "Warn"):
            options = WriteOptions(field_validation=validation, dry_run=True)
            cluster.rest.writer.create(target, _pod(name, colour="red"), options)
            told = ['unknown field "spec.colour"'] if validation == "Warn" else []
            assert options.warnings == told


async def test_a_priority_is_that_of_its_class_at_the_time(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    priority_classes = find_resource("scheduling.k8s.io/v1", "PriorityClass")
    assert priority_classes is not None
    for name, value in (("a", 5), ("b", 7)):
        await client.create(priority_classes, {"metadata": {"name": "batch"}, "value": value})
        await client.create(PODS, _pod(name, priorityClassName="batch"), namespace="default")
        await client.delete(priority_classes, "batch")
        assert _stored(cluster, name)["spec"]["priority"] == value
    with pytest.raises(Forbidden, match="no PriorityClass with name batch was found"):
        await client.create(PODS, _pod("c", priorityClassName="batch"), namespace="default")


async def test_keys_of_labels_become_those_of_each_pod(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["version"],
    }
    for version in ("1", "2"):
        pod = _pod(f"v{version}", topologySpreadConstraints=[spread])
        pod["metadata"]["labels"]["version"] = version
        await client.create(PODS, pod, namespace="default")
        (made,) = _stored(cluster, f"v{version}")["spec"]["topologySpreadConstraints"]
        (added,) = made["labelSelector"]["matchExpressions"]
        assert added["values"] == [version]


def test_specs_that_are_large_or_too_many_are_not_kept() -> None:
    specs = SharedSpecs()
    large = {"spec": {"nodeSelector": {f"key-{number}": "x" * 60 for number in range(500)}}}
    key, known = specs.find(large)
    assert known is specs.add(key, {}) is None
    for number in range(_MOST + 1):
        key, known = specs.find({"spec": {"nodeName": str(number)}})
        assert known is None
        specs.add(key, {})
    assert specs.find({"spec": {"nodeName": "0"}})[1] is None
    assert specs.find({"spec": {"nodeName": str(_MOST)}})[1] is not None


def test_of_one_spec_a_few_valid_ones_are_kept() -> None:
    known = KnownSpec({"restartPolicy": "Never"})
    for priority in range(1000, 1000 + 2 * _MOST_VALID):
        known.accept({"restartPolicy": "Never", "priority": priority})
    assert known.valid({"restartPolicy": "Never", "priority": 1000}) is None
    assert len(known._valid) <= _MOST_VALID


async def test_an_informer_gets_nothing_that_the_server_stores(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    seen: list[Pod] = []
    informer: Informer[Pod] = Informer(
        client, PODS, on_add=seen.append, on_update=lambda _, new: None, on_delete=seen.append
    )
    await informer.list_once()
    async with client.open_watch(PODS, resource_version=str(cluster.store.version)) as stream:
        await client.create(PODS, _pod("a"), namespace="default")
        batch = await anext(stream.batches())
        for event in batch:
            informer._copy.apply_event(event)
    labels = seen[0].metadata.labels
    assert labels == {"app": "web"}
    labels["app"] = "changed"
    assert _stored(cluster, "a")["metadata"]["labels"] == {"app": "web"}


def test_encodings_leave_memory_with_the_history() -> None:
    cluster = EmbeddedCluster(history_size=2, keeps_encodings=False)
    records = [
        cluster.store.create(kinds.NODES, {"kind": "Node", "metadata": {"name": f"n{number}"}})
        for number in range(4)
    ]
    first = records[0].encoded
    assert records[0].encoded is not first, "encoded for each reader"
    assert records[3].encoded is records[3].encoded, "once for all readers"
    last = records[3].encoded
    cluster.compact()
    assert records[3].encoded is not last
