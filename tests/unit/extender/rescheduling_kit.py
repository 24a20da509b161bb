"""A rescheduler on an embedded API server, and algorithms that name pods to move."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import PODS
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.rescheduling import (
    Rescheduler,
)
from tests.unit.extender import kit
from tests.unit.extender.cluster_kit import Cluster, following, running_cluster

TOKEN = "s3cret"
BEARER = f"Bearer {TOKEN}"


class Names(kit.Calls):
    """Would have these pods elsewhere."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = list(names)
        self.asked = 0

    def reschedule(self) -> list[str]:
        self.asked += 1
        return self.names


class SlowNames(Names):
    runs_in_thread = True

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.may_go_on = threading.Event()

    def reschedule(self) -> list[str]:
        assert self.may_go_on.wait(30)
        return super().reschedule()


class Failing(Names):
    def reschedule(self) -> list[str]:
        super().reschedule()
        raise ZeroDivisionError("no idea")


def measured(rescheduler: Rescheduler) -> dict[str, float]:
    return {
        f"{metric.name}.{metric.labels['result']}": metric.value
        for metric in rescheduler.measures()
        if metric.value
    }


class Scene:
    def __init__(self, cluster: Cluster, kubeapi: Kubeapi, rescheduler: Rescheduler) -> None:
        self.cluster = cluster
        self.kubeapi = kubeapi
        self.rescheduler = rescheduler

    async def going(self) -> list[str]:
        """Pods that are terminating, by all namespaces."""
        async with ApiClient(ClusterConfig(self.cluster.server.url)) as client:
            pods = (await client.list_all(PODS)).items
        return sorted(pod.metadata.name for pod in pods if pod.is_terminating)


@asynccontextmanager
async def scene(
    algorithm: Algorithm, *, pods: int = 3, namespaces: list[str] | None = None, **options: Any
) -> AsyncIterator[Scene]:
    async with running_cluster() as cluster:
        cluster.node("n1")
        for number in range(pods):
            cluster.pod(f"web-{number}", node="n1")
        for namespace in (namespaces or [])[1:]:
            cluster.namespace(namespace)
            cluster.pod("web-0", namespace=namespace, node="n1")
        async with following(cluster.kubeapi(monitored_namespaces=namespaces)) as kubeapi:
            yield Scene(cluster, kubeapi, Rescheduler(algorithm, kubeapi, **options))
