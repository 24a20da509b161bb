"""Macros: calls that become other expressions before types are checked.

Loops (`all`, `map`, ...) and bindings (`cel.bind`, `optMap`) become comprehensions. A macro is
looked up by its name, its number of arguments, and whether it has a receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.cel import ast
from stowplan.cel.errors import Problem

ACCUMULATOR = "@result"
_UNUSED = "#unused"
#: Limit of nodes that macros copy. `optMap` needs its receiver twice, so a chain doubles each time.
# DIVERGES: a selector with more than about ten chained optMap() is refused; cel-go takes twice the
# time for each.
MOST_COPIES = 5_000
_SORT_INPUT = "@__sortBy_input__"


class MacroError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


Expansion = Callable[["int", "ast.Node | None", "Sequence[ast.Node]"], "ast.Node | None"]


def expand(
    position: int, name: str, target: ast.Node | None, args: Sequence[ast.Node]
) -> ast.Node | None:
    """The expression that a call stands for, or None if it is not a macro."""
    macro = _MACROS.get((name, len(args), target is not None))
    return None if macro is None else macro(position, target, args)


class Builder:
    """Makes nodes whose position is that of the macro in the source."""

    def __init__(self, position: int) -> None:
        self.position = position

    def literal(self, value: object) -> ast.Node:
        return ast.Literal(self.position, value)

    def accumulator(self) -> ast.Node:
        return ast.Ident(self.position, ACCUMULATOR)

    def ident(self, name: str) -> ast.Node:
        return ast.Ident(self.position, name)

    def list(self, *elements: ast.Node) -> ast.Node:
        return ast.ListExpr(self.position, [*elements])

    def call(self, function: str, *args: ast.Node) -> ast.Node:
        return ast.Call(self.position, function, None, [*args])

    def method(self, function: str, target: ast.Node, *args: ast.Node) -> ast.Node:
        return ast.Call(self.position, function, target, [*args])

    def loop(
        self,
        over: ast.Node,
        names: tuple[str, str | None],
        start: ast.Node,
        condition: ast.Node,
        step: ast.Node,
        result: ast.Node | None = None,
    ) -> ast.Node:
        return ast.Comprehension(
            self.position, over, *names, ACCUMULATOR, start, condition, step,
            result or self.accumulator(),
        )  # fmt: skip

    def bind(self, name: str, value: ast.Node, body: ast.Node) -> ast.Node:
        """`body` with `name` bound to a value that is computed once, on first use."""
        return ast.Comprehension(
            self.position, self.list(), _UNUSED, None, name, value,
            self.literal(False), self.ident(name), body,
        )  # fmt: skip


def _has(position: int, target: ast.Node | None, args: Sequence[ast.Node]) -> ast.Node | None:
    argument = args[0]
    if not isinstance(argument, ast.Select) or argument.test_only:
        raise MacroError(Problem(argument.position, "invalid argument to has() macro"))
    return ast.Select(position, argument.operand, argument.field_name, True)


def _variables(
    args: Sequence[ast.Node], two: bool, complaint: str = "argument must be a simple name"
) -> tuple[str, str | None]:
    names: list[str] = []
    for argument in args[: 2 if two else 1]:
        if not isinstance(argument, ast.Ident):
            raise MacroError(Problem(argument.position, complaint))
        names.append(argument.name)
    if two and names[0] == names[1]:
        raise MacroError(Problem(args[1].position, f"duplicate variable name: {names[0]}"))
    for argument, name in zip(args, names, strict=False):
        if name in (ACCUMULATOR, "__result__"):
            raise MacroError(
                Problem(argument.position, "iteration variable overwrites accumulator variable")
            )
    return names[0], names[1] if two else None


def _until(decided: bool) -> Expansion:
    """`all` is decided by the first False, `exists` by the first True."""

    def expansion(
        position: int, target: ast.Node | None, args: Sequence[ast.Node]
    ) -> ast.Node | None:
        assert target is not None
        make = Builder(position)
        so_far = make.accumulator()
        return make.loop(
            target,
            _variables(args, len(args) == 3),
            make.literal(not decided),
            make.call("@not_strictly_false", make.call("!_", so_far) if decided else so_far),
            make.call("_||_" if decided else "_&&_", make.accumulator(), args[-1]),
        )

    return expansion


def _exists_one(
    position: int, target: ast.Node | None, args: Sequence[ast.Node]
) -> ast.Node | None:
    assert target is not None
    make = Builder(position)
    one_more = make.call("_+_", make.accumulator(), make.literal(1))
    return make.loop(
        target,
        _variables(args, len(args) == 3),
        make.literal(0),
        make.literal(True),
        make.call("_?_:_", args[-1], one_more, make.accumulator()),
        make.call("_==_", make.accumulator(), make.literal(1)),
    )


def _collect(
    make: Builder, target: ast.Node, names: tuple[str, str | None], step: ast.Node,
    start: ast.Node, condition: ast.Node | None,
) -> ast.Node:  # fmt: skip
    if condition is not None:
        step = make.call("_?_:_", condition, step, make.accumulator())
    return make.loop(target, names, start, make.literal(True), step)


def _map(position: int, target: ast.Node | None, args: Sequence[ast.Node]) -> ast.Node | None:
    assert target is not None
    make = Builder(position)
    names = _variables(args, False, "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    return _collect(make, target, names, step, make.list(), args[1] if len(args) == 3 else None)


def _filter(position: int, target: ast.Node | None, args: Sequence[ast.Node]) -> ast.Node | None:
    assert target is not None
    make = Builder(position)
    names = _variables(args, False, "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[0]))
    return _collect(make, target, names, step, make.list(), args[1])


def _transform(kind: str) -> Expansion:
    """`transformList`, `transformMap` and `transformMapEntry`; with four arguments, the third is a
    filter.
    """

    def expansion(
        position: int, target: ast.Node | None, args: Sequence[ast.Node]
    ) -> ast.Node | None:
        assert target is not None
        make = Builder(position)
        names = _variables(args, True)
        start: ast.Node = ast.MapExpr(position, [])
        if kind == "transformList":
            start = make.list()
            step = make.call("_+_", make.accumulator(), make.list(args[-1]))
        elif kind == "transformMap":
            key = make.ident(names[0])
            step = make.call("cel.@mapInsert", make.accumulator(), key, args[-1])
        else:
            step = make.call("cel.@mapInsert", make.accumulator(), args[-1])
        return _collect(make, target, names, step, start, args[2] if len(args) == 4 else None)

    return expansion


def _bind(position: int, target: ast.Node | None, args: Sequence[ast.Node]) -> ast.Node | None:
    if not (isinstance(target, ast.Ident) and target.name == "cel"):
        return None
    variable = args[0]
    if not isinstance(variable, ast.Ident):
        raise MacroError(
            Problem(variable.position, "cel.bind() variable names must be simple identifiers")
        )
    return Builder(position).bind(variable.name, args[1], args[2])


def _opt_map(flat: bool) -> Expansion:
    def expansion(
        position: int, target: ast.Node | None, args: Sequence[ast.Node]
    ) -> ast.Node | None:
        assert target is not None
        variable = args[0]
        if not isinstance(variable, ast.Ident):
            name = "optFlatMap" if flat else "optMap"
            message = f"{name}() variable name must be a simple identifier"
            raise MacroError(Problem(variable.position, message))
        make = Builder(position)
        body = make.bind(variable.name, make.method("value", copy(target)), args[1])
        return make.call(
            "_?_:_",
            make.method("hasValue", target),
            body if flat else make.call("optional.of", body),
            make.call("optional.none"),
        )

    return expansion


def _sort_by(position: int, target: ast.Node | None, args: Sequence[ast.Node]) -> ast.Node | None:
    assert target is not None
    if isinstance(target, ast.Literal | ast.MapExpr | ast.StructExpr):
        message = (
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression"
        )
        raise MacroError(Problem(target.position, message))
    make = Builder(position)
    keys = _map(position, make.ident(_SORT_INPUT), args)
    assert keys is not None
    call = make.method("@sortByAssociatedKeys", make.ident(_SORT_INPUT), keys)
    return make.bind(_SORT_INPUT, target, call)


class _Copies:
    left = MOST_COPIES


def reset_copies() -> None:
    """Reset the number of copied nodes. Call it before parsing an expression."""
    _Copies.left = MOST_COPIES


def copy(node: ast.Node) -> ast.Node:
    """A deep copy, because the checker writes into nodes. Raises MacroError."""
    _Copies.left -= 1
    if _Copies.left < 0:
        raise MacroError(Problem(node.position, "too many chained optMap() and optFlatMap()"))
    match node:
        case ast.Literal():
            return ast.Literal(node.position, node.value)
        case ast.Ident():
            return ast.Ident(node.position, node.name)
        case ast.Select():
            return ast.Select(node.position, copy(node.operand), node.field_name, node.test_only)
        case ast.Call():
            target = None if node.target is None else copy(node.target)
            return ast.Call(node.position, node.function, target, [copy(arg) for arg in node.args])
        case ast.ListExpr():
            elements = [copy(element) for element in node.elements]
            return ast.ListExpr(node.position, elements, node.optional)
        case ast.MapExpr():
            entries = [
                ast.Entry(entry.position, copy(entry.key), copy(entry.value), entry.optional)
                for entry in node.entries
            ]
            return ast.MapExpr(node.position, entries)
        case ast.StructExpr():
            fields = [(name, copy(value)) for name, value in node.fields]
            return ast.StructExpr(node.position, node.name, fields)
        case ast.Comprehension():
            return ast.Comprehension(
                node.position, copy(node.iter_range), node.iter_var, node.iter_var2, node.accu_var,
                copy(node.accu_init), copy(node.condition), copy(node.step), copy(node.result),
            )  # fmt: skip
    raise TypeError(f"unknown node {node!r}")


#: By name, number of arguments, and whether there is a receiver.
_MACROS: dict[tuple[str, int, bool], Expansion] = {
    ("has", 1, False): _has,
    **{("all", count, True): _until(False) for count in (2, 3)},
    **{("exists", count, True): _until(True) for count in (2, 3)},
    **{
        (name, count, True): _exists_one for name in ("exists_one", "existsOne") for count in (2, 3)
    },
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    **{
        (name, count, True): _transform(name)
        for name in ("transformList", "transformMap", "transformMapEntry")
        for count in (3, 4)
    },
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map(False),
    ("optFlatMap", 2, True): _opt_map(True),
    ("sortBy", 2, True): _sort_by,
}
