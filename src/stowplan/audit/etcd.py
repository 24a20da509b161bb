"""Every state that a cluster's objects have been in, in order, from etcd's own history.

An audit through the API sees only what is left in the end. etcd keeps every revision until it is
compacted; kube-apiserver has it compacted every five minutes. For a complete history, run
kube-apiserver with `APISERVER_FLAGS`: nothing is compacted, and objects are stored as JSON. Where
history begins with a compaction, the state at that revision comes first. etcd is only read.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.errors import ConfigError, StowplanError
from stowplan.loader.files import read_lines
from stowplan.loader.json_text import UNREADABLE, json_decoder, load_json

APISERVER_FLAGS: Final = (
    "--etcd-compaction-interval=0",
    "--storage-media-type=application/json",
)

_FOLDERS: Final = {
    "pods": "Pod",
    "minions": "Node",
    "namespaces": "Namespace",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
    "csinodes": "CSINode",
    "resourceclaims": "ResourceClaim",
    "resourceslices": "ResourceSlice",
    "events": "Event",
}
_EVERYTHING: Final = b64encode(b"\0").decode()
_PROTOBUF: Final = b"k8s\0"
_PAGE: Final = 500
_SILENCE_S: Final = 30.0
# The status line and body of an error, as far as it is shown.
_SHOWN: Final = 200


class Revision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One change of one object; `object` is its JSON, None when it was removed."""

    number: int
    kind: str
    namespace: str
    name: str
    object: msgspec.Raw | None
    #: True for the state that history begins with.
    is_initial: bool = False


class _Stored(msgspec.Struct, frozen=True, gc=False):
    """A key with its value at a revision; the gateway writes numbers as text."""

    key: str = ""
    mod_revision: str = "0"
    value: str = ""


class _Event(msgspec.Struct, frozen=True, gc=False):
    kv: _Stored = _Stored()
    type: str = ""


class _Result(msgspec.Struct, frozen=True, gc=False):
    events: tuple[_Event, ...] = ()
    compact_revision: str = "0"
    canceled: bool = False
    cancel_reason: str = ""


class _Watched(msgspec.Struct, frozen=True, gc=False):
    result: _Result


class _Header(msgspec.Struct, frozen=True, gc=False):
    revision: str


class _Latest(msgspec.Struct, frozen=True, gc=False):
    header: _Header


class _Page(msgspec.Struct, frozen=True, gc=False):
    kvs: tuple[_Stored, ...] = ()
    more: bool = False


class EtcdError(StowplanError):
    """etcd did not answer, or not with a history that can be read."""


