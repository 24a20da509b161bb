"""The Kubernetes API as typed verbs: get, list, watch, create, patch, replace, delete, bind.

Everything that reads or writes the cluster goes through one `ApiClient`. Objects come back as the
slim structs of `objects`; what is written may be such a struct, a dict or ready JSON. All methods
raise the errors of `stowplan.errors`, also where the server's answer makes no sense.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from stowplan.api.decoding import decode_answer
from stowplan.api.guarded import GuardedRequests, WriteGuard
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.lanes import JSON
from stowplan.api.objects import Wire
from stowplan.api.paging import ListResult, list_pages
from stowplan.api.reachability import Reachability
from stowplan.api.request_observer import RequestObserver
from stowplan.api.resources import Resource
from stowplan.api.transport import Body, Lane, Params, Requests, Transport
from stowplan.api.watch import EventType, WatchEvent, WatchStream, object_of
from stowplan.clock import Clock
from stowplan.loader.json_text import UNREADABLE, json_decoder
from stowplan.logs import get_logger, kv

__all__ = ["ApiClient", "Lane", "PatchKind"]

log = get_logger(__name__)

T = TypeVar("T")

# kube-apiserver sends a bookmark about once a minute, whether or not anything changes (59.4 to
# 61.4 s measured). Only to a new stream it may send none while the server's version has not moved
# beyond the stream's first; opening such a stream again, from the last version seen, costs one
# request and loses nothing.
WATCH_INACTIVITY_S = 75.0


class PatchKind(StrEnum):
    """The patch formats of the API, by their media types."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


_decode_map = json_decoder(dict[str, Any])
_decode_review = json_decoder(_Review)
_encode = msgspec.json.Encoder().encode


