"""Kubernetes quantities: `device.capacity["x"].memory.isGreaterThan(quantity("1Gi"))`."""

from __future__ import annotations

from stowplan.api.quantity import Quantity, parse_quantity
from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import Failure
from stowplan.cel.values import MAX_INT, MIN_INT, Opaque, Value

_define = FUNCTIONS.overload
_TYPE = "kubernetes.Quantity"
_NANO = 1_000_000_000


class CelQuantity(Opaque):
    """A quantity by its exact number of billionths."""

    __slots__ = ("nanos", "scale", "text")
    type_name = _TYPE
    go_type = "*resource.Quantity"

    def __init__(self, quantity: Quantity) -> None:
        self.nanos = quantity.nanos()
        self.text = str(quantity)
        self.scale = None if quantity.unbounded else quantity.exponent

    def same(self, other: Opaque) -> bool:
        return isinstance(other, CelQuantity) and self.nanos == other.nanos

    def __str__(self) -> str:
        return self.text


class QuantitySum(CelQuantity):
    """The result of `add` or `sub`. cel-go cannot compare it as the right side of `==`."""

    __slots__ = ()
    by_reference = True

    def __init__(self, one: CelQuantity, nanos: int, scale: int | None) -> None:
        self.nanos = one.nanos + nanos
        self.text = str(self.nanos / _NANO)
        if not nanos:
            self.scale = one.scale
        elif not one.nanos:
            self.scale = scale
        else:
            self.scale = None
            if one.scale is not None and scale is not None:
                finest = min(one.scale, scale)
                unit = 10 ** (finest + 9)
                terms = (one.nanos // unit, nanos // unit, self.nanos // unit)
                if all(MIN_INT <= term <= MAX_INT for term in terms):
                    self.scale = finest


def quantity_of(text: str | int | float) -> CelQuantity | Failure:
    try:
        return CelQuantity(parse_quantity(text))
    except ValueError as error:
        # The parser's message starts with the text; cel-go's has only the reason.
        return Failure(str(error).rpartition(": ")[2])


@_define("quantity", "string_to_quantity", f"(string) -> {_TYPE}")
def quantity(text: str) -> Value:
    return quantity_of(text)


@_define("isQuantity", "is_quantity_string", "(string) -> bool")
def is_quantity(text: str) -> Value:
    return isinstance(quantity_of(text), CelQuantity)


@_define("sign", "quantity_sign", f"({_TYPE}) -> int")
def sign(one: CelQuantity) -> Value:
    return (one.nanos > 0) - (one.nanos < 0)


@_define("isGreaterThan", "quantity_is_greater_than", f"{_TYPE}.({_TYPE}) -> bool")
def is_greater(one: CelQuantity, other: CelQuantity) -> Value:
    return one.nanos > other.nanos


@_define("isLessThan", "quantity_is_less_than", f"{_TYPE}.({_TYPE}) -> bool")
def is_less(one: CelQuantity, other: CelQuantity) -> Value:
    return one.nanos < other.nanos


@_define("compareTo", "quantity_compare_to", f"{_TYPE}.({_TYPE}) -> int")
def compare_to(one: CelQuantity, other: CelQuantity) -> Value:
    return (one.nanos > other.nanos) - (one.nanos < other.nanos)


@_define("asApproximateFloat", "quantity_get_float", f"{_TYPE}.() -> double")
def as_float(one: CelQuantity) -> Value:
    return one.nanos / _NANO


@_define("isInteger", "quantity_is_integer", f"{_TYPE}.() -> bool")
def is_integer(one: CelQuantity) -> Value:
    if one.scale is None or one.scale < 0:
        return False
    return MIN_INT <= one.nanos // _NANO <= MAX_INT


@_define("asInteger", "quantity_get_int", f"{_TYPE}.() -> int")
def as_integer(one: CelQuantity) -> Value:
    if is_integer(one) is not True:
        return Failure("cannot convert value to integer")
    return one.nanos // _NANO


@_define("add", "quantity_add", f"{_TYPE}.({_TYPE}) -> {_TYPE}")
def add(one: CelQuantity, other: CelQuantity) -> Value:
    return QuantitySum(one, other.nanos, other.scale)


@_define("add", "quantity_add_int", f"{_TYPE}.(int) -> {_TYPE}")
def add_int(one: CelQuantity, number: int) -> Value:
    return QuantitySum(one, number * _NANO, 0)


@_define("sub", "quantity_sub", f"{_TYPE}.({_TYPE}) -> {_TYPE}")
def subtract(one: CelQuantity, other: CelQuantity) -> Value:
    return QuantitySum(one, -other.nanos, other.scale)


@_define("sub", "quantity_sub_int", f"{_TYPE}.(int) -> {_TYPE}")
def subtract_int(one: CelQuantity, number: int) -> Value:
    return QuantitySum(one, -number * _NANO, 0)
