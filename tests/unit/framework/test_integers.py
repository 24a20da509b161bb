"""Column arithmetic equals Python's exact integers, and Go's rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.integers import (
    add_saturating,
    default_normalize,
    divide_towards_zero,
    percent_of,
    round_half_away,
)

LARGEST = 2**62
BORDERS = [1, 2, 99, 100, 101, 2**46 - 1, 2**46, 2**53 + 1, 2**56 - 1, 2**56, 2**57 + 1, LARGEST]
wholes = st.one_of(st.integers(0, 1000), st.integers(0, LARGEST), st.sampled_from(BORDERS))


@st.composite
def parts_and_wholes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    whole = draw(st.lists(wholes, min_size=1, max_size=6))
    part = [
        draw(st.one_of(st.integers(0, w), st.sampled_from([0, max(w - 1, 0), w // 2, w])))
        for w in whole
    ]
    return part, whole


def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


@given(parts_and_wholes())
def test_percentages_are_exact(numbers: tuple[list[int], list[int]]) -> None:
    part, whole = numbers
    expected = [p * 100 // w if w else 0 for p, w in zip(part, whole, strict=True)]
    assert percent_of(column(part), column(whole)).tolist() == expected


@pytest.mark.parametrize("whole", BORDERS)
def test_percentages_next_to_a_step(whole: int) -> None:
    """Just below and at every whole percent, where a rounded quotient would give it away."""
    parts = sorted(
        {
            min(max(percent * whole // 100 + d, 0), whole)
            for percent in range(101)
            for d in (-1, 0, 1)
        }
    )
    got = percent_of(column(parts), column([whole] * len(parts)))
    assert got.tolist() == [part * 100 // whole for part in parts]


def test_percentages_of_nothing() -> None:
    assert percent_of(column([]), column([])).tolist() == []


@given(
    st.lists(st.integers(-LARGEST, LARGEST), min_size=1),
    st.integers(-1000, 1000).filter(bool),
)
def test_division_truncates_as_go_does(numerators: list[int], denominator: int) -> None:
    expected = [
        abs(n) // abs(denominator) * (1 if (n < 0) == (denominator < 0) else -1) for n in numerators
    ]
    assert divide_towards_zero(column(numerators), denominator).tolist() == expected


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (0.49999999999999994, 0),
        (-0.49999999999999994, 0), (2.4999, 2), (99.5, 100), (0.0, 0), (2.0**52 + 1, 2**52 + 1),
    ],
)  # fmt: skip
def test_rounding_goes_half_away_from_zero(value: float, rounded: int) -> None:
    assert round_half_away(np.array([value])).tolist() == [rounded]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_rounding_equals_exact_rounding(values: list[float]) -> None:
    expected = []
    for value in values:
        whole = math.trunc(value)
        expected.append(whole + (int(math.copysign(1, value)) if abs(value - whole) >= 0.5 else 0))
    assert round_half_away(np.array(values)).tolist() == expected


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([1, 2, 3, 4], False, [25, 50, 75, 100]),
        ([1, 2, 3, 4], True, [75, 50, 25, 0]),
        ([1000, 10, 20, 30], False, [100, 1, 2, 3]),
        ([1, 1, 1, 1], False, [100, 100, 100, 100]),
        ([1, 1, 1, 1], True, [0, 0, 0, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 3], False, [33, 100]),
        ([1, 3], True, [67, 0]),
        ([], False, []),
    ],
)
def test_default_normalize(scores: list[int], reverse: bool, expected: list[int]) -> None:
    assert default_normalize(column(scores), reverse=reverse).tolist() == expected


@given(st.lists(st.integers(-50, 10**6), min_size=1), st.booleans())
def test_default_normalize_divides_as_go_does(scores: list[int], reverse: bool) -> None:
    highest = max(0, *scores)
    if highest == 0:
        expected = [100] * len(scores) if reverse else scores
    else:
        scaled = [int(math.copysign(abs(s) * 100 // highest, s)) for s in scores]
        expected = [100 - s for s in scaled] if reverse else scaled
    assert default_normalize(column(scores), reverse=reverse).tolist() == expected


def test_normalized_scores_whose_product_does_not_fit_an_int64() -> None:
    scores = column([0, 2**61, 2**62])
    assert default_normalize(scores, reverse=False).tolist() == [0, 50, 100]
    assert default_normalize(scores, reverse=True).tolist() == [100, 50, 0]


def test_sums_saturate() -> None:
    values = column([0, 1, 2**62, 2**63 - 1])
    assert add_saturating(values, 2**62).tolist() == [2**62, 2**62 + 1, 2**63 - 1, 2**63 - 1]
