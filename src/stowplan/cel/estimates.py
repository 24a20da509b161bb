"""The worst-case cost of a selector, from its checked tree alone.

kube-apiserver rejects claims and classes with selectors whose estimate exceeds the limit. The API
bounds the contents of `device` (`_DEVICE`). A chain of selections is a path into it, which gives
the size of the selected value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.cel import ast
from stowplan.cel.call_estimates import Operand, estimate
from stowplan.cel.cost_rules import LIST_COST, MAP_COST
from stowplan.cel.macros import ACCUMULATOR
from stowplan.cel.scopes import Scopes
from stowplan.cel.spans import EMPTY, NOTHING, ONE, UNKNOWN, Span, exactly
from stowplan.cel.types import Type

Path = tuple[str, ...]
_SCALARS = frozenset(
    {"bool", "double", "int", "uint", "google.protobuf.Duration", "google.protobuf.Timestamp"}
)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The maximum size of a value of a device, and the bounds of its parts."""

    most: int
    keys: _Bounds | None = None
    values: _Bounds | None = None
    fields: dict[str, _Bounds] = field(default_factory=dict)


_ATTRIBUTE = _Bounds(64)
_DOMAIN, _IDENT = _Bounds(63), _Bounds(32)
_DEVICE = _Bounds(
    0,
    fields={
        "driver": _Bounds(63),
        "allowMultipleAllocations": _Bounds(1),
        "attributes": _Bounds(32, _DOMAIN, _Bounds(32, _IDENT, _ATTRIBUTE)),
        "capacity": _Bounds(32, _DOMAIN, _Bounds(32, _IDENT, _Bounds(0))),
    },
)


