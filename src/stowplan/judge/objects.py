"""One object of a line: checked as the API server would check it, and read into its struct.

Checking is done on a copy with the server's defaults filled in, so that what the server adds by
itself may be left out; the struct is of the object as it was given, or of that copy if the caller
wants defaults. Both take a while and objects repeat from line to line, so results are cached by the
object's text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple, TypeAlias

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.resources import (
    CATALOGED,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    Resource,
)
from stowplan.apiserver.kinds import KINDS, Kind
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.config.fields import did_you_mean
from stowplan.judge.checking import check as check_stored
from stowplan.judge.checking import complete, conformed
from stowplan.judge.lines import decode, json_type
from stowplan.judge.refusal import QuestionRefused
from stowplan.judge.snapshots import items_of
from stowplan.judge.vocabulary import check_kind
from stowplan.loader.json_text import json_decoder
from stowplan.loader.simulator_export import Item

#: Group and kind, namespace, name.
Key: TypeAlias = tuple[str, str, str]
Json: TypeAlias = dict[str, Any]

_RESOURCES: tuple[Resource[Any], ...] = (
    NODES,
    PODS,
    *CATALOGED,
    RESOURCE_CLAIM_TEMPLATES,
    DEVICE_TAINT_RULES,
)
_READ = {(resource.api_version, resource.kind): resource for resource in _RESOURCES}
_SERVED: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.kind): kind for kind in KINDS if kind.stored
}
_API_VERSIONS = {kind: api_version for api_version, kind in _SERVED | _READ}
_DECODERS = {resource.plural: json_decoder(resource.type) for resource in _RESOURCES}
#: Objects by their text and read options: the same objects come in line after line.
_cache: BytesLru[tuple[bytes, Hashable], Thing] = BytesLru(32 << 20)


class ReadOptions(NamedTuple):
    """Options for reading objects."""

    #: Decide on them as the API server would have completed them.
    defaults: bool = False
    #: Refuse malformed ones.
    check: bool = True
    #: Refuse everything that the API server would refuse.
    strict: bool = False
    #: Keep what was read, in case that the same text comes again.
    keep: bool = True
    #: Refuse objects whose text has more bytes.
    largest: float = inf


@dataclass(frozen=True, slots=True)
class Thing:
    """An object that was read. `struct` is None for kinds that no plugin reads."""

    api_version: str
    kind: str
    namespace: str
    name: str
    resource: Resource[Any] | None = None
    struct: Any = None
    #: False: the object came without a UID, and has a generated one.
    has_uid: bool = True
    #: Names as `generateName` begins them; only where there is no name.
    prefix: str = ""
    #: The API server's complaints: fields that it drops, reasons to refuse the object.
    complaints: tuple[str, ...] = ()
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        key = key_of(self.api_version, self.kind, self.namespace, self.name)
        object.__setattr__(self, "key", key)

    def __str__(self) -> str:
        return describe(self.kind, self.namespace, self.name or self.prefix)

    def named(self, name: str) -> Thing:
        """A copy with a generated name."""
        struct = self.struct
        if struct is not None:
            metadata = msgspec.structs.replace(struct.metadata, name=name)
            struct = msgspec.structs.replace(struct, metadata=metadata)
            if self.resource is PODS and not self.has_uid:
                struct = with_uid(struct, struct.key)
        return replace(self, name=name, struct=struct)


def key_of(api_version: str, kind: str, namespace: str, name: str) -> Key:
    """The key of an object, without the version: a group's versions are one object."""
    group, _, _ = api_version.rpartition("/")
    return (f"{group}/{kind}" if group else kind, namespace, name)


def thing_of(kind: Resource[Any], item: Any) -> Thing:
    """An object of the API with its key."""
    metadata = item.metadata
    namespace = metadata.namespace if kind.namespaced else ""
    return Thing(kind.api_version, kind.kind, namespace, metadata.name, kind, item)


def find_key(raw: Json) -> tuple[Key, str]:
    """The key that {"kind", "namespace", "name"} means, and how to name it; kinds that no plugin
    reads need their apiVersion too.
    """
    unknown = raw.keys() - {"apiVersion", "kind", "namespace", "name"}
    if unknown:
        raise QuestionRefused(
            f"{min(unknown)}: unknown key (known here: kind, namespace, name, apiVersion)"
        )
    kind, name = _type_member(raw, "kind", ""), _type_member(raw, "name", "")
    if not raw.get("apiVersion") and kind not in _API_VERSIONS:
        hint = did_you_mean(kind, _API_VERSIONS)
        raise QuestionRefused(f'kind: Invalid value: "{kind}": no plugin reads it{hint}')
    api_version = _type_member(raw, "apiVersion", _API_VERSIONS.get(kind, ""))
    namespace = _type_member(raw, "namespace", "") if raw.get("namespace") else ""
    served = _SERVED.get((api_version, kind))
    if served is not None:
        namespace = (namespace or "default") if served.namespaced else ""
    return key_of(api_version, kind, namespace, name), describe(kind, namespace, name)


