"""Chains of selections, such as `device.attributes["x"].model`, planned as one.

The steps of a chain cost 1 each, and so does the chain itself, except as a branch of `?:`, where
only its steps do; cel-go counts so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stowplan.cel.errors import Failure
from stowplan.cel.plans import GO_TYPES, Evaluate, Plan, Run
from stowplan.cel.values import NONE, Map, Opt, UInt, Value, show, type_name

Qualifier = Callable[[Run, Value, bool], "tuple[Value, ...] | Failure"]


@dataclass(slots=True)
class Attribute(Plan):
    """A root and the steps of selection from it."""

    root: Evaluate
    steps: list[tuple[Qualifier, bool]] = field(default_factory=list)
    #: Of `condition ? these : those`: both branches, which get every further step.
    branches: tuple[Attribute, Attribute] | None = None
    test_only: bool = False

    def add_step(self, qualifier: Qualifier, *, optional: bool) -> None:
        if self.branches is None:
            self.steps.append((qualifier, optional))
        else:
            for branch in self.branches:
                branch.add_step(qualifier, optional=optional)

    def resolve(self, run: Run) -> Value:
        value = self.root(run)
        if type(value) is Failure or self.branches is not None:
            return value
        optional = type(value) is Opt
        if optional:
            if not value.items:  # type: ignore[attr-defined]
                return value
            value = value.items[0]  # type: ignore[attr-defined]
        for qualifier, is_optional in self.steps:
            optional = optional or is_optional
            found = qualifier(run, value, optional)
            if type(found) is Failure:
                return found
            if not found:
                return NONE
            value = found[0]  # type: ignore[index]
        return Opt((value,)) if optional else value


def attribute_of(root: Evaluate, branches: tuple[Attribute, Attribute] | None = None) -> Attribute:
    made = Attribute(_unplanned, root, branches=branches)

    def evaluate(run: Run) -> Value:
        value = made.resolve(run)
        run.charge((0 if made.branches is not None else 1) - (1 if made.test_only else 0))
        if made.test_only and type(value) is Opt:
            return value.has_value
        return value

    made.evaluate = evaluate
    return made


def _unplanned(run: Run) -> Value:
    raise AssertionError("an attribute without its evaluation")


def _select(value: Value, key: Value, present: bool) -> tuple[Value, ...] | Failure:
    """A step into a value: the found one in a tuple, or nothing where that is only a test."""
    if isinstance(value, Map):
        found = value.find(key)
        if found or present:
            return found
        return Failure(f"no such key: {show(key)}")
    if isinstance(value, list):
        index = _list_index(key)
        if type(index) is Failure:
            return index
        assert isinstance(index, int)
        if 0 <= index < len(value):
            return (value[index],)
        return () if present else Failure(f"index out of bounds: {show(key)}")
    return () if present else Failure(f"no such key: {show(key)}")


def _list_index(key: Value) -> int | Failure:
    if type(key) is int:
        return key
    if isinstance(key, float | UInt):
        if isinstance(key, float) and not key.is_integer():
            return Failure(f"unsupported index value {show(key)} in list")
        if not -(1 << 63) <= key < 1 << 63:
            return Failure(f"unsupported index value {show(key)} in list")
        return int(key)
    return Failure(f"unsupported index type '{type_name(key)}' in list")


def wrong_key(key: Value) -> str | None:
    if type(key) in (str, int, UInt, bool, float):
        return None
    name = type_name(key)
    return f"invalid qualifier type: {GO_TYPES.get(name, name)}"


def constant_step(key: Value) -> Qualifier:
    def qualify(run: Run, value: Value, present: bool) -> tuple[Value, ...] | Failure:
        found = _select(value, key, present)
        if found or not present:
            run.charge(1)
        return found

    return qualify


def test_step(key: Value) -> Qualifier:
    def qualify(run: Run, value: Value, present: bool) -> tuple[Value, ...] | Failure:
        found = _select(value, key, True)
        if type(found) is Failure:
            return found
        if present:
            # After an optional step: the test's own answer is the optional.
            if found:
                run.charge(1)
            return (True,) if found else ()
        run.charge(1)
        return (bool(found),)

    return qualify


def computed_step(key: Evaluate) -> Qualifier:
    def qualify(run: Run, value: Value, present: bool) -> tuple[Value, ...] | Failure:
        at = key(run)
        if type(at) is not Failure:
            wrong = wrong_key(at)
            at = at if wrong is None else Failure(wrong)
        found = at if type(at) is Failure else _select(value, at, present)
        if not present or (found and type(found) is not Failure):
            run.charge(1)
        return found

    return qualify
