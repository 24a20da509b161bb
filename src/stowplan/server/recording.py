"""`run --record DIR`: a `stowplan record` of its own beside the scheduler, fed by the ledger.

Recording must neither slow nor stop scheduling, so it is done by another process with watches of
its own. It gets the scheduler's attempts through a pipe; a thread writes them there. If the disk is
full, the folder cannot be written or the process dies, that is one line in the log and a metric;
the next try is a minute later. The process ends with its pipe, so it cannot outlive the scheduler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from stowplan.config.durations import Duration
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.recording.decisions import LEDGER, Decision
from stowplan.scheduler.attempt_writer import CLOSE_S, PAUSE_S, AttemptWriter

if TYPE_CHECKING:
    from stowplan.scheduler.ledger import Entry

log = get_logger(__name__)

_RETRY_S: Final = 60.0
_encode = msgspec.json.Encoder().encode

#: Fields of an attempt that are in its line.
_FIELDS: Final = (
    *("key", "uid", "attempt", "profile", "node", "result", "waited", "seconds"),
    *("evaluated_nodes", "feasible_nodes"),
)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Options of `stowplan record` that `run` has, too."""

    folder: Path
    rotate_size: int
    rotate_after: Duration
    keep: int
    hash_names: bool
    hash_key: Path | None

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "stowplan", "record", f"{self.folder}/", "--beside"),
            f"--rotate-size={self.rotate_size}",
            f"--rotate-after={self.rotate_after}",
            *([f"--keep={self.keep}"] if self.keep else []),
            *(["--hash-names"] if self.hash_names else []),
            *([f"--hash-key={self.hash_key}"] if self.hash_key else []),
        ]


class RecordingProcess(AttemptWriter):
    """Keeps the process running until `close()`."""

    def __init__(
        self,
        options: RecordOptions,
        access: Mapping[str, str | None],
        *,
        retry_s: float = _RETRY_S,
    ) -> None:
        """`access` are the values of --kubeconfig, --context and --master."""
        given = [f"--{name}={value}" for name, value in access.items() if value]
        self._command = [*options.command(), *given]
        self._folder = options.folder
        self._retry_s = retry_s
        self._is_failing = False
        #: For metrics.
        self.is_recording = False
        self.failures = 0
        super().__init__("record", self._run)

    def _run(self) -> None:
        while True:
            why = self._record()
            self.is_recording = False
            if self._stop.is_set():
                return
            self.failures += 1
            if not self._is_failing:
                self._is_failing = True
                log.warning(
                    "Recording failed; scheduling goes on, and recording is tried again",
                    extra=kv(folder=str(self._folder), err=why, every=f"{self._retry_s:g}s"),
                )
            if self._stop.wait(self._retry_s):
                return

    def _record(self) -> str:
        """Until the process ends; why it did."""
        # What finds this package here finds it there: a zipped application has a path of its own.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
            )
        except OSError as problem:
            return str(problem)
        assert process.stdin is not None
        assert process.stderr is not None
        heard = threading.Thread(target=self._hear, args=(process.stderr,), daemon=True)
        self._said = ""
        heard.start()
        with suppress(OSError):  # why it ended is logged below
            while process.poll() is None and not self._stop.wait(PAUSE_S):
                self._feed(process.stdin)
            self._feed(process.stdin)
        with suppress(OSError):
            process.stdin.close()
        try:
            code = process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        heard.join(CLOSE_S)
        return self._said or f"the process ended with {code}"

    def _hear(self, stderr: IO[bytes]) -> None:
        """Its last line says why it ended."""
        with stderr:
            for line in stderr:
                text = line.decode(errors="replace").strip()
                if text.startswith("Recording to"):
                    self.is_recording = True
                    what = "Recording goes on" if self._is_failing else "Recording began"
                    self._is_failing = False
                    log.info(what, extra=kv(folder=str(self._folder)))
                elif text.startswith("Warning: "):
                    why = text.removeprefix("Warning: ")
                    log.warning("The recorder warned", extra=kv(err=why))
                elif text:
                    self._said = text

    def _feed(self, stdin: IO[bytes]) -> None:
        """Send what waits. Before it has listed the cluster, the process would discard it."""
        while self.is_recording and self._waiting:
            stdin.write(_line(self._waiting.popleft()))
        stdin.flush()


def _line(entry: Entry) -> bytes:
    """An attempt for the pipe; its details are JSON already, and are read on the other side."""
    line = {name: getattr(entry, name) for name in _FIELDS}
    return _encode({**line, "details": msgspec.Raw(entry.decision)}) + b"\n"


def decision_of(line: bytes) -> Decision:
    """What such a line says, without reasons: they quote anything."""
    attempt = load_json(line)
    details = attempt["details"]
    return Decision(
        pod=attempt["key"],
        uid=attempt["uid"],
        result=attempt["result"],
        node=attempt["node"],
        scheduler=attempt["profile"],
        source=LEDGER,
        attempt=attempt["attempt"],
        waited=round(attempt["waited"], 6),
        seconds=round(attempt["seconds"], 6),
        evaluated_nodes=attempt["evaluated_nodes"],
        feasible_nodes=attempt["feasible_nodes"],
        refused=details.get("refused", {}),
        scores=details.get("scores", []),
    )
