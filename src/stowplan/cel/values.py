"""Values of CEL in Python.

| CEL | Python |
|---|---|
| bool, int, double, string, bytes, null | bool, int, float, str, bytes, None |
| uint | UInt |
| list, map | list, Map |
| timestamp, duration | Timestamp, Duration: nanoseconds |
| type, optional | TypeValue, Opt |
| an error | `errors.Failure` |

`equal` and `compare` follow CEL: numbers of different types compare by value, and comparing
incomparable types is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from stowplan.cel.errors import Cancelled, CostLimitExceeded, Failure, no_such_overload
from stowplan.cel.go_text import go_float

#: Any, because each operator checks the types of its operands first.
Value: TypeAlias = Any

MIN_INT, MAX_INT, MAX_UINT = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
NANOS = 1_000_000_000


#: Limit of elements or characters of one value: cost alone does not bound them.
LONGEST = 1_000_000
#: Limit of elements that one evaluation compares: values that share parts can be huge in full.
MOST_COMPARISONS = 300_000


class _Comparisons:
    left = MOST_COMPARISONS


def reset_comparisons() -> None:
    _Comparisons.left = MOST_COMPARISONS


def count_comparisons(elements: int) -> None:
    _Comparisons.left -= elements
    if _Comparisons.left < 0:
        raise CostLimitExceeded


class UInt(int):
    __slots__ = ()


class Duration(int):
    """Nanoseconds."""

    __slots__ = ()


class Timestamp(int):
    """Nanoseconds since 1970, UTC."""

    __slots__ = ()

    def at(self, offset: timedelta = timedelta()) -> datetime:
        """The date and time, in whole seconds."""
        seconds = int(self) // NANOS
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds) + offset

    def __str__(self) -> str:
        seconds, nanos = divmod(int(self), NANOS)
        whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        fraction = f".{nanos:09}".rstrip("0").rstrip(".")
        return f"{whole.year:04}-{whole:%m-%dT%H:%M:%S}{fraction}Z"


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


@dataclass(frozen=True, slots=True)
class Opt:
    """optional.of(value), or optional.none()."""

    items: tuple[Value, ...]

    @property
    def has_value(self) -> bool:
        return bool(self.items)


NONE = Opt(())


class Opaque:
    """A value of Kubernetes' own types (Quantity, Semver, ...), equal only within its type."""

    __slots__ = ()
    type_name = ""
    #: Upstream, results of `add` and `sub` of quantities do not compare on the right side of `==`.
    by_reference = False
    #: The Go type, if its values cannot be keys of a map: cel-go panics when one is looked up.
    unhashable = ""
    #: The Go type of the wrapped value, if cel-go cannot wrap it again.
    go_type = ""

    def same(self, other: Opaque) -> bool:
        return self == other

    def key(self) -> Value:
        """The identity of the value as a key of a map."""
        return id(self)


class Growing(list[Value]):
    """The list that a loop such as `map` builds: `+` extends it in place."""

    __slots__ = ()


