"""The real API server as a workload's cluster (`stowplan.workloads.play.Cluster`).

`run` makes one for each contestant. What must stay true: writes cost as little as they can, and as
many are under way at once as in scheduler_perf, because they take place beside what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from random import Random

import aiohttp
import msgspec

from stowplan.api.resources import PODS
from stowplan.errors import StowplanError
from stowplan.lab.bench.observe import BindObserver
from stowplan.lab.bench.sender import Sender, SendError
from stowplan.loader.json_text import load_json
from stowplan.sim.scenarios.device_allocation import allocate_claims
from stowplan.workloads.model import Stage
from stowplan.workloads.play import Chain, Write

#: scheduler_perf creates pods with so many workers.
WRITERS = 30
_METHODS = {"create": "POST", "update": "PUT", "delete": "DELETE"}
_TICK_S = 0.01
#: Listing costs the API server something.
_LIST_EVERY_S = 1.0
#: Without progress of any pod for so long, the contestant has failed.
PATIENCE_S = 90.0


class BenchError(StowplanError):
    """The benchmark cannot go on."""


class _Condition(msgspec.Struct):
    type: str = ""


class _Name(msgspec.Struct):
    name: str = ""


class _PodClaim(msgspec.Struct, rename="camel"):
    resource_claim_template_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    resource_claim_statuses: list[_Name] = msgspec.field(default_factory=list)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    resource_claims: list[_PodClaim] = msgspec.field(default_factory=list)


class _Pod(msgspec.Struct):
    metadata: _Name
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_attempted(self) -> bool:
        return bool(self.spec.node_name) or any(
            condition.type == "PodScheduled" for condition in self.status.conditions
        )

    @property
    def lacks_claim(self) -> bool:
        """Whether a claim of it has yet to be made from a template."""
        wanted = sum(bool(each.resource_claim_template_name) for each in self.spec.resource_claims)
        return len(self.status.resource_claim_statuses) < wanted


class _Pods(msgspec.Struct):
    items: list[_Pod]


class LiveCluster:
    """The cluster of a running benchmark, on which `play` runs a workload.

    `check` is called while waiting, and raises if there is nothing left to wait for. `contestant`
    is the name for the error message when nothing happens.
    """

    def __init__(
        self,
        sender: Sender,
        session: aiohttp.ClientSession,
        observer: BindObserver,
        check: Callable[[], None],
        contestant: str,
    ) -> None:
        self._sender = sender
        self._session = session
        self._observer = observer
        self._check = check
        self._contestant = contestant
        #: When the request to create each pod was sent, by "namespace/name".
        self.sent_at: dict[str, float] = {}

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def write(self, chains: Iterable[Chain]) -> None:
        try:
            await self._sender.perform(self._requests(chain) for chain in chains)
        except SendError as problem:
            raise BenchError(f"a write of the workload failed: {problem}") from problem

    def _requests(self, chain: Chain) -> Iterator[tuple[bytes, Collection[int]]]:
        for write in chain:
            body = None if write.verb == "delete" else write.object
            request = self._sender.request(write.path, body, _METHODS[write.verb])
            if write.verb == "create" and write.resource is PODS:
                self.sent_at[f"{write.namespace}/{write.name}"] = time.monotonic()
            yield request, _tolerated(write)

    async def delete_pods(
        self, namespace: str, labels: Mapping[str, str], *, grace_period_s: int | None = None
    ) -> None:
        params = {"labelSelector": _selector(labels)}
        if grace_period_s is not None:
            params["gracePeriodSeconds"] = str(grace_period_s)
        async with self._session.delete(PODS.path(namespace=namespace), params=params) as answer:
            await answer.read()

    async def pod_names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        return [pod.metadata.name for pod in await self._list(namespace, labels)]

    async def _list(self, namespace: str, labels: Mapping[str, str]) -> list[_Pod]:
        params = {"labelSelector": _selector(labels), "resourceVersion": "0"}
        async with self._session.get(PODS.path(namespace=namespace), params=params) as answer:
            return load_json(await answer.read(), _Pods).items

    async def allocate_claims(self, namespace: str) -> None:
        async def read(path: str) -> bytes:
            async with self._session.get(path) as answer:
                return await answer.read()

        await allocate_claims(namespace, read, self.write, Random(0))

    async def wait_for_claims(self, namespace: str) -> None:
        """Wait until a controller has made the claims of all pods that get theirs by template."""
        fewest, progressed_at = float("inf"), time.monotonic()
        while lacking := sum(pod.lacks_claim for pod in await self._list(namespace, {})):
            if lacking < fewest:
                fewest, progressed_at = lacking, time.monotonic()
            elif time.monotonic() - progressed_at > PATIENCE_S:
                raise BenchError(
                    f"kube-controller-manager has made no claim for {PATIENCE_S:.0f} s: {lacking} "
                    f"pods in {namespace} lack theirs"
                )
            await asyncio.sleep(_LIST_EVERY_S)

    async def wait_for_pods(self, namespace: str, names: Collection[str], stage: Stage) -> None:
        missing = {f"{namespace}/{name}" for name in names}
        observer = self._observer
        progress, progressed_at, listed_at = (-1, len(missing)), 0.0, 0.0
        while missing:
            now = time.monotonic()
            # Cheaper than looking for each: while there are fewer, some are surely missing.
            if observer.count[namespace] >= len(names):
                missing = {key for key in missing if key not in observer.bound}
            if stage is Stage.ATTEMPTED and now - listed_at >= _LIST_EVERY_S:
                listed_at = now
                pods = await self._list(namespace, {})
                missing -= {f"{namespace}/{pod.metadata.name}" for pod in pods if pod.is_attempted}
            if progress != (observer.count[namespace], len(missing)):
                progress, progressed_at = (observer.count[namespace], len(missing)), now
            elif now - progressed_at > PATIENCE_S:
                missing -= observer.bound.keys()
                raise BenchError(
                    f"{self._contestant} has done nothing for {PATIENCE_S:.0f} s:"
                    f" {len(missing)} of {len(names)} pods in {namespace} are not"
                    f" {stage.value.lower()}, among them {min(missing)}"
                )
            self._check()
            await asyncio.sleep(_TICK_S)


def _tolerated(write: Write) -> Collection[int]:
    if write.verb == "create" and write.may_exist:
        return (409,)
    # It may have been evicted.
    return (404,) if write.verb == "delete" else ()


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
