"""Quantities by example; tests/property holds the tables and the laws."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.quantity import (
    INT64_MAX,
    INT64_MIN,
    Family,
    RawQuantity,
    format_quantity,
    milli_value,
    nanos,
    parse_quantity,
    value,
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("100m", 100),
        ("1", 1000),
        ("0.5", 500),
        (".5", 500),
        ("2.", 2000),
        ("1e2", 100_000),
        ("1E-2", 10),
        ("0.1m", 1),
        ("1001u", 2),
        ("1n", 1),
        ("-1.5", -1500),
        ("-100u", -1),
        (4, 4000),
        (0.25, 250),
        ("0", 0),
    ],
)
def test_cpu_is_counted_in_thousandths_rounded_up(raw: RawQuantity, expected: int) -> None:
    assert milli_value(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("500Mi", 500 * 2**20),
        ("1.5Gi", 3 * 2**29),
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("1k", 1000),
        ("100m", 1),
        ("1.1", 2),
        ("0.1Ki", 103),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("7Ei", 7 * 2**60),
        (" 2Gi ", 2 * 2**30),
        (110, 110),
        (1.5, 2),
    ],
)
def test_all_else_is_counted_in_units_rounded_up(raw: RawQuantity, expected: int) -> None:
    assert value(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1500Mi", "1500Mi"),
        ("1000k", "1M"),
        ("1000e3", "1e6"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1.25n", "2n"),
        (1000, "1k"),
        (2.5, "2500m"),
    ],
)
def test_the_canonical_text_keeps_the_kind_of_suffix(raw: RawQuantity, expected: str) -> None:
    assert format_quantity(raw) == expected


def test_the_kind_of_suffix_is_remembered() -> None:
    assert parse_quantity("1").family is Family.DECIMAL
    assert parse_quantity("1Ki").family is Family.BINARY
    assert parse_quantity("1e3").family is Family.EXPONENT
    assert parse_quantity("0.5Pi").family is Family.BINARY
    # Less than one unit cannot be written with a binary suffix.
    assert parse_quantity("0.0001Ki").family is Family.DECIMAL


def test_only_binary_suffixes_are_capped_at_int64() -> None:
    assert value("16Ei") == INT64_MAX
    assert value("-16Ei") == -INT64_MAX
    # As upstream: the others overflow, and what is left means nothing.
    assert value("10E") == 0
    assert value("9223372036854775808") == INT64_MIN
    assert milli_value("9E") == 0
    assert milli_value("9300P") == 0
    assert milli_value("99999999999999999") == (99999999999999999000 + 2**63) % 2**64 - 2**63


def test_numbers_of_billions_of_digits_cost_nothing() -> None:
    assert value("1e2000000000") == 0
    assert value("1234567890123456789e2000000000") == 0
    assert value("-1234567890123456789e2000000000") == 0
    assert value("1e-2000000000") == 1
    assert format_quantity("1e-2000000000") == "1e-9"
    assert nanos("1e2000000000") > nanos("1e80")


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " ",
        "abc",
        "1 Gi",
        "1.2.3",
        "1Kib",
        "1ki",
        "1K",
        "1e",
        "1e1.5",
        "--1",
        "0x10",
        "1_000",
        "1,5",
        "\u0661",
        "1\n",
        "1e99999999999999999999",
        "Pi",
        "9" * 5000,
        True,
        float("inf"),
        float("nan"),
    ],
)
def test_what_is_no_quantity_is_named_in_the_error(raw: RawQuantity) -> None:
    with pytest.raises(ValueError, match=r"^invalid quantity ") as caught:
        parse_quantity(raw)
    assert repr(raw) in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("1.2.3", "quantities must match the regular expression"),
        ("1Mb", "quantities must match the regular expression"),
        ("1ki", "unable to parse quantity's suffix"),
        (".e-20", "unable to parse numeric part of quantity"),
    ],
)
def test_the_error_gives_upstreams_reason(raw: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        value(raw)


def test_a_number_is_not_mistaken_for_an_equal_one_of_another_type() -> None:
    """The cache must tell 10**21 from 1e21: their texts overflow differently."""
    big: tuple[Any, ...] = (10**21, 1e21)
    assert big[0] == big[1]
    assert [format_quantity(raw) for raw in big] == ["1", "1e+21"]
    assert value(1) == 1
    with pytest.raises(ValueError, match="True"):
        value(True)
