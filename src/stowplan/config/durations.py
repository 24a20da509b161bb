"""Durations as Go writes them: "15s", "1m30s", "100ms".

`Duration` is a float of seconds, so the code that waits needs no conversion; only its text form is
Go's. Read by the configuration's structs and by command-line flags.
"""

from __future__ import annotations

import re
from typing import Final

_NANOS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,  # both letters that look like mu are allowed, as in Go
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_MAX_NANOS: Final = 2**63 - 1


class Duration(float):
    """Seconds; `str()` gives Go's form."""

    __slots__ = ()

    def __str__(self) -> str:
        return format_duration(self)

    def __repr__(self) -> str:
        return f"Duration({float(self)!r})"


def parse_duration(text: str) -> Duration:
    """Seconds of a Go duration; ValueError says what is wrong with the text."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0.0)
    nanos = 0
    position = 0
    while position < len(body):
        term = _TERM.match(body, position)
        if term is None:
            break
        number, unit = term.groups()
        whole, _, fraction = number.partition(".")
        # Whole numbers stay exact; a fraction is cut to nanoseconds as Go cuts it.
        nanos += int(whole or "0") * _NANOS[unit]
        if fraction:
            nanos += int(fraction) * _NANOS[unit] // 10 ** len(fraction)
        position = term.end()
    if not body or position < len(body):
        raise ValueError(f'{text!r} is not a duration; write it like "15s", "1m30s" or "100ms"')
    if nanos > _MAX_NANOS:
        raise ValueError(f"{text!r} is too long a duration; the longest is about 292 years")
    return Duration((-nanos if text[0] == "-" else nanos) / 1e9)


def format_duration(seconds: float) -> str:
    """Go's text of a duration: "0s", "250ms", "1m30s", "1h0m0s"."""
    nanos = round(seconds * 1e9)
    if nanos == 0:
        return "0s"
    sign = "-" if nanos < 0 else ""
    nanos = abs(nanos)
    for unit, limit in (("ns", 1_000), ("µs", 1_000_000), ("ms", 1_000_000_000)):
        if nanos < limit:
            return f"{sign}{_decimal(nanos, _NANOS[unit])}{unit}"
    minutes, rest = divmod(nanos, _NANOS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _NANOS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(nanos: int, unit: int) -> str:
    """`nanos` in `unit`s, without trailing zeros and without float rounding."""
    whole, rest = divmod(nanos, unit)
    if rest == 0:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"
