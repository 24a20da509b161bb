"""kube-scheduler's own plugins as a function: the program in tools/controlplane/oracle.

One process serves a whole session; it keeps nothing between questions. What must stay true: a
question that cannot be answered raises with the program's own words, never passes for an answer.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


class OracleError(AssertionError):
    """The oracle refused the question, or died of it."""


class Oracle:
    """A running oracle; a context manager that ends it."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def __enter__(self) -> Oracle:
        # A file and no pipe: nobody reads along, and a full pipe would stop the program.
        self._complaints = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [self._binary],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The end of its input is what it ends at.
        self._process.communicate(timeout=10)
        self._complaints.close()

    def ask(self, question: Json) -> Json:
        """The answer to one question; see `request` and `answer` in the program's main.go."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace")
            raise OracleError(f"the oracle ended ({process.wait(10)}): {said[-4000:]}")
        answer: Json = json.loads(line)
        if "error" in answer:
            raise OracleError(f"{answer['error']}\nto: {json.dumps(question)}")
        return answer
