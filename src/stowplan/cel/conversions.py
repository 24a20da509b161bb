"""Conversions between types, and the getters of timestamps and durations."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stowplan.cel.declarations import FUNCTIONS, Implementation
from stowplan.cel.errors import Failure
from stowplan.cel.go_text import go_float, utf8
from stowplan.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NANOS,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    type_name,
)

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_UNITS = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": NANOS,
    "m": 60 * NANOS, "h": 3600 * NANOS,
}  # fmt: skip
_DURATION = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)")
_OVERFLOW = Failure("timestamp overflow")


def _cannot(value: Value, to: str) -> Failure:
    return Failure(f"type conversion error from '{type_name(value)}' to '{to}'")


def _identity(value: Value) -> Value:
    return value


@FUNCTIONS.operator("type")
def type_value(value: Value) -> Value:
    return TypeValue(type_name(value))


FUNCTIONS.declare("type", "type", "('A) -> type('A)")


def _to_bool(text: str) -> Value:
    return True if text in _TRUE else False if text in _FALSE else _cannot(text, "bool")


def _to_bytes(text: str) -> Value:
    return utf8(text)


def _int_to_double(value: int) -> Value:
    return float(value)


def _text_to_double(text: str) -> Value:
    if re.fullmatch(r"[+-]?(inf|infinity|nan)", text, re.IGNORECASE):
        if text[0] in "+-" and text[1:].lower() == "nan":
            return _cannot(text, "double")
        return float(text)
    if re.fullmatch(r"[+-]?0[xX].*", text):
        return _hex_to_double(text)
    if not re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return _cannot(text, "double")
    number = float(text)
    return _cannot(text, "double") if math.isinf(number) else number


def _hex_to_double(text: str) -> Value:
    if not re.fullmatch(
        r"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", text
    ):
        return _cannot(text, "double")
    try:
        return float.fromhex(text)
    except (OverflowError, ValueError):
        return _cannot(text, "double")


def _double_to_int(value: float) -> Value:
    if math.isnan(value) or math.isinf(value) or not -(2.0**63) < value < 2.0**63:
        return Failure("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Value:
    if math.isnan(value) or math.isinf(value) or not 0 <= value < 2.0**64:
        return Failure("unsigned integer overflow")
    return UInt(int(value))


def _text_to_int(text: str) -> Value:
    if not re.fullmatch(r"[+-]?[0-9]{1,400}", text, re.ASCII):
        return _cannot(text, "int")
    number = int(text)
    return number if MIN_INT <= number <= MAX_INT else _cannot(text, "int")


def _text_to_uint(text: str) -> Value:
    if not re.fullmatch(r"[0-9]{1,400}", text, re.ASCII) or int(text) > MAX_UINT:
        return _cannot(text, "uint")
    return UInt(int(text))


def _timestamp_to_int(value: Timestamp) -> Value:
    return int(value) // NANOS


def _uint_to_int(value: UInt) -> Value:
    return int(value) if value <= MAX_INT else Failure("integer overflow")


def _int_to_uint(value: int) -> Value:
    return UInt(value) if value >= 0 else Failure("unsigned integer overflow")


def text_to_duration(text: str) -> Value:
    """Go's time.ParseDuration."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        match = _DURATION.match(body, position)
        if match is None or not (match[1] or match[3]) or len(match[0]) > 400:
            return _cannot(text, "google.protobuf.Duration")
        unit = _UNITS[match[4]]
        total += int(match[1] or 0) * unit
        if match[3]:
            total += int(match[3]) * unit // 10 ** len(match[3])
        position = match.end()
    limit = MAX_INT + (1 if text.startswith("-") else 0)
    if not body or total > limit:
        return _cannot(text, "google.protobuf.Duration")
    return Duration(-total if text.startswith("-") else total)


