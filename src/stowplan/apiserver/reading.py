"""Gets and lists: selectors, paging at a fixed version, and the form the client asked for.

Objects are joined from their cached encodings: a list of ten thousand pods encodes none of them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from stowplan.apiserver import events
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.negotiation import JSON, Wanted, encode
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.selection import Predicate, predicate
from stowplan.apiserver.statuses import Cause, Failure, bad_request, invalid_options, too_large
from stowplan.apiserver.store import Store
from stowplan.apiserver.tables import to_table
from stowplan.loader.json_text import load_json

_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


class Reader:
    """Answers reads as encoded bodies."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, target: ResourcePath, query: Mapping[str, str], want: Wanted) -> bytes:
        record = self._store.require(target.kind, target.namespace, target.name)
        return self.show(target.kind, record, want, query)

    def show(self, kind: Kind, record: Record, want: Wanted, query: Mapping[str, str]) -> bytes:
        """One object in the form asked for."""
        if want.form == "nothing":
            return b""
        record = events.view(kind, record)
        if want.form == "table":
            meta = {"resourceVersion": record.object["metadata"].get("resourceVersion", "")}
            return encode(self.table(kind, [record.object], meta, query), want.media)
        if want.form == "metadata":
            return encode(partial_metadata(record.object), want.media)
        if want.media == JSON:
            return record.encoded
        return encode(record.object, want.media)

    def table(
        self, kind: Kind, objects: list[Json], meta: Json, query: Mapping[str, str]
    ) -> dict[str, Any]:
        return to_table(
            kind,
            objects,
            now=self._store.clock.time(),
            list_metadata=meta,
            include_object=query.get("includeObject", ""),
        )

    def list_objects(self, target: ResourcePath, query: Mapping[str, str], want: Wanted) -> bytes:
        kind = target.kind
        records, meta = self._page(target, query)
        if want.form == "table":
            table = self.table(kind, [record.object for record in records], meta, query)
            return encode(table, want.media)
        if want.form == "metadata":
            items = [partial_metadata(record.object) for record in records]
            body = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "items": items,
            }
            return encode(body, want.media)
        if want.media == JSON:
            return encoded_list(kind, records, meta)
        return encode(load_json(encoded_list(kind, records, meta)), want.media)

    def _page(self, target: ResourcePath, query: Mapping[str, str]) -> tuple[list[Record], Json]:
        kind, store = target.kind, self._store
        if query.get("sendInitialEvents"):
            text = "Forbidden: sendInitialEvents is forbidden for list"
            cause = Cause("sendInitialEvents", text, "FieldValueForbidden")
            raise invalid_options("ListOptions", cause)
        selects = selector_of(target, query)
        limit = _number(query, "limit")
        token = query.get("continue", "")
        start = ""
        version = store.version
        if token:
            version, start = self._resume(kind, token, query)
            records = store.records_at(kind, target.namespace, version)
        else:
            exact = self._exact_version(query)
            if exact is None:
                records = store.records(kind, target.namespace)
            else:
                version = exact
                records = store.records_at(kind, target.namespace, exact)
        if kind.group == "events.k8s.io":
            records = [events.view(kind, record) for record in records]
        if start:
            records = [record for record in records if _place(record) > start]
        if selects is not None:
            records = [record for record in records if selects(record.object)]
        meta: Json = {"resourceVersion": str(version)}
        if limit and len(records) > limit:
            left = len(records) - limit
            records = records[:limit]
            meta["continue"] = _token(version, _place(records[-1]))
            if selects is None:  # upstream does not count what it has not filtered yet
                meta["remainingItemCount"] = left
        return records, meta

    def _exact_version(self, query: Mapping[str, str]) -> int | None:
        text = query.get("resourceVersion", "")
        match = query.get("resourceVersionMatch", "")
        if match and not text:
            raise version_match_error(
                "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        if match not in ("", "Exact", "NotOlderThan"):
            values = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
            cause = Cause("resourceVersionMatch", values, "FieldValueNotSupported")
            raise invalid_options("ListOptions", cause)
        if not text:
            return None
        try:
            version = parse_version(text)
        except ValueError as error:
            raise bad_request(f"invalid resource version: {error}") from error
        if version > self._store.version:
            raise too_large(version, self._store.version)
        if match == "Exact" or (not match and query.get("limit", "0") != "0" and version):
            if not version:
                raise version_match_error(
                    'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                )
            return version
        return None

    def _resume(self, kind: Kind, token: str, query: Mapping[str, str]) -> tuple[int, str]:
        """The version and the place of a continue token; -1 means: at whatever is now."""
        if query.get("resourceVersion", "0") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            decoded = load_json(raw)
            version, start = int(decoded["rv"]), str(decoded["start"])
        except (ValueError, TypeError, KeyError) as error:
            raise bad_request(
                f"invalid continue token: continue key is not valid: {error}"
            ) from error
        if version < 0:
            return self._store.version, start
        try:
            self._store.changes_since(kind, version)
        except Failure as error:
            raise Failure(
                410, _CONTINUE_TOO_OLD, list_meta={"continue": _token(-1, start)}
            ) from error
        return version, start


def selector_of(target: ResourcePath, query: Mapping[str, str]) -> Predicate | None:
    """The selectors of a list or watch; a watch of one object is a selector on its name."""
    fields = query.get("fieldSelector", "")
    if target.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={target.name}")))
    return predicate(target.kind, query.get("labelSelector", ""), fields)


def encoded_list(kind: Kind, records: list[Record], meta: Json) -> bytes:
    """Items carry no kind and apiVersion of their own, as in every typed list of Kubernetes."""
    head = msgspec.json.encode(
        {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta}
    )
    skip = len(item_prefix(kind))
    items = b",".join([b"{" + record.encoded[skip:] for record in records])
    return b'%s,"items":[%s]}' % (head[:-1], items)


def item_prefix(kind: Kind) -> bytes:
    """How every encoded object of the kind begins: `normalise` puts these two fields first."""
    return b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), kind.api_version.encode())


def partial_metadata(obj: Json) -> Json:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def parse_version(text: str) -> int:
    """A ValueError in upstream's words for anything that is not a number."""
    if not text:
        return 0
    if not text.isdecimal():
        raise ValueError(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}":'
            " invalid syntax"
        )
    return int(text)


def version_match_error(why: str) -> Failure:
    cause = Cause("resourceVersionMatch", f"Forbidden: {why}", "FieldValueForbidden")
    return invalid_options("ListOptions", cause)


def _place(record: Record) -> str:
    return "/".join(record.key)


def _token(version: int, start: str) -> str:
    raw = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    try:
        return max(0, int(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
