"""The syntax tree of a CEL expression.

The parser builds it and expands macros; the checker sets `type` and `overloads`. Nodes compare by
identity. `position` is the offset in the source that errors point at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from stowplan.cel.types import ERROR, Type

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Node:
    position: int
    type: Type = field(default=ERROR, init=False)
    #: Nesting depth of operators, selections and method calls, this node included.
    height: int = field(default=0, init=False)


@dataclass(eq=False, slots=True)
class Literal(Node):
    value: object


@dataclass(eq=False, slots=True)
class Ident(Node):
    name: str
    #: The type's value, set by the checker if the name is that of a type.
    constant: object = field(default=None, init=False)


@dataclass(eq=False, slots=True)
class Select(Node):
    operand: Node
    field_name: str
    test_only: bool = False
    #: Set by the checker if the whole chain names a variable or a type, such as
    #: `google.protobuf.Timestamp`.
    resolved: Ident | None = field(default=None, init=False)


@dataclass(eq=False, slots=True)
class Call(Node):
    function: str
    target: Node | None
    args: list[Node]
    overloads: list[str] = field(default_factory=list, init=False)

    @property
    def operands(self) -> list[Node]:
        """The receiver, if there is one, and the arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(eq=False, slots=True)
class ListExpr(Node):
    elements: list[Node]
    #: Indices of elements such as `?x`, which are omitted if x is optional.none().
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class Entry:
    position: int
    key: Node
    value: Node
    optional: bool


@dataclass(eq=False, slots=True)
class MapExpr(Node):
    entries: list[Entry]


@dataclass(eq=False, slots=True)
class StructExpr(Node):
    name: str
    fields: list[tuple[str, Node]]


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """A loop over `iter_range`. Macros that iterate or bind a name expand to it."""

    iter_range: Node
    iter_var: str
    iter_var2: str | None
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node

    def variables(self, first: T, second: T) -> dict[str, T]:
        """The one or two loop variables, by name."""
        names = [self.iter_var] if self.iter_var2 is None else [self.iter_var, self.iter_var2]
        return dict(zip(names, (first, second), strict=False))


def children(node: Node) -> list[Node]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands
        case ListExpr():
            return node.elements
        case MapExpr():
            return [one for entry in node.entries for one in (entry.key, entry.value)]
        case Comprehension():
            return [
                node.iter_range, node.accu_init, node.condition, node.step, node.result,
            ]  # fmt: skip
    return []


def qualified_name(node: Node) -> str | None:
    """`a.b.c` as one name, or None if the node is not such a chain."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field_name)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
