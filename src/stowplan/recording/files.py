"""Output of a recording: one file, or a folder of files that are rotated by size and time.

Every file begins with a header and a snapshot of the cluster, so each is a complete recording and
the oldest ones can be deleted. Files of a folder are named after their start time,
`2026-01-02T030405Z.jsonl.gz`, and sort by it. A file gets this name when its snapshot is complete;
only then are old files deleted. So a start that fails, such as on a full disk, costs no recording.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from stowplan.clock import Clock, rfc3339
from stowplan.errors import ConfigError
from stowplan.logs import get_logger, kv
from stowplan.recording.entries import Header, header_line, mismatch
from stowplan.recording.folder import (
    SUFFIX,
    UNFINISHED,
    files_in,
    latest_name,
    unfinished_in,
)
from stowplan.recording.gzip_lines import LineWriter
from stowplan.recording.probe import first_header, headers_in, why_no_recording

log = get_logger(__name__)

#: Each file has a snapshot of the cluster, so smaller ones would be little else.
_LEAST_SIZE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a new file begins, and how many are kept. 0 is no limit for `after_s` and `keep`."""

    size: int = 256 << 20
    after_s: float = 86_400.0
    keep: int = 0

    def check(self, *, prefix: str) -> None:
        """Raise ConfigError for a wrong value; `prefix` is that of the options' names."""
        if self.size < _LEAST_SIZE:
            raise ConfigError("is too small. Fix: give at least 1Mi", where=f"{prefix}-size")
        if self.after_s < 0:
            raise ConfigError("is negative. Fix: give 0 for no limit", where=f"{prefix}-after")


class Output:
    """The file that is being written. `is_due` says when to `rotate`.

    `begin` creates the file, so a recording that never began leaves none. Call `finish_snapshot`
    once the file has its snapshot; otherwise `close` deletes a file that is new. The file, or the
    folder, is locked until `close`.
    """

    def __init__(self, path: Path, *, clock: Clock, rotation: Rotation | None = None) -> None:
        """`rotation` makes `path` a folder."""
        self._path = path
        self._clock = clock
        self._rotation = rotation
        self._opened_at = 0.0
        self._file: IO[bytes] | None = None
        #: A handle of the folder, which is locked.
        self._folder: int | None = None
        self._lines: LineWriter | None = None
        #: The name of a new file until its snapshot is complete.
        self._unfinished: Path | None = None
        self.current = path
        #: Number of files that this process has begun.
        self.files = 0
        self._written_before = 0
        #: Why the new files in a folder do not go with the older ones; empty if they do.
        self.warning = ""

    @property
    def is_folder(self) -> bool:
        return self._rotation is not None

    @property
    def path(self) -> Path:
        """The file, or the folder."""
        return self._path

    @property
    def lines(self) -> LineWriter:
        """Raises ConfigError if the file cannot be created."""
        if self._lines is None:
            self._lines = self._open()
        return self._lines

    @property
    def written(self) -> int:
        """Bytes in the current file that this process wrote."""
        return 0 if self._lines is None else self._lines.written

    @property
    def total_written(self) -> int:
        """Bytes in all files that this process wrote."""
        return self._written_before + self.written

    @property
    def is_due(self) -> bool:
        """Whether to rotate. Raises ConfigError if a file that is not rotated was deleted."""
        is_deleted = self._file is not None and not os.fstat(self._file.fileno()).st_nlink
        rotation = self._rotation
        if rotation is None:
            if is_deleted:
                raise ConfigError(
                    "was deleted while it was written, so nothing is recorded. Fix: record again",
                    where=str(self._path),
                )
            return False
        return (
            is_deleted
            or self.written >= rotation.size
            or 0 < rotation.after_s <= self._clock.monotonic() - self._opened_at
        )

    def begin(self, header: Header) -> None:
        """Write a header. Raises ConfigError, and writes nothing, if the file is another's."""
        lines = self.lines  # from here on no other recorder writes
        key_id, cluster = header.key_id, header.cluster
        if self._rotation is None:
            check_continues(self._path, key_id=key_id, cluster=cluster)
        elif self.files == 1:
            self.warning = warning_of_older_files(self._path, key_id=key_id, cluster=cluster)
        lines.add(header_line(header))

    def rotate(self) -> None:
        """End this file and begin the next one; raises OSError."""
        self._close_file()
        self._written_before, self._lines = self.total_written, None
        self._lines = self._open()

    def finish_snapshot(self) -> None:
        """Keep the file; give one of a folder its name, then delete the oldest; raises OSError."""
        if self._unfinished is not None:
            self.lines.flush()
            if self._rotation is not None:
                self._unfinished.rename(self.current)
            self._unfinished = None
            self._delete_oldest()

    def _delete_oldest(self) -> None:
        if self._rotation is None or not self._rotation.keep:
            return
        files = files_in(self._path)
        # Older versions left empty files where a start failed: these count as no recording.
        kept = set(list(filter(_has_content, files))[-self._rotation.keep :])
        for old in files:
            if old not in kept:
                try:
                    old.unlink(missing_ok=True)
                except OSError as problem:
                    log.warning(
                        "An old recording cannot be deleted; recording goes on",
                        extra=kv(file=str(old), err=problem.strerror),
                    )

    def close(self) -> None:
        try:
            self._close_file()
        finally:
            self._unlock_folder()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                self.lines.end_member()
            finally:
                with suppress(OSError):  # if the disk is full, `end_member` has raised it already
                    file.close()
                unfinished, self._unfinished = self._unfinished, None
                if unfinished is not None:
                    with suppress(OSError):  # the next start deletes it
                        unfinished.unlink()

    def _open(self) -> LineWriter:
        path = self._path
        try:
            if self._rotation is not None:
                path.mkdir(parents=True, exist_ok=True)
                self._lock_folder()
                for killed in unfinished_in(path):
                    with suppress(OSError):  # the file may belong to another user
                        killed.unlink()
                self.current = self._new_name()
                path = self.current.with_name(self.current.name + UNFINISHED)
            is_new = not os.path.lexists(path)
            # A rotated file must be new: links that others left in the folder are not followed.
            extra = os.O_APPEND if self._rotation is None else os.O_EXCL
            # Recordings reveal much about a cluster, so only their owner can read them.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | extra, 0o600)
        except OSError as problem:
            raise ConfigError(
                f"cannot be written: {problem.strerror}. Fix: choose a place that you may write",
                where=str(self.current),
            ) from None
        self._unfinished = path if is_new else None
        self._file = os.fdopen(handle, "ab")
        # Interleaved lines of two processes would be unreadable.
        if not _lock(handle):
            self._file.close()
            self._file = None
            raise _locked(self.current, "file")
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and not status.st_size:
            with suppress(OSError):  # the file may belong to another user
                os.fchmod(handle, 0o600)  # it may be an empty file that existed
        self._opened_at = self._clock.monotonic()
        self.files += 1
        return LineWriter(self._file)

    def _lock_folder(self) -> None:
        """Lock the folder: the files of two processes would be read as one recording."""
        if self._folder is not None:
            if os.path.samestat(os.fstat(self._folder), self._path.stat()):
                return
            self._unlock_folder()  # it was deleted or renamed, and this is a new one
        handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        if not _lock(handle):
            os.close(handle)
            raise _locked(self._path, "folder")
        self._folder = handle

    def _unlock_folder(self) -> None:
        handle, self._folder = self._folder, None
        if handle is not None:
            os.close(handle)

    def _new_name(self) -> Path:
        """A name that sorts after all others, even if the clock was set back."""
        stem, number = rfc3339(self._clock.time()).replace(":", ""), 1
        if (latest := latest_name(self._path)) is not None and stem <= latest[0]:
            stem, number = latest[0], latest[1] + 1
        return self._path / (f"{stem}-{number}{SUFFIX}" if number > 1 else f"{stem}{SUFFIX}")


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:  # deleted meanwhile
        return False


