"""CPU profiles: their format, and what one client can cost."""

from __future__ import annotations

import asyncio
import gzip
import threading
from typing import Any

import pytest

from stowplan.http.messages import Request
from stowplan.http.parser import parse_request
from stowplan.server.profile import Profiler, Stack, encode, take_profile

#: The number of a field, and an int or bytes.
Field = tuple[int, Any]


def fields(message: bytes) -> list[Field]:
    """A protobuf message read without knowing what it is, as a reader of another language does."""
    at = 0
    found: list[Field] = []

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        number = varint()
        if key & 7 == 2:
            found.append((key >> 3, message[at : at + number]))
            at += number
        else:
            found.append((key >> 3, number))
    return found


def messages(message: bytes, number: int) -> list[bytes]:
    return [value for field, value in fields(message) if field == number and value != 0]


def test_a_profile_has_the_fields_of_pprof() -> None:
    """Numbers from profile.proto: 1 sample_type, 2 sample, 4 location, 5 function, 6 strings."""
    outer = ("Engine.run", "/src/engine.py", 10)
    found: dict[Stack, list[int]] = {
        (("hot", "/src/hot.py", 7), outer): [3, 300_000_000],
        (("cold", "/src/cold.py", 300), outer): [1, 100_000_000],
    }
    profile = gzip.decompress(encode(found, 1_700_000_000_000_000_000, 1_000_000_000))
    strings = [value.decode() for field, value in fields(profile) if field == 6]
    assert strings[0] == ""
    kinds = [dict(fields(each)) for each in messages(profile, 1)]
    assert [(strings[kind[1]], strings[kind[2]]) for kind in kinds] == [
        ("samples", "count"),
        ("cpu", "nanoseconds"),
    ]
    functions = {
        function[1]: (strings[function[2]], strings[function[4]])
        for function in (dict(fields(each)) for each in messages(profile, 5))
    }
    places = {}
    for location in (dict(fields(each)) for each in messages(profile, 4)):
        line = dict(fields(location[4]))
        places[location[1]] = (*functions[line[1]], line[2])
    samples = [dict(fields(each)) for each in messages(profile, 2)]
    assert [[places[number] for number in sample[1]] for sample in samples] == [
        list(stack) for stack in found
    ]
    assert dict(fields(profile))[10] == 1_000_000_000


def test_a_busy_thread_is_found() -> None:
    stop = threading.Event()

    def burn_for_the_profile() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=burn_for_the_profile)
    thread.start()
    try:
        profile = gzip.decompress(take_profile(0.3))
    finally:
        stop.set()
        thread.join()
    assert b"burn_for_the_profile" in profile
    assert b"test_profile.py" in profile


def asked(query: str) -> Request:
    head = f"GET /debug/pprof/profile?{query} HTTP/1.1\r\nHost: localhost"
    return Request(parse_request(head.encode()), b"")


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan"])
async def test_times_that_make_no_sense(seconds: str) -> None:
    assert (await Profiler()(asked(f"seconds={seconds}"))).status == 400


async def test_one_profile_at_a_time() -> None:
    profiler = Profiler()
    answers = await asyncio.gather(*[profiler(asked("seconds=0.1")) for _ in range(3)])
    assert sorted(answer.status for answer in answers) == [200, 409, 409]
    assert (await profiler(asked("seconds=0.01"))).status == 200