class ApiClient:
    """One API server; use as an async context manager."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "stowplan",
        qps: float = 0,
        burst: int = 0,
        bind_concurrency: int = 64,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
        transport: Requests | None = None,
    ) -> None:
        """`qps` and `burst` hold for each lane by itself; 0 means no limit.

        `observer` is called for every request, for metrics.
        With a `transport` requests go by that one, and what is said of HTTP does not matter.
        """
        self._transport: Requests = transport or Transport(
            config,
            user_agent=user_agent,
            qps=qps,
            burst=burst,
            bind_concurrency=bind_concurrency,
            clock=clock,
            observer=observer,
        )
        self.config = config
        self.reachability = Reachability(config.server)
        self._decoders: dict[type, Callable[..., Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    def guarded_by(self, guard: WriteGuard) -> Self:
        """The same client, by the same connections, but its writes pass a guard."""
        guarded = copy.copy(self)
        guarded._transport = GuardedRequests(self._transport, guard)
        return guarded

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
        retry_throttled: bool = True,
    ) -> bytes:
        """Any request; 429 is waited out (a bounded number of times) by default."""
        return await self._transport.request(
            method,
            path,
            params=params,
            body=body,
            content_type=content_type,
            accept="" if accept == JSON else accept,
            lane=lane,
            timeout_s=timeout_s,
            retry_throttled=retry_throttled,
        )

    async def get(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str = "",
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
    ) -> T:
        path = resource.path(namespace=namespace, name=name)
        body = await self._transport.request("GET", path, lane=lane, timeout_s=timeout_s)
        return decode_answer(
            self.decoder(resource), body, request=f"GET {path}", kind=f"a {resource.kind}"
        )

    async def list_all(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
        timeout_s: float = 60.0,
        on_raw: Callable[[T, msgspec.Raw], None] | None = None,
    ) -> ListResult[T]:
        """Every object, as of one moment, page by page.

        `on_raw` is called with each object and its JSON. Copy the JSON to keep it: it is a view
        that keeps its whole page in memory.
        """
        return await list_pages(
            self._transport,
            resource,
            self.decoder(resource),
            namespace=namespace,
            selectors=_selectors(label_selector, field_selector),
            page_size=page_size,
            timeout_s=timeout_s,
            on_raw=on_raw,
        )

    @asynccontextmanager
    async def open_watch(
        self,
        resource: Resource[Any],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = 300.0,
        inactivity_s: float = WATCH_INACTIVITY_S,
    ) -> AsyncIterator[WatchStream]:
        """The stream of changes after `resource_version`; the server ends it after `timeout_s`."""
        path = resource.path(namespace=namespace)
        params: dict[str, str | int] = {
            **_selectors(label_selector, field_selector),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": max(1, int(timeout_s)),
        }
        async with self._transport.stream(path, params=params, inactivity_s=inactivity_s) as chunks:
            yield WatchStream(chunks, request=f"watch {path}")

    async def watch(
        self,
        resource: Resource[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = 300.0,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Added, modified and deleted objects, one by one, until the server ends the stream.

        For a store that stays true over broken streams and gaps use `informer.Informer`.
        """
        decode = self.decoder(resource)
        async with self.open_watch(
            resource,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_s=timeout_s,
        ) as stream:
            async for batch in stream.batches():
                for event in batch:
                    if event.type == EventType.BOOKMARK:
                        continue
                    try:
                        decoded = WatchEvent(
                            EventType(event.type), object_of(event, resource.type, decode)
                        )
                    except UNREADABLE as error:  # or the event has an unknown type
                        log.warning(
                            "Skipped a watch event that cannot be read",
                            extra=kv(resource=resource.plural, err=error),
                        )
                        continue
                    yield decoded

    async def create(
        self,
        resource: Resource[Any],
        obj: Wire | Mapping[str, Any] | bytes,
        *,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
        reads_answer: bool = True,
    ) -> bytes:
        """`name` and `subresource` are for POSTs below an object, such as an eviction.

        The answer may be empty if the caller does not read it.
        """
        return await self._transport.request(
            "POST",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            body=_body(resource, obj),
            lane=lane,
            timeout_s=timeout_s,
            reads_answer=reads_answer,
        )

    async def replace(
        self,
        resource: Resource[Any],
        name: str,
        obj: Wire | Mapping[str, Any] | bytes,
        *,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
    ) -> bytes:
        """PUT; with a resourceVersion in the object, Conflict where it has changed since."""
        return await self._transport.request(
            "PUT",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            body=_body(resource, obj),
            lane=lane,
            timeout_s=timeout_s,
        )

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
        field_manager: str = "stowplan",
    ) -> bytes:
        params = (
            {"fieldManager": field_manager, "force": "true"} if kind is PatchKind.APPLY else None
        )
        return await self._transport.request(
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            params=params,
            body=patch if isinstance(patch, bytes) else _encode(patch),
            content_type=kind.value,
            lane=lane,
            timeout_s=timeout_s,
        )

    async def amend(
        self,
        resource: Resource[T],
        name: str,
        changes: Mapping[str, Any],
        *,
        namespace: str = "",
        resource_version: str,
        subresource: str = "",
        lane: Lane = Lane.BIND,
        timeout_s: float = 30.0,
    ) -> T:
        """Merge changes into the version of an object that the caller knows, and show the result.

        Conflict where there is a newer version.
        """
        metadata = {**changes.get("metadata", {}), "resourceVersion": resource_version}
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        body = await self._transport.request(
            "PATCH",
            path,
            body=_encode({**changes, "metadata": metadata}),
            content_type=PatchKind.MERGE.value,
            lane=lane,
            timeout_s=timeout_s,
        )
        return decode_answer(
            self.decoder(resource), body, request=f"PATCH {path}", kind=f"a {resource.kind}"
        )

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
        """With a `uid`, Conflict where the name belongs to another object by now.

        With a `resource_version`, Conflict where the object has changed.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or resource_version:
            wanted = {"uid": uid, "resourceVersion": resource_version}
            options["preconditions"] = {key: value for key, value in wanted.items() if value}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        await self._transport.request(
            "DELETE",
            resource.path(namespace=namespace, name=name),
            body=options,
            lane=lane,
            timeout_s=timeout_s,
            reads_answer=False,
        )

    async def bind(
        self,
        pod_namespace: str,
        pod_name: str,
        pod_uid: str,
        node: str,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        """Put the pod on the node. The UID makes it Conflict for a new pod of the same name.

        The answer is a Status and says nothing that the HTTP code did not.
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod_name, "namespace": pod_namespace, "uid": pod_uid},
            "target": {"kind": "Node", "name": node},
        }
        await self._transport.request(
            "POST",
            f"/api/v1/namespaces/{pod_namespace}/pods/{pod_name}/binding",
            body=binding,
            lane=Lane.BIND,
            timeout_s=timeout_s,
            reads_answer=False,
        )

    async def version(self) -> dict[str, Any]:
        """The server's /version."""
        body = await self._transport.request("GET", "/version")
        return decode_answer(_decode_map, body, request="GET /version", kind="a version")

    async def can_i(
        self,
        verb: str,
        plural: str,
        *,
        group: str = "",
        namespace: str = "",
        subresource: str = "",
        name: str = "",
    ) -> bool:
        """Asks the server whether our credentials allow something."""
        attributes = {
            "verb": verb,
            "resource": plural,
            "group": group,
            "namespace": namespace,
            "subresource": subresource,
            "name": name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        # Not among the readers: a scheduler asks while it lists.
        body = await self._transport.request("POST", path, body=_encode(review), lane=Lane.STATUS)
        answer = decode_answer(_decode_review, body, request=f"POST {path}", kind="a review")
        return answer.status.allowed

    def decoder(self, resource: Resource[T]) -> Callable[[bytes | msgspec.Raw], T]:
        """The decoder of a resource's objects; made once, used for every object."""
        known = self._decoders.get(resource.type)
        if known is None:
            known = self._decoders[resource.type] = json_decoder(resource.type)
        return known


def _selectors(label_selector: str, field_selector: str) -> dict[str, str | int]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in selectors.items() if value}


def _body(resource: Resource[Any], obj: Wire | Mapping[str, Any] | bytes) -> Body:
    if isinstance(obj, (bytes, Mapping)):
        return obj
    encoded = _encode(obj)
    # Structs do not carry what every object on the wire begins with.
    head = _encode({"apiVersion": resource.api_version, "kind": resource.kind})
    return head if encoded == b"{}" else head[:-1] + b"," + encoded[1:]
