"""Amounts and times as people write them, to whole numbers and back.

Used by generators and readers, so that "0.5", "500m" and 0.5 mean the same everywhere. Everything
is a whole number from here on: milli-CPUs, bytes, pieces, milliseconds. What must stay true: no
number is negative or too large for an API server; the ValueError says what was expected instead.
"""

from __future__ import annotations

from stowplan.api.quantity import parse_quantity
from stowplan.workloads.fields import seconds

#: More than any machine or run time has, and far below the limits of floats and int64.
MOST = 2**50
_NANOS = 10**9
_SUFFIXES = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"))


def milli_cpus(raw: object) -> int:
    return _up(_nanos(raw, "an amount of cpu such as 500m or 2"), _NANOS // 1000, raw)


def memory_bytes(raw: object) -> int:
    return _up(_nanos(raw, "an amount of memory such as 512Mi or 4Gi"), _NANOS, raw)


def pieces(raw: object) -> int:
    """Parse a whole number, also spelled 2.0."""
    nanos = _nanos(raw, "a whole number")
    if nanos % _NANOS:
        raise ValueError(f"`{raw}` is not a whole number")
    return _up(nanos, _NANOS, raw)


def milliseconds(raw: object) -> int:
    """Parse seconds as a number, or a duration such as 1m30s."""
    if isinstance(raw, str) and raw[-1:] in ("s", "m", "h"):
        whole = seconds(raw) * 1000
    elif isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"`{raw}` is not a time such as 90, 90s or 1h30m")
    else:
        try:
            whole = float(raw) * 1000
        except (ValueError, OverflowError):
            raise ValueError(f"`{raw!s:.60}` is not a time such as 90, 90s or 1h30m") from None
    if whole < 0:
        raise ValueError(f"`{raw}` is negative")
    if not whole <= MOST:
        raise ValueError(f"`{raw!s:.60}` is not a duration")
    return round(whole)


def cpu_text(milli: int) -> str:
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def memory_text(number: int) -> str:
    for size, suffix in _SUFFIXES:
        if number and number % size == 0:
            return f"{number // size}{suffix}"
    return str(number)


def seconds_text(run_s: float) -> str:
    """Seconds as text: without a fraction if it is zero, never with an exponent."""
    return f"{run_s:.3f}".rstrip("0").rstrip(".")


def _nanos(raw: object, expected: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"`{raw}` is not {expected}")
    try:
        nanos = parse_quantity(raw).nanos()
    except ValueError:
        raise ValueError(f"`{raw!s:.60}` is not {expected}") from None
    if nanos < 0:
        raise ValueError(f"`{raw}` is negative")
    return nanos


def _up(nanos: int, unit: int, raw: object) -> int:
    number = -(-nanos // unit)
    if number > MOST:
        raise ValueError(f"`{raw!s:.60}` is too large")
    return number
