"""Quantities against answers that are not ours.

`tests/data/quantity_reference.json` was printed by tools/reference from the real apimachinery
1.36; the laws below compare with `fractions.Fraction` and with the official Python client.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity as client_parse

from stowplan.api.quantity import (
    INT64_MAX,
    format_quantity,
    milli_value,
    nanos,
    parse_quantity,
    value,
)

DATA = Path(__file__).parent.parent / "data" / "quantity_reference.json"
CASES: list[dict[str, Any]] = json.loads(DATA.read_text())["quantities"]
VALID = [case for case in CASES if "error" not in case]
INVALID = [case for case in CASES if "error" in case]

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def ident(case: dict[str, Any]) -> str:
    return repr(case["in"])


def test_the_table_is_all_there() -> None:
    assert len(VALID) > 600
    assert len(INVALID) > 40


@pytest.mark.parametrize("case", VALID, ids=ident)
def test_numbers_are_upstreams(case: dict[str, Any]) -> None:
    raw = case["in"]
    assert (value(raw), milli_value(raw)) == (case["value"], case["milli"])
    if "exact" in case and len(case["exact"]) < 90:
        assert nanos(raw) == Fraction(case["exact"]) * 10**9


@pytest.mark.parametrize(
    # A float has lost the text it came from: whether 1000.0 was "1e3" cannot be known any more.
    "case",
    [case for case in VALID if not isinstance(case["in"], float)],
    ids=ident,
)
def test_canonical_texts_are_upstreams(case: dict[str, Any]) -> None:
    assert format_quantity(case["in"]) == case["string"]


@pytest.mark.parametrize("case", INVALID, ids=ident)
def test_what_upstream_refuses_is_refused_for_the_same_reason(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        parse_quantity(case["in"])
    assert case["error"] in str(caught.value)
    assert repr(case["in"]) in str(caught.value)


signs = st.sampled_from(["", "-", "+"])
digits = st.text("0123456789", min_size=1, max_size=30)
fractions = st.one_of(st.just(""), st.text("0123456789", max_size=12).map(".".__add__))
suffixes = st.sampled_from([*DECIMAL, *BINARY])


def exact(number: str, suffix: str) -> Fraction:
    if suffix in BINARY:
        return Fraction(number) * Fraction(1 << BINARY[suffix])
    return Fraction(f"{number}e{DECIMAL[suffix]}")


def away(number: Fraction) -> int:
    """Rounded away from zero."""
    return ceil(number) if number >= 0 else floor(number)


@given(signs, digits, fractions, suffixes)
def test_exact_to_a_billionth(sign: str, whole: str, fraction: str, suffix: str) -> None:
    number = sign + whole + (fraction if fraction != "." else "")
    wanted = away(exact(number, suffix) * 10**9)
    if suffix in BINARY:
        wanted = max(-INT64_MAX * 10**9, min(INT64_MAX * 10**9, wanted))
    assert nanos(sign + whole + fraction + suffix) == wanted


@given(digits, fractions, suffixes)
def test_rounded_up_wherever_it_fits(whole: str, fraction: str, suffix: str) -> None:
    number = exact(whole + (fraction if fraction != "." else ""), suffix)
    assume(number * 1000 < INT64_MAX)
    text = whole + fraction + suffix
    assert value(text) == ceil(number)
    assert milli_value(text) == ceil(number * 1000)


@given(digits, st.integers(-30, 30), st.sampled_from("eE"), st.sampled_from(["", "+"]))
def test_exponents(whole: str, exponent: int, letter: str, plus: str) -> None:
    written = f"{plus}{exponent}" if exponent >= 0 else str(exponent)
    number = Fraction(whole) * Fraction(10) ** exponent
    assert nanos(f"{whole}{letter}{written}") == ceil(number * 10**9)


@given(signs, digits, fractions, suffixes)
def test_the_official_client_reads_the_same_number(
    sign: str, whole: str, fraction: str, suffix: str
) -> None:
    text = sign + whole[:12] + fraction[:9] + suffix
    # Its decimals have 28 digits, no grain and no bounds: compare where neither matters.
    theirs = Fraction(client_parse(text)) * 10**9  # type: ignore[no-untyped-call]  # the client has no types
    assume(theirs.denominator == 1)
    assume(abs(theirs) < 10**27)
    assert nanos(text) == theirs


@given(signs, digits, fractions, suffixes)
def test_the_canonical_text_is_the_same_quantity(
    sign: str, whole: str, fraction: str, suffix: str
) -> None:
    text = sign + whole + fraction + suffix
    # Upstream has no suffix above E and drops it: there the law does not hold.
    assume(abs(nanos(text)) < 10 ** (18 + 9))
    again = format_quantity(text)
    assert nanos(again) == nanos(text)
    assert format_quantity(again) == again


@given(st.integers(-(10**25), 10**25))
def test_integers_are_their_texts(number: int) -> None:
    assert (value(number), milli_value(number)) == (value(str(number)), milli_value(str(number)))
    assert format_quantity(number) == format_quantity(str(number))


@given(st.floats(min_value=0, max_value=1e12))
def test_floats_are_what_they_print(number: float) -> None:
    assert nanos(number) == ceil(Fraction(repr(number)) * 10**9)


@given(st.text("0123456789.+-eEinumkKMGTPx ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except ValueError as error:
        refusal = str(error)
    else:
        assert -(2**63) <= quantity.value() < 2**63
        assert -(2**63) <= quantity.milli_value() < 2**63
        assert str(quantity)
        return
    assert repr(text) in refusal
