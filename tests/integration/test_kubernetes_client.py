"""A small scheduler written with PyPI's `kubernetes` client, against both API servers.

This is what the workshops build: watch pending pods, pick a node, create a binding. If that
client's models cannot read an answer, or its watch stops, it shows here.
"""

from __future__ import annotations

import importlib
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.embedded_fixtures import running_embedded_server

# Generated code, whose types say None wherever a field is optional: used as the tutorials do.
kubernetes: Any = importlib.import_module("kubernetes")
ApiException: type[Any] = kubernetes.client.exceptions.ApiException

SCHEDULER = "python-client"
WATCH_S = 20


class Cluster:
    """One API server, through the generated client, with a namespace of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
        self.client = kubernetes.client.ApiClient(configuration)
        self.core = kubernetes.client.CoreV1Api(self.client)
        self.namespace = f"client-{uuid.uuid4().hex[:8]}"
        self.node = f"node-{self.namespace}"
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        self.core.create_node(
            {
                "metadata": {"name": self.node, "labels": {"zone": "a"}},
                "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
            }
        )

    def close(self) -> None:
        self.core.delete_node(self.node)
        self.core.delete_namespace(self.namespace)
        self.client.close()

    def create_pod(self, name: str) -> Any:
        container = kubernetes.client.V1Container(
            name="c",
            image="nginx:1",
            resources=kubernetes.client.V1ResourceRequirements(requests={"cpu": "0.5"}),
        )
        body = kubernetes.client.V1Pod(
            metadata=kubernetes.client.V1ObjectMeta(name=name, labels={"app": "web"}),
            spec=kubernetes.client.V1PodSpec(containers=[container], scheduler_name=SCHEDULER),
        )
        return self.core.create_namespaced_pod(self.namespace, body)

    def bind(self, name: str) -> int:
        """The HTTP status; the generated model of the answer is wrong, so it is not parsed."""
        body = kubernetes.client.V1Binding(
            metadata=kubernetes.client.V1ObjectMeta(name=name),
            target=kubernetes.client.V1ObjectReference(
                kind="Node", api_version="v1", name=self.node
            ),
        )
        answer = self.core.create_namespaced_binding(self.namespace, body, _preload_content=False)
        status: int = answer.status
        return status


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.e2e)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "embedded":
        with running_embedded_server(tmp_path) as server:
            running = Cluster(server.kubeconfig_path)
            yield running
            running.close()
        return
    require_binaries("etcd", "kube-apiserver", "kubectl")
    plane: ControlPlane = request.getfixturevalue("control_plane")
    running = Cluster(plane.kubeconfig)
    yield running
    running.close()


def test_watch_and_bind(cluster: Cluster) -> None:
    """The tutorial's loop: every pending pod of ours gets the node, exactly once."""
    expected = {f"pod-{number}" for number in range(5)}
    bound: dict[str, int] = {}

    def schedule() -> None:
        watch = kubernetes.watch.Watch()
        for event in watch.stream(
            cluster.core.list_namespaced_pod, cluster.namespace, timeout_seconds=WATCH_S
        ):
            pod = event["object"]
            if (
                pod.status.phase == "Pending"
                and pod.spec.scheduler_name == SCHEDULER
                and not pod.spec.node_name
                and event["type"] == "ADDED"
            ):
                bound[pod.metadata.name] = cluster.bind(pod.metadata.name)
            if set(bound) == expected:
                watch.stop()

    scheduler = threading.Thread(target=schedule)
    scheduler.start()
    for name in sorted(expected):
        cluster.create_pod(name)
    scheduler.join(WATCH_S + 5)
    assert bound == dict.fromkeys(expected, 201)
    on_node = cluster.core.list_namespaced_pod(
        cluster.namespace, field_selector=f"spec.nodeName={cluster.node}"
    )
    assert {pod.metadata.name for pod in on_node.items} == expected
    conditions = on_node.items[0].status.conditions
    assert [(c.type, c.status) for c in conditions] == [("PodScheduled", "True")]


def test_a_second_binding_is_a_conflict(cluster: Cluster) -> None:
    cluster.create_pod("a")
    assert cluster.bind("a") == 201
    with pytest.raises(ApiException) as caught:
        cluster.bind("a")
    assert caught.value.status == 409
    assert "is already assigned to node" in caught.value.body


def test_models_round_trip(cluster: Cluster) -> None:
    created = cluster.create_pod("a")
    assert created.spec.containers[0].resources.requests == {"cpu": "500m"}
    patched = cluster.core.patch_namespaced_pod(
        "a", cluster.namespace, {"metadata": {"labels": {"app": None, "tier": "1"}}}
    )
    assert patched.metadata.labels == {"tier": "1"}
    patched.metadata.annotations = {"x": "y"}
    replaced = cluster.core.replace_namespaced_pod("a", cluster.namespace, patched)
    assert replaced.metadata.annotations == {"x": "y"}
    with pytest.raises(ApiException) as caught:
        cluster.core.replace_namespaced_pod("a", cluster.namespace, created)
    assert (caught.value.status, "Conflict" in caught.value.body) == (409, True)
    cluster.core.delete_namespaced_pod("a", cluster.namespace)
    with pytest.raises(ApiException) as caught:
        cluster.core.read_namespaced_pod("a", cluster.namespace)
    assert caught.value.status == 404


def test_paging_and_selectors(cluster: Cluster) -> None:
    for number in range(5):
        cluster.create_pod(f"pod-{number}")
    seen: list[str] = []
    token = None
    while True:
        page = cluster.core.list_namespaced_pod(
            cluster.namespace, limit=2, label_selector="app=web", _continue=token
        )
        seen += [pod.metadata.name for pod in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert seen == [f"pod-{number}" for number in range(5)]


def test_events_and_leases(cluster: Cluster) -> None:
    pod = cluster.create_pod("a")
    events = kubernetes.client.EventsV1Api(cluster.client)
    reference = kubernetes.client.V1ObjectReference(
        kind="Pod", namespace=cluster.namespace, name="a", uid=pod.metadata.uid
    )
    events.create_namespaced_event(
        cluster.namespace,
        kubernetes.client.EventsV1Event(
            metadata=kubernetes.client.V1ObjectMeta(generate_name="a-"),
            event_time="2026-01-02T03:04:05.000001Z",
            reporting_controller=SCHEDULER,
            reporting_instance=f"{SCHEDULER}-0",
            action="Binding",
            reason="Scheduled",
            regarding=reference,
            note="done",
            type="Normal",
        ),
    )
    (event,) = cluster.core.list_namespaced_event(
        cluster.namespace, field_selector="involvedObject.name=a"
    ).items
    assert (event.reason, event.message) == ("Scheduled", "done")
    coordination = kubernetes.client.CoordinationV1Api(cluster.client)
    lease = coordination.create_namespaced_lease(
        cluster.namespace,
        kubernetes.client.V1Lease(
            metadata=kubernetes.client.V1ObjectMeta(name="l"),
            spec=kubernetes.client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15),
        ),
    )
    lease.spec.holder_identity = "you"
    replaced = coordination.replace_namespaced_lease("l", cluster.namespace, lease)
    assert replaced.spec.holder_identity == "you"
