"""The requests that the scheduler and its plugins send, as protocols.

`client.ApiClient` implements them over HTTP and says what each verb does; all raise the errors of
`stowplan.errors`. Code that only sends requests takes a protocol, so that mypy checks the real
client and every test double against the same signatures. A test double for plugins derives from
`NoApi` and overrides the verbs that its test expects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stowplan.api.objects import Pod, Wire
from stowplan.api.resources import Resource

if TYPE_CHECKING:  # a profile without a cluster does not load the client
    from stowplan.api.client import PatchKind
    from stowplan.api.paging import ListResult
    from stowplan.api.transport import Lane, Params

T = TypeVar("T")


class SchedulerApi(Protocol):
    """The verbs that the scheduler itself uses: bind, look up, patch the status, evict."""

    async def bind(
        self,
        pod_namespace: str,
        pod_name: str,
        pod_uid: str,
        node: str,
        *,
        timeout_s: float = ...,
    ) -> None: ...

    async def list_all(
        self,
        resource: Resource[T],
        *,
        namespace: str = ...,
        label_selector: str = ...,
        field_selector: str = ...,
        timeout_s: float = ...,
    ) -> ListResult[T]: ...

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any] | list[Any] | bytes,
        *,
        namespace: str = ...,
        subresource: str = ...,
        kind: PatchKind = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
    ) -> bytes: ...

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str = ...,
        uid: str = ...,
        resource_version: str = ...,
        grace_period_s: int | None = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
    ) -> None: ...


class ApiVerbs(SchedulerApi, Protocol):
    """All verbs, for plugins."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = ...,
        body: bytes | None = ...,
        content_type: str = ...,
        accept: str = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
        retry_throttled: bool = ...,
    ) -> bytes: ...

    async def get(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
    ) -> T: ...

    async def create(
        self,
        resource: Resource[Any],
        obj: Wire | Mapping[str, Any] | bytes,
        *,
        namespace: str = ...,
        subresource: str = ...,
        name: str = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
    ) -> bytes: ...

    async def replace(
        self,
        resource: Resource[Any],
        name: str,
        obj: Wire | Mapping[str, Any] | bytes,
        *,
        namespace: str = ...,
        subresource: str = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
    ) -> bytes: ...

    async def amend(
        self,
        resource: Resource[T],
        name: str,
        changes: Mapping[str, Any],
        *,
        namespace: str = ...,
        resource_version: str,
        subresource: str = ...,
        lane: Lane = ...,
        timeout_s: float = ...,
    ) -> T: ...

    async def can_i(
        self,
        verb: str,
        plural: str,
        *,
        group: str = ...,
        namespace: str = ...,
        subresource: str = ...,
        name: str = ...,
    ) -> bool: ...


class NoApi(ApiVerbs):
    """An API that accepts no request: what a plugin's handle has outside a running scheduler."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "this API client sends no requests of this kind: only a running scheduler has one"
            " that does. Fix: in a test, override the verb"
        )

    request = get = list_all = create = replace = _refuse
    patch = amend = delete = bind = can_i = _refuse


class Recorder(Protocol):
    """Reports events; `recorder.EventRecorder` writes them to the API server."""

    def event(
        self,
        regarding: Pod,
        *,
        type: str,  # noqa: A002 - the API's name
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        related: Pod | None = ...,
        once: bool = ...,
        occurred_at: float | None = ...,
    ) -> None: ...
