"""The Go types of the served objects, as far as JSON shows them: read from `go_types.txt`.

kube-apiserver decodes into Go structs and encodes them again. That is why it rejects wrong types,
drops unknown fields and empty values, and writes some fields that were never set. The same table
gives the same behaviour. Parsed once, when the first object is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal, TypeAlias

from stowplan.apiserver.kinds import Kind

Container = Literal["", "list", "map", "map of lists"]

_OPAQUE = frozenset({"any", "bytes", "IntOrString", "Quantities"})
_CONTAINERS: dict[str, Container] = {
    "": "",
    "[]": "list",
    "map[]": "map",
    "map[][]": "map of lists",
}
_FIELD = re.compile(r"(\w+)([!?]?):((?:map\[\])?(?:\[\])?)([^\s=]+)=([\d.]+)")
_AMBIGUOUS = {
    ("", "Event"): "core.Event",
    ("events.k8s.io", "Event"): "events.Event",
    ("resource.k8s.io", "ResourceClaim"): "resource.ResourceClaim",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. `always`: written even when empty; `pointer`: a zero counts.

    `numbers` is the way to it in protobuf: more than one where Go embeds the struct it is in.
    """

    name: str
    type: str
    container: Container
    pointer: bool
    always: bool
    is_struct: bool
    numbers: tuple[int, ...]
    is_text: bool

    @property
    def go_type(self) -> str:
        """How Go names the whole type, in its error messages."""
        element = _go_name(self.type, self.is_struct)
        match self.container:
            case "list":
                return f"[]{element}"
            case "map":
                return f"map[string]{element}"
            case "map of lists":
                return f"map[string][]{element}"
        return element

    @property
    def go_element(self) -> str:
        return _go_name(self.type, self.is_struct)


@dataclass(frozen=True)
class Struct:
    name: str
    fields: dict[str, Field]

    @cached_property
    def shown(self) -> frozenset[str]:
        """Fields that Go writes even if they are not set."""
        return frozenset(
            name
            for name, field in self.fields.items()
            if field.always
            or (
                not field.pointer
                and not field.container
                and (field.is_struct or field.type in ("Time", "MicroTime"))
            )
        )

    def plan(self, names: tuple[str, ...]) -> tuple[Plan, list[str]]:
        """For an object with these fields: whatever is to be looked at or shown, in Go's order,
        and the names that are no fields. Objects have few shapes, so plans are kept.
        """
        known = self._plans.get(names)
        if known is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            wanted = self.shown.union(names)
            steps = [
                (name, field, name in self.shown)
                for name, field in self.fields.items()
                if name in wanted
            ]
            strange = [name for name in names if name not in self.fields]
            known = self._plans[names] = (steps, strange)
        return known

    @cached_property
    def _plans(self) -> dict[tuple[str, ...], tuple[Plan, list[str]]]:
        return {}


#: Name, field, and whether it is shown when it has no value.
Plan: TypeAlias = list[tuple[str, Field, bool]]
_MOST_PLANS = 1000


def _go_name(name: str, is_struct: bool) -> str:
    if name == "Quantities":
        return "v1.ResourceList"
    if name in ("string", "bool", "int32", "int64") or (not is_struct and "." in name):
        return name
    return f"v1.{name.rpartition('.')[2]}"


@cache
def structs() -> dict[str, Struct]:
    text = files("stowplan.apiserver").joinpath("go_types.txt").read_text()
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    names = {line[0] for line in lines}
    return {line[0]: Struct(line[0], _fields(line[1:], names)) for line in lines}


def _fields(words: list[str], names: set[str]) -> dict[str, Field]:
    fields = {}
    for word in words:
        found = _FIELD.fullmatch(word)
        assert found is not None, word
        name, mark, container, element, numbers = found.groups()
        fields[name] = Field(
            name=name,
            type=element,
            container=_CONTAINERS[container],
            pointer=mark == "?",
            always=mark == "!",
            is_struct=element in names,
            numbers=tuple(map(int, numbers.split("."))),
            is_text=element == "string" and not container,
        )
    return fields


def struct_of(kind: Kind) -> Struct | None:
    """None for kinds that the table does not have."""
    return struct_named(kind.group, kind.kind)


def struct_named(group: str, kind: str) -> Struct | None:
    """The struct of a kind that need not be served, such as Eviction or DeleteOptions."""
    return structs().get(_AMBIGUOUS.get((group, kind), kind))
