"""The syntax tree of a CEL expression.

The parser makes it, with macros expanded; the checker fills in `type` and `overloads`. Nodes are
compared by identity. `position` is the offset in the source that errors point at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.cel.types import ERROR, Type


@dataclass(eq=False, slots=True)
class Node:
    position: int
    type: Type = field(default=ERROR, init=False)
    #: How many operators, selections and calls of methods are nested in it, itself included.
    height: int = field(default=0, init=False)


@dataclass(eq=False, slots=True)
class Literal(Node):
    value: object


@dataclass(eq=False, slots=True)
class Ident(Node):
    name: str
    #: Set by the checker where the name is that of a type: its value.
    constant: object = field(default=None, init=False)


@dataclass(eq=False, slots=True)
class Select(Node):
    operand: Node
    field_name: str
    test_only: bool = False
    #: Set by the checker where the whole chain names a variable or a type, such as
    #: `google.protobuf.Timestamp`.
    resolved: Ident | None = field(default=None, init=False)


@dataclass(eq=False, slots=True)
class Call(Node):
    function: str
    target: Node | None
    args: list[Node]
    overloads: list[str] = field(default_factory=list, init=False)


@dataclass(eq=False, slots=True)
class ListExpr(Node):
    elements: list[Node]
    #: Indices of elements such as `?x`, which are left out if x is optional.none().
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
    """A loop over `iter_range`; what all macros that iterate or bind a name become."""

    iter_range: Node
    iter_var: str
    iter_var2: str | None
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node


def qualified_name(node: Node) -> str | None:
    """`a.b.c` as one name, or None if the node is not such a chain."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field_name)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
