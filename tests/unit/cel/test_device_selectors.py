"""Selectors of devices: what they answer, what they cost, and how errors are worded."""

from __future__ import annotations

import pytest

from stowplan.cel.device import (
    LENGTH_LIMIT,
    DeviceView,
    SelectorError,
    compile_selector,
    device_value,
    worst_cost,
)
from stowplan.cel.errors import CompileError

GPU = DeviceView(
    "gpu.example.com",
    {
        "model": "A100",
        "count": 4,
        "healthy": True,
        "driverVersion": ("version", "1.2.3"),
        "other.example.com/rack": "r1",
    },
    {"memory": "40Gi", "other.example.com/cores": "1500m"},
)


@pytest.mark.parametrize(
    ("expression", "matches", "cost"),
    [
        ('device.driver == "gpu.example.com"', True, 4),
        ('device.attributes["gpu.example.com"].model == "A100"', True, 5),
        ('device.attributes["gpu.example.com"].model == "H100"', False, 5),
        ('device.attributes["other.example.com"].rack == "r1"', True, 5),
        ('"model" in device.attributes["missing.example.com"]', False, 4),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("1Gi"))', True, 6),
        ('device.capacity["other.example.com"].cores.compareTo(quantity("1.5")) == 0', True, 7),
        (
            'device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("2.0.0"))',
            True,
            6,
        ),
        (
            'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.healthy && gpu.count > 2)',
            True,
            8,
        ),
        ('device.attributes["gpu.example.com"].?missing.orValue("none") == "none"', True, 4),
        ("device.allowMultipleAllocations", False, 2),
        ('device.attributes["gpu.example.com"].model.matches("^A[0-9]{3}$")', True, 7),
        ('cidr("10.0.0.0/8").containsIP("10.1.2.3") && ip("::1").isLoopback()', True, 5),
        ('url("https://[::1]:80/a%2Fb?q=1#f").getHostname() == "::1"', True, 5),
        ("format.dns1123Label().validate(device.driver).hasValue()", True, 20),
        ('"%s has %d, %.1f".format([device.driver, 4, 1234.56]).endsWith("1,234.6")', True, 17),
    ],
)
def test_the_answer_and_its_cost(expression: str, matches: bool, cost: int) -> None:
    assert compile_selector(expression).evaluate(device_value(GPU)) == (matches, cost)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            'device.attributes["gpu.example.com"].missing == "x"',
            "no such key: missing",
        ),
        (
            'device.attributes["gpu.example.com"].model',
            "CEL result of type string could not be converted to bool: "
            "unsupported native conversion from string to 'bool'",
        ),
        ('device.attributes["gpu.example.com"].model > 3', "no such overload"),
        ("1 / 0 == 1", "division by zero"),
        (
            "lists.range(1000).all(x, lists.range(1000).all(y, true))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_an_error_of_evaluation_in_upstreams_words(expression: str, text: str) -> None:
    selector = compile_selector(expression)
    with pytest.raises(SelectorError) as raised:
        selector.matches(device_value(GPU))
    assert str(raised.value) == text


def test_an_error_absorbed_by_the_other_side() -> None:
    missing = 'device.attributes["gpu.example.com"].missing == "x"'
    assert compile_selector(f"{missing} || true").matches(device_value(GPU))
    assert not compile_selector(f"{missing} && false").matches(device_value(GPU))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "device.unknown",
            "compilation failed: ERROR: <input>:1:7: undefined field 'unknown'\n"
            " | device.unknown\n | ......^",
        ),
        (
            "device.driver == 1",
            "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' "
            "applied to '(string, int)'\n | device.driver == 1\n | ..............^",
        ),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            '"a".matches("(")',
            "compilation failed: ERROR: <input>:1:13: invalid matches argument\n"
            ' | "a".matches("(")\n | ............^',
        ),
        (
            'int("x") == 1',
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
    ],
)
def test_an_invalid_expression_is_refused_in_upstreams_words(expression: str, text: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_selector(expression)
    assert str(raised.value) == text


def test_the_length_is_limited_in_bytes() -> None:
    fits = "device.driver != '" + "x" * (LENGTH_LIMIT - 19) + "'"
    assert len(fits) == LENGTH_LIMIT
    assert compile_selector(fits).matches(device_value(GPU))
    for too_long in (fits + " ", fits.replace("xx", "ß", 1) + " "):
        with pytest.raises(CompileError, match="longer than 10240 bytes"):
            compile_selector(too_long)


def test_a_version_that_cannot_be_read_names_its_attribute() -> None:
    broken = DeviceView("gpu.example.com", {"driverVersion": ("version", "1.x")})
    with pytest.raises(SelectorError, match=r"^attribute driverVersion: parse semantic version: "):
        device_value(broken)


def test_names_without_a_domain_are_the_drivers() -> None:
    explicit = DeviceView("gpu.example.com", {"gpu.example.com/model": "A100"})
    selector = compile_selector('device.attributes["gpu.example.com"].model == "A100"')
    assert selector.matches(device_value(explicit))


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ('device.driver == "gpu.example.com"', 4),
        ('device.attributes["x"].model.matches("^A[0-9]{3}$")', 25),
        ('device.attributes["x"].all(name, value, name != value)', 388),
        ("lists.range(1000).all(x, lists.range(1000).all(y, x == y))", 7_016_012),
        ("[1, 2].exists(x, lists.range(x).size() == 1)", (1 << 64) - 1),
    ],
)
def test_the_worst_cost_by_which_an_api_server_admits_a_selector(
    expression: str, cost: int
) -> None:
    assert worst_cost(expression) == cost
