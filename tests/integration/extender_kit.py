"""`stowplan extender` as a process."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.warm_python import WarmProcess
from tests.waiting import wait_for

NOP = "algorithm: !NOPAlgorithm\n"


@dataclass
class ExtenderProcess:
    process: WarmProcess | subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def port(self) -> int:
        found = re.search(r'"Serving" url="https?://[^"]*:(\d+)"', self.log)
        assert found is not None, self.log
        return int(found[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, content: Any = None) -> Any:
        """POST where there is content; the answer's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            body = None if content is None else json.dumps(content)
            connection.request("GET" if body is None else "POST", path, body)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def end(self) -> int:
        """By SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def extender(
    directory: Path,
    config: str = NOP,
    *flags: str,
    port: int | None = 0,
    env: dict[str, str] | None = None,
    is_cold: bool = False,
) -> Iterator[ExtenderProcess]:
    """Waits until it serves. A cold one is an interpreter of its own, with all its variables."""
    file, log = directory / "extender.yaml", directory / "extender.log"
    file.write_text(config)
    log.touch()
    words = ["-m", "stowplan", "extender", f"--config={file}", *flags]
    if port is not None:
        words += [f"--port={port}", "--bind-address=127.0.0.1"]
    process: WarmProcess | subprocess.Popen[bytes]
    if is_cold:
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, *words],
                stdout=stream,
                stderr=stream,
                env={**os.environ, **(env or {})},
            )
    else:
        process = WarmProcess(words, log, env)
    running = ExtenderProcess(process, log)

    def is_serving() -> bool:
        assert running.process.poll() is None, f"the extender ended:\n{running.log}"
        return '"Serving"' in running.log

    try:
        wait_for("the extender to serve", is_serving)
        yield running
    finally:
        running.process.kill()
        running.process.wait()


class UnixConnection(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("extender", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
