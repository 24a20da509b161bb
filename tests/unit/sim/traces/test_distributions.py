"""What random amounts are drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.sim.traces.amounts import milli_cpus, pieces
from stowplan.sim.traces.description import shares
from stowplan.sim.traces.dice import Dice
from stowplan.sim.traces.distributions import Distribution, distribution
from stowplan.workloads.fields import Fields


def described(value: Any, *, step: int = 1) -> Distribution:
    fields = Fields(Path("file.yaml"), {"cpu": value}, "generate", ("cpu",))
    made = distribution(fields, "cpu", milli_cpus, step=step)
    assert made is not None
    return made


def draws(made: Distribution, number: int = 300, seed: int = 1) -> list[int]:
    dice = Dice(seed, "test")
    return [made.draw(dice) for _ in range(number)]


def test_dice_are_the_same_everywhere() -> None:
    """Pinned: another machine, Python or hash seed must not move them."""
    dice = Dice(7, "arrivals")
    assert dice.unit() == 0.8549645539127743
    assert dice.exponential(10.0) == pytest.approx(36.44206285718958, rel=1e-12)
    assert dice.normal() == pytest.approx(-0.04414375069804134, rel=1e-12)
    assert dice.weighted([1.0, 2.0, 10.0]) == 1


def test_dice_of_other_purposes_are_others() -> None:
    assert Dice(7, "a").unit() != Dice(7, "b").unit() != Dice(8, "b").unit()


def test_a_plain_value_is_always_drawn() -> None:
    assert set(draws(described("250m"))) == {250}
    assert set(draws(described({"constant": 2}))) == {2000}


def test_uniform_stays_between_its_ends_and_reaches_both_halves() -> None:
    made = draws(described({"uniform": ["100m", "1"]}, step=10))
    assert all(100 <= each <= 1000 and each % 10 == 0 for each in made)
    assert min(made) < 250
    assert max(made) > 850


def test_choice_follows_its_weights() -> None:
    made = draws(described({"choice": ["100m", "200m", "1"], "weights": [8, 2, 0]}), 1000)
    assert set(made) == {100, 200}
    assert 700 < made.count(100) < 900


def test_lognormal_has_its_median_and_exponential_its_mean() -> None:
    made = sorted(draws(described({"lognormal": {"median": "1", "sigma": 0.5}}), 1001))
    assert 900 < made[500] < 1100
    made = draws(described({"exponential": {"mean": "1"}}), 2000)
    assert 900 < sum(made) / len(made) < 1100


def test_bounds_and_steps() -> None:
    value = {"exponential": {"mean": "1"}, "min": "300m", "max": "2", "step": "250m"}
    made = set(draws(described(value)))
    assert made == {500, 750, 1000, 1250, 1500, 1750, 2000}


@given(
    st.sampled_from(["uniform", "lognormal", "exponential", "choice"]),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.integers(1, 2**20),
    st.integers(0, 2**32),
)
def test_whatever_is_drawn_is_within_bounds(
    kind: str, one: int, other: int, step: int, seed: int
) -> None:
    least, most = sorted((one, other))
    shapes: dict[str, Any] = {
        "uniform": [0, 2**45],
        "lognormal": {"median": 2**30, "sigma": 9.5},
        "exponential": {"mean": 2**45},
        "choice": [0, 17, 2**45],
    }
    value = {kind: shapes[kind], "min": least, "max": most, "step": step}
    fields = Fields(Path("file"), {"n": value}, "generate", ("n",))
    made = distribution(fields, "n", pieces)
    assert made is not None
    assert all(least <= each <= most for each in draws(made, 20, seed))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "`cpu`: `x` is not an amount of cpu such as 500m or 2"),
        ({}, "cpu: expected one of constant, uniform, choice, lognormal, exponential, got none"),
        ({"uniform": [1, 2], "choice": [1]}, "got uniform and choice"),
        ({"uniform": [1]}, "`uniform` takes two values"),
        ({"uniform": [2, 1]}, "the first value is the least"),
        ({"uniform": [1, "x"]}, "`uniform`: `x` is not an amount of cpu"),
        ({"choice": []}, "`choice` must be given, with at least one entry"),
        ({"choice": [1, 2], "weights": [1]}, "1 weights for 2 choices"),
        ({"choice": [1, 2], "weights": [0, 0]}, "none negative and not all 0"),
        ({"choice": [1, 2], "weights": [1, float("nan")]}, "none negative and not all 0"),
        ({"uniform": [1, 2], "weights": [1, 2]}, "`weights` go with `choice` only"),
        ({"lognormal": {"median": 1, "sigma": -1}}, "`sigma` must be between 0 and 10"),
        ({"lognormal": {"sigma": 1}}, "`median`: `None` is not an amount"),
        ({"exponential": {"men": 1}}, "unknown field `men`; did you mean `mean`?"),
        ({"uniform": [1, 2], "min": 3, "max": 2}, "`min` is more than `max`"),
        ({"uniform": [1, 2], "step": 0}, "`step` must be more than nothing"),
    ],
)
def test_mistakes_name_the_field(value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        described(value)
    assert message in str(caught.value)
    assert str(caught.value).startswith("file.yaml: generate")


@given(st.integers(0, 10**6), st.lists(st.integers(0, 1000), max_size=8))
def test_shares_add_up_and_keep_their_proportions(total: int, parts: list[int]) -> None:
    made = shares(total, parts)
    assert len(made) == len(parts)
    assert sum(made) == (total if parts else 0)
    if sum(parts):
        assert all(
            abs(share - total * part / sum(parts)) < 1
            for share, part in zip(made, parts, strict=True)
        )
