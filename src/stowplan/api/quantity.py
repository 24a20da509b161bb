"""Kubernetes quantities ("100m", "1.5Gi", "2e3"), exact to the last int64 quirk of apimachinery.

The decision core asks for integers (`milli_value` for cpu, `value` for all else), once for each
object that is compiled; sums over containers are added as `nanos` and rounded afterwards, as
upstream adds quantities before it rounds them. The API server asks for `format_quantity`.

Invariant: no float ever takes part, and a number that overflows upstream overflows in the same way
here. Upstream keeps a quantity either as an int64 with a power of ten or, where that is too small,
as a decimal without bounds; the two round and overflow differently, so a parsed `Quantity`
remembers which of them it would be.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from typing import TypeAlias

import msgspec

RawQuantity: TypeAlias = str | int | float
"""As found in JSON or YAML: mostly strings, but bare numbers are allowed."""

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


class InvalidQuantity(ValueError):
    """A text that is no quantity."""


class Family(enum.Enum):
    """The kind of suffix that a quantity was written with, and will be written with again."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


_TENS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_TEN = {exponent: suffix for suffix, exponent in _TENS.items()}
_SUFFIX_OF_TWO = {exponent: suffix for suffix, exponent in _TWOS.items()} | {0: ""}

_SHAPE = re.compile(r"(?:\+|(-))?(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_NANO = -9
_INT64_DIGITS = 18
# Python does not convert longer texts to integers, and no real quantity is that long.
_MAX_LENGTH = 4000
# Numbers with a larger power of ten are all alike to us, and their digits would fill the memory.
_NANOS_MAX_POWER = 100
#: Size of the cache of parsed texts. Pods from templates share few texts.
_REMEMBERED = 1_024


class Quantity(msgspec.Struct, frozen=True, gc=False):
    """`mantissa * 10**exponent`, never finer than a billionth."""

    mantissa: int
    exponent: int
    family: Family
    unbounded: bool = False
    """Upstream holds it as a decimal without bounds instead of a scaled int64."""
    text: str = ""
    """The original text, where upstream takes it for canonical."""

    def value(self) -> int:
        """Whole units, rounded up."""
        return self._at_scale(0)

    def milli_value(self) -> int:
        """Thousandths, rounded up."""
        return self._at_scale(-3)

    def nanos(self) -> int:
        """The exact number of billionths."""
        power = min(self.exponent - _NANO, _NANOS_MAX_POWER)
        return self.mantissa * _power_of_ten(power)

    def _at_scale(self, scale: int) -> int:
        if not self.mantissa:
            return 0
        if self.unbounded:
            return _rescale_unbounded(self.mantissa, self.exponent - _NANO, scale - _NANO)
        return _rescale_int64(self.mantissa, self.exponent - scale)

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix of the family that loses nothing."""
        if self.text:
            return self.text
        if not self.mantissa:
            return "0"
        family = self.family
        if family is Family.BINARY:
            units, rest = divmod(self.nanos(), 10**9)
            if rest == 0 and abs(units) >= 1024:
                mantissa, times = _without_factors(units, 1024)
                return f"{mantissa}{_SUFFIX_OF_TWO[10 * times]}"
            family = Family.DECIMAL
        mantissa, times = _without_factors(self.mantissa, 10)
        exponent = self.exponent + times
        mantissa *= _power_of_ten(exponent % 3)
        exponent -= exponent % 3
        if family is Family.EXPONENT:
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        # Upstream knows no suffix above E and then writes none at all.
        return f"{mantissa}{_SUFFIX_OF_TEN.get(exponent, '')}"


@lru_cache(maxsize=_REMEMBERED, typed=True)
def parse_quantity(raw: RawQuantity) -> Quantity:
    """The exact quantity; the ValueError for anything else names it."""
    text = raw.strip(" ") if isinstance(raw, str) else str(raw)
    shape = _SHAPE.fullmatch(text)
    if shape is None or not text or len(text) > _MAX_LENGTH:
        raise _invalid(
            raw,
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    sign, zeros, whole, fraction, suffix = shape.groups(default="")
    digits = (whole or "0") + fraction
    number = -int(digits) if sign else int(digits)
    if suffix in _TWOS:
        quantity = _from_binary(text, number, digits, len(fraction), _TWOS[suffix])
    else:
        if suffix in _TENS:
            power, family = _TENS[suffix], Family.DECIMAL
        else:
            power, family = _exponent(raw, suffix), Family.EXPONENT
        quantity = _from_decimal(text, number, digits, power - len(fraction), family)
    if quantity.unbounded and not (zeros or whole or fraction):
        # Where an int64 will do, upstream reads a number without any digit as 0.
        raise _invalid(raw, "unable to parse numeric part of quantity")
    return quantity


@lru_cache(maxsize=_REMEMBERED, typed=True)
def value(raw: RawQuantity) -> int:
    """Whole units, rounded up: the number that counts for everything but cpu."""
    return parse_quantity(raw).value()


@lru_cache(maxsize=_REMEMBERED, typed=True)
def milli_value(raw: RawQuantity) -> int:
    """Thousandths, rounded up: the number that counts for cpu."""
    return parse_quantity(raw).milli_value()


@lru_cache(maxsize=_REMEMBERED, typed=True)
def nanos(raw: RawQuantity) -> int:
    """Exact billionths, to be added up before rounding."""
    return parse_quantity(raw).nanos()


def format_quantity(raw: RawQuantity) -> str:
    """The text that an API server would answer with: "0.5" is "500m", "1024Ki" is "1Mi"."""
    return str(parse_quantity(raw))


def _from_decimal(text: str, number: int, digits: str, exponent: int, family: Family) -> Quantity:
    scale = _wrap(exponent, 32)
    if len(digits) <= _INT64_DIGITS and scale >= _NANO:
        canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(number, scale, family, text=text if canonical else "")
    return _unbounded(number, exponent, family)


def _from_binary(text: str, number: int, digits: str, places: int, power: int) -> Quantity:
    # Upstream's estimate of what surely fits an int64: less than 15 decimal digits in all.
    if not places and len(digits) + 3 * power // 10 < 15:
        canonical = number % 8 != 0
        return Quantity(number << power, 0, Family.BINARY, text=text if canonical else "")
    quantity = _unbounded(number << power, -places, Family.BINARY)
    amount = abs(quantity.nanos())
    if amount > INT64_MAX * 10**9:
        bound = INT64_MAX if number > 0 else -INT64_MAX
        return Quantity(bound, 0, Family.BINARY)
    if 0 < amount < 10**9:
        return Quantity(quantity.mantissa, quantity.exponent, Family.DECIMAL, unbounded=True)
    return quantity


def _unbounded(mantissa: int, exponent: int, family: Family) -> Quantity:
    """Round up to a whole billionth, so that a tiny quantity never becomes zero."""
    if mantissa and exponent < _NANO:
        excess = _NANO - exponent
        divisor = _power_of_ten(min(excess, _MAX_LENGTH + 1))
        return Quantity(_divide_away(mantissa, divisor), _NANO, family, unbounded=True)
    return Quantity(mantissa, exponent if mantissa else 0, family, unbounded=True)


def _exponent(raw: RawQuantity, suffix: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    if match is not None:
        exponent = int(match[1])
        if INT64_MIN <= exponent <= INT64_MAX:
            return _wrap(exponent, 32)
    raise _invalid(raw, "unable to parse quantity's suffix")


def _rescale_int64(mantissa: int, power: int) -> int:
    """`mantissa * 10**power` as Go computes it in an int64."""
    if power < 0:
        return _divide_away(mantissa, _power_of_ten(min(-power, _INT64_DIGITS + 1)))
    result = mantissa * _power_of_ten(min(power, _INT64_DIGITS + 1))
    if INT64_MIN <= result <= INT64_MAX:
        return result
    # Overflow: these powers are multiplied at once and wrap, all others end as 0.
    return _wrap(result, 64) if power in (1, 2, 3, 6, 9) else 0


def _rescale_unbounded(mantissa: int, power: int, divisor_power: int) -> int:
    """`mantissa * 10**power / 10**divisor_power` as Go's decimal computes it for an int64.

    A remainder adds one even to a negative quotient, and only the low 64 bits survive. Neither
    needs the number itself, which may have billions of digits.
    """
    divisor = _power_of_ten(divisor_power)
    if mantissa < 0 or (power <= _INT64_DIGITS and mantissa * 10**power < INT64_MAX):
        low_bits = _wrap(abs(mantissa) * pow(10, power, 2**64), 64)
        dividend = _wrap(-low_bits, 64) if mantissa < 0 else low_bits
        quotient = abs(dividend) // divisor
        quotient = -quotient if dividend < 0 else quotient
        return quotient + (1 if quotient * divisor != dividend else 0)
    if power >= divisor_power:
        return _wrap(mantissa * pow(10, power - divisor_power, 2**64), 64)
    quotient, rest = divmod(mantissa, _power_of_ten(divisor_power - power))
    return _wrap(quotient + (1 if rest else 0), 64)


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    """(n, times) with `number == n * factor**times` and as many times as possible."""
    times = 0
    while number % factor == 0:
        number //= factor
        times += 1
    return number, times


def _divide_away(number: int, divisor: int) -> int:
    """Division that rounds away from zero."""
    return -(-number // divisor) if number >= 0 else number // divisor


def _power_of_ten(power: int) -> int:
    return int(10**power)


def _wrap(number: int, bits: int) -> int:
    """The signed integer that is left of a number in so many bits."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _invalid(raw: RawQuantity, reason: str) -> InvalidQuantity:
    return InvalidQuantity(f"invalid quantity {raw!r}: {reason}")
