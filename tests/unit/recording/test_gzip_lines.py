"""Lines survive a kill at any byte, and damage costs only the part that it hits."""

from __future__ import annotations

import gzip
import io
import random
import sys
import time
import tracemalloc
import zlib
from typing import Any

import pytest

from stowplan.recording.gzip_lines import Damage, LineWriter, read_lines

LINES = [b'{"at":%d,"text":"%s"}' % (number, b"x" * (number % 50)) for number in range(300)]


def written(*, member_bytes: int = 4 << 20, flush_every: int = 10) -> bytes:
    file = io.BytesIO()
    lines = LineWriter(file, member_bytes=member_bytes)
    for number, line in enumerate(LINES, 1):
        lines.add(line)
        if number % flush_every == 0:
            lines.flush()
    lines.end_member()
    return file.getvalue()


def read(data: bytes) -> tuple[list[bytes], list[str]]:
    found = list(read_lines(io.BytesIO(data)))
    lines = [line for line in found if not isinstance(line, Damage)]
    return lines, [str(each) for each in found if isinstance(each, Damage)]


def test_what_is_written_is_read_here_and_by_gzip() -> None:
    data = written(member_bytes=1000)
    assert read(data) == (LINES, [])
    assert gzip.decompress(data) == b"".join(line + b"\n" for line in LINES)


def test_a_file_cut_anywhere_gives_the_lines_before_the_cut() -> None:
    data = written()
    for cut in range(0, len(data), 7):
        lines, problems = read(data[:cut])
        assert lines == LINES[: len(lines)]
        assert bool(problems) == (cut > 0)


def test_every_flushed_line_is_in_the_file() -> None:
    file = io.BytesIO()
    writer = LineWriter(file)
    for number, line in enumerate(LINES, 1):
        writer.add(line)
        writer.flush()
        assert read(file.getvalue())[0] == LINES[:number]


def test_damage_costs_only_the_part_that_it_hits() -> None:
    data = written(member_bytes=1000)
    random_ = random.Random(7)
    for _ in range(200):
        place = random_.randrange(len(data))
        changed = bytearray(data)
        changed[place] ^= 1 << random_.randrange(8)
        lines, _ = read(bytes(changed))
        # A member of a thousand bytes holds some thirty of the lines.
        assert len(set(LINES) & set(lines)) >= len(LINES) - 80, place


def test_a_file_that_a_killed_writer_left_can_be_continued() -> None:
    file = io.BytesIO()
    killed = LineWriter(file)
    for line in LINES[:100]:
        killed.add(line)
    killed.flush()
    place = len(file.getvalue())
    restarted = LineWriter(file)
    for line in LINES[100:]:
        restarted.add(line)
    restarted.end_member()
    lines, problems = read(file.getvalue())
    assert lines == LINES
    assert problems == [f"breaks off at byte {place}"]


def test_a_killed_writer_that_flushed_nothing_costs_no_line_of_the_next_one() -> None:
    """Wherever a member is cut, the next one is found, and no line is made up."""
    whole, later = written(flush_every=1000), written(member_bytes=1000)
    for cut in range(12, len(whole) - 8, 41):
        lines, problems = read(whole[:cut] + later)
        count = len(lines) - len(LINES)
        assert lines == [*LINES[:count], *LINES], cut
        assert problems == [f"breaks off at byte {cut}"]


def test_a_member_is_found_across_the_reader_s_chunks() -> None:
    later = written()
    noise = random.Random(3).randbytes(1 << 17).hex().encode()
    for short in range(-3, 4):
        file = io.BytesIO()
        killed = LineWriter(file)
        killed.add(b'{"noise":"%s"}' % noise)
        killed.flush()
        place = (1 << 16) + short
        lines, problems = read(file.getvalue()[:place] + later)
        assert (lines, problems) == (LINES, [f"breaks off at byte {place}"])


def test_a_wrong_checksum_is_named() -> None:
    data = bytearray(written())
    data[-6] ^= 1
    lines, (problem,) = read(bytes(data))
    assert lines == LINES
    assert problem.startswith("has a wrong checksum for bytes 0 to ")


def test_garbage_is_named_with_its_place() -> None:
    data = written(member_bytes=1000)
    lines, problems = read(b"not gzip at all" + data)
    assert lines == LINES
    assert problems == ["is damaged at byte 0"]
    assert read(b"\x00" * 300_000) == ([], ["is damaged at byte 0"])


def test_a_bomb_is_given_up_without_unpacking_it() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b"a" * (1 << 20)) for _ in range(200)) + packer.flush()
    tracemalloc.start()
    found = list(read_lines(io.BytesIO(bomb), max_line=4 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == ["has a line of more than 4 MiB"]
    assert peak < 40 << 20


@pytest.mark.parametrize("line", [b"\n", b"x\n", b'{"at":1,"type":"END"}\n'])
def test_the_number_of_lines_is_bounded_by_the_size_of_the_file(line: bytes) -> None:
    """Each costs a step, and gzip packs hundreds of them into a byte."""
    lines, problems = read(written() + gzip.compress(line * 1_000_000))
    assert lines[: len(LINES)] == LINES
    assert len(lines) < 101_000
    assert problems == ["has more than one line in 4 bytes"]
    noise = random.Random(1)
    many = b"".join(b"%x\n" % noise.getrandbits(32) for _ in range(200_000))
    assert read(gzip.compress(many)) == (many.split(b"\n")[:-1], [])


def test_lines_that_compress_well_are_read() -> None:
    """Small files may expand to any size, and recordings expand to much less than 200 times."""
    line = b'{"at":1}' + b" " * 1000
    assert len(list(read_lines(io.BytesIO(gzip.compress(b"%s\n" % line * 60_000))))) == 60_000


def test_damage_in_a_long_line_is_found_in_linear_time() -> None:
    """The place of an error is searched byte by byte, and no byte may copy the line so far."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    noise = random.Random(1).randbytes(50_000).replace(b"\n", b"x")
    member = packer.compress(b"x" * (7 << 20)) + packer.compress(noise) + packer.flush()
    damaged = member[:-6] + bytes([member[-6] ^ 0x55]) + member[-5:]
    began = time.process_time()
    found = list(read_lines(io.BytesIO(damaged)))
    assert all(isinstance(each, Damage) for each in found)
    assert time.process_time() - began < 5  # copying 7 MiB for each byte takes minutes


def searched_bytes(data: bytes) -> int:
    """Bytes of the strings that `read_lines` searches for the ends of lines."""
    found = 0

    def count(frame: Any, event: str, called: Any) -> None:
        nonlocal found
        if event == "c_call" and frame.f_code is read_lines.__code__:
            text = getattr(called, "__self__", None)
            found += len(text) if isinstance(text, bytes | bytearray) else 0

    sys.setprofile(count)
    try:
        lines = list(read_lines(io.BytesIO(data)))
    finally:
        sys.setprofile(None)
    assert lines == ["ends within a line"]
    return found


def test_a_line_of_many_small_members_is_read_in_linear_time() -> None:
    """Each byte is searched once for the end of the line, however many pieces the line has."""
    member = gzip.compress(b'{"')
    assert [searched_bytes(member * count) for count in (500, 1000)] == [1000, 2000]
