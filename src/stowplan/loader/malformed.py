"""Limits on what is read, and the error for bytes that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may ask of its reader."""

    #: Bytes of a file or of a YAML text, unpacked.
    size: int = 64 << 20
    #: Levels of mappings and lists. The deepest object of Kubernetes has about 30; code that
    #: follows a tree by recursion is safe with this many.
    depth: int = 100
    #: Values that all aliases of a YAML document stand for.
    aliased: int = 100_000
    #: Digits of a number. Up to 308 a whole number still converts to a float.
    digits: int = 300


LIMITS: Final = Limits()
#: For objects of a whole cluster: exports, traces, what kubectl prints.
LARGE: Final = Limits(size=512 << 20, aliased=1_000_000)


class Malformed(ValueError):
    """Bytes that cannot be read. Lines and columns count from 1; line 0 means unknown.

    `offset` counts characters from 0, and is known for mistakes in the syntax of JSON.
    """

    def __init__(self, reason: str, line: int = 0, column: int = 0, offset: int = -1) -> None:
        super().__init__(f"line {line}, column {column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column
        self.offset = offset


def at_byte(data: bytes | bytearray, offset: int, reason: str) -> Malformed:
    """The error for what stands at an offset."""
    before = data[:offset]
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return Malformed(reason, before.count(b"\n") + 1, column)


def text_of(data: bytes | bytearray) -> str:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark, which Windows likes to write."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError as problem:
            raise Malformed(f"is not UTF-8 text, nor UTF-16: {problem.reason}") from None
    if data.startswith(b"\x1f\x8b"):
        raise Malformed("is compressed by gzip; unpack it first")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise at_byte(data, problem.start, f"is not UTF-8 text: {problem.reason}") from None