class Map:
    """A CEL map. Keys are bool, int, UInt or str; `1`, `1u` and `true` are different keys, but 1.0
    and 1u find the entry of 1.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: list[tuple[Value, Value]] | None = None) -> None:
        self._entries: dict[Value, tuple[Value, Value]] = {}
        for key, value in entries or ():
            self.put(key, value)

    @classmethod
    def of_strings(cls, entries: dict[str, Value]) -> Map:
        made = StringMap()
        made._entries = {key: (key, value) for key, value in entries.items()}
        return made

    def put(self, key: Value, value: Value) -> None:
        self._entries[_hashed(key)] = (key, value)

    def drop(self, key: Value) -> None:
        self._entries.pop(_hashed(key), None)

    def copy(self) -> Map:
        made = Map()
        made._entries = dict(self._entries)
        return made

    def find(self, key: Value) -> tuple[Value, ...]:
        """The value in a tuple, or an empty tuple."""
        if self._entries and isinstance(key, Opaque) and key.unhashable and type(self) is Map:
            raise Cancelled(
                f"internal error: runtime error: hash of unhashable type {key.unhashable}"
            )
        for candidate in _lookups(key):
            entry = self._entries.get(candidate)
            if entry is not None:
                return (entry[1],)
        return ()

    def contains(self, key: Value) -> bool:
        return bool(self.find(key))

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterator[tuple[Value, Value]]:
        return iter(self._entries.values())


class StringMap(Map):
    """A map from outside the expression, such as the attributes of a device."""

    __slots__ = ()


class GrowingMap(Map):
    """The map that a loop such as `transformMap` builds: entries are added in place."""

    __slots__ = ()


class DefaultMap(Map):
    """A map in which missing keys have a default value. `in` is true only for real entries."""

    __slots__ = ("_default",)

    def __init__(self, entries: dict[str, Value], default: Value) -> None:
        super().__init__()
        for key, value in entries.items():
            self._entries[key] = (key, value)
        self._default = default

    def find(self, key: Value) -> tuple[Value, ...]:
        return super().find(key) or (self._default,)

    def contains(self, key: Value) -> bool:
        return bool(super().find(key))


def _hashed(key: Value) -> Value:
    kind = type(key)
    if kind is bool:
        return ("bool", key)
    if kind is UInt:
        return ("uint", int(key))
    if kind in (str, int, float):
        return key
    return ("other", key.key() if isinstance(key, Opaque) else id(key))


def _lookups(key: Value) -> list[Value]:
    kind = type(key)
    if kind is float:
        assert isinstance(key, float)
        if not key.is_integer():
            return []
        return [int(key), ("uint", int(key))]
    if kind is int:
        return [key, ("uint", key)]
    if kind is UInt:
        return [("uint", int(key)), int(key)]
    return [_hashed(key)]


_NAMES = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    Growing: "list",
    Map: "map",
    StringMap: "map",
    DefaultMap: "map",
    GrowingMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Opt: "optional_type",
}


def type_name(value: Value) -> str:
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    assert isinstance(value, Opaque)
    return value.type_name


_NUMBERS = frozenset({int, UInt, float})


def equal(left: Value, right: Value) -> bool | Failure:
    """`left == right`. A Kubernetes value beside one of another type is an error."""
    if left is None or right is None:
        return left is right
    kind, other = type(left), type(right)
    if kind in _NUMBERS:
        return other in _NUMBERS and _numbers(left, right) == 0
    if kind is list:
        return other is list and _lists_equal(left, right)
    if isinstance(left, Map):
        return isinstance(right, Map) and _maps_equal(left, right)
    if isinstance(left, Opaque):
        if not isinstance(right, Opaque) or left.type_name != right.type_name or right.by_reference:
            return no_such_overload()
        return left.same(right)
    if kind is Opt:
        return other is Opt and _optionals_equal(left, right)
    return kind is other and left == right


def _lists_equal(left: list[Value], right: list[Value]) -> bool:
    # An error counts as equal here, as it does upstream.
    count_comparisons(len(left))
    return len(left) == len(right) and all(
        equal(mine, theirs) is not False for mine, theirs in zip(left, right, strict=True)
    )


def _maps_equal(left: Map, right: Map) -> bool:
    count_comparisons(len(left))
    if len(left) != len(right):
        return False
    for key, value in left.items():
        found = right.find(key)
        if not found or equal(value, found[0]) is False:
            return False
    return True


def _optionals_equal(left: Opt, right: Opt) -> bool | Failure:
    if not left.items or not right.items:
        return left.items == right.items
    return equal(left.items[0], right.items[0])


def _numbers(left: Value, right: Value) -> int | None:
    """The order of two numbers; None for NaN. A double beside an integer makes both doubles."""
    if isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    if left == right:
        return 0
    if left < right:
        return -1
    return 1 if left > right else None


_ORDERED = frozenset({bool, str, bytes, Duration, Timestamp})


def compare(left: Value, right: Value) -> int | Failure:
    """-1, 0 or 1."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        order = _numbers(left, right)
        return Failure("NaN values cannot be ordered") if order is None else order
    if kind not in _ORDERED or kind is not other:
        return no_such_overload()
    if left == right:
        return 0
    # The order of code points is also the order of UTF-8 bytes.
    return -1 if left < right else 1


def is_zero(value: Value) -> bool:
    """Whether optional.ofNonZeroValue returns none for the value."""
    if value is None:
        return True
    if isinstance(value, Map | list | str | bytes):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return int(value) == -62_135_596_800 * NANOS
    return isinstance(value, bool | int | float) and not value


def size_of(value: Value) -> int:
    """The size of a value for costs: its length, or 1."""
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    if isinstance(value, Opt) and value.items:
        return size_of(value.items[0])
    sized = getattr(value, "cost_size", None)
    return sized if isinstance(sized, int) else 1


def show(value: Value) -> str:
    """A value in an error message, as Go's %v prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case None:
            return "NullValue"
        case Timestamp():
            return str(value)
        case bytes():
            return "[" + " ".join(str(byte) for byte in value) + "]"
        case list():
            count_comparisons(len(value))
            return "[" + ", ".join(show(item) for item in value) + "]"
        case TypeValue():
            return value.name
    return str(value)
