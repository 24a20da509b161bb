"""Random device selectors beside cel-go: answers, error texts, costs."""

from __future__ import annotations

import pytest

from tests.parity.cel.beside import answer, compare, differences
from tests.parity.oracle import Oracle

pytestmark = pytest.mark.e2e

DEVICE = {
    "driver": "gpu.example.com",
    "attributes": {
        "model": {"string": "A100"},
        "count": {"int": 4},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.2.3"},
        "other.example.com/rack": {"string": "r1"},
    },
    "capacity": {"memory": {"value": "40Gi"}},
}


def test_random_selectors_are_answered_as_cel_go_answers_them(cel_oracle: Oracle) -> None:
    assert list(differences(cel_oracle, seed=1, selectors=400)) == []


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        'device.attributes["gpu.example.com"].model == "A100"',
        'device.attributes["gpu.example.com"].model.matches("^A[0-9]+$")',
        'device.attributes["missing.example.com"].model == "A100"',
        'has(device.attributes["gpu.example.com"].missing)',
        'device.attributes["gpu.example.com"].missing == 1',
        'device.attributes["gpu.example.com"].?missing.orValue(3) == 3',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0',
        'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.0.0"))',
        'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.healthy && gpu.count > 2)',
        'device.attributes["gpu.example.com"].healthy',
        'device.attributes["gpu.example.com"].model',
        "device.unknown",
        "device.driver",
        "device.driver == 1",
        "unknown(device)",
        "1 +",
        "[1, 2].exists(x, x > 1) && lists.range(3).all(x, x < 3)",
        "lists.range(1000).all(x, lists.range(1000).all(y, true))",
        '"a".matches("(")',
        "(" * 249 + "true" + ")" * 249,
        "(" * 250 + "true" + ")" * 250,
        "1 + " * 249 + "1 == 250",
        "1 + " * 250 + "1 == 251",
        "dyn(3).distinct() == []",
        "dyn(true).distinct() == []",
        'quantity("1500m").sub(quantity("0.5")).asInteger() == 1',
    ],
)
def test_a_selector_is_answered_as_cel_go_answers_it(cel_oracle: Oracle, expression: str) -> None:
    assert compare(cel_oracle, expression, [DEVICE]) is None


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver ==",
        "device.driver = 'x'",
        "device.driver == 'a' and true",
        "device.driver == 'a' & true",
        "device.driver == 'unterminated",
        "device.driver.startsWith('a'",
        "device.driver.startsWith('a'))",
        'device.attributes["x"',
        "device.attributes",
        "timestamp(0)",
        "device.driver in ['a', 'b'",
        "not true",
        "has(",
        "namespace(1)",
    ],
)
def test_a_usual_mistake_is_worded_as_cel_go_words_it(cel_oracle: Oracle, expression: str) -> None:
    theirs = cel_oracle.answer({"expression": expression, "devices": []})
    assert answer(expression, [])["refused"] == theirs["refused"]
