"""The walker on structs of other people, as plugins have them for their arguments."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from stowplan.config.decode import decode, decode_hook, encode_hook
from stowplan.config.durations import Duration
from stowplan.config.fields import FieldError


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


class Args(msgspec.Struct, frozen=True, rename="camel"):
    strategy_type: Literal["A", "B"] = "A"
    shape: list[Point] = []
    wait: Duration = Duration(1)
    either: int | str | None = None
    weights: dict[str, int] = {}
    start: Point | None = None


def errors_of(raw: object) -> list[str]:
    errors: list[FieldError] = []
    assert decode(raw, Args, errors, path="args") is None
    return [str(error) for error in errors]


def test_good_arguments() -> None:
    errors: list[FieldError] = []
    raw = {
        "strategyType": "B",
        "shape": [{"x": 1}, {"x": 2, "y": 3}],
        "wait": "2s",
        "either": "text",
        "weights": {"a": 1},
        "start": {"x": 4},
    }
    args = decode(raw, Args, errors)
    assert errors == []
    assert args == Args(
        strategy_type="B",
        shape=[Point(1), Point(2, 3)],
        wait=Duration(2),
        either="text",
        weights={"a": 1},
        start=Point(4),
    )
    assert decode({}, Args, errors) == Args()


def test_every_mistake_has_its_path() -> None:
    assert errors_of(
        {
            "strategyType": "C",
            "shape": [{"x": "1"}, {"y": 2}],
            "either": [],
            "weights": {"a": "b"},
            "start": {"x": 1, "z": 2},
            "zebra": 1,
        }
    ) == [
        'args.strategyType: Unsupported value: "C": supported values: "A", "B"',
        'args.shape[0].x: Invalid value: "1": Expected `int`, got `str`',
        "args.shape[1].x: Required value",
        "args.either: Invalid value: []: Expected `int | str | null`, got `array`",
        'args.weights: Invalid value: {"a":"b"}: Expected `int`, got `str`',
        "args.start.z: unknown field (known here: x, y)",
        "args.zebra: unknown field (known here: strategyType, shape, wait, either, weights, start)",
    ]


@pytest.mark.parametrize("raw", [[], "text", 3, None])
def test_something_else_than_a_mapping(raw: object) -> None:
    (error,) = errors_of(raw)
    assert error.startswith("args: expected a mapping, got ")


def test_the_hooks_know_durations_only() -> None:
    assert decode_hook(Duration, "15s") == Duration(15)
    assert encode_hook(Duration(15)) == "15s"
    with pytest.raises(NotImplementedError):
        decode_hook(complex, "1")
    with pytest.raises(NotImplementedError):
        encode_hook(1j)
