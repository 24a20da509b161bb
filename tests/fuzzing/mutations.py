"""New inputs from kept ones: pieces put in, left out, repeated, and values exchanged for others."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

#: Longer inputs are cut: they take longer and find no more.
LONGEST = 20_000
_TOKEN = re.compile(rb'"[^"\n]{0,200}"|-?\d+(?:\.\d+)?|\w+')
#: What parsers and their callers stumble over.
PIECES = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"\n", b"- ", b"---\n", b"&a ", b"*a"),
    *(b"<<: ", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b".inf", b"!!int "),
    *(b"!x ", b"\t", b"1e999", b"-0", b"2001-99-99", b"0x", b"\r\n", b"\r\n\r\n", b"%00", b"%ff"),
)
VALUES = (
    *(b"null", b"true", b"{}", b"[]", b"[null]", b'""', b'"\\u0000"', b'"x"', b"0", b"-1", b"y"),
    *(b"7", b"1.5", b"1e308", b"9" * 19, b"9" * 400, b'"' + b"9" * 5000 + b'"', b"-1e-9", b'"-1"'),
    *(b'"0001-01-01T00:00:00"', b'"9999-12-31T23:59:59-23:59"', b'"1e400"', b'"1Ei"'),
    *(b'"\xd9\xa3"', b'{"a":{"b":[]}}', b'[{"name":7}]', b'"../../etc"', b'"a in (d)"', b"[[[]]]"),
)


def mutations(seeds: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """Without end; the same for the same seeds and random numbers."""
    while True:
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            _mutate(data, seeds, rng)
        yield bytes(data[:LONGEST])


def _mutate(data: bytearray, seeds: list[bytes], rng: random.Random) -> None:
    at = rng.randint(0, len(data))
    match rng.randrange(8):
        case 0:
            data[at:at] = rng.choice(PIECES)
        case 1:
            del data[at : at + rng.randint(1, 20)]
        case 2 if data:
            data[at % len(data)] = rng.randrange(256)
        case 3:
            other = rng.choice(seeds)
            start = rng.randint(0, len(other))
            data[at:at] = other[start : start + rng.randint(1, 60)]
        case 4:
            data[at:at] = data[at : at + 40] * rng.randint(1, 5)
        case 5:
            _exchange(data, rng.choice(VALUES), at)
        case 6:
            tokens = _TOKEN.findall(rng.choice(seeds)[:LONGEST]) or [b""]
            _exchange(data, rng.choice(tokens), at)
        case _:
            _exchange(data, b"", at)


def _exchange(data: bytearray, value: bytes, at: int) -> None:
    """Replace the first token from a place on."""
    found = _TOKEN.search(data, at) or _TOKEN.search(data)
    if found is not None:
        start, end = found.span()
        del found  # it holds the buffer, which then cannot be resized
        data[start:end] = value
