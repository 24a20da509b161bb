"""The kept inputs: tests/data/fuzz/READER. `make test` reads all of them again.

An input is kept because it was a finding, because it is an example of what the reader accepts, or
because it reaches code that no other one does (`python -m tests.fuzz --keep`). Names of the last
are digests, so that they can be told from the others, which `minimal` never drops.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
#: Larger inputs are not kept for their coverage alone.
MOST_BYTES = 4096
_SOURCE = "/src/stowplan/"
_IS_DIGEST = re.compile(r"[0-9a-f]{16}").fullmatch


def kept(reader: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / reader).glob("*"))] or [b""]


def lines_of(read: Callable[[], object]) -> frozenset[tuple[str, int]]:
    """The lines of the project that a call runs."""
    seen: set[tuple[str, int]] = set()
    ours: dict[CodeType, bool] = {}

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in ours:
            ours[code] = _SOURCE in code.co_filename
        return local if ours[code] else None

    before = sys.gettrace()
    threading.settrace(entered)
    sys.settrace(entered)
    try:
        read()
    finally:
        sys.settrace(before)
        threading.settrace(None)
    return frozenset(seen)


def adding(
    inputs: Iterable[bytes],
    covered: set[tuple[str, int]],
    lines: Callable[[bytes], frozenset[tuple[str, int]]],
) -> list[bytes]:
    """The inputs that run a line that `covered` lacks, small ones first; `covered` grows."""
    found: list[bytes] = []
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        ran = lines(data)
        if not ran <= covered:
            covered |= ran
            found.append(data)
    return found


def keep_adding(
    reader: str, new: Iterable[bytes], lines: Callable[[bytes], frozenset[tuple[str, int]]]
) -> tuple[int, int]:
    """Keep what adds coverage, drop digests that add none; returns how many are added and gone."""
    folder = CORPUS / reader
    folder.mkdir(parents=True, exist_ok=True)
    files = {file: file.read_bytes() for file in sorted(folder.glob("*"))}
    digests = {file: data for file, data in files.items() if _IS_DIGEST(file.name)}
    covered: set[tuple[str, int]] = set()
    for file, data in files.items():
        if file not in digests:
            covered |= lines(data)
    small = (data for data in new if len(data) <= MOST_BYTES)
    chosen = {digest(data): data for data in adding({*digests.values(), *small}, covered, lines)}
    gone = [file for file in digests if file.name not in chosen]
    for file in gone:
        file.unlink()
    added = [name for name in chosen if not (folder / name).exists()]
    for name in added:
        (folder / name).write_bytes(chosen[name])
    return len(added), len(gone)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