def describe(kind: str, namespace: str, name: str) -> str:
    """`Pod default/web`: how messages name an object."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def with_uid(pod: Pod, uid: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


def read_objects(
    texts: list[msgspec.Raw], place: str, how: ReadOptions
) -> Iterator[tuple[str, Thing]]:
    """Every object with its path in the line; a list or an export yields its items."""
    for index, text in enumerate(texts):
        at = f"{place}[{index}]"
        try:
            yield at, _read_at(at, bytes(text), "", "", how)
        except _IsList as found:
            for item in found.items:
                inner = f"{at}.{item.place}"
                item_text = msgspec.json.encode(item.value)
                try:
                    yield inner, _read_at(inner, item_text, item.api_version, item.kind, how)
                except _IsList:
                    raise QuestionRefused(f"{inner}: is a list within a list") from None


def read_pod(text: msgspec.Raw, place: str, how: ReadOptions) -> Thing:
    """The pod that a question is about; apiVersion and kind are optional."""
    try:
        thing = _read_at(place, bytes(text), PODS.api_version, PODS.kind, how)
    except _IsList:
        raise QuestionRefused(f"{place}: kind: expected a Pod, got a list") from None
    if thing.resource is not PODS:
        raise QuestionRefused(f"{place}: kind: expected a Pod, got a {thing.kind}")
    return thing if thing.name else thing.named(f"{thing.prefix}0")


class _IsList(Exception):
    """A list in place of an object. Raised, because what is raised is not remembered."""

    def __init__(self, items: list[Item]) -> None:
        super().__init__()
        self.items = items


def _read_at(place: str, text: bytes, api_version: str, kind: str, how: ReadOptions) -> Thing:
    try:
        key = (text, (api_version, kind, how))
        thing = _cache.get(key)
        if thing is None:
            thing = _read(text, api_version, kind, how)
            if how.keep:
                _cache.put(key, thing, len(text))
    except QuestionRefused as problem:
        raise problem.at(place) from None
    return thing


def _read(text: bytes, api_version: str, kind: str, how: ReadOptions) -> Thing:
    """An object by its text; `api_version` and `kind` are what it is if it does not say."""
    obj = decode(text)
    if not isinstance(obj, dict):
        raise QuestionRefused(f"expected an object, got {json_type(text)}")
    if (items := items_of(obj)) is not None:
        raise _IsList(items)
    api_version = _type_member(obj, "apiVersion", api_version)
    kind = _type_member(obj, "kind", kind)
    resource, served = _READ.get((api_version, kind)), _SERVED.get((api_version, kind))
    is_other = resource is None and served is None
    if len(text) > how.largest:
        raise QuestionRefused(f"Too long: must have at most {how.largest} bytes")
    if is_other:
        check_kind(api_version, kind)
        return _unread(obj, api_version, kind, namespaced=False)
    assert served is not None, "the embedded server has every kind that plugins read"
    return _Object(text, obj, served, resource, how).thing()


def _type_member(obj: Json, name: str, assumed: str) -> str:
    value = obj.get(name)
    if value is None or value == "":
        if assumed:
            return assumed
        raise QuestionRefused(f"{name}: Required value")
    if not isinstance(value, str):
        raise QuestionRefused(
            f"{name}: expected a string, got {json_type(msgspec.json.encode(value))}"
        )
    return value


def _unread(obj: Json, api_version: str, kind: str, *, namespaced: bool) -> Thing:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(namespace, str) or not namespace:
        namespace = "default" if namespaced else ""
    return Thing(api_version, kind, namespace, name if isinstance(name, str) else "")


@dataclass(slots=True)
class _Object:
    """One object on its way to a struct."""

    text: bytes
    obj: Json
    served: Kind
    resource: Resource[Any] | None
    how: ReadOptions

    def thing(self) -> Thing:
        try:
            struct, complaints = self._read()
        except QuestionRefused as problem:
            raise problem.at(self._name()) from None
        if struct is None:
            return replace(self._bare(), complaints=tuple(complaints))
        metadata = struct.metadata
        namespace = (metadata.namespace or "default") if self.served.namespaced else ""
        has_uid = True
        if metadata.namespace != namespace:
            metadata = msgspec.structs.replace(metadata, namespace=namespace)
        if self.resource is PODS and not metadata.uid:
            has_uid = False
            metadata = msgspec.structs.replace(metadata, uid=f"{namespace}/{metadata.name}")
        if metadata is not struct.metadata:
            struct = msgspec.structs.replace(struct, metadata=metadata)
        return Thing(
            self.served.api_version,
            self.served.kind,
            namespace,
            metadata.name,
            self.resource,
            struct,
            has_uid,
            "" if metadata.name else metadata.generate_name,
            tuple(complaints),
        )

    def _read(self) -> tuple[Any, list[str]]:
        """The struct, if plugins read the kind, and the API server's complaints."""
        resource = self.resource
        complaints: list[str] = []
        if self.how.defaults or self.how.check:
            stored, unknown = conformed(self.served, self.obj)
            complaints = [f'unknown field "{path}"' for path in unknown]
            complete(self.served, stored)
            if self.how.check:
                complaints += [
                    f"{said} (an API server would refuse it)"
                    for said in check_stored(self.served, stored, strict=self.how.strict)
                ]
            if resource is None:
                return None, complaints
            if self.how.defaults:
                return msgspec.convert(stored, resource.type), complaints
        elif resource is None:
            return None, complaints
        try:
            return _DECODERS[resource.plural](self.text), complaints
        except msgspec.ValidationError:
            # Nulls where Go takes them for nothing, or really wrong: the server's reading decides.
            given, _ = conformed(self.served, self.obj)
            return msgspec.convert(given, resource.type), complaints

    def _name(self) -> str:
        thing = self._bare()
        return str(thing) if thing.name else thing.kind

    def _bare(self) -> Thing:
        kind = self.served
        return _unread(self.obj, kind.api_version, kind.kind, namespaced=kind.namespaced)
