"""What a file or folder is, from its beginning: a recording, its files, its headers.

The recorder asks before it appends, and commands before they read a file of unknown kind.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Final

from stowplan.errors import ConfigError
from stowplan.recording.entries import BadLine, ForeignVersion, Header, parse_line
from stowplan.recording.folder import EXAMPLE, SUFFIX, files_in
from stowplan.recording.gzip_lines import MAGIC, Damage, first_lines, read_lines

_FIRST: Final = b'{"recording"'
#: The beginning of a file that `--result` wrote.
_RESULT: Final = re.compile(rb'\s*\{\s*"run"\s*:\s*"stowplan/run/')
_PROBED_BYTES: Final = 4_096
#: Number of files that an error about a folder names.
_NAMED: Final = 3
#: A header is among the first lines, even if the very first ones are damaged.
PROBED_LINES: Final = 1_000


def recording_files(path: Path) -> Sequence[Path]:
    """The file, or the files of a folder in the order of time. Raises ConfigError."""
    if not path.is_dir():
        if path.exists() and not path.is_file():
            raise ConfigError(
                "is not a regular file. Fix: give a file or folder that `stowplan record` wrote",
                where=str(path),
            )
        return [path]
    try:
        if files := files_in(path):
            return files
        names = sorted(each.name for each in path.iterdir() if each.name.endswith(SUFFIX))
    except OSError as problem:
        raise unreadable(path, problem) from None
    if not names:
        raise ConfigError(
            "is a folder without recordings. Fix: give a file or folder that `stowplan record`"
            " wrote",
            where=str(path),
        )
    shown = ", ".join(names[-_NAMED:])
    others = f" (and {len(names) - _NAMED:,} more)" if len(names) > _NAMED else ""
    raise ConfigError(
        "has no file with a name that `stowplan record` gives in folders, such as"
        f" {EXAMPLE}. Fix: rename its recordings, or give one of its files: {shown}{others}",
        where=str(path),
    )


def is_recording(path: Path) -> bool:
    """Whether a file or folder has a header; False if it cannot be read.

    True also for a header that is damaged or not gzipped, for which `read_sessions` raises.
    """
    return bool(_first_line(path)) or _start(path)[0].startswith(_FIRST)


def first_header(path: Path) -> Header | None:
    """The first header; None if it is not a recording. Raises ConfigError for other formats."""
    return _header(_first_line(path), path)


def _header(line: bytes, path: Path) -> Header | None:
    try:
        parsed = parse_line(line)
    except ForeignVersion as problem:
        raise ConfigError(str(problem), where=str(path)) from None
    except BadLine:
        return None
    return parsed if isinstance(parsed, Header) else None


def headers_in(path: Path) -> Iterator[Header]:
    """The headers of a file that begin a gzip member, as those of recorders do.

    Costs a fraction of reading the file. Raises ConfigError for other formats.
    """
    first = first_header(path)
    if first is None:
        return
    yield first
    with path.open("rb") as stream:
        for line in first_lines(stream):
            header = _header(line, path) if line.startswith(_FIRST) else None
            if header not in (None, first):
                yield header


def _first_line(path: Path) -> bytes:
    """The first line that looks like a header; empty if there is none."""
    try:
        for file in files_in(path) if path.is_dir() else [path]:
            with file.open("rb") as stream:
                if not is_gzip(stream):
                    continue
                for line in islice(read_lines(stream), PROBED_LINES):
                    if not isinstance(line, Damage) and line.startswith(_FIRST):
                        return line
    except (OSError, ValueError):
        pass
    return b""


def unreadable(path: Path, problem: OSError | ValueError) -> ConfigError:
    why = getattr(problem, "strerror", None) or str(problem)
    return ConfigError(
        f"cannot be read: {why}. Fix: give a recording that this account can read",
        where=str(path),
    )


def is_gzip(stream: IO[bytes]) -> bool:
    found = stream.read(len(MAGIC)) == MAGIC
    stream.seek(0)
    return found


def _start(path: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, unpacked, and whether it is gzipped; empty if it is unreadable."""
    try:
        with path.open("rb") as stream:
            start = stream.read(_PROBED_BYTES)
        if not start.startswith(MAGIC):
            return start, False
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(start), True
    except (OSError, ValueError, zlib.error):
        return b"", False


def why_no_recording(path: Path) -> tuple[str, str]:
    """What a file without a readable header is, as a predicate, and the remedy."""
    give = "give a file that `stowplan record` wrote"
    start, is_gzipped = _start(path)
    if start.startswith(_FIRST) and not is_gzipped:
        return "is a recording that is not gzipped", "gzip it"
    header = _first_line(path) or start
    if header.startswith(_FIRST):
        try:
            parse_line(header)
        except BadLine as problem:
            return f"has a header that cannot be read: {problem}", give
    if _RESULT.match(start):
        return (
            "is not a recording but a result, as --result writes it",
            f"give it to `stowplan compare`, or {give}",
        )
    return "is not a recording, or its beginning is lost", give
