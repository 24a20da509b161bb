"""kube-scheduler's own plugins as a function: the program in src/stowplan/lab/controlplane/oracle.

One process serves a whole session; all that it keeps between questions is the cluster of a stream.
What must stay true: a question that cannot be answered raises with the program's own words, or is
an answer with an `error`; it never passes for another answer.
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
        answer = self.answer(question)
        if "error" in answer:
            raise OracleError(f"{answer['error']}\nto: {json.dumps(question)}")
        return answer

    def answer(self, line: Json) -> Json:
        """The same, with an error as an answer: what it says to a line of `stowplan decide`."""
        self.send(line)
        return self.receive()

    def send(self, line: Json) -> None:
        """Ask; the answer is to be received before anything else is asked."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # Whoever receives is told why.
            pass

    def receive(self) -> Json:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace")
            raise OracleError(f"the oracle ended ({self._process.wait(10)}): {said[-4000:]}")
        answer: Json = json.loads(line)
        return answer
