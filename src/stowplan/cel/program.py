"""Compiles a checked expression into closures that evaluate it and count its cost.

Each node becomes a `Plan`. Errors are values (`Failure`), so `||` and `&&` can ignore them.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.cel import (
    addresses,
    ast,
    authorizer,
    calls,
    conversions,
    formats,
    formatting,
    lists,
    optionals,
    quantities,
    strings,
    urls,
    versions,
)
from stowplan.cel.attributes import (
    Attribute,
    attribute_of,
    computed_step,
    constant_step,
    test_step,
    wrong_key,
)
from stowplan.cel.cost_rules import LIST_COST, MAP_COST
from stowplan.cel.errors import CompileError, Failure, no_such_overload
from stowplan.cel.plans import UNSET, Constant, Evaluate, Plan, Run, constant, go_type
from stowplan.cel.regex import reset_patterns
from stowplan.cel.scopes import Scopes
from stowplan.cel.stack import deep_stack
from stowplan.cel.values import (
    Growing,
    GrowingMap,
    Map,
    Opt,
    Value,
    reset_comparisons,
    show,
)

#: Modules that register functions when they are imported.
# DIVERGES: selectors that use messages such as `google.protobuf.Int64Value{}` are refused.
LIBRARIES = (
    addresses, authorizer, conversions, formats, formatting, lists, optionals, quantities, strings,
    urls, versions,
)  # fmt: skip


class Program:
    """A compiled expression of one variable."""

    def __init__(self, evaluate: Evaluate, slots: int) -> None:
        self._evaluate = evaluate
        self._empty: list[Value] = [UNSET] * slots

    def evaluate(self, variable: Value, limit: int) -> tuple[Value, int]:
        """The value or a Failure, and the cost. Raises Cancelled."""
        try:
            return self._run(variable, limit)
        except RecursionError:
            with deep_stack():
                return self._run(variable, limit)

    def _run(self, variable: Value, limit: int) -> tuple[Value, int]:
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


class _Compiler:
    def __init__(self, variable: str) -> None:
        self._scopes = Scopes({variable: _slot(0)})
        self.slots = 1

    def plan(self, node: ast.Node) -> Plan:
        match node:
            case ast.Literal():
                return constant(node.value)
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
            return constant(node.constant)
        found = self._scopes.find(node.name)
        assert found is not None, f"the checker let {node.name} pass"
        return attribute_of(found)

    def _as_attribute(self, plan: Plan) -> Attribute:
        return plan if isinstance(plan, Attribute) else attribute_of(plan.evaluate)

    def _select(self, node: ast.Select) -> Plan:
        if node.resolved is not None:
            return self._ident(node.resolved)
        attribute = self._as_attribute(self.plan(node.operand))
        step = test_step if node.test_only else constant_step
        attribute.add_step(step(node.field_name), optional=False)
        attribute.test_only = node.test_only
        return attribute

    def _index(self, node: ast.Call, *, optional: bool) -> Plan:
        attribute = self._as_attribute(self.plan(node.args[0]))
        key = self.plan(node.args[1])
        if isinstance(key, Constant):
            wrong = wrong_key(key.value)
            if wrong is not None:
                raise CompileError(wrong)
            step = constant_step(key.value)
        else:
            step = computed_step(key.resolve if isinstance(key, Attribute) else key.evaluate)
        attribute.add_step(step, optional=optional)
        return attribute

    # Calls

    def _call(self, node: ast.Call) -> Plan:
        match node.function:
            case "_[_]":
                return self._index(node, optional=False)
            case "_[?_]" | "_?._":
                return self._index(node, optional=True)
        plans = [self.plan(one) for one in node.operands]
        args = [plan.evaluate for plan in plans]
        match node.function:
            case "_&&_":
                return Plan(calls.logic(args, decided=False))
            case "_||_":
                return Plan(calls.logic(args, decided=True))
            case "_?_:_":
                return self._conditional(plans)
            case "_==_":
                return Plan(calls.equality(*args))
            case "_!=_":
                return Plan(calls.inequality(*args))
            case "@not_strictly_false":
                return Plan(calls.not_strictly_false(args[0]))
            case "or" | "orValue" if node.target is not None:
                return Plan(calls.fallback(*args, unwrap=node.function == "orValue"))
        overload = node.overloads[0] if len(node.overloads) == 1 else None
        if overload == "in_list" and isinstance(plans[1], Constant):
            quick = calls.constant_membership(args[0], plans[1].value)
            if quick is not None:
                return quick
        if node.function in calls.REGEX_FUNCTIONS and calls.has_constant_pattern(plans):
            return Plan(calls.regex_call(node.function, overload, args))
        evaluate = calls.function_call(node.function, overload, args)
        if node.function in conversions.CONVERSIONS and isinstance(plans[0], Constant):
            return calls.folded(evaluate)
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

        return attribute_of(choose, (yes, no))

    # Constructors

    def _list(self, node: ast.ListExpr) -> Plan:
        plans = [self.plan(element) for element in node.elements]
        optional = node.optional
        if all(isinstance(plan, Constant) for plan in plans) and not optional:
            return constant([plan.value for plan in plans if isinstance(plan, Constant)])
        elements = [plan.evaluate for plan in plans]

        def build(run: Run) -> Value:
            made: list[Value] = []
            for index, element in enumerate(elements):
                value = element(run)
                if type(value) is Failure:
                    run.charge(LIST_COST)
                    return value
                if index in optional:
                    if not isinstance(value, Opt):
                        run.charge(LIST_COST)
                        text = "cannot initialize optional list element from non-optional value"
                        return Failure(f"{text} {show(value)}")
                    made += value.items
                else:
                    made.append(value)
            run.charge(LIST_COST)
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
            return constant(Map(pairs))
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
                    run.charge(MAP_COST)
                    return item
                if optional:
                    if not isinstance(item, Opt):
                        run.charge(MAP_COST)
                        text = (
                            f"cannot initialize optional entry '{show(at)}' from non-optional value"
                        )
                        return Failure(f"{text} {show(item)}")
                    if not item.items:
                        made.drop(at)
                        continue
                    item = item.items[0]
                made.put(at, item)
            run.charge(MAP_COST)
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
        with self._scopes.inner({node.accu_var: _accumulated(accumulator, start)}):
            with self._scopes.inner(node.variables(_slot(first), _slot(second))):
                condition = self.plan(node.condition).evaluate
                step = self.plan(node.step).evaluate
            result = self.plan(node.result).evaluate
        two = node.iter_var2 is not None

        def loop(run: Run) -> Value:
            value = over(run)
            slots = run.slots
            slots[accumulator] = UNSET
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
    """The accumulator, which is initialized on its first read."""

    def read(run: Run) -> Value:
        value = run.slots[index]
        if value is UNSET:
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
    if two:
        return Failure(f"unsupported comprehension range type: {go_type(value)}")
    return Failure(f"got '{go_type(value)}', expected iterable type")
