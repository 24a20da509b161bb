"""Selectors of devices: CEL expressions over the variable `device`.

    device.attributes["gpu.example.com"].model == "A100"
    device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0

A selector is compiled once and evaluated for many devices. As upstream, an attribute missing from
a domain is an error, and a domain that a device lacks is an empty map.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.cel.checker import Environment, check
from stowplan.cel.errors import Cancelled, CompileError, Failure
from stowplan.cel.estimates import estimated_cost
from stowplan.cel.parser import parse
from stowplan.cel.program import Program, compile_program
from stowplan.cel.quantities import CelQuantity, quantity_of
from stowplan.cel.regex import reset_patterns
from stowplan.cel.stack import deep_stack
from stowplan.cel.types import ANY, BOOL, STRING, Type, declared_name, map_of
from stowplan.cel.values import DefaultMap, Map, Value, reset_comparisons, type_name
from stowplan.cel.versions import VersionError, parse_semver

COST_LIMIT = 1_000_000
LENGTH_LIMIT = 10 * 1024

_NOT_A_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}
_DEVICE = Type("kubernetes.DRADevice")
ENVIRONMENT = Environment(
    {"device": _DEVICE},
    {
        _DEVICE.name: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
        }
    },
)


class SelectorError(Exception):
    """A selector could not be evaluated for a device; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """The fields of a device that selectors read.

    Attributes are str, int, bool or `("version", text)`.
    """

    driver: str
    attributes: dict[str, object] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=dict)
    allow_multiple_allocations: bool = False


class Selector:
    """A compiled expression."""

    def __init__(self, expression: str, program: Program, type_of_result: Type) -> None:
        self.expression = expression
        self.type = type_of_result
        self._program = program

    def matches(self, device: Value) -> bool:
        """Whether it selects a device made by `device_value`. Raises SelectorError."""
        return self.evaluate(device)[0]

    def evaluate(self, device: Value, limit: int = COST_LIMIT) -> tuple[bool, int]:
        """The result and its cost. Raises SelectorError."""
        try:
            value, cost = self._program.evaluate(device, limit)
        except Cancelled as cancelled:
            raise SelectorError(str(cancelled)) from None
        if isinstance(value, Failure):
            raise SelectorError(value.text)
        if type(value) is not bool:
            name = type_name(value)
            raise SelectorError(
                f"CEL result of type {name} could not be converted to bool: "
                + _NOT_A_BOOL.get(name, f"unsupported type conversion from '{name}' to bool")
            )
        return value, cost


def compile_selector(expression: str) -> Selector:
    """Compile an expression. Raises CompileError with upstream's message."""
    if len(expression.encode(errors="replace")) > LENGTH_LIMIT:
        raise CompileError(f"compilation failed: longer than {LENGTH_LIMIT} bytes")
    reset_patterns()
    reset_comparisons()
    with deep_stack():
        return _compile(expression)


def _compile(expression: str) -> Selector:
    try:
        tree = parse(expression)
        found = check(expression, tree, ENVIRONMENT)
    except (CompileError, Cancelled) as error:
        raise CompileError(f"compilation failed: {error}") from None
    if found not in (BOOL, ANY):
        raise CompileError(f"must evaluate to bool or the unknown type, not {declared_name(found)}")
    try:
        program = compile_program(tree, "device")
    except CompileError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    return Selector(expression, program, found)


def worst_cost(expression: str) -> int:
    """The most that an evaluation of a valid selector can cost.

    API servers reject selectors by it; schedulers do not use it.
    """
    with deep_stack():
        tree = parse(expression)
        check(expression, tree, ENVIRONMENT)
        return estimated_cost(tree)


def device_value(device: DeviceView) -> Value:
    """The value of `device` in expressions. Raises SelectorError for an invalid attribute."""
    attributes: dict[str, dict[str, Value]] = {}
    for name, raw in device.attributes.items():
        domain, ident = _qualified(name, device.driver)
        attributes.setdefault(domain, {})[ident] = _attribute(name, raw)
    capacity: dict[str, dict[str, Value]] = {}
    for name, text in device.capacity.items():
        domain, ident = _qualified(name, device.driver)
        amount = quantity_of(text)
        assert isinstance(amount, CelQuantity), f"capacity {name} of {text!r}"
        capacity.setdefault(domain, {})[ident] = amount
    return Map.of_strings(
        {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": _domains(attributes),
            "capacity": _domains(capacity),
        }
    )


def _domains(domains: dict[str, dict[str, Value]]) -> Value:
    return DefaultMap({name: Map.of_strings(inner) for name, inner in domains.items()}, Map())


def _attribute(name: str, raw: object) -> Value:
    if isinstance(raw, tuple):
        try:
            return parse_semver(raw[1])
        except VersionError as error:
            raise SelectorError(f"attribute {name}: parse semantic version: {error}") from None
    if isinstance(raw, str | bool | int):
        return raw
    raise SelectorError(f"attribute {name}: unsupported attribute value")


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, ident = name.partition("/")
    return (domain, ident) if slash else (driver, name)
