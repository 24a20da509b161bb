"""An API server in memory that answers when it is told to, and news of it that come when told to.

`RemoteApi` is what Binder, Evictor and Reporter take for their client: every request waits until
the test answers it, in any order, well or badly. What happens on it becomes news that an `Inbox`
delivers to event handlers as an informer would. `VirtualLoop` is an event loop whose timers go by
the test's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from stowplan.api.client import PatchKind
from stowplan.api.objects import Condition, Node, Pod
from stowplan.api.paging import ListResult
from stowplan.api.resources import PODS, Resource
from stowplan.api.transport import Lane
from stowplan.api.verbs import SchedulerApi
from stowplan.clock import VirtualClock
from stowplan.errors import ApiUnavailable, Conflict, NotFound, ServerError
from stowplan.scheduler.event_handlers import EventHandlers
from tests.unit.scheduler.engine_bench import changed

DELETED = "2026-01-01T01:00:00Z"
#: More turns of the loop than any chain of tasks here takes to its next request.
_MOST_TURNS = 1_000

T = TypeVar("T")

News = tuple[str, Pod | Node, bool]
"""The object's key, the object as it is or last was, and whether it is still there."""


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        self._virtual = clock
        super().__init__()

    def time(self) -> float:
        return self._virtual.monotonic()

    def settle(self) -> None:
        """Run whatever can run without an answer or the time going on."""
        turns = iter(range(_MOST_TURNS))

        def stop_if_idle() -> None:
            if self._ready:  # type: ignore[attr-defined]  # asyncio's own queue
                assert next(turns, None) is not None, "a task never waits"
                self.call_soon(stop_if_idle)
            else:
                self.stop()

        self.call_soon(stop_if_idle)
        self.run_forever()


@dataclass
class Request:
    verb: str
    key: str
    carry_out: Callable[[], object]
    answer: asyncio.Future[Any]
    #: Of a binding: its node, and whether the scheduler that sent it still keeps the place there.
    node: str = ""
    is_kept: bool = True


