"""Plays a workload on a cluster, operation by operation.

Called by the benchmark and by simulators, which bring a `Cluster` and an `Observer`. What must
stay true: every write, wait and pause goes through the cluster, so that a virtual one is in charge
of time; objects are made one at a time while the cluster takes them; whatever runs in the
background has ended when `play` returns or raises.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from stowplan.api.resources import Resource
from stowplan.workloads.model import Operation, Stage, Workload
from stowplan.workloads.templates import JsonObject


class Write(NamedTuple):
    """One request that changes the cluster.

    Parts of `object` are shared between writes: encode it, copy it, but never change it.
    """

    verb: Literal["create", "update", "delete"]
    resource: Resource[Any]
    #: With `metadata.name`, and `metadata.namespace` if namespaced; a delete has nothing else.
    object: JsonObject
    #: `status`, `resize`; an update of a subresource replaces it as PUT does.
    subresource: str = ""
    #: An object of that name that is there already is as good.
    may_exist: bool = False

    @property
    def name(self) -> str:
        name: str = self.object["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.object["metadata"].get("namespace", "")
        return namespace

    @property
    def path(self) -> str:
        """Where to send it: the collection for a create, else the object or its subresource."""
        name = "" if self.verb == "create" else self.name
        return self.resource.path(namespace=self.namespace, name=name, subresource=self.subresource)


#: Writes that must happen one after the other: a claim, its status, its volume, then its pod.
Chain: TypeAlias = Sequence[Write]


class Cluster(Protocol):
    """What a workload needs of a cluster. Failures are raised as StowplanError."""

    def now(self) -> float:
        """Seconds, from whatever clock this cluster lives by."""

    async def sleep(self, seconds: float) -> None:
        """Pass so much of the cluster's time."""

    async def write(self, chains: Iterable[Chain]) -> None:
        """Do all of it, return when all is done.

        Chains are started in order and may run side by side, as many as the cluster likes; the
        writes of one chain happen in order. `chains` is lazy: take from it only what is to be
        sent soon. Called again from background tasks while earlier calls are under way.
        """

    async def delete_pods(
        self, namespace: str, labels: Mapping[str, str], *, grace_period_s: int | None = None
    ) -> None:
        """Delete all pods of the namespace that carry these labels, as DeleteCollection does."""

    async def pod_names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """The pods of the namespace that carry these labels, now."""

    async def wait_for_pods(self, namespace: str, names: Collection[str], stage: Stage) -> None:
        """Until each of these pods has reached the stage, at some time.

        A pod counts for good once it had a node: it may have been preempted or deleted since.
        How long is too long is the cluster's decision; it raises then.
        """


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is being measured: the scheduling of these pods, as long as it lasts."""

    #: The namespace of a `createPods` that collects metrics, else the name the file gives it.
    label: str
    namespaces: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """Is told what happens, from inside `play`; methods return at once and never raise."""

    def operation_begins(self, number: int, operation: Operation) -> None:
        """Operations are numbered from 0, as in `workload.operations`."""

    def operation_ended(self, number: int, operation: Operation) -> None: ...

    def measuring_begins(self, measurement: Measurement) -> None:
        """Just before the first of the measured pods is created."""

    def measuring_ends(self, measurement: Measurement) -> None:
        """Just after the last of them was seen scheduled."""


async def play(workload: Workload, cluster: Cluster, *, observer: Observer) -> None:
    """Run all operations in order; raises ConfigError or whatever the cluster raised."""
    raise NotImplementedError