def _lock(handle: int) -> bool:
    """Lock a file or folder until its handle is closed; False if another process has done so."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # some network file systems have no locks
    return True


def _locked(path: Path, what: str) -> ConfigError:
    return ConfigError(f"another process records to it. Fix: name another {what}", where=str(path))


def check_continues(path: Path, *, key_id: str, cluster: str = "") -> None:
    """Raise ConfigError if a file exists to which a recording must not be appended.

    `key_id` identifies the key of the recorder's hashes; "" if it keeps names. `cluster` is that
    of a header; "" if it is not known.
    """
    if path.is_fifo():  # opening it would wait for a reader for ever
        raise ConfigError("is not a regular file. Fix: name another file", where=str(path))
    if not path.is_file() or not path.stat().st_size:
        return
    header: Header | None = None
    for each in headers_in(path):
        if header is not None and (differ := mismatch(header, each)):
            raise ConfigError(
                f"exists and its sessions do not go together: {differ}. Fix: name another file",
                where=str(path),
            )
        header = each
        if cluster and header.cluster not in ("", cluster):
            raise ConfigError(
                "exists and was recorded from another cluster. Fix: name another file",
                where=str(path),
            )
    if header is None:
        why, _ = why_no_recording(path)
        raise ConfigError(f"exists and {why}. Fix: name another file", where=str(path))
    if header.has_names_of(key_id):
        return
    if header.names != "hashed":
        what, remedy = "are not hashed", "or leave out --hash-names and --hash-key"
    else:
        what = "are hashed with another key" if key_id else "are hashed"
        remedy = "or, if it was recorded with --hash-key, give that key"
    raise ConfigError(
        f"exists and has names that {what}. Fix: name another file, {remedy}", where=str(path)
    )


def warning_of_older_files(folder: Path, *, key_id: str, cluster: str = "") -> str:
    """Why new files do not go with those in a folder; empty if they do.

    Arguments are as in `check_continues`. The newest recording decides: when it began, this was
    checked.
    """
    try:
        files = files_in(folder)
    except OSError:
        return ""  # it does not exist, or creating a file will report the error
    for file in reversed(files):
        with suppress(ConfigError):  # of another format
            header = first_header(file)
            if header is None:
                continue
            if header.has_names_of(key_id):
                if not cluster or header.cluster in ("", cluster):
                    return ""
                return (
                    f"{folder} has older files, such as {file.name}, of another cluster, which"
                    " cannot be read together with the new ones. Fix: record to a new folder"
                )
            how, remedy = "in only some of them", ""
            if key_id and header.names == "hashed":
                how = "with another key"
                remedy = ", or, if the older files were recorded with --hash-key, give that key"
            return (
                f"{folder} has older files, such as {file.name}, that cannot be read together with"
                f" the new ones: names are hashed {how}. Fix: record to a new folder{remedy}"
            )
    return ""
