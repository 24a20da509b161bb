"""Sessions and failed sign-ins: bounded in number and in time."""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.console.hosts import is_named, names_loopback
from stowplan.console.sessions import (
    LASTS_S,
    MOST_ADDRESSES,
    MOST_FAILURES,
    MOST_SESSIONS,
    WINDOW_S,
    FailedSignIns,
    Sessions,
)
from stowplan.console.sign_in import _source
from tests.console_stage import ShiftedClock


@dataclass(eq=False)
class Recorded:
    """An outlet that remembers its end."""

    has_ended: bool = False

    def send(self, data: bytes) -> bool:
        return not self.has_ended

    def end(self) -> None:
        self.has_ended = True


def test_sessions_end_with_time_and_with_number() -> None:
    clock = ShiftedClock(0)
    sessions = Sessions(clock)
    names = [sessions.begin(f"token-{number}") for number in range(MOST_SESSIONS)]
    assert len(set(names)) == MOST_SESSIONS
    first, outlet = sessions.find(names[0]), Recorded()
    assert first is not None
    first.outlets.add(outlet)
    newest = sessions.begin("one more")
    assert sessions.find(names[0]) is None
    assert outlet.has_ended
    assert len(sessions) == MOST_SESSIONS
    kept = sessions.find(names[1])
    assert kept is not None
    assert kept.token == "token-1"
    clock.shift += LASTS_S
    assert sessions.find(newest) is None
    assert len(sessions) == 0


def test_a_session_that_ends_takes_its_streams_along() -> None:
    sessions = Sessions(ShiftedClock(0))
    name, outlet = sessions.begin("token"), Recorded()
    found = sessions.find(name)
    assert found is not None
    found.outlets.add(outlet)
    sessions.end("another")
    assert not outlet.has_ended
    sessions.end(name)
    assert outlet.has_ended


def test_an_address_that_fails_often_waits() -> None:
    clock = ShiftedClock(0)
    failed = FailedSignIns(clock)
    for _ in range(MOST_FAILURES):
        assert failed.wait_s("10.0.0.1") == 0
        failed.add("10.0.0.1")
    assert 0 < failed.wait_s("10.0.0.1") <= WINDOW_S
    assert failed.wait_s("10.0.0.2") == 0
    clock.shift += WINDOW_S
    assert failed.wait_s("10.0.0.1") == 0
    failed.add("10.0.0.1")
    assert failed.wait_s("10.0.0.1") == 0
    for number in range(MOST_ADDRESSES * 2):
        failed.add(f"address-{number}")
    assert len(failed._counts) == MOST_ADDRESSES


def test_addresses_of_one_client() -> None:
    assert _source("10.0.0.1:4711") == "10.0.0.1"
    assert _source("[::ffff:10.0.0.1]:4711") == "10.0.0.1"
    assert _source("[2001:db8::1]:80") == _source("[2001:db8::2]:80") == "2001:db8::/64"
    assert _source("") == ""


def test_names_of_a_server() -> None:
    names = {"console.example.com", "*.apps.example.com", "localhost"}
    for host in (
        "console.example.com",
        "CONSOLE.example.com:443",
        "a.apps.example.com",
        "10.1.1.1",
    ):
        assert is_named(host, names)
    for host in ("", "evil.example.com", "apps.example.com", "a.b.apps.example.com", ":80", "x:y"):
        assert not is_named(host, names)
    assert names_loopback("[::1]:80")
    assert not names_loopback("10.1.1.1")
