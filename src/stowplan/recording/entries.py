"""Lines of a recording: a header, or an entry."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from stowplan.api.resources import (
    CATALOGED,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    Resource,
)
from stowplan.loader.json_text import UNREADABLE, json_decoder, reason_of

#: The format, as every header names it. Readers reject other formats.
FORMAT: Final = "stowplan/v1"
#: Kinds that decisions depend on; a kind comes before those that refer to it.
READ_KINDS: Final[tuple[Resource[Any], ...]] = (*CATALOGED, DEVICE_TAINT_RULES, NODES, PODS)
#: Kinds that are recorded. Controllers create claims from templates, so these are recorded, too.
KINDS: Final[tuple[Resource[Any], ...]] = (RESOURCE_CLAIM_TEMPLATES, *READ_KINDS)
BY_KIND: Final = {resource.kind: resource for resource in KINDS}


class EntryType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    #: The initial snapshot of the cluster is complete.
    SYNCED = "SYNCED"
    #: An attempt, as the scheduler reported it (`decisions`).
    DECISION = "DECISION"
    #: Changes of a kind may be missing before this entry; the next entries have the differences.
    GAP = "GAP"
    #: The recorder was stopped. A session without it was killed.
    END = "END"


#: Entries that have a kind and an object.
OBJECT_TYPES: Final = frozenset([EntryType.ADDED, EntryType.MODIFIED, EntryType.DELETED])


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The first line of a recording, and of each session that was appended to it."""

    recording: str
    #: Wall-clock time of `at` 0.
    started_at: str = ""
    #: An identifier of this session, and that of the session in the file before it if no change
    #: between them is missing.
    session: str = ""
    continues: str = ""
    stowplan: str = ""
    kubernetes: str = ""
    kinds: tuple[str, ...] = ()
    #: "kept" or "hashed".
    names: str = "kept"
    #: The UID of the namespace kube-system; empty if it cannot be read. Older versions wrote none.
    cluster: str = ""
    #: Names the key of the hashes and reveals nothing of it. Equal names have equal hashes in all
    #: sessions with the same one. Older versions wrote none.
    key_id: str = ""
    #: Kinds that could not be read, and why: "forbidden" or "absent". Older versions wrote the
    #: server's message.
    unread: dict[str, str] = {}

    def has_names_of(self, key_id: str) -> bool:
        """Whether a recorder with this key writes the same names; "" is one that keeps names."""
        return self.key_id == key_id and (self.names == "hashed") == bool(key_id)


def mismatch(old: Header, new: Header) -> str:
    """Why two adjacent sessions cannot be read as one recording; empty if they can."""
    if old.cluster and new.cluster and old.cluster != new.cluster:
        return "they are of different clusters"
    if old.names != new.names:
        return "their names are hashed in only one of them"
    if new.names != "hashed":
        return ""
    is_same = old.key_id == new.key_id
    if not old.key_id and not new.key_id:
        is_same = new.continues != "" and new.continues == old.session
    return "" if is_same else "their names are hashed with different keys"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A change, an attempt, a gap, or the end of the snapshot or the recording."""

    #: Seconds since the header's time, by a monotonic clock.
    at: float
    type: EntryType
    kind: str = ""
    object: msgspec.Raw = msgspec.Raw(b"")
    note: str = ""


class BadLine(ValueError):
    """A line is neither a header nor an entry; the message says why."""


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
        raise BadLine(f"`at` is {entry.at}, which is not a time since the beginning")
    if entry.type in OBJECT_TYPES and (entry.kind not in BY_KIND or not bytes(entry.object)):
        raise BadLine(f"{entry.type} of {entry.kind or 'nothing'!r:.40}")
    if entry.type is EntryType.DECISION and not bytes(entry.object):
        raise BadLine("DECISION of nothing")
    return entry