def text_to_timestamp(text: str) -> Value:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return _cannot(text, "google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    fraction, zone = match[7] or "", match[8]
    offset = 0
    if zone != "Z":
        offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        if int(zone[1:3]) > 24 or int(zone[4:6]) > 60:
            return _cannot(text, "google.protobuf.Timestamp")
        offset = -offset if zone[0] == "-" else offset
    try:
        # Year 0 is valid in RFC 3339, but not here; cel-go's range begins with year 1.
        when = datetime(max(year, 1), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return _cannot(text, "google.protobuf.Timestamp")
    if year == 0:
        return _OVERFLOW
    seconds = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) - offset
    if not -62_135_596_800 <= seconds <= 253_402_300_799:
        return _OVERFLOW
    return Timestamp(seconds * NANOS + int((fraction[:9] or "0").ljust(9, "0")))


def _int_to_timestamp(value: int) -> Value:
    if not -62_135_596_800 <= value <= 253_402_300_799:
        return _OVERFLOW
    return Timestamp(value * NANOS)


def _bool_to_text(value: bool) -> Value:
    return "true" if value else "false"


def _bytes_to_text(value: bytes) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Failure("invalid UTF-8 in bytes, cannot convert to string")


def duration_text(value: Duration) -> str:
    seconds, nanos = divmod(abs(int(value)), NANOS)
    exact = seconds + nanos / NANOS
    text = repr(exact) if "e" not in repr(exact) else f"{exact:.9f}"
    text = text.removesuffix(".0") if "." in text else text
    return f"{'-' if value < 0 else ''}{text.rstrip('0').rstrip('.') if '.' in text else text}s"


def _register(name: str, overloads: list[tuple[str, str, Implementation]]) -> None:
    result = {"duration": "duration", "timestamp": "timestamp"}.get(name, name)
    for overload, source, run in overloads:
        FUNCTIONS.overload(name, overload, f"({source}) -> {result}")(run)


_register("bool", [("bool_to_bool", "bool", _identity), ("string_to_bool", "string", _to_bool)])
_register(
    "bytes", [("bytes_to_bytes", "bytes", _identity), ("string_to_bytes", "string", _to_bytes)]
)
_register(
    "double",
    [
        ("double_to_double", "double", _identity),
        ("int64_to_double", "int", _int_to_double),
        ("string_to_double", "string", _text_to_double),
        ("uint64_to_double", "uint", _int_to_double),
    ],
)
_register(
    "duration",
    [
        ("duration_to_duration", "duration", _identity),
        ("int64_to_duration", "int", lambda value: _cannot(value, "google.protobuf.Duration")),
        ("string_to_duration", "string", text_to_duration),
    ],
)
_register(
    "int",
    [
        ("int64_to_int64", "int", _identity),
        ("double_to_int64", "double", _double_to_int),
        ("duration_to_int64", "duration", int),
        ("string_to_int64", "string", _text_to_int),
        ("timestamp_to_int64", "timestamp", _timestamp_to_int),
        ("uint64_to_int64", "uint", _uint_to_int),
    ],
)
_register(
    "string",
    [
        ("string_to_string", "string", _identity),
        ("bool_to_string", "bool", _bool_to_text),
        ("bytes_to_string", "bytes", _bytes_to_text),
        ("double_to_string", "double", go_float),
        ("duration_to_string", "duration", duration_text),
        ("int64_to_string", "int", str),
        ("timestamp_to_string", "timestamp", str),
        ("uint64_to_string", "uint", str),
    ],
)
_register(
    "timestamp",
    [
        ("timestamp_to_timestamp", "timestamp", _identity),
        ("int64_to_timestamp", "int", _int_to_timestamp),
        ("string_to_timestamp", "string", text_to_timestamp),
    ],
)
_register(
    "uint",
    [
        ("uint64_to_uint64", "uint", _identity),
        ("double_to_uint64", "double", _double_to_uint),
        ("int64_to_uint64", "int", _int_to_uint),
        ("string_to_uint64", "string", _text_to_uint),
    ],
)
#: Conversions of constants are computed when an expression is compiled.
CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


def _zone_offset(when: datetime, zone: str) -> timedelta | Failure:
    if ":" not in zone:
        try:
            offset = when.astimezone(ZoneInfo(zone or "UTC")).utcoffset()
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return Failure(f"unknown time zone {zone}")
        return offset or timedelta()
    hours, minutes = zone.split(":", 1)
    for part in (hours, minutes):
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", part, re.ASCII):
            return Failure(f'strconv.Atoi: parsing "{part}": invalid syntax')
    sign = -1 if zone.startswith("-") else 1
    return timedelta(minutes=int(hours) * 60 + sign * int(minutes))


_PARTS = {
    "getFullYear": ("year", lambda when: when.year),
    "getMonth": ("month", lambda when: when.month - 1),
    "getDayOfYear": ("day_of_year", lambda when: when.timetuple().tm_yday - 1),
    "getDayOfMonth": ("day_of_month", lambda when: when.day - 1),
    "getDate": ("day_of_month_1_based", lambda when: when.day),
    "getDayOfWeek": ("day_of_week", lambda when: (when.weekday() + 1) % 7),
    "getHours": ("hours", lambda when: when.hour),
    "getMinutes": ("minutes", lambda when: when.minute),
    "getSeconds": ("seconds", lambda when: when.second),
}
_OF_DURATION = {
    "getHours": 3600 * NANOS,
    "getMinutes": 60 * NANOS,
    "getSeconds": NANOS,
    "getMilliseconds": NANOS // 1000,
}


def _register_parts() -> None:
    for name, (overload, part) in _PARTS.items():

        def run(value: Timestamp, zone: str = "UTC", part: Implementation = part) -> Value:
            offset = _zone_offset(value.at(), zone)
            return offset if isinstance(offset, Failure) else part(value.at(offset))

        FUNCTIONS.overload(name, f"timestamp_to_{overload}", "timestamp.() -> int")(run)
        FUNCTIONS.overload(name, f"timestamp_to_{overload}_with_tz", "timestamp.(string) -> int")(
            run
        )

    def milliseconds(value: Timestamp, zone: str = "UTC") -> Value:
        offset = _zone_offset(value.at(), zone)
        return offset if isinstance(offset, Failure) else int(value) % NANOS // 1_000_000

    name = "getMilliseconds"
    FUNCTIONS.overload(name, "timestamp_to_milliseconds", "timestamp.() -> int")(milliseconds)
    FUNCTIONS.overload(name, "timestamp_to_milliseconds_with_tz", "timestamp.(string) -> int")(
        milliseconds
    )
    for name, nanos in _OF_DURATION.items():

        def of_duration(value: Duration, nanos: int = nanos) -> Value:
            whole = abs(int(value)) // nanos
            return -whole if value < 0 else whole

        word = name.removeprefix("get").lower()
        FUNCTIONS.overload(name, f"duration_to_{word}", "duration.() -> int")(of_duration)


_register_parts()
