"""Type checker: finds undeclared names and type errors, and resolves overloads of calls."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.cel import ast
from stowplan.cel.declarations import FUNCTIONS, Function
from stowplan.cel.errors import CompileError, Problem, report
from stowplan.cel.scopes import Scopes
from stowplan.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Substitutions,
    Type,
    list_of,
    map_of,
    most_general,
    optional_of,
    parse_type,
    type_of,
)
from stowplan.cel.validators import validate
from stowplan.cel.values import TypeValue, UInt

_LITERALS = {
    bool: BOOL, int: INT, UInt: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip
#: Types by their names in expressions.
_TYPE_NAMES = {
    name: parse_type(text)
    for name, text in {
        "bool": "bool", "bytes": "bytes", "double": "double", "int": "int", "uint": "uint",
        "string": "string", "null_type": "null_type", "list": "list('A)", "map": "map('A, 'B)",
        "type": "type", "optional_type": "optional_type('V)",
        "google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp",
        "net.IP": "net.IP", "net.CIDR": "net.CIDR",
    }.items()
}  # fmt: skip


class Environment:
    """Variables and the fields of their types."""

    def __init__(
        self, variables: Mapping[str, Type], fields: Mapping[str, Mapping[str, Type]]
    ) -> None:
        self.variables = variables
        self.fields = fields


def check(source: str, tree: ast.Node, environment: Environment) -> Type:
    """The type of the expression. Sets the types of all nodes; raises CompileError."""
    checker = _Checker(environment)
    checker.check(tree)
    if checker.problems:
        raise CompileError(report(source, checker.problems))
    checker.finish(tree)
    validate(source, tree)
    return tree.type


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self.problems: list[Problem] = []
        self.known = Substitutions()
        self._environment = environment
        self._scopes = Scopes(environment.variables)

    def check(self, node: ast.Node) -> Type:
        """Set the type of a node and of all nodes below it."""
        match node:
            case ast.Literal():
                node.type = _LITERALS[type(node.value)]
            case ast.Ident():
                node.type = self._ident(node, node.name) or self._undeclared(node, node.name)
            case ast.Select():
                node.type = self._select(node)
            case ast.Call():
                node.type = self._call(node)
            case ast.ListExpr():
                node.type = self._list(node)
            case ast.MapExpr():
                node.type = self._map(node)
            case ast.StructExpr():
                node.type = self._struct(node)
            case ast.Comprehension():
                node.type = self._comprehension(node)
        return node.type

    def finish(self, node: ast.Node) -> None:
        """Write the final types into the nodes, once all types are known."""
        node.type = self.known.substitute(node.type, params_to_dyn=True)
        for child in ast.children(node):
            self.finish(child)

    def _complain(self, node: ast.Node | ast.Entry, message: str) -> Type:
        self.problems.append(Problem(node.position, message))
        return ERROR

    def _mismatch(self, node: ast.Node, expected: Type, found: Type) -> Type:
        return self._complain(node, f"expected type '{expected}' but found '{found}'")

    def _undeclared(self, node: ast.Node, name: str) -> Type:
        return self._complain(node, f"undeclared reference to '{name}' (in container '')")

    # Names

    def _ident(self, ident: ast.Ident, name: str) -> Type | None:
        name = name.removeprefix(".")
        found = self._scopes.find(name)
        if found is not None:
            ident.name = name
            return found
        named = _TYPE_NAMES.get(name)
        if named is None:
            return None
        ident.name, ident.constant = name, TypeValue(name)
        return type_of(named)

    def _select(self, node: ast.Select) -> Type:
        name = ast.qualified_name(node)
        if name is not None:
            ident = ast.Ident(node.position, name)
            found = self._ident(ident, name)
            if found is not None:
                ident.type = found
                node.resolved = ident
                return found
        result = self._field(node, node.operand, node.field_name, optional=False)
        return BOOL if node.test_only else self.known.substitute(result)

    def _field(self, node: ast.Node, operand: ast.Node, name: str, *, optional: bool) -> Type:
        target = self.known.substitute(self.check(operand))
        if target.name == "optional_type":
            target, optional = target.params[0], True
        if target.name == "map":
            result = target.params[1]
        elif target.name in self._environment.fields:
            fields = self._environment.fields[target.name]
            result = fields.get(name) or self._complain(node, f"undefined field '{name}'")
        elif target.is_param:
            self.known.assign([DYN], [target])
            result = DYN
        else:
            result = DYN
            if not target.is_dyn and not target.is_error:
                self._complain(node, f"type '{target}' does not support field selection")
        return optional_of(result) if optional else result

    # Calls

    def _call(self, node: ast.Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, ast.Literal)
            field.type = STRING
            result = self._field(node, node.args[0], str(field.value), optional=True)
            node.overloads = ["select_optional_field"]
            return self.known.substitute(result)
        for argument in node.args:
            self.check(argument)
        if node.target is None:
            name = node.function.removeprefix(".")
            function = FUNCTIONS.get(name)
            if function is None:
                return self._undeclared(node, node.function)
            node.function = name
            return self._overload(node, function, node.args)
        prefix = ast.qualified_name(node.target)
        if prefix is not None:
            function = FUNCTIONS.get(f"{prefix.removeprefix('.')}.{node.function}")
            if function is not None:
                node.target, node.function = None, function.name
                return self._overload(node, function, node.args)
        self.check(node.target)
        function = FUNCTIONS.get(node.function)
        if function is None:
            return self._undeclared(node, node.function)
        return self._overload(node, function, node.operands)

    def _overload(self, node: ast.Call, function: Function, args: list[ast.Node]) -> Type:
        types = [argument.type for argument in args]
        if function.name in ("_&&_", "_||_"):
            return self._logic(node, args)
        result: Type | None = None
        for overload in function.overloads:
            if overload.is_member != (node.target is not None):
                continue
            wanted, *rest = self.known.instantiate([overload.result, *overload.args])
            if not self.known.assign(types, rest):
                continue
            node.overloads.append(overload.name)
            wanted = self.known.substitute(wanted)
            if result is None:
                result = wanted
            elif not result.is_dyn and wanted != result:
                result = DYN
        if result is not None:
            return result
        shown = [str(self.known.substitute(one, params_to_dyn=True)) for one in types]
        receiver = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{receiver}({', '.join(shown)})"
        return self._complain(
            node, f"found no matching overload for '{function.name}' applied to '{signature}'"
        )

    def _logic(self, node: ast.Call, args: list[ast.Node]) -> Type:
        node.overloads = ["logical_and" if node.function == "_&&_" else "logical_or"]
        result = BOOL
        for argument in args:
            if not self.known.assign([argument.type], [BOOL]):
                result = self._mismatch(argument, BOOL, argument.type)
        return result

    # Constructors

    def _list(self, node: ast.ListExpr) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            found = self.check(element)
            if index in node.optional:
                found = self._unwrapped(element, found)
            joined = self._join(joined, found)
        return list_of(joined or self.known.new_param())

    def _map(self, node: ast.MapExpr) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self._unwrapped(entry.value, found)
            values = self._join(values, found)
        return map_of(keys or self.known.new_param(), values or self.known.new_param())

    def _unwrapped(self, node: ast.Node, found: Type) -> Type:
        if found.name == "optional_type":
            return found.params[0]
        if not found.is_dyn:
            self._mismatch(node, optional_of(found), found)
        return found

    def _join(self, previous: Type | None, current: Type) -> Type:
        """The common type, or dyn. `validators` reports types that differ."""
        if previous is None:
            return current
        if self.known.assign([previous], [current]):
            return most_general(previous, current)
        return DYN

    def _struct(self, node: ast.StructExpr) -> Type:
        """No type of this environment can be constructed."""
        name = node.name.removeprefix(".")
        found = self._ident(ast.Ident(node.position, name), name)
        if found is None:
            return self._undeclared(node, node.name)
        for _, value in node.fields:
            self.check(value)
        if found.name != "type":
            return self._complain(node, f"'{found}' is not a type")
        return self._complain(node, f"'{found.params[0].name}' is not a message type")

    def _comprehension(self, node: ast.Comprehension) -> Type:
        over = self.known.substitute(self.check(node.iter_range))
        accumulated = self.check(node.accu_init)
        first, second = self._loop_types(node, over)
        with self._scopes.inner({node.accu_var: accumulated}):
            with self._scopes.inner(node.variables(first, second)):
                self._assert(node.condition, BOOL)
                self._assert(node.step, accumulated)
            self.check(node.result)
        return self.known.substitute(node.result.type)

    def _loop_types(self, node: ast.Comprehension, over: Type) -> tuple[Type, Type]:
        if over.name == "list":
            element = over.params[0]
            return (element, element) if node.iter_var2 is None else (INT, element)
        if over.name == "map":
            return over.params[0], over.params[1]
        if over.name == "dyn" or over.is_error or over.is_param:
            self.known.assign([DYN], [over])
            return DYN, DYN
        self._complain(
            node.iter_range,
            f"expression of type '{over}' cannot be range of a comprehension (must be list, map, "
            "or dynamic)",
        )
        return ERROR, ERROR

    def _assert(self, node: ast.Node, expected: Type) -> None:
        found = self.check(node)
        if not self.known.assign([expected], [found]):
            self._mismatch(node, expected, found)
