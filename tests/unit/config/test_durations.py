"""Go durations: texts from Go's own documentation and tests of its time package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.config.durations import Duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5s", 5),
        ("30s", 30),
        ("1478s", 1478),
        ("-5s", -5),
        ("+5s", 5),
        ("-0", 0),
        ("5.0s", 5),
        ("5.6s", 5.6),
        ("5.s", 5),
        (".5s", 0.5),
        ("1.004s", 1.004),
        ("100.00100s", 100.001),
        ("10ns", 10e-9),
        ("11us", 11e-6),
        ("12µs", 12e-6),
        ("12μs", 12e-6),
        ("13ms", 13e-3),
        ("15m", 900),
        ("16h", 57600),
        ("3h30m", 12600),
        ("10.5s4m", 250.5),
        ("-2m3.4s", -123.4),
        ("1h2m3s4ms5us6ns", 3723.004005006),
        ("0.3333333333333333333h", 1200),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    ["", "3", "-", "s", ".", "-.", ".s", "+.s", "1d", "5 s", "1s ", "1S", "3000000h", "--5s"],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (1.1e-6, "1.1µs"),
        (2.2e-3, "2.2ms"),
        (0.25, "250ms"),
        (3.3, "3.3s"),
        (15, "15s"),
        (90, "1m30s"),
        (245, "4m5s"),
        (245.001, "4m5.001s"),
        (18367.001, "5h6m7.001s"),
        (3600, "1h0m0s"),
        (480.000000001, "8m0.000000001s"),
        (-1, "-1s"),
        (-0.5, "-500ms"),
    ],
)
def test_format(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert str(Duration(seconds)) == text


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_text_and_back_loses_nothing(nanos: int) -> None:
    text = format_duration(nanos / 1e9)
    assert round(parse_duration(text) * 1e9) == nanos
