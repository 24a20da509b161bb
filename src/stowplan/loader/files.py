"""Read files and streams up to a limit, so that a device or an endless pipe does no harm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, AnyStr, Final

from stowplan.errors import ConfigError
from stowplan.loader.malformed import LIMITS

#: What messages call standard input.
STDIN: Final = "<stdin>"


def read_file(
    path: str | Path, *, limit: int = LIMITS.size, error: type[ConfigError] = ConfigError
) -> bytes:
    """The bytes of a file. `error` names it and says why it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return read_stream(file, str(path), limit=limit, error=error)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise error(f"cannot be read: {why}", where=str(path)) from problem
    except ValueError:
        shown = str(path).replace("\0", "\\0")
        raise error("cannot be read: its name holds a null character", where=shown) from None


def read_stream(
    stream: IO[bytes],
    where: str,
    *,
    limit: int = LIMITS.size,
    error: type[ConfigError] = ConfigError,
) -> bytes:
    """The bytes of a stream that is open already."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise error(f"is larger than {limit >> 20} MiB", where=where)
    return data


def read_input(name: str, *, limit: int = LIMITS.size) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    if name == "-":
        return read_stream(sys.stdin.buffer, STDIN, limit=limit)
    return read_file(name, limit=limit)


def read_lines(stream: IO[AnyStr], where: str, *, limit: int = LIMITS.size) -> Iterator[AnyStr]:
    """The lines of a stream; ConfigError for one that is too long."""
    number = 0
    while line := stream.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise ConfigError(f"line {number} is longer than {limit >> 20} MiB", where=where)
        yield line