class Etcd:
    """Reads through the JSON gateway that etcd serves beside gRPC."""

    def __init__(
        self, url: str, *, ca_file: str = "", cert_file: str = "", key_file: str = "",
        prefix: str = "/registry",
    ) -> None:  # fmt: skip
        self._url = url.rstrip("/")
        self._prefix = prefix.rstrip("/") + "/"
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._url.startswith("https:"):
            try:
                context = ssl.create_default_context(cafile=ca_file or None)
                if cert_file:
                    context.load_cert_chain(cert_file, key_file or None)
            except OSError as problem:
                text = f"cannot be used: {problem.strerror or problem}"
                raise ConfigError(text, where=ca_file or cert_file) from None
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def history(self) -> Iterator[Revision]:
        """All revisions so far of everything that an audit reads; EtcdError if there are none."""
        revision = None
        try:
            for revision in self._history():
                yield revision
        except (HTTPException, OSError, ValueError) as problem:
            raise self._error(f"not an answer of etcd: {problem}") from None
        if revision is None:
            raise self._error(
                f"no nodes, pods or other objects under {self._prefix}. "
                "Fix: give the address of kube-apiserver's etcd"
            )

    def _history(self) -> Iterator[Revision]:
        end = self._latest()
        start = 1
        while start <= end:
            begun = start
            for answer in self._watch(start):
                compacted = int(answer.compact_revision)
                if compacted:
                    yield from self._state_at(compacted)
                    start = compacted + 1
                    break
                for event in answer.events:
                    number = int(event.kv.mod_revision)
                    if number > end:
                        return
                    found = self._revision(number, event.kv, is_gone=event.type == "DELETE")
                    if found is not None:
                        yield found
                    start = number + 1
                if start > end:
                    return
            if start <= begun:
                raise self._error(f"the watch ended at revision {start} of {end}")

    def _latest(self) -> int:
        with self._post("/v3/kv/range", {"key": _EVERYTHING, "count_only": True}) as answer:
            return int(load_json(answer.read(), _Latest).header.revision)

    def _watch(self, start: int) -> Iterator[_Result]:
        asked = {
            "key": _EVERYTHING,
            "range_end": _EVERYTHING,
            "start_revision": str(start),
            "fragment": True,
        }
        with self._post("/v3/watch", {"create_request": asked}) as answer:
            for line in answer:
                result = load_json(line, _Watched).result
                if result.canceled and not int(result.compact_revision):
                    raise self._error(f"the watch ended: {result.cancel_reason}")
                yield result

    def _state_at(self, revision: int) -> Iterator[Revision]:
        for folder in _FOLDERS:
            start = f"{self._prefix}{folder}/".encode()
            end = f"{self._prefix}{folder}0".encode()  # "0" follows "/"
            while True:
                asked = {
                    "key": b64encode(start).decode(),
                    "range_end": b64encode(end).decode(),
                    "revision": str(revision),
                    "limit": str(_PAGE),
                }
                with self._post("/v3/kv/range", asked) as answer:
                    page = load_json(answer.read(), _Page)
                for each in page.kvs:
                    found = self._revision(revision, each, is_gone=False, is_initial=True)
                    if found is not None:
                        yield found
                if not page.more or not page.kvs:
                    break
                last = b64decode(page.kvs[-1].key)
                if last < start:
                    raise self._error(f"the pages of {folder} do not end")
                start = last + b"\0"

    def _revision(
        self, number: int, stored: _Stored, *, is_gone: bool, is_initial: bool = False
    ) -> Revision | None:
        key = b64decode(stored.key).decode(errors="replace")
        folder, _, rest = key.removeprefix(self._prefix).partition("/")
        kind = _FOLDERS.get(folder)
        if kind is None or not key.startswith(self._prefix):
            return None
        namespace, _, name = rest.rpartition("/")
        if is_gone:
            return Revision(number, kind, namespace, name, None)
        value = b64decode(stored.value).strip()
        if value.startswith(_PROTOBUF):
            raise self._error(
                f"{key} is stored as protobuf. Fix: run kube-apiserver with {APISERVER_FLAGS[1]}"
            )
        return Revision(number, kind, namespace, name, msgspec.Raw(value), is_initial)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is the user's
            self._url + path, json.dumps(body).encode(), method="POST"
        )
        try:
            return self._opener.open(request, timeout=_SILENCE_S)
        except urllib.error.HTTPError as problem:
            text = problem.read(_SHOWN).decode(errors="replace")
            raise self._error(f"HTTP {problem.code}: {text}") from None
        except (OSError, ValueError) as problem:
            raise self._error(str(getattr(problem, "reason", problem))) from None

    def _error(self, text: str) -> EtcdError:
        return EtcdError(f"etcd at {self._url}: {text}")


def etcd_history(etcd_url: str) -> Iterator[Revision]:
    """All revisions of an etcd without TLS, such as that of `stowplan.controlplane`."""
    return Etcd(etcd_url).history()


class _Saved(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A `Revision` as a line of JSON."""

    number: int
    kind: str
    namespace: str
    name: str
    object: msgspec.Raw
    is_initial: bool = False

    def revision(self) -> Revision:
        if self.kind not in _FOLDERS.values():
            raise ValueError(f"an audit reads no {self.kind}")
        is_gone = bytes(self.object) == b"null"
        raw = None if is_gone else self.object
        return Revision(self.number, self.kind, self.namespace, self.name, raw, self.is_initial)


_encode_line = msgspec.json.Encoder().encode
_decode_line = json_decoder(_Saved)


def save_history(history: Iterable[Revision], path: Path) -> Iterator[Revision]:
    """Pass revisions on, and write each as a line of JSON that `read_history` reads.

    The file appears when all revisions are written. A part of a history would look like a cluster
    in which nothing else happened.
    """
    is_special = path.exists() and not path.is_file()  # a device or a pipe
    part = path if is_special else path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            for revision in history:
                file.write(_encode_line(revision) + b"\n")
                yield revision
        part.replace(path)
    except OSError as problem:
        raise ConfigError(f"cannot be written: {problem.strerror}", where=str(path)) from None
    finally:
        if not is_special:
            part.unlink(missing_ok=True)


def read_history(path: Path) -> Iterator[Revision]:
    """The revisions that `save_history` wrote; ConfigError if there are none."""
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(read_lines(file, str(path)), start=1):
                try:
                    yield _decode_line(line).revision()
                except UNREADABLE as problem:
                    where = f"{path}:{number}"
                    raise ConfigError(f"not a revision: {problem}", where=where) from None
    except OSError as problem:
        raise ConfigError(f"cannot be read: {problem.strerror}", where=str(path)) from None
    if not number:
        fix = "Fix: write it again with --etcd and --save-history"
        raise ConfigError(f"holds no history. {fix}", where=str(path))
