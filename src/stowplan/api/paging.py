"""Lists of the API, read page by page: limit, continue tokens, and lists that expire between pages.

Called by `client.ApiClient.list_all`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from stowplan.api.decoding import decode_answer
from stowplan.api.resources import Resource
from stowplan.api.transport import Requests
from stowplan.errors import ApiUnavailable, Gone
from stowplan.loader.json_text import UNREADABLE, json_decoder
from stowplan.loader.numbers import whole_number

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListResult(Generic[T]):
    """A consistent list. `undecodable` holds the raw JSON of items that are not what they claim."""

    items: list[T]
    resource_version: str
    undecodable: tuple[bytes, ...] = ()


def is_older(version: str, other: str) -> bool:
    """Whether a resourceVersion is older than another; False if they cannot be compared."""
    number, limit = whole_number(version), whole_number(other)
    return number is not None and limit is not None and number < limit


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_decode_list = json_decoder(_RawList)


async def list_pages(
    transport: Requests,
    resource: Resource[T],
    decode: Callable[[msgspec.Raw], T],
    *,
    namespace: str,
    selectors: Mapping[str, str | int],
    page_size: int,
    timeout_s: float,
    on_raw: Callable[[T, msgspec.Raw], None] | None,
) -> ListResult[T]:
    """Every object, as of one moment; `page_size` 0 asks for one page.

    If the list expires in the server's history between two pages, everything is listed again
    without pages, so that it cannot expire again.
    """
    path = resource.path(namespace=namespace)
    items: list[T] = []
    undecodable: list[bytes] = []
    params = {**selectors, "limit": page_size} if page_size else selectors

    def ask() -> asyncio.Task[bytes]:
        request = transport.request("GET", path, params=params, timeout_s=timeout_s)
        return asyncio.create_task(request, name=f"list {resource.plural}")

    asking = ask()
    try:
        while True:
            try:
                body = await asking
            except Gone:
                if "continue" not in params:
                    raise
                items, undecodable, params = [], [], selectors
                asking = ask()
                continue
            page = decode_answer(_decode_list, body, request=f"GET {path}", kind="a list")
            token = page.metadata.continue_token
            if token:
                if token == params.get("continue"):
                    raise ApiUnavailable(
                        f"GET {path}: the list does not end: a page continues with itself"
                    )
                params = {**params, "continue": token}
                asking = ask()
                await asyncio.sleep(0)  # sent now, so that the server works while we decode
            for raw in page.items or ():
                try:
                    items.append(decode(raw))
                except UNREADABLE:
                    undecodable.append(bytes(raw))
                    continue
                if on_raw is not None:
                    on_raw(items[-1], raw)
            if not token:
                return ListResult(items, page.metadata.resource_version, tuple(undecodable))
    finally:
        asking.cancel()
