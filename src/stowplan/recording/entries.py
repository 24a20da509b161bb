"""What a line of a recording says: a header, or an entry."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from stowplan.api.resources import CATALOGED, NODES, PODS, Resource
from stowplan.loader.json_text import UNREADABLE, json_decoder, reason_of

#: The format, in every header. A reader refuses others.
FORMAT: Final = "stowplan/v1"
#: Kinds that are recorded, those that others refer to first.
KINDS: Final[tuple[Resource[Any], ...]] = (*CATALOGED, NODES, PODS)
BY_KIND: Final = {resource.kind: resource for resource in KINDS}


class EntryType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    #: The cluster as it was at the beginning is complete.
    SYNCED = "SYNCED"
    #: Changes of a kind may be missing; the next entries make up for them.
    GAP = "GAP"
    #: The recorder was stopped; without it, it was killed.
    END = "END"


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The first line of a recording, and of what was appended to it later."""

    recording: str
    #: Wall-clock time of `at` 0.
    started_at: str = ""
    stowplan: str = ""
    kubernetes: str = ""
    kinds: tuple[str, ...] = ()
    #: "kept" or "hashed".
    names: str = "kept"
    #: Kinds that could not be read, and why.
    unread: dict[str, str] = {}


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing that happened."""

    #: Seconds since the header's time, by a clock that does not jump.
    at: float
    type: EntryType
    kind: str = ""
    object: msgspec.Raw = msgspec.Raw(b"")
    note: str = ""


class BadLine(ValueError):
    """A line is neither a header nor an entry; says why."""


class ForeignVersion(BadLine):
    """A header of a format that this version does not read."""


_decode_entry = json_decoder(Entry)
_decode_header = json_decoder(Header)
_encode = msgspec.json.Encoder().encode


def header_line(header: Header) -> bytes:
    return _encode(header)


def entry_line(entry: Entry) -> bytes:
    if not bytes(entry.object):
        fields = {"at": entry.at, "type": entry.type, "kind": entry.kind, "note": entry.note}
        return _encode({name: value for name, value in fields.items() if value != ""})
    return _encode(entry)


def parse_line(line: bytes) -> Header | Entry:
    """Raises BadLine."""
    try:
        if line.startswith(b'{"recording"'):
            header = _decode_header(line)
            if header.recording != FORMAT:
                raise ForeignVersion(
                    f"it is a recording of the format {header.recording!r:.40}, and this version"
                    f" of Stowplan reads {FORMAT}"
                )
            return header
        entry = _decode_entry(line)
    except ForeignVersion:
        raise
    except UNREADABLE as problem:
        raise BadLine(reason_of(problem)) from None
    if not 0 <= entry.at < 1e12:
        raise BadLine(f"`at` is {entry.at}, which is no time since the beginning")
    has_object = entry.type in (EntryType.ADDED, EntryType.MODIFIED, EntryType.DELETED)
    if has_object and (entry.kind not in BY_KIND or not bytes(entry.object)):
        raise BadLine(f"{entry.type} of {entry.kind or 'nothing'!r:.40}")
    return entry
