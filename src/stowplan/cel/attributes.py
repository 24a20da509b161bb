"""Plans of chains of selections, such as `device.attributes["x"].model`.

As in cel-go, each step of a chain costs 1, and the chain itself costs 1 more unless it is a branch
of `?:`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stowplan.cel.errors import Failure
from stowplan.cel.plans import Evaluate, Plan, Run, go_type
from stowplan.cel.values import NONE, Map, Opaque, Opt, TypeValue, UInt, Value, show, type_name

Qualifier = Callable[[Run, Value, bool], "tuple[Value, ...] | Failure"]


@dataclass(slots=True)
class Attribute(Plan):
    """A root, and the steps of selection from it."""

    root: Evaluate
    steps: list[tuple[Qualifier, bool]] = field(default_factory=list)
    #: The branches of `?:`; further steps are added to both.
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
            if not value.items:
                return value
            value = value.items[0]
            if not self.steps:
                return Opt((_wrapped_again(value),))
        for qualifier, is_optional in self.steps:
            optional = optional or is_optional
            found = qualifier(run, value, optional)
            if isinstance(found, Failure):
                return found
            if not found:
                return NONE
            value = found[0]
        return Opt((value,)) if optional else value


def _wrapped_again(value: Value) -> Value:
    """The value of an optional that is read from a variable or a branch of `?:`.

    cel-go unwraps it and wraps it again, which changes some values and fails for others.
    """
    if isinstance(value, Opt):
        return _wrapped_again(value.items[0]) if value.items else None
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Failure):
        return Failure(f"unsupported conversion to ref.Val: (*errors.errorString){value.text}")
    if isinstance(value, Opaque) and value.go_type:
        return Failure(f"unsupported conversion to ref.Val: ({value.go_type}){value}")
    return value


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
    """The selected value in a tuple. If missing: an empty tuple if `present`, else a Failure."""
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
    return f"invalid qualifier type: {go_type(key)}"


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
            # After an optional step, the result of the test is an optional.
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
