"""Parses a CEL expression into a syntax tree, with macros expanded."""

from __future__ import annotations

from stowplan.cel import ast, macros
from stowplan.cel.errors import CompileError, Problem, report
from stowplan.cel.tokens import Token, tokenize, unquote, unquote_bytes
from stowplan.cel.values import UInt

MAX_DEPTH = 250

_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_RELATIONS = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
_LEVELS = (_RELATIONS, frozenset({"+", "-"}), frozenset({"*", "/", "%"}))
_FUNCTIONS = {"in": "@in"}
#: Tokens that can start an expression, as ANTLR lists them; after `(` of a call, also `)`.
_LITERALS = "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
_BEGINNING = f"{{'[', '{{', '(', '.', '-', '!', 'true', 'false', 'null', {_LITERALS}}}"
_FIRST_ARGUMENT = f"{{'[', '{{', '(', ')', '.', '-', '!', 'true', 'false', 'null', {_LITERALS}}}"


def parse(source: str) -> ast.Node:
    """The syntax tree. Raises CompileError with all problems."""
    parser = _Parser(source)
    macros.reset_copies()
    try:
        tree = parser.read()
    except _SyntaxProblem as problem:
        parser.problems.append(problem.args[0])
        tree = None
    except _TooDeep as too_deep:
        raise CompileError(f"ERROR: <input>:-1:0: {too_deep}") from None
    if parser.problems or tree is None:
        raise CompileError(report(source, parser.problems))
    return tree


class _SyntaxProblem(Exception):
    """A problem after which parsing cannot continue."""


class _TooDeep(Exception):
    """The expression is nested deeper than cel-go allows."""


def _above(node: ast.Node, *inner: ast.Node, levels: int = 1) -> ast.Node:
    """The node, with its height computed from its parts."""
    node.height = levels + max((one.height for one in inner), default=0)
    if node.height > MAX_DEPTH:
        raise _TooDeep("max recursion depth exceeded")
    return node


