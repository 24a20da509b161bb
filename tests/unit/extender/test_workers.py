"""The parent of workers: who gets a connection, and when one that has died is replaced."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stowplan.errors import ConfigError
from stowplan.extender import workers
from stowplan.extender.listening import listening_on_port
from stowplan.extender.mailboxes import Mailboxes
from stowplan.extender.workers import Crew, check_platform


class Time:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(workers, "time", made)
    return made


@pytest.fixture
def crew_of() -> Iterator[Callable[[int], Crew]]:
    """A crew whose workers are only said to be there."""
    with ExitStack() as opened:

        def make(count: int) -> Crew:
            mailboxes = Mailboxes(count)
            opened.callback(mailboxes.close)
            crew = Crew(lambda number: None, mailboxes, [], drain_timeout_s=1.0)
            for each in (crew._selector, crew._signals, crew._signalled):
                opened.callback(each.close)
            for worker in crew._workers:
                worker.pid = 1000 + worker.number
                worker.started_at = 1000.0
            return crew

        yield make


def taken(crew: Crew, worker: int) -> list[bytes]:
    """What a worker would find in its mailbox."""
    found: list[bytes] = []
    while True:
        try:
            message, handles, _, _ = socket.recv_fds(crew._mailboxes._pairs[worker][1], 100, 1)
        except BlockingIOError:
            return found
        for handle in handles:
            socket.close(handle)
        found.append(message)


def test_pauses_grow_until_one_lives_long(crew_of: Callable[[int], Crew], time: Time) -> None:
    crew = crew_of(1)
    (worker,) = crew._workers
    pauses = []
    for _ in range(9):
        worker.pid, worker.started_at = 1000, time.now
        time.now += 1.0
        crew._bury(worker, 1)
        assert worker.pid == 0
        pauses.append(worker.due - time.now)
        time.now = worker.due
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    worker.pid, worker.started_at = 1000, time.now
    time.now += 61.0
    crew._bury(worker, -9)
    assert worker.due - time.now == 0.5


def test_the_parent_sleeps_until_somebody_is_due(
    crew_of: Callable[[int], Crew], time: Time
) -> None:
    crew = crew_of(2)
    assert crew._patience_s() is None
    crew._bury(crew._workers[0], 1)
    assert crew._patience_s() == 0.5
    time.now += 0.2
    crew._bury(crew._workers[1], 1)
    assert crew._patience_s() == pytest.approx(0.3)
    time.now += 10
    assert crew._patience_s() == 0.0


@pytest.mark.parametrize(
    ("code", "is_well"), [(0, True), (-signal.SIGTERM, True), (1, False), (-signal.SIGKILL, False)]
)
def test_how_workers_end_decides_the_exit_code(
    crew_of: Callable[[int], Crew], code: int, is_well: bool
) -> None:
    crew = crew_of(2)
    crew._stops_by = 1.0
    crew._bury(crew._workers[0], code)
    crew._bury(crew._workers[1], 0)
    assert crew._all_ended_well is is_well
    assert [worker.pid for worker in crew._workers] == [0, 0]


def test_connections_go_round_past_those_who_are_gone(crew_of: Callable[[int], Crew]) -> None:
    crew = crew_of(3)
    crew._workers[1].pid = 0
    with socket.socket() as connection:
        for number in range(6):
            assert crew._hand_over(b"%d" % number, connection)
    assert [len(taken(crew, worker)) for worker in range(3)] == [3, 0, 3]


def test_a_mailbox_that_is_full_is_passed_over(crew_of: Callable[[int], Crew]) -> None:
    crew = crew_of(2)
    with socket.socket() as connection:
        while crew._mailboxes.send(0, b"x", connection):
            pass
        assert [crew._hand_over(b"y", connection) for _ in range(4)] == [True] * 4
        assert taken(crew, 1) == [b"y"] * 4
        while crew._mailboxes.send(1, b"x", connection):
            pass
        assert not crew._hand_over(b"z", connection)
        assert len(taken(crew, 0)) > 100
        assert crew._hand_over(b"z", connection)


def test_while_nobody_is_there_nothing_is_accepted() -> None:
    mailboxes = Mailboxes(1)
    with listening_on_port("127.0.0.1", 0) as listeners:
        crew = Crew(lambda number: None, mailboxes, listeners, drain_timeout_s=1.0)
        for is_there in (False, True, True, False):
            crew._workers[0].pid = 1000 if is_there else 0
            crew._accept_if_anybody_is_there()
            assert (len(crew._selector.get_map()) == 1) is is_there
        crew._workers[0].pid = 1000
        crew._accept_if_anybody_is_there()
        with socket.create_connection(listeners[0].socket.getsockname(), 30):
            crew._selector.select(30)
            crew._deal_out(listeners[0])
        assert taken(crew, 0) == [workers.FROM_PORT]
        for each in (crew._selector, crew._signals, crew._signalled, mailboxes):
            each.close()


def test_other_systems_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    check_platform()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="--workers: more than one needs Linux"):
        check_platform()
