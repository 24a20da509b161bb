"""Several processes that answer: their parent starts them, accepts for them, and ends with them.

`serving` runs a `Crew` instead of an event loop if `--workers` is more than 1. The parent accepts
all connections and passes them to workers in turn: if workers accepted them, chance would decide
how many each gets, and keep-alive connections never move. The parent runs neither an event loop nor
a thread, so it can fork at any time. Invariant: no worker outlives the parent, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from stowplan.errors import ConfigError, StowplanError
from stowplan.extender.background import Troubles
from stowplan.extender.listening import Listener
from stowplan.extender.mailboxes import Mailboxes
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

#: Messages: a client of a port, and one of a Unix socket, where there is never TLS.
FROM_PORT: Final = b"port"
FROM_PATH: Final = b"path"

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
#: A worker that has lived so long did not die of how it was started.
_LONG_LIFE_S: Final = 60.0
#: For what a worker does after the last request.
_MORE_PATIENCE_S: Final = 10.0
_ACCEPTS_AT_A_TIME: Final = 64
_PR_SET_PDEATHSIG: Final = 1


def check_platform() -> None:
    if sys.platform != "linux":
        raise ConfigError("more than one needs Linux", where="--workers")


@dataclass(slots=True)
class _Worker:
    """A worker slot and its process; `pid` is 0 while the slot is empty."""

    number: int
    pid: int = 0
    started_at: float = 0.0
    pause_s: float = 0.0
    #: When to start the next process.
    due: float = 0.0


class Crew:
    """Run `work(number)` in one process per worker, until a signal."""

    def __init__(
        self,
        work: Callable[[int], None],
        mailboxes: Mailboxes,
        listeners: Sequence[Listener],
        *,
        drain_timeout_s: float,
    ) -> None:
        self._work = work
        self._mailboxes = mailboxes
        self._listeners = listeners
        self._drain_timeout_s = drain_timeout_s
        self._workers = [_Worker(number) for number in range(mailboxes.count)]
        self._turn = 0
        self._is_accepting = False
        self._stops_by = 0.0
        self._all_ended_well = True
        self._turned_away = Troubles("accepting connections")
        self._selector = selectors.DefaultSelector()
        self._signals, self._signalled = socket.socketpair()

    @property
    def _is_stopping(self) -> bool:
        return self._stops_by > 0

    def run(self, on_start: Callable[[], None]) -> int:
        """Run until a signal, and return the exit code: 0 if every worker ended cleanly.

        `on_start` is called when all workers are started and signals are handled.
        """
        for end in (self._signals, self._signalled):
            end.setblocking(False)
        self._selector.register(self._signals, selectors.EVENT_READ)
        for number in _SIGNALS:
            signal.signal(number, _leave_it_to_the_loop)
        signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
        try:
            self._start_those_due()
            on_start()
            while not (self._is_stopping and not any(each.pid for each in self._workers)):
                self._start_those_due()
                self._accept_if_anybody_is_there()
                for key, _ in self._selector.select(self._patience_s()):
                    if key.data is None:
                        self._heed(self._signals.recv(4096))
                    else:
                        self._deal_out(key.data)
                self._notice_the_dead()
                if self._is_stopping and time.monotonic() > self._stops_by:
                    self._kill_all()
        finally:
            self._kill_all()
            signal.set_wakeup_fd(-1)
            for each in (self._selector, self._signals, self._signalled):
                each.close()
        return 0 if self._all_ended_well else 1

    # Connections

    def _accept_if_anybody_is_there(self) -> None:
        """Accept connections only while a worker runs; until then they wait in the kernel."""
        is_wanted = not self._is_stopping and any(each.pid for each in self._workers)
        if is_wanted is self._is_accepting:
            return
        self._is_accepting = is_wanted
        for listener in self._listeners:
            if is_wanted:
                self._selector.register(listener.socket, selectors.EVENT_READ, listener)
            else:
                self._selector.unregister(listener.socket)

    def _deal_out(self, listener: Listener) -> None:
        message = FROM_PORT if listener.path is None else FROM_PATH
        for _ in range(_ACCEPTS_AT_A_TIME):
            try:
                connection, _ = listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._turned_away.add(str(error))
                time.sleep(0.01)  # such as too many open files: no use in asking at once
                return
            with connection:
                if not self._hand_over(message, connection):
                    self._turned_away.add("no worker accepts connections any more")

    def _hand_over(self, message: bytes, connection: socket.socket) -> bool:
        for _ in self._workers:
            worker = self._workers[self._turn]
            self._turn = (self._turn + 1) % len(self._workers)
            if worker.pid and self._mailboxes.send(worker.number, message, connection):
                return True
        return False

    # Life and death

    def _patience_s(self) -> float | None:
        """Until something is to be done without being told."""
        if self._is_stopping:
            return max(0.0, self._stops_by - time.monotonic()) + 0.01
        dues = [worker.due for worker in self._workers if not worker.pid]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _start_those_due(self) -> None:
        for worker in self._workers:
            if not worker.pid and not self._is_stopping and time.monotonic() >= worker.due:
                worker.started_at = time.monotonic()
                worker.pid = self._fork(worker.number)

    def _fork(self, number: int) -> int:
        parent = os.getpid()
        # Between fork and the end of its set-up, a worker would take signals for the parent's.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._become_worker(number, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        log.info("Started a worker", extra=kv(worker=number, pid=pid))
        return pid

    def _become_worker(self, number: int, parent: int) -> NoReturn:
        status = 1
        try:
            _die_with(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Ctrl-C reaches all processes of a terminal, but the parent decides when to end.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for each in (self._selector, self._signals, self._signalled):
                each.close()
            for listener in self._listeners:
                listener.socket.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._work(number)
            status = 0
        except StowplanError as error:
            log.error("A worker cannot go on", extra=kv(worker=number, err=error))
            status = error.exit_code
        except BaseException:
            log.exception("A worker failed", extra=kv(worker=number))
        finally:
            os._exit(status)

    def _notice_the_dead(self) -> None:
        for worker in self._workers:
            if not worker.pid:
                continue
            ended, status = os.waitpid(worker.pid, os.WNOHANG)
            if ended:
                self._bury(worker, os.waitstatus_to_exitcode(status))

    def _bury(self, worker: _Worker, code: int) -> None:
        pid, worker.pid = worker.pid, 0
        if self._is_stopping:
            # One that had not begun yet knows no better end than the signal's own.
            self._all_ended_well &= code in (0, -signal.SIGTERM)
            return
        now = time.monotonic()
        is_old = now - worker.started_at > _LONG_LIFE_S
        pause_s = _FIRST_PAUSE_S if is_old or not worker.pause_s else worker.pause_s * 2
        worker.pause_s = min(pause_s, _LONGEST_PAUSE_S)
        worker.due = now + worker.pause_s
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        log.warning(
            "A worker ended; starting another",
            extra=kv(worker=worker.number, pid=pid, how=how, pause_s=worker.pause_s),
        )

    # The end

    def _heed(self, signals: bytes) -> None:
        for number in signals:
            if number == signal.SIGCHLD:
                continue
            if self._is_stopping:
                self._kill_all()
                continue
            log.info("Ending")
            self._stops_by = time.monotonic() + self._drain_timeout_s + _MORE_PATIENCE_S
            self._accept_if_anybody_is_there()
            for listener in self._listeners:
                listener.socket.close()
            self._signal_all(signal.SIGTERM)

    def _kill_all(self) -> None:
        """Kill all workers at once. A killed worker counts as a failure."""
        killed = [worker for worker in self._workers if worker.pid]
        self._signal_all(signal.SIGKILL)
        for worker in killed:
            os.waitpid(worker.pid, 0)
            worker.pid = 0
            self._all_ended_well = False

    def _signal_all(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.pid:  # not waited for yet, so that the number is still its own
                os.kill(worker.pid, number)


def _leave_it_to_the_loop(number: int, frame: object) -> None:
    """The signal's number is in the socket that the loop waits for."""


def _die_with(parent: int) -> None:
    """Whatever becomes of the parent, even SIGKILL, becomes of this process."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