class _Parser:
    def __init__(self, source: str) -> None:
        self.problems: list[Problem] = []
        self._tokens = tokenize(source, self.problems)
        self._next = 0
        self._depth = 0

    def read(self) -> ast.Node:
        tree = self._expression()
        if self._peek.kind != "end":
            is_last = self._tokens[self._next + 1].kind == "end"
            raise self._unexpected("<EOF>", "extraneous" if is_last else "mismatched")
        return tree

    # Tokens

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._peek
        return token.text == text and token.kind in ("operator", "keyword")

    def _accept(self, text: str) -> Token | None:
        return self._take() if self._is(text) else None

    def _expect(self, text: str) -> Token:
        if self._is(text):
            return self._take()
        token = self._peek
        if token.kind == "end" and text in ")]}":
            problem = Problem(token.position, f"Syntax error: missing '{text}' at '<EOF>'")
            raise _SyntaxProblem(problem)
        raise self._unexpected(f"'{text}'")

    def _unexpected(self, wanted: str = _BEGINNING, how: str = "mismatched") -> _SyntaxProblem:
        """The problem at the next token, as ANTLR words the usual mistakes."""
        token = self._peek
        message = f"Syntax error: {how} input '{token.text}' expecting {wanted}"
        return _SyntaxProblem(Problem(token.position, message))

    def _complain(self, position: int, message: str) -> ast.Node:
        self.problems.append(Problem(position, message))
        return ast.Literal(position, None)

    # Operators, from the weakest to the strongest

    def _expression(self) -> ast.Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        condition = self._logic("||", "_||_")
        operator = self._accept("?")
        if operator is not None:
            yes = self._logic("||", "_||_")
            self._expect(":")
            no = self._expression()
            parts = [condition, yes, no]
            condition = _above(ast.Call(operator.position, "_?_:_", None, parts), *parts)
        self._depth -= 1
        return condition

    def _logic(self, operator: str, function: str) -> ast.Node:
        """A chain of `||` or `&&`, as a balanced tree."""
        terms = [self._logic("&&", "_&&_") if operator == "||" else self._binary(0)]
        positions: list[int] = []
        while (token := self._accept(operator)) is not None:
            positions.append(token.position)
            terms.append(self._logic("&&", "_&&_") if operator == "||" else self._binary(0))
        return _balance(function, terms, positions)

    def _binary(self, level: int) -> ast.Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek.kind in ("operator", "keyword") and self._peek.text in _LEVELS[level]:
            operator = self._take()
            right = self._binary(level + 1)
            function = _FUNCTIONS.get(operator.text, f"_{operator.text}_")
            left = _above(ast.Call(operator.position, function, None, [left, right]), left, right)
        return left

    def _unary(self) -> ast.Node:
        first = self._peek
        if first.kind != "operator" or first.text not in "!-":
            return self._member()
        following = self._tokens[self._next + 1]
        if first.text == "-" and following.kind in ("int", "float"):
            return self._member()
        count = 0
        while self._accept(first.text) is not None:
            count += 1
        operand = self._member()
        if count % 2 == 0:
            return operand
        return _above(
            ast.Call(first.position, f"{first.text}_", None, [operand]), operand, levels=0
        )

    # Operands

    def _member(self) -> ast.Node:
        node = self._primary()
        while True:
            if (dot := self._accept(".")) is not None:
                node = self._after_dot(node, dot)
            elif (bracket := self._accept("[")) is not None:
                function = "_[?_]" if self._accept("?") is not None else "_[_]"
                index = self._expression()
                self._expect("]")
                node = _above(
                    ast.Call(bracket.position, function, None, [node, index]), node, index
                )
            else:
                return node

    def _after_dot(self, operand: ast.Node, dot: Token) -> ast.Node:
        optional = self._accept("?") is not None
        name = self._peek
        if name.kind == "escaped":
            self._complain(name.position, "unsupported syntax: '`'")
        elif name.kind != "name":
            raise self._unexpected("IDENTIFIER")
        self._take()
        if optional:
            field = ast.Literal(name.position, name.text)
            return _above(ast.Call(dot.position, "_?._", None, [operand, field]), operand)
        opening = self._accept("(")
        if opening is None:
            return _above(ast.Select(dot.position, operand, name.text), operand)
        return self._call(opening.position, name.text, operand)

    def _call(self, position: int, function: str, target: ast.Node | None) -> ast.Node:
        args: list[ast.Node] = []
        if self._peek.kind == "end":
            raise self._unexpected(_FIRST_ARGUMENT)
        if self._accept(")") is None:
            args.append(self._expression())
            while self._accept(",") is not None:
                args.append(self._expression())
            self._expect(")")
        try:
            expanded = macros.expand(position, function, target, args)
        except macros.MacroError as error:
            return self._complain(error.problem.position, error.problem.message)
        call = expanded or ast.Call(position, function, target, args)
        if target is None:
            return _above(call, *args, levels=0)
        return _above(call, target, *args)

    def _primary(self) -> ast.Node:
        token = self._take()
        text = token.text
        if token.kind == "operator":
            match text:
                case "(":
                    node = self._expression()
                    self._expect(")")
                    return node
                case "[":
                    return self._list(token)
                case "{":
                    return self._map(token)
                case "." if self._peek.kind == "name":
                    return self._name(self._take(), ".")
                case "-":
                    return self._literal(self._take(), token)
        elif token.kind == "name":
            return self._name(token, "")
        elif token.kind != "end" and not (token.kind == "keyword" and text == "in"):
            return self._literal(token, None)
        self._next -= 1
        raise self._unexpected()

    def _name(self, token: Token, dot: str) -> ast.Node:
        if token.text in _RESERVED:
            self._complain(token.position, f"reserved identifier: {token.text}")
        opening = self._accept("(")
        if opening is not None:
            return self._call(opening.position, dot + token.text, None)
        return self._struct(token, dot) or ast.Ident(token.position, dot + token.text)

    def _struct(self, first: Token, dot: str) -> ast.Node | None:
        """`Name.of.Type{field: value}`, or None if no brace follows the names."""
        ahead = self._next
        names = [first.text]
        while self._tokens[ahead].text == "." and self._tokens[ahead + 1].kind == "name":
            names.append(self._tokens[ahead + 1].text)
            ahead += 2
        if self._tokens[ahead].text != "{" or self._tokens[ahead].kind != "operator":
            return None
        self._next = ahead + 1
        fields: list[tuple[str, ast.Node]] = []
        while not self._is("}"):
            self._accept("?")
            if self._peek.kind == "escaped":
                self._complain(self._peek.position, "unsupported syntax: '`'")
            elif self._peek.kind != "name":
                raise self._unexpected("IDENTIFIER")
            field = self._take().text
            self._expect(":")
            fields.append((field, self._expression()))
            if self._accept(",") is None:
                break
        self._expect("}")
        made = ast.StructExpr(self._tokens[ahead].position, dot + ".".join(names), fields)
        return _above(made, *(value for _, value in fields), levels=0)

    def _list(self, opening: Token) -> ast.Node:
        elements: list[ast.Node] = []
        optional: set[int] = set()
        while not self._is("]"):
            if elements or not self._is(","):
                if self._accept("?") is not None:
                    optional.add(len(elements))
                elements.append(self._expression())
            if self._accept(",") is None:
                break
            if self._peek.kind == "end":
                self._expect("]")
        if not self._is("]"):
            raise self._unexpected("{']', ','}")
        self._take()
        made = ast.ListExpr(opening.position, elements, frozenset(optional))
        return _above(made, *elements, levels=0)

    def _map(self, opening: Token) -> ast.Node:
        entries: list[ast.Entry] = []
        while not self._is("}"):
            if entries or not self._is(","):
                optional = self._accept("?") is not None
                key = self._expression()
                colon = self._expect(":")
                entries.append(ast.Entry(colon.position, key, self._expression(), optional))
            if self._accept(",") is None:
                break
            if self._peek.kind == "end":
                self._expect("}")
        if not self._is("}"):
            raise self._unexpected("{'}', ','}")
        self._take()
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        return _above(ast.MapExpr(opening.position, entries), *parts, levels=0)

    def _literal(self, token: Token, sign: Token | None) -> ast.Node:
        position = token.position if sign is None else sign.position
        text = ("-" if sign is not None else "") + token.text
        match token.kind:
            case "int" | "uint":
                return self._integer(token.kind, text, position)
            case "float":
                value = float(text)
                if value in (float("inf"), float("-inf")):
                    return self._complain(position, "invalid double literal")
                return ast.Literal(position, value)
            case "keyword":
                return ast.Literal(position, {"true": True, "false": False, "null": None}[text])
        try:
            if token.kind == "bytes":
                return ast.Literal(position, unquote_bytes(text[1:]))
            return ast.Literal(position, unquote(text))
        except ValueError as error:
            return self._complain(position, str(error))

    def _integer(self, kind: str, text: str, position: int) -> ast.Node:
        digits = text.rstrip("uU")
        base = 16 if "0x" in digits else 10
        value = int(digits, base) if len(digits) < 30 else 1 << 70
        if kind == "uint":
            if value >= 1 << 64:
                return self._complain(position, "invalid uint literal")
            return ast.Literal(position, UInt(value))
        if not -(1 << 63) <= value < 1 << 63:
            return self._complain(position, "invalid int literal")
        return ast.Literal(position, value)


def _balance(function: str, terms: list[ast.Node], positions: list[int]) -> ast.Node:
    if len(terms) == 1:
        return terms[0]
    middle = len(positions) // 2
    left = _balance(function, terms[: middle + 1], positions[:middle])
    right = _balance(function, terms[middle + 1 :], positions[middle + 1 :])
    return _above(ast.Call(positions[middle], function, None, [left, right]), left, right, levels=0)
