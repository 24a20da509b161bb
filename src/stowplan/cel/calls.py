"""Plans of calls: how arguments, errors and costs of operators and functions are handled."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.cel import costs
from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import Cancelled, CompileError, Failure, no_such_overload
from stowplan.cel.plans import Constant, Evaluate, Plan, Run, constant
from stowplan.cel.regex import compiled_regex
from stowplan.cel.values import Opt, UInt, Value, equal
from stowplan.cel.versions import Semver


def logic(terms: list[Evaluate], *, decided: bool) -> Evaluate:
    """`||` (decided by True) or `&&` (by False). An error is the result only if no side decides."""
    left, right = terms

    def evaluate(run: Run) -> Value:
        one = left(run)
        if one is decided:
            return decided
        other = right(run)
        if other is decided:
            return decided
        for value in (one, other):
            if type(value) is not bool:
                return value if type(value) is Failure else no_such_overload()
        return not decided

    return evaluate


def equality(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        one, other = left(run), right(run)
        run.charge(costs.equality(one, other))
        if type(one) is Failure:
            return one
        return other if type(other) is Failure else equal(one, other)

    return evaluate


def inequality(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        one, other = left(run), right(run)
        run.charge(costs.inequality(one, other))
        if type(one) is Failure:
            return one
        return other if type(other) is Failure else equal(one, other) is not True

    return evaluate


def not_strictly_false(operand: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        value = operand(run)
        run.charge(1)
        return value if type(value) is bool else True

    return evaluate


def fallback(left: Evaluate, right: Evaluate, *, unwrap: bool) -> Evaluate:
    def evaluate(run: Run) -> Value:
        optional = left(run)
        if type(optional) is not Opt:
            return optional
        if not optional.items:
            return right(run)
        return optional.items[0] if unwrap else optional

    return evaluate


def constant_membership(item: Evaluate, items: Value) -> Plan | None:
    """`x in [constants]`, which costs nothing; None if the list has other than scalar values."""
    assert isinstance(items, list)
    if not items:
        return constant(False)
    if not all(type(one) in (bool, int, UInt, float, str) for one in items):
        return None
    members = {(type(one) is bool, one) for one in items if type(one) is not str}
    texts = {one for one in items if type(one) is str}

    def evaluate(run: Run) -> Value:
        value = item(run)
        kind = type(value)
        if kind is str:
            return value in texts
        if kind in (bool, int, UInt, float):
            return (kind is bool, value) in members
        if kind is Semver:
            raise Cancelled("internal error: runtime error: hash of unhashable type cel.Semver")
        return value if kind is Failure else False

    return Plan(evaluate)


def function_call(function: str, overload: str | None, args: list[Evaluate]) -> Evaluate:
    known = FUNCTIONS.get(function)
    assert known is not None
    run_it = known.implementation(overload)
    cost = costs.cost_of(function, overload)
    # If the overload is chosen at run time, cel-go stops at the first argument that is an error.
    # The call then costs nothing, unless that argument was the last one.
    is_dispatched = overload is None and known.operator is None
    if len(args) == 1 and not is_dispatched:
        return _unary(run_it, cost, args[0])
    if len(args) == 2 and not is_dispatched:
        return _binary(run_it, cost, *args)

    return _many(run_it, cost, args)


REGEX_FUNCTIONS = frozenset({"find", "findAll", "matches"})


def has_constant_pattern(plans: list[Plan]) -> bool:
    """Whether the pattern is a constant. Raises CompileError if it is invalid."""
    pattern = plans[1]
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        return False
    compiled = compiled_regex(pattern.value)
    if isinstance(compiled, str):
        raise CompileError(compiled)
    return True


def regex_call(function: str, overload: str | None, args: list[Evaluate]) -> Evaluate:
    """A call with a constant pattern. As in cel-go, it costs nothing if the text is an error."""
    known = FUNCTIONS.get(function)
    assert known is not None
    implementation = known.implementation(overload)

    def run_it(*values: Value) -> Value:
        return implementation(*values) if isinstance(values[0], str) else no_such_overload()

    return _many(run_it, costs.cost_of(function, overload), args)


def _many(run_it: Callable[..., Value], cost: costs.Cost | None, args: list[Evaluate]) -> Evaluate:
    def evaluate(run: Run) -> Value:
        values: list[Value] = []
        for argument in args:
            value = argument(run)
            values.append(value)
            if type(value) is Failure:
                break
        result = values[-1] if values and type(values[-1]) is Failure else run_it(*values)
        if len(values) == len(args):
            run.charge(1 if cost is None else cost(values, result))
        return result

    return evaluate


def _unary(run_it: Callable[..., Value], cost: costs.Cost | None, operand: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        value = operand(run)
        result = value if type(value) is Failure else run_it(value)
        run.charge(1 if cost is None else cost((value,), result))
        return result

    return evaluate


def _binary(
    run_it: Callable[..., Value], cost: costs.Cost | None, left: Evaluate, right: Evaluate
) -> Evaluate:
    def evaluate(run: Run) -> Value:
        one, other = left(run), right(run)
        if type(one) is Failure:
            result: Value = one
        else:
            result = other if type(other) is Failure else run_it(one, other)
        run.charge(1 if cost is None else cost((one, other), result))
        return result

    return evaluate


def folded(evaluate: Evaluate) -> Plan:
    """A conversion of a constant, computed at compile time. Raises CompileError if it fails."""
    value = evaluate(Run([], 1 << 62))
    if isinstance(value, Failure):
        raise CompileError(value.text)
    return constant(value)
