"""HTTP verbs on resources: reads the query and the body, calls the right part, writes the answer.

Everything a client can get wrong ends as an `ApiError`, which `server` turns into a Status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiohttp import web

from stowplan.apiserver import events
from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import (
    BINDINGS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    Kind,
)
from stowplan.apiserver.negotiation import Wanted, decode_body, encode, wanted
from stowplan.apiserver.options import TRUE, WriteOptions, delete_options, write_options
from stowplan.apiserver.paths import Target
from stowplan.apiserver.pod_actions import PodActions
from stowplan.apiserver.reading import Reader, encoded_list, selector_of
from stowplan.apiserver.statuses import details_of, method_not_allowed, success
from stowplan.apiserver.store import Store
from stowplan.apiserver.strategies import DELETED_OBJECT_RETURNED
from stowplan.apiserver.watching import Watches
from stowplan.apiserver.writing import Writer, is_apply


class Rest:
    """The resource endpoints over one store."""

    def __init__(self, store: Store, *, bookmark_interval_s: float, taint_new_nodes: bool) -> None:
        self.store = store
        self.reader = Reader(store)
        self.watches = Watches(store, self.reader, bookmark_interval_s=bookmark_interval_s)
        self.deleter = Deleter(store)
        self.writer = Writer(store, self.deleter, taint_new_nodes=taint_new_nodes)
        self.pods = PodActions(store, self.deleter)

    async def handle(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        query = request.query
        want = wanted(request.headers.get("Accept", ""))
        method = request.method
        if method == "GET":
            return await self._read(request, target, query, want)
        body = await request.read()
        content_type = request.headers.get("Content-Type", "")
        if method == "DELETE":
            return self._delete(target, delete_options(content_type, body, query), want, query)
        options = write_options(method, query, request.headers.get("User-Agent", ""))
        if method == "POST":
            sent = decode_body(content_type, body, target.kind)
            return self._post(target, sent, want, query, options)
        if not target.name or not target.kind.stored:
            raise method_not_allowed()
        if method == "PUT":
            sent = decode_body(content_type, body, target.kind)
            record, created = self.writer.update(target, sent, options)
            code = 201 if created else 200
            return self._answer(target.kind, record, want, query, code, options.warnings)
        if method == "PATCH":
            return self._patch(target, content_type, body, want, query, options)
        raise method_not_allowed()

    async def _read(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], want: Wanted
    ) -> web.StreamResponse:
        if not target.kind.stored or target.subresource in ("binding", "eviction"):
            raise method_not_allowed()
        if target.watch or (not target.name and query.get("watch", "") in TRUE):
            return await self.watches.serve(request, target, query, want)
        if target.name:
            return _response(self.reader.get(target, query, want), want)
        return _response(self.reader.list_objects(target, query, want), want)

    def _post(
        self,
        target: Target,
        sent: Json,
        want: Wanted,
        query: Mapping[str, str],
        options: WriteOptions,
    ) -> web.Response:
        kind = target.kind
        if kind is SELF_SUBJECT_ACCESS_REVIEWS:
            review = {"metadata": {}, **sent, "status": {"allowed": True}}
            return _response(encode(review, want.media), want, 201)
        if kind is BINDINGS or target.subresource == "binding":
            self.pods.bind(target.namespace, target.name, sent, dry_run=options.dry_run)
            return _response(encode(success(code=201), want.media), want, 201)
        if target.subresource == "eviction":
            self.pods.evict(target.namespace, target.name, sent, dry_run=options.dry_run)
            return _response(encode(success(code=201), want.media), want, 201)
        if target.name or target.all_namespaces:
            raise method_not_allowed()
        record = self.writer.create(target, sent, options)
        return self._answer(kind, record, want, query, 201, options.warnings)

    def _patch(
        self,
        target: Target,
        content_type: str,
        body: bytes,
        want: Wanted,
        query: Mapping[str, str],
        options: WriteOptions,
    ) -> web.Response:
        created = False
        if is_apply(content_type):
            record, created = self.writer.apply(
                target,
                body,
                options,
                manager=query.get("fieldManager", ""),
                force=query.get("force", "") in TRUE,
            )
        else:
            record = self.writer.patch(target, content_type, body, options)
        code = 201 if created else 200
        return self._answer(target.kind, record, want, query, code, options.warnings)

    def _delete(
        self, target: Target, options: Json, want: Wanted, query: Mapping[str, str]
    ) -> web.Response:
        kind = target.kind
        dry_run = bool(options.get("dryRun"))
        if target.subresource or not kind.stored:
            raise method_not_allowed()
        if not target.name:
            return self._delete_collection(target, options, want, query, dry_run)
        current = self.store.require(kind, target.namespace, target.name)
        record, gone = self.deleter.delete(kind, current, options, dry_run=dry_run)
        if gone and kind.plural not in DELETED_OBJECT_RETURNED:
            details = details_of(kind, target.name, uid=current.object["metadata"]["uid"])
            return _response(encode(success(details), want.media), want)
        return self._answer(kind, record, want, query, 200)

    def _delete_collection(
        self,
        target: Target,
        options: Json,
        want: Wanted,
        query: Mapping[str, str],
        dry_run: bool,
    ) -> web.Response:
        kind = target.kind
        if "deletecollection" not in kind.verbs or target.all_namespaces:
            raise method_not_allowed()
        selects = selector_of(target, query)
        deleted = [
            record
            for record in self.store.records(kind, target.namespace)
            if selects is None or selects(events.view(kind, record).object)
        ]
        for record in deleted:
            self.deleter.delete(kind, record, options, dry_run=dry_run)
        meta = {"resourceVersion": str(self.store.version)}
        shown = [events.view(kind, record) for record in deleted]
        return _response(encoded_list(kind, shown, meta), want)

    def _answer(
        self,
        kind: Kind,
        record: Record,
        want: Wanted,
        query: Mapping[str, str],
        code: int,
        warnings: Sequence[str] = (),
    ) -> web.Response:
        response = _response(self.reader.show(kind, record, want, query), want, code)
        for warning in warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{escaped}"')
        return response


def _response(body: bytes, want: Wanted, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, headers={"Content-Type": want.media})
