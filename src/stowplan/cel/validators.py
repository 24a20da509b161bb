"""Checks of literals that Kubernetes adds to the checks of the language."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.cel import ast
from stowplan.cel.conversions import text_to_duration, text_to_timestamp
from stowplan.cel.errors import CompileError, Failure, Problem, report
from stowplan.cel.formatting import wrong_clause
from stowplan.cel.regex import compiled_regex
from stowplan.cel.types import Type

#: Lists inside these calls may mix types.
_MIXED = frozenset({"format"})


def validate(source: str, tree: ast.Node) -> None:
    """Raises CompileError for duration, timestamp and regex literals that cannot be read, and for
    lists and maps of mixed types.
    """
    problems = [*_literals(tree), *_aggregates(tree), *_formats(tree)]
    if problems:
        raise CompileError(report(source, problems))


def _is_bad_duration(text: str) -> bool:
    return isinstance(text_to_duration(text), Failure)


def _is_bad_timestamp(text: str) -> bool:
    return isinstance(text_to_timestamp(text), Failure)


def _is_bad_regex(text: str) -> bool:
    return isinstance(compiled_regex(text), str)


#: By function: the index of the argument, and its check.
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


def _formats(tree: ast.Node) -> Iterator[Problem]:
    for node, _ in _walk(tree, exempt=False):
        if (
            isinstance(node, ast.Call)
            and node.overloads == ["string_format"]
            and isinstance(node.target, ast.Literal)
            and isinstance(node.args[0], ast.ListExpr)
        ):
            wrong = wrong_clause(node)
            if wrong is not None:
                yield Problem(*wrong)


def _aggregates(tree: ast.Node) -> Iterator[Problem]:
    for node, exempt in _walk(tree, exempt=False):
        if exempt:
            continue
        if isinstance(node, ast.ListExpr):
            yield from _mixed(
                [(one, index in node.optional) for index, one in enumerate(node.elements)],
                first_only=True,
            )
        elif isinstance(node, ast.MapExpr):
            yield from _mixed([(entry.key, False) for entry in node.entries])
            yield from _mixed([(entry.value, entry.optional) for entry in node.entries])


def _mixed(
    elements: list[tuple[ast.Node, bool]],
    *,
    first_only: bool = False,
) -> Iterator[Problem]:
    expected: Type | None = None
    for node, optional in elements:
        found = node.type
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
    for child in ast.children(node):
        yield from _walk(child, exempt=exempt)