class RemoteApi(SchedulerApi):
    """Pods by namespace/name and nodes by name, as they truly are."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.pod_news: list[News] = []
        self.node_news: list[News] = []
        self.requests: list[Request] = []
        #: Bindings whose connection broke and which have not arrived yet.
        self.late: list[Request] = []
        #: UIDs of pods that a finalizer keeps when they are deleted.
        self.kept: set[str] = set()
        #: UIDs of pods that the scheduler deleted.
        self.victims: set[str] = set()
        self._version = 0

    # What others do

    def put_pod(self, pod: Pod) -> None:
        self._version += 1
        pod = changed(pod, resource_version=str(self._version))
        self.pods[pod.key] = pod
        self.pod_news.append((pod.key, pod, True))

    def remove_pod(self, pod: Pod, **last: Any) -> None:
        del self.pods[pod.key]
        self.pod_news.append((pod.key, changed(pod, **last), False))

    def delete_pod(self, pod: Pod) -> None:
        """A pod that runs, or has a finalizer, stays for a while."""
        if not pod.spec.node_name and pod.uid not in self.kept:
            self.remove_pod(pod)
        elif not pod.is_terminating:
            self.put_pod(changed(pod, deletion_timestamp=DELETED))

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.node_news.append((node.name, node, True))

    def remove_node(self, name: str) -> None:
        self.node_news.append((name, self.nodes.pop(name), False))

    # What the scheduler asks for

    async def bind(
        self,
        pod_namespace: str,
        pod_name: str,
        pod_uid: str,
        node: str,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        key = f"{pod_namespace}/{pod_name}"
        await self._ask("bind", key, lambda: self.bind_now(key, pod_uid, node), node)

    async def list_all(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = 60.0,
    ) -> ListResult[T]:
        """Pods by name only: nothing else is listed by a scheduler without informers."""
        field, _, name = field_selector.partition("=")
        assert (resource, field, label_selector) == (PODS, "metadata.name", "")
        found = await self._ask("list", f"{namespace}/{name}", lambda: self._list(namespace, name))
        return cast(ListResult[T], found)

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any] | list[Any] | bytes,
        *,
        namespace: str = "",
        subresource: str = "",
        kind: PatchKind = PatchKind.STRATEGIC,
        lane: Lane = Lane.STATUS,
        timeout_s: float = 30.0,
    ) -> bytes:
        assert (resource, subresource, kind) == (PODS, "status", PatchKind.STRATEGIC)
        assert isinstance(patch, Mapping)
        key = f"{namespace}/{name}"
        await self._ask("patch", key, lambda: self._patch(key, patch))
        return b""

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_period_s: int | None = None,
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
    ) -> None:
        assert resource == PODS
        key = f"{namespace}/{name}"
        await self._ask("delete", key, lambda: self._evict(key, uid))

    def reply(self, request: Request, how: str) -> None:
        """`done`; `lost` (done, but without an answer); `failed` or `refused` (not done); `late`
        (without an answer, and a binding may be done by `arrive` at any time).
        """
        self.requests.remove(request)
        if how == "late" and request.verb == "bind":
            self.late.append(request)
        answer: object = None
        problem: Exception | None = None
        if how in ("done", "lost"):
            try:
                answer = request.carry_out()
            except (NotFound, Conflict) as no:
                problem = no
        if how in ("lost", "refused", "late"):
            problem = ApiUnavailable("connection reset", maybe_done=True)
        elif how == "failed":
            problem = ServerError("out of order")
        if request.answer.done():
            return  # whoever asked was stopped meanwhile
        if problem is not None:
            request.answer.set_exception(problem)
        else:
            request.answer.set_result(answer)

    def arrive(self, request: Request) -> bool:
        """Carry out a late binding; True if it took effect."""
        self.late.remove(request)
        try:
            request.carry_out()
        except (NotFound, Conflict):
            return False
        return True

    def forget_places(self, node: str = "") -> None:
        """The scheduler has ended, or knows that a node is gone: it keeps no place there."""
        for request in (*self.requests, *self.late):
            if not node or request.node == node:
                request.is_kept = False

    async def _ask(
        self, verb: str, key: str, carry_out: Callable[[], object], node: str = ""
    ) -> object:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.requests.append(Request(verb, key, carry_out, answer, node))
        return await answer

    def _find(self, key: str, uid: str = "") -> Pod:
        pod = self.pods.get(key)
        if pod is None:
            raise NotFound(f"pods {key} not found")
        if uid and pod.uid != uid:
            raise Conflict(f"pods {key}: another UID")
        return pod

    def _list(self, namespace: str, name: str) -> ListResult[Pod]:
        found = self.pods.get(f"{namespace}/{name}")
        return ListResult([] if found is None else [found], str(self._version))

    def bind_now(self, key: str, uid: str, node: str) -> None:
        pod = self._find(key, uid)
        if pod.spec.node_name or pod.is_terminating or pod.spec.scheduling_gates:
            raise Conflict(f"pods {key}: cannot be bound")
        self.put_pod(changed(pod, node_name=node))

    def _evict(self, key: str, uid: str) -> None:
        pod = self._find(key, uid)
        self.victims.add(uid)
        self.delete_pod(pod)

    def _patch(self, key: str, patch: Mapping[str, Any]) -> None:
        pod = self._find(key, patch["metadata"]["uid"])
        status = patch["status"]
        fields: dict[str, Any] = {}
        if "nominatedNodeName" in status:
            fields["nominated_node_name"] = status["nominatedNodeName"] or ""
        if "conditions" in status:
            (new,) = msgspec.convert(status["conditions"], list[Condition])
            others = [old for old in pod.status.conditions or () if old.type != new.type]
            fields["conditions"] = (*others, new)
        self.put_pod(changed(pod, **fields))


class Inbox:
    """What one scheduler has heard of, as its informers keep it."""

    def __init__(self, api: RemoteApi, handlers: EventHandlers) -> None:
        self._api = api
        self._handlers = handlers
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.relist()

    def relist(self) -> None:
        """Everything at once, whatever happened in between."""
        api, told = self._api, self._handlers
        api.pod_news.clear()
        api.node_news.clear()
        for name in self.nodes.keys() - api.nodes.keys():
            api.forget_places(name)
            told.delete_node(self.nodes.pop(name))
        for node in api.nodes.values():
            self._put_node(node)
        for key, old in list(self.pods.items()):
            new = api.pods.get(key)
            if new is None or new.uid != old.uid:
                told.delete_pod(self.pods.pop(key))
        for pod in api.pods.values():
            self._put_pod(pod)

    def deliver_pod(self) -> None:
        key, pod, is_there = self._api.pod_news.pop(0)
        assert isinstance(pod, Pod)
        known = self.pods.get(key)
        if is_there:
            self._put_pod(pod)
        elif known is not None:
            del self.pods[key]
            self._handlers.delete_pod(pod)

    def deliver_node(self) -> None:
        name, node, is_there = self._api.node_news.pop(0)
        assert isinstance(node, Node)
        if is_there:
            self._put_node(node)
        elif name in self.nodes:
            self._api.forget_places(name)
            del self.nodes[name]
            self._handlers.delete_node(node)

    def deliver_all(self) -> None:
        while self._api.node_news:
            self.deliver_node()
        while self._api.pod_news:
            self.deliver_pod()

    def _put_pod(self, pod: Pod) -> None:
        known = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        if known is None:
            self._handlers.add_pod(pod)
        elif known is not pod:
            self._handlers.update_pod(known, pod)

    def _put_node(self, node: Node) -> None:
        known = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if known is None:
            self._handlers.add_node(node)
        elif known is not node:
            self._handlers.update_node(known, node)
