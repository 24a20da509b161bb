"""HTTP verbs on resources: reads the query and the body, calls the right part, gives the answer.

No sockets here: `server` brings requests that came by HTTP, `in_process` those of this process.
Everything a client can get wrong ends as an `ApiError`, which they turn into a Status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stowplan.apiserver import events
from stowplan.apiserver.admission import AdmissionOptions
from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import (
    BINDINGS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    Kind,
)
from stowplan.apiserver.negotiation import NOTHING, Wanted, decode_body, encode, wanted
from stowplan.apiserver.options import TRUE, WriteOptions, delete_options, write_options
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.pod_actions import PodActions
from stowplan.apiserver.reading import Reader, encoded_list, selector_of
from stowplan.apiserver.scaling import patched_scale, scale_of, scaled
from stowplan.apiserver.statuses import details_of, method_not_allowed, success
from stowplan.apiserver.store import Store
from stowplan.apiserver.strategies import DELETED_OBJECT_RETURNED
from stowplan.apiserver.watching import Watch, Watches
from stowplan.apiserver.writing import Writer, is_apply


class ApiRequest(NamedTuple):
    """One request for a resource, however it came."""

    method: str
    target: ResourcePath
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""
    #: In place of the body of a POST, PUT or DELETE; it may be taken apart.
    sent: Json | None = None
    #: False: the object that was written is not shown.
    reads_answer: bool = True

    def decoded(self, kind: Kind | None) -> Json:
        """The object that was sent; 400 or 415 if there is none."""
        if self.sent is not None:
            return self.sent
        return decode_body(self.content_type, self.body, kind)

    @property
    def is_watch(self) -> bool:
        target = self.target
        if self.method != "GET":
            return False
        return target.watch or (not target.name and self.query.get("watch", "") in TRUE)


class ApiResponse(NamedTuple):
    """What the client gets; errors are raised instead."""

    body: bytes
    media: str
    code: int = 200
    warnings: Sequence[str] = ()


class Rest:
    """The resource endpoints over one store."""

    def __init__(
        self, store: Store, *, bookmark_interval_s: float, admission: AdmissionOptions
    ) -> None:
        self.store = store
        self.reader = Reader(store)
        self.watches = Watches(store, self.reader, bookmark_interval_s=bookmark_interval_s)
        self.deleter = Deleter(store)
        self.writer = Writer(store, self.deleter, admission)
        self.pods = PodActions(store, self.deleter)

    def watch(self, request: ApiRequest) -> Watch:
        """Open the stream of a watch request; the caller must close it."""
        want = wanted(request.accept)
        _check_readable(request.target)
        return self.watches.open(request.target, request.query, want)

    def answer(self, request: ApiRequest) -> ApiResponse:
        """Carry out anything but a watch."""
        method, target, query = request.method, request.target, request.query
        want = wanted(request.accept) if request.reads_answer else NOTHING
        if method == "GET":
            return self._read(target, query, want)
        if method == "DELETE":
            has_options = request.sent is not None or request.body.strip()
            options = delete_options(request.decoded(None) if has_options else None, query)
            return self._delete(target, options, want, query)
        write = write_options(method, query, request.user_agent)
        if method == "POST":
            return self._post(target, request.decoded(target.kind), want, query, write)
        if not target.name or not target.kind.stored:
            raise method_not_allowed()
        if target.subresource == "scale" and method in ("PUT", "PATCH"):
            return self._scale(request, want, write)
        if method == "PUT":
            record, created = self.writer.update(target, request.decoded(target.kind), write)
            code = 201 if created else 200
            return self._show(target.kind, record, want, query, code, write.warnings)
        if method == "PATCH":
            return self._patch(target, request.content_type, request.body, want, query, write)
        raise method_not_allowed()

    def _read(self, target: ResourcePath, query: Mapping[str, str], want: Wanted) -> ApiResponse:
        _check_readable(target)
        if target.subresource == "scale":
            current = self.store.require(target.kind, target.namespace, target.name)
            return ApiResponse(encode(scale_of(current.object), want.media), want.media)
        if target.name:
            return ApiResponse(self.reader.get(target, query, want), want.media)
        return ApiResponse(self.reader.list_objects(target, query, want), want.media)

    def _post(
        self,
        target: ResourcePath,
        sent: Json,
        want: Wanted,
        query: Mapping[str, str],
        options: WriteOptions,
    ) -> ApiResponse:
        kind = target.kind
        if kind is SELF_SUBJECT_ACCESS_REVIEWS:
            review = {"metadata": {}, **sent, "status": {"allowed": True}}
            return ApiResponse(encode(review, want.media), want.media, 201)
        if kind is BINDINGS or target.subresource == "binding":
            self.pods.bind(target.namespace, target.name, sent, dry_run=options.dry_run)
            return _succeeded(want)
        if target.subresource == "eviction":
            self.pods.evict(target.namespace, target.name, sent, dry_run=options.dry_run)
            return _succeeded(want)
        if target.name or target.all_namespaces:
            raise method_not_allowed()
        record = self.writer.create(target, sent, options)
        return self._show(kind, record, want, query, 201, options.warnings)

    def _patch(
        self,
        target: ResourcePath,
        content_type: str,
        body: bytes,
        want: Wanted,
        query: Mapping[str, str],
        options: WriteOptions,
    ) -> ApiResponse:
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
        return self._show(target.kind, record, want, query, code, options.warnings)

    def _scale(self, request: ApiRequest, want: Wanted, options: WriteOptions) -> ApiResponse:
        target = request.target
        current = self.store.require(target.kind, target.namespace, target.name).object
        if request.method == "PUT":
            scale = request.decoded(None)
        else:
            scale = patched_scale(current, request.content_type, request.body)
        sent = scaled(target.kind, current, scale)
        record, _ = self.writer.update(target._replace(subresource=""), sent, options)
        return ApiResponse(encode(scale_of(record.object), want.media), want.media)

    def _delete(
        self, target: ResourcePath, options: Json, want: Wanted, query: Mapping[str, str]
    ) -> ApiResponse:
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
            return ApiResponse(encode(success(details), want.media), want.media)
        return self._show(kind, record, want, query, 200)

    def _delete_collection(
        self,
        target: ResourcePath,
        options: Json,
        want: Wanted,
        query: Mapping[str, str],
        dry_run: bool,
    ) -> ApiResponse:
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
        return ApiResponse(encoded_list(kind, shown, meta), want.media)

    def _show(
        self,
        kind: Kind,
        record: Record,
        want: Wanted,
        query: Mapping[str, str],
        code: int,
        warnings: Sequence[str] = (),
    ) -> ApiResponse:
        return ApiResponse(self.reader.show(kind, record, want, query), want.media, code, warnings)


def _succeeded(want: Wanted) -> ApiResponse:
    """The Status that answers a binding or an eviction."""
    body = b"" if want is NOTHING else encode(success(code=201), want.media)
    return ApiResponse(body, want.media, 201)


def _check_readable(target: ResourcePath) -> None:
    if not target.kind.stored or target.subresource in ("binding", "eviction"):
        raise method_not_allowed()
