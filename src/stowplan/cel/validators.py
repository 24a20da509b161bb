"""Checks of literals that Kubernetes adds to those of the language."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.cel import ast
from stowplan.cel.conversions import text_to_duration, text_to_timestamp
from stowplan.cel.errors import CompileError, Failure, Problem, report
from stowplan.cel.regex import compiled_regex
from stowplan.cel.types import Type

#: Lists inside of these calls may mix types.
_MIXED = frozenset({"format"})


def validate(source: str, tree: ast.Node, known: Callable[[Type], Type]) -> None:
    """Raises CompileError for duration, timestamp and regex literals that cannot be read, and for
    lists and maps of mixed types. `known` gives the final form of a node's type.
    """
    problems = [*_literals(tree), *_aggregates(tree, known)]
    if problems:
        raise CompileError(report(source, problems))


def _is_bad_duration(text: str) -> bool:
    return isinstance(text_to_duration(text), Failure)


def _is_bad_timestamp(text: str) -> bool:
    return isinstance(text_to_timestamp(text), Failure)


def _is_bad_regex(text: str) -> bool:
    return isinstance(compiled_regex(text), str)


#: By function: which argument, and whether it is wrong.
_CHECKS: dict[str, tuple[int, Callable[[str], bool]]] = {
    "duration": (0, _is_bad_duration),
    "timestamp": (0, _is_bad_timestamp),
    "matches": (0, _is_bad_regex),
}


def _literals(tree: ast.Node) -> Iterator[Problem]:
    for node, _ in _walk(tree, exempt=False):
        if not isinstance(node, ast.Call) or node.function not in _CHECKS:
            continue
        index, is_bad = _CHECKS[node.function]
        if node.function == "matches" and node.target is None:
            index = 1
        argument = node.args[index] if index < len(node.args) else None
        if not isinstance(argument, ast.Literal) or not isinstance(argument.value, str):
            continue
        if is_bad(argument.value):
            yield Problem(argument.position, f"invalid {node.function} argument")


def _aggregates(tree: ast.Node, known: Callable[[Type], Type]) -> Iterator[Problem]:
    for node, exempt in _walk(tree, exempt=False):
        if exempt:
            continue
        if isinstance(node, ast.ListExpr):
            yield from _mixed(
                [(one, index in node.optional) for index, one in enumerate(node.elements)],
                known,
                first_only=True,
            )
        elif isinstance(node, ast.MapExpr):
            yield from _mixed([(entry.key, False) for entry in node.entries], known)
            yield from _mixed([(entry.value, entry.optional) for entry in node.entries], known)


def _mixed(
    elements: list[tuple[ast.Node, bool]],
    known: Callable[[Type], Type],
    *,
    first_only: bool = False,
) -> Iterator[Problem]:
    expected: Type | None = None
    for node, optional in elements:
        found = known(node.type)
        if optional and found.params:
            found = found.params[0]
        if expected is None:
            expected = found
        elif not _equivalent(expected, found):
            yield Problem(node.position, f"expected type '{expected}' but found '{found}'")
            if first_only:
                return


def _equivalent(one: Type, other: Type) -> bool:
    return one == other


def _walk(node: ast.Node, *, exempt: bool) -> Iterator[tuple[ast.Node, bool]]:
    yield node, exempt
    if isinstance(node, ast.Call) and node.function in _MIXED:
        exempt = True
    for child in _children(node):
        yield from _walk(child, exempt=exempt)


def _children(node: ast.Node) -> list[ast.Node]:
    match node:
        case ast.Select():
            return [node.operand]
        case ast.Call():
            return [*([] if node.target is None else [node.target]), *node.args]
        case ast.ListExpr():
            return node.elements
        case ast.MapExpr():
            return [one for entry in node.entries for one in (entry.key, entry.value)]
        case ast.Comprehension():
            return [
                node.iter_range, node.accu_init, node.condition, node.step, node.result,
            ]  # fmt: skip
    return []
