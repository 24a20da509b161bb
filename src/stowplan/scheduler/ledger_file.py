"""The ledger in a SQLite file (`--ledger FILE`): written by a thread, in batches, within a size.

Attempts wait in memory while the file is locked or the disk is full (`AttemptWriter`). In WAL mode
other processes read while this one writes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stowplan.errors import ConfigError
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.scheduler.attempt_writer import PAUSE_S, AttemptWriter
from stowplan.scheduler.ledger_records import DEFAULT_FILE_SIZE, Attempt, Details

if TYPE_CHECKING:
    from stowplan.scheduler.ledger import Entry

log = get_logger(__name__)

#: Below this the write-ahead log, which holds 100 pages and a batch, does not fit in.
MIN_FILE_SIZE: Final = 4 * 1024 * 1024
_BATCH: Final = 1_000
#: Of a row, beside its details and its message.
_ROW_BYTES: Final = 300
#: How long a writer waits for a lock before it tries again later.
_BUSY_S: Final = 1.0
#: Marks the file as ours ("STOW"), and its layout.
_APPLICATION_ID: Final = 0x53544F57
_VERSION: Final = 1

_SCHEMA: Final = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY,
    time REAL, pod TEXT, uid TEXT, attempt INTEGER, profile TEXT, result TEXT, node TEXT,
    message TEXT, seconds REAL, retried_by TEXT, backoff_until REAL, retry_by REAL, details TEXT
);
CREATE INDEX IF NOT EXISTS attempts_of_pod ON attempts (pod, id);
"""
_COLUMNS: Final = (
    "time, pod, uid, attempt, profile, result, node, message, seconds, retried_by, backoff_until,"
    " retry_by, details"
)
_INSERT: Final = f"INSERT INTO attempts ({_COLUMNS}) VALUES ({', '.join('?' * 13)})"  # noqa: S608 - constants
_SELECT: Final = f"SELECT {_COLUMNS} FROM attempts WHERE pod = ? ORDER BY id"  # noqa: S608 - constants


class LedgerFile(AttemptWriter):
    """Writes attempts until `close()`. ConfigError if the file cannot be used at the start."""

    def __init__(self, path: str, max_bytes: int = DEFAULT_FILE_SIZE) -> None:
        if max_bytes < MIN_FILE_SIZE:
            raise ConfigError("must be at least 4Mi", where="--ledger-size")
        self._path = path
        self._max_bytes = max_bytes
        self._is_failing = False
        self._connection = _opened(path)
        super().__init__("ledger", self._run)

    def _run(self) -> None:
        with closing(self._connection):
            while not self._stop.wait(PAUSE_S):
                while self._write_batch():
                    pass
            while self._write_batch():
                pass
            self.dropped += len(self._waiting)

    def _write_batch(self) -> bool:
        """Write some; False if nothing waits, or if it failed."""
        batch: list[Entry] = []
        room = self._max_bytes // 16
        with suppress(IndexError):
            while room > 0 and len(batch) < _BATCH:
                entry = self._waiting.popleft()
                batch.append(entry)
                room -= len(entry.decision) + len(entry.message) + _ROW_BYTES
        if not batch:
            return False
        try:
            self._make_room()
            with self._connection:
                self._connection.executemany(_INSERT, map(_row, batch))
        except sqlite3.Error as problem:
            self._waiting.extendleft(reversed(batch))
            if not self._is_failing:
                self._is_failing = True
                log.warning(
                    "Cannot write the ledger's file; attempts wait in memory, the oldest are lost",
                    extra=kv(file=self._path, err=str(problem), waiting=len(self._waiting)),
                )
            return False
        except Exception:
            self.dropped += len(batch)
            log.exception("Cannot write attempts to the ledger's file; they are lost")
            return True
        if self._is_failing:
            self._is_failing = False
            log.info("The ledger's file is written again", extra=kv(file=self._path))
        return True

    def _make_room(self) -> None:
        """Delete the oldest attempts if the file is nearly as large as it may be."""
        self._check_log()
        limit = self._max_bytes * 7 // 10  # the rest is for a batch and for the log
        while self._used() > limit:
            ids = self._connection.execute("SELECT MIN(id), MAX(id) FROM attempts")
            first, last = ids.fetchone()
            if first is None:
                return
            until = first + max(1, (last - first) // 10)
            with self._connection:
                self._connection.execute("DELETE FROM attempts WHERE id <= ?", (until,))

    def _check_log(self) -> None:
        """Keep the write-ahead log small; a reader that holds an old snapshot makes it grow."""
        most = max(self._max_bytes // 10, 1024 * 1024)
        written = Path(f"{self._path}-wal")
        with suppress(FileNotFoundError):
            if written.stat().st_size > most:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if written.stat().st_size > most:
                    raise sqlite3.OperationalError("a reader keeps the log of the file from ending")

    def _used(self) -> int:
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)


def _row(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.time,
        entry.key,
        entry.uid,
        entry.attempt,
        entry.profile,
        entry.result,
        entry.node,
        entry.message.encode("utf-8", "replace").decode(),
        entry.seconds,
        ",".join(entry.retried_by),
        entry.backoff_until,
        entry.retry_by,
        msgspec.json.encode(entry.details()).decode(),
    )


def _opened(path: str) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
        is_new = not connection.execute("PRAGMA schema_version").fetchone()[0]
        if not is_new:
            _check_layout(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 1048576")
        connection.execute("PRAGMA wal_autocheckpoint = 100")
        connection.executescript(_SCHEMA)
    except sqlite3.Error as problem:
        if connection is not None:
            connection.close()
        raise ConfigError(f"cannot be used as a ledger: {problem}", where=path) from None
    except ConfigError:
        assert connection is not None
        connection.close()
        raise
    return connection


def _check_layout(connection: sqlite3.Connection, path: str) -> None:
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if kind != _APPLICATION_ID:
        raise ConfigError("is an SQLite file, but not a ledger of Stowplan", where=path)
    if version != _VERSION:
        raise ConfigError(
            f"is a ledger of layout {version}, and this Stowplan knows {_VERSION}."
            " Fix: use the Stowplan that wrote it, or another file",
            where=path,
        )


def read_attempts(path: str, pod: str) -> list[Attempt]:
    """The attempts of a pod (`namespace/name`), oldest first. ConfigError if it is no ledger."""
    if not Path(path).exists():
        raise ConfigError("no such file", where=path)
    # Without its log the file is complete, and may stand where nothing can be written.
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    try:
        source = f"{Path(path).resolve().as_uri()}?{mode}"
        with closing(sqlite3.connect(source, uri=True, timeout=_BUSY_S)) as connection:
            _check_layout(connection, path)
            found = connection.execute(_SELECT, (pod,))
            return [_attempt(row) for row in found]
    except (sqlite3.Error, ValueError) as problem:
        raise ConfigError(f"cannot be read as a ledger: {problem}", where=path) from None


def _attempt(row: tuple[Any, ...]) -> Attempt:
    fields = dict(zip(Attempt.__struct_encode_fields__, row, strict=True))
    for name in ("retriedBy", "details"):
        if not isinstance(fields[name], str):  # SQLite keeps any value in any column
            raise ValueError(f"{name} is not a text")
    fields["retriedBy"] = tuple(name for name in fields["retriedBy"].split(",") if name)
    fields["details"] = load_json(fields["details"], Details)
    return msgspec.convert(fields, Attempt)
