"""Server processes of a control plane, and the loopback ports they listen on.

Called by `ControlPlane`. What must stay true: only processes started here are ever signalled, each
by its own id; none outlives the process that started it, even if that one is killed; and a server
that dies says why, with the end of its log in the error.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_TETHER = Path(__file__).resolve().parent / "tether.py"

# The kernel counts the death of the *thread* that forked as the death of the parent. All servers
# are therefore started from one thread that lives as long as this process, or a test that starts a
# control plane in a worker thread would lose it together with the thread.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawn")

POLL_INTERVAL = 0.05
LOG_TAIL_LINES = 20
_LOWEST_PORT = 20000


class ControlPlaneError(Exception):
    """A server did not start, died, or answered a request with an error."""


class ServerProcess:
    """One running server, with its log file and the address of its own HTTP endpoints.

    It gets our environment unless it is given another.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        url: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.url = url
        self.log = log
        self.stopped = False  # by us, as opposed to ended by itself
        tethered = [sys.executable, "-I", "-S", _TETHER, str(os.getpid()), *command]
        self._process = _SPAWNER.submit(self._spawn, tethered, environment).result()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def check_running(self) -> None:
        """Raise ControlPlaneError, with the end of the log, if the server has ended."""
        status = self._process.poll()
        if status is not None:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            raise ControlPlaneError(f"{self.name} ended with {how}; its log ends:\n{self.tail()}")

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait for the server to be ready; raise ControlPlaneError if it ends or takes too long."""
        deadline = time.monotonic() + timeout
        while not ready():
            self.check_running()
            if time.monotonic() > deadline:
                problem = f"{self.name} was not ready within {timeout:.0f} s"
                raise ControlPlaneError(f"{problem}; its log ends:\n{self.tail()}")
            time.sleep(POLL_INTERVAL)

    def stop(self, grace: float = 5.0) -> None:
        """Ask the server to end, and kill it when it has not within `grace` seconds.

        Nothing happens if it has ended already.
        """
        self.stopped = True
        if self.running and grace > 0:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        if self.running:
            self._signal(signal.SIGKILL)
        self._process.wait()

    def tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the server's log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:])

    def _spawn(
        self, command: Sequence[str | Path], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C reaches only this process, which then stops it in order.
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def _signal(self, number: signal.Signals) -> None:
        try:
            # It leads its own process group, so the group's id is its process id.
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass


_ports_handed_out: set[int] = set()


def free_port() -> int:
    """A free loopback port below the range of outgoing connections.

    A port from the kernel's own choice would lie in that range. When a server is down for a
    restart, a client that keeps dialling such a port can be given that very port as its source and
    connect to itself.
    """
    highest = _first_ephemeral_port() - 1
    for _ in range(1000):
        port = random.randint(_LOWEST_PORT, max(highest, _LOWEST_PORT + 1000))
        if port in _ports_handed_out:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _ports_handed_out.add(port)
        return port
    raise ControlPlaneError("found no free port on the loopback interface")


def _first_ephemeral_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        return int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return 32768
