"""Amounts and times as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.quantity import milli_value, value
from stowplan.sim.traces.amounts import (
    MOST,
    cpu_text,
    memory_bytes,
    memory_text,
    milli_cpus,
    milliseconds,
    pieces,
    seconds_text,
)


@pytest.mark.parametrize(
    ("raw", "milli"), [("500m", 500), (0.5, 500), ("2", 2000), (3, 3000), ("1u", 1), ("0", 0)]
)
def test_cpu(raw: object, milli: int) -> None:
    assert milli_cpus(raw) == milli


@pytest.mark.parametrize(
    ("raw", "expected"), [("1Ki", 1024), ("1.5Gi", 3 * 2**29), (1000, 1000), ("1G", 10**9)]
)
def test_memory(raw: object, expected: int) -> None:
    assert memory_bytes(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [("90", 90_000), (1.5, 1500), ("1m30s", 90_000), ("500ms", 500), ("0", 0), ("2h", 7_200_000)],
)
def test_times(raw: object, expected: int) -> None:
    assert milliseconds(raw) == expected


@pytest.mark.parametrize("read", [milli_cpus, memory_bytes, pieces, milliseconds])
@pytest.mark.parametrize(
    "raw",
    [
        *("", " ", "nan", float("nan"), "inf", float("inf"), "-1", -1, "1e400", "9" * 500, "x"),
        *(True, None, [], {}, "1 2", "0x10", "1_000_", "٣x"),
    ],
)
def test_what_is_no_amount_is_refused_with_a_reason(read: object, raw: object) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match=r"is (not|negative|too large|no time)"):
        read(raw)


def test_parts_of_pieces_are_refused() -> None:
    assert pieces("2.0") == 2
    with pytest.raises(ValueError, match=r"`2\.5` is not a whole number"):
        pieces("2.5")


@given(st.integers(0, MOST))
def test_texts_mean_what_they_were_made_of(number: int) -> None:
    assert milli_value(cpu_text(number)) == number
    assert value(memory_text(number)) == number
    assert milliseconds(seconds_text(number % 10**12 / 1000)) == number % 10**12
