"""Output files of commands that run for minutes or hours.

`check_output_file` refuses a file that cannot be written before the work begins, for every
`--html`, `--json` and the like; `check_output_files` also refuses one file for two options. They
leave no file behind. `LineFile` is for output that grows with the work, `write_file` for all else.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from stowplan.errors import ConfigError

#: Errors of a file that can be written and not be replaced: in a folder of others, or mounted.
_NOT_REPLACED: Final = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)
#: So much of a file's name is in that of its unfinished successor.
_KEPT_NAME: Final = 200


def unwritable(where: str | Path, problem: OSError) -> ConfigError:
    """The error for a file that cannot be written."""
    # Libraries put texts of their own into `strerror`.
    reason = os.strerror(problem.errno) if problem.errno else problem
    return ConfigError(
        f"cannot be written: {reason}. Fix: name a file on a disk with free space, that this"
        " account can write",
        where=str(where),
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a file, or replace it: a full disk leaves the old one. Raises ConfigError."""
    try:
        old = path.stat() if path.exists() else None
        if old is None or _can_be_replaced(old):
            _replace(path.resolve(), content, old)
        else:
            path.write_bytes(content)
    except OSError as problem:
        raise unwritable(path, problem) from None


def _can_be_replaced(old: os.stat_result) -> bool:
    """False for devices and pipes, for files with other names, and for those of other users."""
    return stat.S_ISREG(old.st_mode) and old.st_nlink == 1 and old.st_uid == os.geteuid()


def _replace(path: Path, content: bytes, old: os.stat_result | None) -> None:
    part = path.with_name(f".{path.name[:_KEPT_NAME]}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(content)
        if old is not None:
            part.chmod(stat.S_IMODE(old.st_mode))
        part.replace(path)
    except BaseException as problem:
        part.unlink(missing_ok=True)
        if not isinstance(problem, OSError) or problem.errno not in _NOT_REPLACED:
            raise
        path.write_bytes(content)


class LineFile:
    """A text file that is written while work goes on.

    A full disk does not end the work. Writing stops, and closing the file raises ConfigError, after
    the command has shown its results.
    """

    def __init__(self, path: Path, *, flushes_lines: bool = False) -> None:
        """`flushes_lines`: a kill loses no line. Raises ConfigError."""
        self._path = path
        self._problem: OSError | None = None
        try:
            self._file = path.open("w", encoding="utf-8", buffering=1 if flushes_lines else -1)
        except OSError as problem:
            raise unwritable(path, problem) from None

    @property
    def is_complete(self) -> bool:
        return self._problem is None

    def write(self, text: str) -> None:
        if self._problem is None:
            try:
                self._file.write(text)
            except OSError as problem:
                self._problem = problem

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as problem:
            self._problem = self._problem or problem
        if self._problem is not None:
            raise ConfigError(
                f"is incomplete: {self._problem.strerror}. Fix: name a file on another disk",
                where=str(self._path),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except ConfigError:
            if error is None:  # else that one is reported
                raise


def check_output_files(
    outputs: Sequence[tuple[Path | None, str]], *, inputs: Iterable[str | Path | None] = ()
) -> None:
    """Check the files of several options, as `check_output_file`; two must not be the same."""
    options: dict[Path, str] = {}
    inputs = list(inputs)
    for path, option in outputs:
        check_output_file(path, option, inputs=inputs)
        # A device, such as /dev/null, can take several outputs.
        if path is None or (path.exists() and not path.is_file()):
            continue
        other = options.setdefault(path.resolve(), option)
        if other != option:
            raise ConfigError(
                f"are the same file, {path}. Fix: name two files", where=f"{other} and {option}"
            )


def check_output_file(
    path: Path | None, option: str = "", *, inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raise ConfigError if the file that `option` names cannot be written; None is no file.

    No option: an argument names it. `inputs` are files that the command reads.
    """
    if path is None:
        return
    where = f"{option} {path}".lstrip()
    try:
        _try(path, where)
        if path.exists() and any(
            each is not None and Path(each).exists() and path.samefile(each) for each in inputs
        ):
            raise ConfigError("is read by this command. Fix: name another file", where=where)
    except OSError as problem:
        raise unwritable(where, problem) from None


def _try(path: Path, where: str) -> None:
    if path.is_dir():
        raise ConfigError("is a folder. Fix: name a file in it", where=where)
    if not path.parent.is_dir():
        raise ConfigError(
            f"the folder {path.parent} does not exist. Fix: mkdir -p {path.parent}", where=where
        )
    if not path.exists():
        # Without a name: a script may wait for the file to appear.
        tempfile.TemporaryFile(dir=path.parent).close()
    elif path.is_file():
        os.close(os.open(path, os.O_WRONLY))
    # A device or a pipe is not opened: that may block, or be noticed by its reader.
