"""Integers of API objects have the sizes that they have in Go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stowplan.api import device_objects, storage_objects, workload_objects
from stowplan.api.objects import Pod, Wire
from stowplan.audit import items
from stowplan.recording import decisions

MODULES = (device_objects, storage_objects, workload_objects, items, decisions)
_decode = msgspec.json.Decoder(Pod).decode


@pytest.mark.parametrize("number", [-(1 << 31), (1 << 31) - 1])
def test_the_largest_and_smallest_are_read(number: int) -> None:
    pod = _decode(f'{{"spec": {{"priority": {number}}}}}')
    assert pod.spec.priority == number
    assert _decode(msgspec.json.encode(pod)) == pod


@pytest.mark.parametrize(
    ("field", "number", "expected"),
    [
        ("priority", 1 << 31, "<= 2147483647 - at `$.spec.priority`"),
        ("priority", -(1 << 31) - 1, ">= -2147483648 - at `$.spec.priority`"),
        (
            "terminationGracePeriodSeconds",
            1 << 63,
            "<= 9223372036854775807 - at `$.spec.terminationGracePeriodSeconds`",
        ),
        ("terminationGracePeriodSeconds", 10**40, "<= 9223372036854775807"),
    ],
)
def test_others_are_malformed(field: str, number: int, expected: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        _decode(f'{{"spec": {{"{field}": {number}}}}}')
    assert expected in str(caught.value)


def test_every_integer_has_a_size() -> None:
    """Without one, an object could be read that cannot be written again."""
    structs = set(_below(Wire))
    assert {struct.__module__ for struct in structs} >= {module.__name__ for module in MODULES}
    unbounded = [
        f"{struct.__name__}.{field.name}"
        for struct in structs
        for field in _fields(struct)
        if _is_unbounded(field.type)
    ]
    assert not unbounded


def _below(struct: type[Any]) -> Iterator[type[Any]]:
    for each in struct.__subclasses__():
        yield each
        yield from _below(each)


def _fields(struct: type[Any]) -> tuple[msgspec.inspect.Field, ...]:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return info.fields


def _is_unbounded(kind: msgspec.inspect.Type) -> bool:
    match kind:
        case msgspec.inspect.IntType(ge=low, le=high):
            return low is None or high is None
        case msgspec.inspect.UnionType(types=kinds):
            # A quantity may be a number of any size: it is parsed as text.
            is_quantity = any(isinstance(each, msgspec.inspect.StrType) for each in kinds)
            return not is_quantity and any(map(_is_unbounded, kinds))
        case (
            msgspec.inspect.VarTupleType(item_type=item) | msgspec.inspect.DictType(value_type=item)
        ):
            return _is_unbounded(item)
    return False
