"""Compiles a checked expression into closures that evaluate it and count its cost.

Each node becomes a `Plan`. Errors are values (`Failure`), so that `||` and `&&` can go on. A chain
of selections is one `Attribute`: its steps cost 1 each, and so does the chain itself, except as a
branch of `?:`, where only its steps do; cel-go counts so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stowplan.cel import (
    ast,
    conversions,
    costs,
    lists,
    optionals,
    quantities,
    strings,
    versions,
)
from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import (
    Cancelled,
    CompileError,
    CostLimitExceeded,
    Failure,
    no_such_overload,
)
from stowplan.cel.regex import compiled_regex, reset_patterns
from stowplan.cel.values import (
    NONE,
    Growing,
    GrowingMap,
    Map,
    Opt,
    UInt,
    Value,
    equal,
    reset_comparisons,
    show,
    type_name,
)
from stowplan.cel.versions import Semver

#: Importing them registers their functions.
LIBRARIES = (conversions, lists, optionals, quantities, strings, versions)

_UNSET = object()


class Run:
    """One evaluation: the values of variables, and the cost so far."""

    __slots__ = ("cost", "limit", "slots")

    def __init__(self, slots: list[Value], limit: int) -> None:
        self.slots = slots
        self.limit = limit
        self.cost = 0

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitExceeded


Evaluate = Callable[[Run], Value]


class Program:
    """A compiled expression of one variable."""

    def __init__(self, evaluate: Evaluate, slots: int) -> None:
        self._evaluate = evaluate
        self._empty: list[Value] = [_UNSET] * slots

    def evaluate(self, variable: Value, limit: int) -> tuple[Value, int]:
        """The value or a Failure, and the cost. Raises CostLimitExceeded."""
        slots = list(self._empty)
        slots[0] = variable
        run = Run(slots, limit)
        reset_comparisons()
        reset_patterns()
        return self._evaluate(run), run.cost


def compile_program(tree: ast.Node, variable: str) -> Program:
    compiler = _Compiler(variable)
    plan = compiler.plan(tree)
    return Program(plan.evaluate, compiler.slots)


#: Types of values as Go prints them in some messages.
_GO_TYPES = {
    "bool": "types.Bool", "int": "types.Int", "uint": "types.Uint", "double": "types.Double",
    "string": "types.String", "bytes": "types.Bytes", "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration", "google.protobuf.Timestamp": "types.Timestamp",
    "type": "*types.Type", "optional_type": "*types.Optional",
    "kubernetes.Quantity": "cel.Quantity", "kubernetes.Semver": "cel.Semver",
}  # fmt: skip

# Plans


@dataclass(slots=True)
class Plan:
    evaluate: Evaluate


@dataclass(slots=True)
class Constant(Plan):
    value: Value


def _constant(value: Value) -> Constant:
    return Constant(lambda run: value, value)


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


def _attribute(root: Evaluate, branches: tuple[Attribute, Attribute] | None = None) -> Attribute:
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


def _wrong_key(key: Value) -> str | None:
    if type(key) in (str, int, UInt, bool, float):
        return None
    name = type_name(key)
    return f"invalid qualifier type: {_GO_TYPES.get(name, name)}"


def _constant_step(key: Value) -> Qualifier:
    def qualify(run: Run, value: Value, present: bool) -> tuple[Value, ...] | Failure:
        found = _select(value, key, present)
        if found or not present:
            run.charge(1)
        return found

    return qualify


def _test_step(key: Value) -> Qualifier:
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


def _computed_step(key: Evaluate) -> Qualifier:
    def qualify(run: Run, value: Value, present: bool) -> tuple[Value, ...] | Failure:
        at = key(run)
        if type(at) is not Failure:
            wrong = _wrong_key(at)
            at = at if wrong is None else Failure(wrong)
        found = at if type(at) is Failure else _select(value, at, present)
        if not present or (found and type(found) is not Failure):
            run.charge(1)
        return found

    return qualify


class _Compiler:
    def __init__(self, variable: str) -> None:
        self._scopes: list[dict[str, Evaluate]] = [{variable: _slot(0)}]
        self.slots = 1

    def plan(self, node: ast.Node) -> Plan:
        match node:
            case ast.Literal():
                return _constant(node.value)
            case ast.Ident():
                return self._ident(node)
            case ast.Select():
                return self._select(node)
            case ast.Call():
                return self._call(node)
            case ast.ListExpr():
                return self._list(node)
            case ast.MapExpr():
                return self._map(node)
            case ast.Comprehension():
                return self._comprehension(node)
        raise TypeError(f"unknown node {node!r}")

    def _ident(self, node: ast.Ident) -> Plan:
        if node.constant is not None:
            return _constant(node.constant)
        for scope in reversed(self._scopes):
            if node.name in scope:
                return _attribute(scope[node.name])
        raise AssertionError(f"the checker let {node.name} pass")

    def _as_attribute(self, plan: Plan) -> Attribute:
        return plan if isinstance(plan, Attribute) else _attribute(plan.evaluate)

    def _select(self, node: ast.Select) -> Plan:
        if node.resolved is not None:
            return self._ident(node.resolved)
        attribute = self._as_attribute(self.plan(node.operand))
        step = _test_step if node.test_only else _constant_step
        attribute.add_step(step(node.field_name), optional=False)
        attribute.test_only = node.test_only
        return attribute

    def _index(self, node: ast.Call, *, optional: bool) -> Plan:
        attribute = self._as_attribute(self.plan(node.args[0]))
        key = self.plan(node.args[1])
        if isinstance(key, Constant):
            wrong = _wrong_key(key.value)
            if wrong is not None:
                raise CompileError(wrong)
            step = _constant_step(key.value)
        else:
            step = _computed_step(key.resolve if isinstance(key, Attribute) else key.evaluate)
        attribute.add_step(step, optional=optional)
        return attribute

    # Calls

    def _call(self, node: ast.Call) -> Plan:
        match node.function:
            case "_[_]":
                return self._index(node, optional=False)
            case "_[?_]" | "_?._":
                return self._index(node, optional=True)
        nodes = node.args if node.target is None else [node.target, *node.args]
        plans = [self.plan(one) for one in nodes]
        args = [plan.evaluate for plan in plans]
        match node.function:
            case "_&&_":
                return Plan(_logic(args, decided=False))
            case "_||_":
                return Plan(_logic(args, decided=True))
            case "_?_:_":
                return self._conditional(plans)
            case "_==_":
                return Plan(_equality(*args))
            case "_!=_":
                return Plan(_inequality(*args))
            case "@not_strictly_false":
                return Plan(_not_strictly_false(args[0]))
            case "or" | "orValue" if node.target is not None:
                return Plan(_fallback(*args, unwrap=node.function == "orValue"))
        overload = node.overloads[0] if len(node.overloads) == 1 else None
        if overload == "in_list" and isinstance(plans[1], Constant):
            quick = _constant_membership(args[0], plans[1].value)
            if quick is not None:
                return quick
        if node.function in _REGEX_FUNCTIONS and _has_constant_pattern(plans):
            return Plan(_regex_call(node.function, overload, args))
        evaluate = _call(node.function, overload, args)
        if node.function in conversions.CONVERSIONS and isinstance(plans[0], Constant):
            return _folded(evaluate)
        return Plan(evaluate)

    def _conditional(self, plans: list[Plan]) -> Plan:
        condition = plans[0].evaluate
        yes, no = (self._as_attribute(plan) for plan in plans[1:])

        def choose(run: Run) -> Value:
            chosen = condition(run)
            if chosen is True:
                return yes.resolve(run)
            if chosen is False:
                return no.resolve(run)
            return chosen if type(chosen) is Failure else no_such_overload()

        return _attribute(choose, (yes, no))

    # Constructors

    def _list(self, node: ast.ListExpr) -> Plan:
        plans = [self.plan(element) for element in node.elements]
        optional = node.optional
        if all(isinstance(plan, Constant) for plan in plans) and not optional:
            return _constant([plan.value for plan in plans if isinstance(plan, Constant)])
        elements = [plan.evaluate for plan in plans]

        def build(run: Run) -> Value:
            made: list[Value] = []
            for index, element in enumerate(elements):
                value = element(run)
                if type(value) is Failure:
                    run.charge(costs.LIST_COST)
                    return value
                if index in optional:
                    if not isinstance(value, Opt):
                        run.charge(costs.LIST_COST)
                        text = "cannot initialize optional list element from non-optional value"
                        return Failure(f"{text} {show(value)}")
                    made += value.items
                else:
                    made.append(value)
            run.charge(costs.LIST_COST)
            return made

        return Plan(build)

    def _map(self, node: ast.MapExpr) -> Plan:
        plans = [(self.plan(one.key), self.plan(one.value)) for one in node.entries]
        flat = [plan for pair in plans for plan in pair]
        if all(isinstance(plan, Constant) for plan in flat) and not any(
            one.optional for one in node.entries
        ):
            pairs = [
                (key.value, value.value)
                for key, value in plans
                if isinstance(key, Constant) and isinstance(value, Constant)
            ]
            return _constant(Map(pairs))
        entries = [
            (key.evaluate, value.evaluate, one.optional)
            for (key, value), one in zip(plans, node.entries, strict=True)
        ]

        def build(run: Run) -> Value:
            made = Map()
            for key, value, optional in entries:
                at = key(run)
                item = at if type(at) is Failure else value(run)
                if type(item) is Failure:
                    run.charge(costs.MAP_COST)
                    return item
                if optional:
                    if not isinstance(item, Opt):
                        run.charge(costs.MAP_COST)
                        text = (
                            f"cannot initialize optional entry '{show(at)}' from non-optional value"
                        )
                        return Failure(f"{text} {show(item)}")
                    if not item.items:
                        made.drop(at)
                        continue
                    item = item.items[0]
                made.put(at, item)
            run.charge(costs.MAP_COST)
            return made

        return Plan(build)

    # Loops

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _comprehension(self, node: ast.Comprehension) -> Plan:
        over = self.plan(node.iter_range).evaluate
        start = self.plan(node.accu_init).evaluate
        accumulator, first, second = (self._new_slot() for _ in range(3))
        self._scopes.append({node.accu_var: _accumulated(accumulator, start)})
        inner = {node.iter_var: _slot(first)}
        if node.iter_var2 is not None:
            inner[node.iter_var2] = _slot(second)
        self._scopes.append(inner)
        condition = self.plan(node.condition).evaluate
        step = self.plan(node.step).evaluate
        self._scopes.pop()
        result = self.plan(node.result).evaluate
        self._scopes.pop()
        two = node.iter_var2 is not None

        def loop(run: Run) -> Value:
            value = over(run)
            slots = run.slots
            slots[accumulator] = _UNSET
            pairs = _pairs(value, two)
            if isinstance(pairs, Failure):
                return pairs
            for one, other in pairs:
                slots[first], slots[second] = one, other
                if condition(run) is False:
                    break
                slots[accumulator] = step(run)
            return _finished(result(run))

        return Plan(loop)


def _slot(index: int) -> Evaluate:
    return lambda run: run.slots[index]


def _accumulated(index: int, start: Evaluate) -> Evaluate:
    """The accumulator; it gets its first value when it is first read."""

    def read(run: Run) -> Value:
        value = run.slots[index]
        if value is _UNSET:
            value = start(run)
            if isinstance(value, list) and not value:
                value = Growing()
            elif isinstance(value, Map) and not value:
                value = GrowingMap()
            run.slots[index] = value
        return value

    return read


def _finished(value: Value) -> Value:
    if type(value) is Growing:
        return list(value)
    return value.copy() if isinstance(value, GrowingMap) else value


def _pairs(value: Value, two: bool) -> Sequence[tuple[Value, Value]] | Failure:
    if isinstance(value, Map):
        return [(key, item) for key, item in value.items()]
    if isinstance(value, list):
        return list(enumerate(value)) if two else [(item, None) for item in value]
    if isinstance(value, Failure):
        return value
    name = _GO_TYPES.get(type_name(value), type_name(value))
    if two:
        return Failure(f"unsupported comprehension range type: {name}")
    return Failure(f"got '{name}', expected iterable type")


# Evaluation of calls


def _logic(terms: list[Evaluate], *, decided: bool) -> Evaluate:
    """`||` (decided by True) or `&&` (by False): an error counts only if no side decides."""
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


def _equality(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        one, other = left(run), right(run)
        run.charge(costs.equality(one, other))
        if type(one) is Failure:
            return one
        return other if type(other) is Failure else equal(one, other)

    return evaluate


def _inequality(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        one, other = left(run), right(run)
        run.charge(costs.inequality(one, other))
        if type(one) is Failure:
            return one
        return other if type(other) is Failure else equal(one, other) is not True

    return evaluate


def _not_strictly_false(operand: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Value:
        value = operand(run)
        run.charge(1)
        return value if type(value) is bool else True

    return evaluate


def _fallback(left: Evaluate, right: Evaluate, *, unwrap: bool) -> Evaluate:
    def evaluate(run: Run) -> Value:
        optional = left(run)
        if type(optional) is not Opt:
            return optional
        if not optional.items:
            return right(run)
        return optional.items[0] if unwrap else optional

    return evaluate


def _constant_membership(item: Evaluate, items: Value) -> Plan | None:
    """`x in [constants]` costs nothing; None if the list has more than plain values."""
    assert isinstance(items, list)
    if not items:
        return _constant(False)
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


def _call(function: str, overload: str | None, args: list[Evaluate]) -> Evaluate:
    known = FUNCTIONS.get(function)
    assert known is not None
    run_it = known.implementation(overload)
    cost = costs.cost_of(function, overload)
    # Where values decide between overloads, cel-go stops at the first argument that is an error;
    # the call costs nothing then, unless it was the last one.
    is_dispatched = overload is None and known.operator is None
    if len(args) == 1 and not is_dispatched:
        return _unary(run_it, cost, args[0])
    if len(args) == 2 and not is_dispatched:
        return _binary(run_it, cost, *args)

    return _many(run_it, cost, args)


_REGEX_FUNCTIONS = frozenset({"find", "findAll", "matches"})


def _has_constant_pattern(plans: list[Plan]) -> bool:
    """Whether the pattern is known now. Raises CompileError if it is wrong."""
    pattern = plans[1]
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        return False
    compiled = compiled_regex(pattern.value)
    if isinstance(compiled, str):
        raise CompileError(compiled)
    return True


def _regex_call(function: str, overload: str | None, args: list[Evaluate]) -> Evaluate:
    """A call with a constant pattern. cel-go plans it apart: an error as the text costs nothing."""
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


def _folded(evaluate: Evaluate) -> Plan:
    """A conversion of a constant, computed now. An error is one of the whole expression."""
    value = evaluate(Run([], 1 << 62))
    if isinstance(value, Failure):
        raise CompileError(value.text)
    return _constant(value)