def _size_at(path: Path) -> Span | None:
    if not path or path[0] != "device":
        return None
    found = _DEVICE
    for step in path[1:]:
        inner: _Bounds | None
        if step in ("@items", "@values"):
            inner = found.values
        elif step == "@keys":
            inner = found.keys
        else:
            inner = found.fields.get(step)
            if inner is None and found.values is _ATTRIBUTE:
                inner = _ATTRIBUTE
        if inner is None:
            return None
        found = inner
    return Span(0, found.most)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Sizes of the keys and values of a list or a map."""

    is_list: bool
    key: Span
    value: Span

    def either(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.key.either(other.key), self.value.either(other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Span | None
    entries: _Entries | None = None


def estimated_cost(tree: ast.Node) -> int:
    """The most that an evaluation of a checked expression can cost."""
    return _Estimator().cost(tree).most


class _Estimator:
    def __init__(self) -> None:
        self._paths: dict[ast.Node, Path] = {}
        self._sizes: dict[ast.Node, Span] = {}
        self._entries: dict[ast.Node, _Entries] = {}
        self._scopes = Scopes[_Local]()

    def cost(self, node: ast.Node) -> Span:
        match node:
            case ast.Ident():
                local = self._local(node)
                self._paths[node] = (node.name,) if local is None else local.path
                return ONE
            case ast.Select():
                return self._select(node)
            case ast.Call():
                return self._call(node)
            case ast.ListExpr():
                return self._list(node)
            case ast.MapExpr():
                return self._map(node)
            case ast.Comprehension():
                return self._bind(node) if _is_bind(node) else self._loop(node)
        return NOTHING

    # What is known of a node

    def _local(self, node: ast.Node) -> _Local | None:
        return self._scopes.find(node.name) if isinstance(node, ast.Ident) else None

    def _path(self, node: ast.Node) -> Path:
        local = self._local(node)
        return self._paths.get(node, ()) if local is None else local.path

    def _size(self, node: ast.Node) -> Span | None:
        known = self._sizes.get(node) or _literal_size(node)
        if known is not None:
            return known
        known = _size_at(self._path(node))
        if known is not None:
            self._sizes[node] = known
            return known
        if _is_scalar(node.type):
            return ONE
        local = self._local(node)
        return None if local is None else local.size

    def _entries_of(self, node: ast.Node) -> _Entries | None:
        known = self._entries.get(node)
        local = self._local(node)
        return known if known is not None or local is None else local.entries

    def _resize(self, node: ast.Node, size: Span | None, entries: _Entries | None = None) -> None:
        if size is not None:
            self._sizes[node] = size
        if entries is not None:
            self._entries[node] = entries

    def _operand(self, node: ast.Node) -> Operand:
        item = _size_at((*self._path(node), "@items"))
        return Operand(node, node.type, self._size(node), item or UNKNOWN)

    # Costs

    def _select(self, node: ast.Select) -> Span:
        if node.resolved is not None:
            return self.cost(node.resolved)
        total = self.cost(node.operand)
        if node.test_only:
            return total
        of = node.operand.type.name
        if of == "map" or of.startswith("kubernetes."):
            total += ONE
        self._paths[node] = (*self._path(node.operand), node.field_name)
        return total

    def _call(self, node: ast.Call) -> Span:
        if node.function == "dyn":
            total = self.cost(node.args[0]) + ONE
            self._resize(node, self._size(node.args[0]), self._entries_of(node.args[0]))
            return total
        costs = [self.cost(argument) for argument in node.args]
        total = NOTHING if node.target is None else self.cost(node.target)
        operands = [self._operand(one) for one in node.operands]
        arguments = sum(costs, NOTHING)
        dearest, size = EMPTY, None
        for overload in node.overloads:
            if overload in ("logical_and", "logical_or"):
                cost, result = Span(costs[0].least, (costs[0] + costs[1]).most), None
            elif overload == "conditional":
                cost = costs[0] + costs[1].either(costs[2])
                result = operands[1].size.either(operands[2].size)
                self._join_entries(node, node.args[1], node.args[2])
            else:
                found = estimate(node.function, overload, operands)
                cost, result = (ONE, None) if found is None else found
                cost += arguments
                if overload in ("add_list", "add_string", "add_bytes"):
                    self._join_entries(node, *node.args)
            dearest = dearest.either(cost)
            if result is not None:
                size = result if size is None else size.either(result)
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(node.args[0])
                size = None if entries is None else entries.value
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node] = (*self._path(node.args[0]), step)
            size = self._size(node) if size is None else size
        self._resize(node, size)
        return total + dearest

    def _join_entries(self, node: ast.Node, one: ast.Node, other: ast.Node) -> None:
        mine, theirs = self._entries_of(one), self._entries_of(other)
        if mine is not None and theirs is not None:
            self._entries[node] = mine.either(theirs)

    def _list(self, node: ast.ListExpr) -> Span:
        total, item = exactly(LIST_COST), EMPTY if node.elements else NOTHING
        for element in node.elements:
            total += self.cost(element)
            item = item.either(self._size(element) or UNKNOWN)
        self._entries[node] = _Entries(True, ONE, item)
        return total

    def _map(self, node: ast.MapExpr) -> Span:
        total, key = exactly(MAP_COST), EMPTY if node.entries else NOTHING
        value = key
        for entry in node.entries:
            total += self.cost(entry.key) + self.cost(entry.value)
            key = key.either(self._size(entry.key) or UNKNOWN)
            value = value.either(self._size(entry.value) or UNKNOWN)
        self._entries[node] = _Entries(False, key, value)
        return total

    # Loops

    def _known(self, node: ast.Node) -> _Local:
        return _Local(self._path(node), self._size(node), self._entries_of(node))

    def _bind(self, node: ast.Comprehension) -> Span:
        total = self.cost(node.iter_range) + self.cost(node.accu_init)
        with self._scopes.inner({node.accu_var: self._known(node.accu_init)}):
            total += self.cost(node.result)
        self._resize(node, self._size(node.result), self._entries_of(node.result))
        return total

    def _loop(self, node: ast.Comprehension) -> Span:
        over = node.iter_range
        total = self.cost(over) + self.cost(node.accu_init)
        with self._scopes.inner({node.accu_var: self._known(node.accu_init)}):
            with self._scopes.inner(self._loop_variables(node)):
                each = self.cost(node.condition) + self.cost(node.step)
            total += self.cost(node.result)
        count = self._size(over) or UNKNOWN
        if isinstance(node.accu_init, ast.Literal):
            self._resize(node, self._size(node.accu_init))
        elif isinstance(node.accu_init, ast.ListExpr | ast.MapExpr):
            self._resize(node, count, self._entries_of(node.step))
        return total + count * each

    def _loop_variables(self, node: ast.Comprehension) -> dict[str, _Local]:
        over = node.iter_range
        entries, path = self._entries_of(over), self._path(over)
        is_list = over.type.name == "list" if entries is None else entries.is_list
        sizes = (None, None) if entries is None else (entries.key, entries.value)
        key = _Local((*path, "@indices" if is_list else "@keys"), sizes[0])
        value = _Local((*path, "@items" if is_list else "@values"), sizes[1])
        if node.iter_var2 is None:
            return {node.iter_var: value if is_list else key}
        if len(path) & (len(path) - 1):
            # Upstream, both paths share their last step in memory.
            key = _Local(value.path, key.size)
        return {node.iter_var: key, node.iter_var2: value}


def _is_bind(node: ast.Comprehension) -> bool:
    return (
        isinstance(node.iter_range, ast.ListExpr)
        and not node.iter_range.elements
        and isinstance(node.condition, ast.Literal)
        and node.condition.value is False
        and node.accu_var != ACCUMULATOR
    )


def _literal_size(node: ast.Node) -> Span | None:
    match node:
        case ast.Literal():
            return exactly(len(node.value) if isinstance(node.value, str | bytes) else 1)
        case ast.ListExpr():
            return exactly(len(node.elements))
        case ast.MapExpr():
            return exactly(len(node.entries))
    return None


def _is_scalar(of: Type) -> bool:
    if of.name == "optional_type":
        return _is_scalar(of.params[0])
    return of.name in _SCALARS
