"""Classes for tests of tags: constructors with annotations of every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from stowplan.errors import ConfigError
from stowplan.extender import Algorithm, ExtenderArgs, ExtenderFilterResult, HostPriority
from stowplan.extender.arguments import Range
from stowplan.extender.data import Resource

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(Enum):
    RED = "red"
    BLUE = 2


class _Silent(Algorithm):
    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        return ExtenderFilterResult()

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        return []


@dataclass
class Inner:
    name: str = "inner"


@dataclass
class Everything(_Silent):
    """One argument of each kind."""

    text: str = ""
    whole: int = 0
    number: float = 0.0
    flag: bool = False
    names: list[str] = field(default_factory=list)
    pair: tuple[str, ...] = ()
    plain_list: list = field(default_factory=list)  # type: ignore[type-arg]  # untyped, as users write them
    dimensions: Sequence[Resource] = ()
    weights: Mapping[Resource, float] = field(default_factory=dict)
    table: dict[str, dict[str, int]] = field(default_factory=dict)
    colour: Colour = Colour.RED
    maybe: float | None = None
    either: int | list[int] = 0
    choice: Literal["a", "b"] = "a"
    limited: Annotated[float, Range(1, 60)] = 5.0
    path: Path | None = None
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list)
    whatever: Any = None


class Old(_Silent):
    """Without annotations, and with one that exists for type checkers only."""

    def __init__(self, plain=1, typed: Decimal | None = None, **more):  # type: ignore[no-untyped-def]  # untyped, as users write them
        self.given: tuple[Any, ...] = (plain, typed, more)


class Fails(_Silent):
    def __init__(self, how: str = "", limit: int = 0) -> None:
        if how == "field":
            raise ConfigError(f"{limit} is too few", where="limit")
        if how == "config":
            raise ConfigError("it cannot be so")
        if how == "value":
            raise ValueError("no such luck")
        if how == "silent":
            raise KeyError


class NotAnAlgorithm:
    pass


not_a_class = 7
