"""Random expressions over `device`, mostly of matching types, and devices to ask about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.parity.cel import library_expressions as texts

DRIVER = "gpu.example.com"
_DOMAINS = (DRIVER, "other.example.com", "missing.example.com")
_NAMES = ("model", "count", "healthy", "version", "note", "absent")
_STRINGS = ("", "A100", "a1", "H100-80GB", "gpu.example.com", "x y\tz", "äöü", "1.2.3", "10Gi", "7")
_VERSIONS = ("1.2.3", "1.2.3-rc.1", "2.0.0+build", "0.0.1", "10.1.0-alpha")
_QUANTITIES = ("1", "10Gi", "1500m", "0", "-3", "2e3", "40Gi", "0.5")
_PATTERNS = ("A.*", "^[a-z]+$", "[0-9]+", "", "(a|b)*c", "\\\\d{2,}")
_INTS = ("0", "1", "-1", "7", "42", "9223372036854775807", "-9223372036854775808")
_DOUBLES = ("0.0", "1.5", "-2.25", "1e3", "7.0", *texts.DOUBLES)
#: Types of Kubernetes' and Go's libraries.
_LIBRARY = ("address", "network", "url", "format")


class Expressions:
    """Generates by type: `of("int", depth)` is an expression that gives an int, or fails."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._variables: list[tuple[str, str]] = []

    def selector(self) -> str:
        return self.of("bool", self._random.randint(1, 4))

    def of(self, kind: str, depth: int) -> str:
        if self._random.random() < 0.03:
            kind = self._random.choice(
                ("bool", "int", "string", "double", "attribute", "list", *_LIBRARY)
            )
        known = [name for name, of in self._variables if of == kind]
        if known and self._random.random() < 0.3:
            return self._random.choice(known)
        options = getattr(self, f"_{kind}")(max(0, depth - 1), depth <= 0)
        return str(self._random.choice(options)())

    def _pick(self, choices: Sequence[str]) -> str:
        return self._random.choice(choices)

    def _quote(self, text: str) -> str:
        return '"' + text.replace("\t", "\\t") + '"'

    def _text(self, choices: Sequence[str], kind: str, depth: int) -> str:
        """A literal out of the choices or close to one; seldom any text."""
        if depth and self._random.random() < 0.1:
            return self.of(kind, depth)
        return self._quote(texts.changed(self._random, self._pick(choices)))

    def _path(self, kind: str) -> str:
        domain, name = self._pick(_DOMAINS), self._pick(_NAMES)
        dot = self._random.choice((".", ".", ".?")) if kind == "optional" else "."
        if self._random.random() < 0.2 and dot == ".":
            return f'device.attributes["{domain}"]["{name}"]'
        return f'device.attributes["{domain}"]{dot}{name}'

    def _with(self, name: str, kind: str, body: Any) -> str:
        self._variables.append((name, kind))
        try:
            return str(body())
        finally:
            self._variables.pop()

    # Kinds: lists of generators. `d` is what is left of the depth; `flat` asks for a leaf.

    def _attribute(self, d: int, flat: bool) -> list[Any]:
        leaf = [lambda: self._path("attribute")]
        if flat:
            return leaf
        return leaf * 4 + [
            lambda: f"dyn({self.of(self._pick(('int', 'string', 'bool')), d)})",
            lambda: (
                f"({self.of('bool', d)} ? {self.of('attribute', d)} : {self.of('attribute', d)})"
            ),
            lambda: (
                f"cel.bind(b{d}, {self.of('attribute', d)}, "
                + self._with(f"b{d}", "attribute", lambda: self.of("attribute", d))
                + ")"
            ),
        ]

    def _bool(self, d: int, flat: bool) -> list[Any]:
        leaf = [
            lambda: self._pick(("true", "false", "device.allowMultipleAllocations")),
            lambda: f"has({self._path('has')})",
        ]
        if flat:
            return leaf
        both = (
            "int", "string", "double", "attribute", "quantity", "version", "list", "bool",
            *_LIBRARY,
        )  # fmt: skip

        def compared() -> str:
            kind = self._pick(both)
            return f"{self.of(kind, d)} {self._pick(('==', '!='))} {self.of(kind, d)}"

        def ordered() -> str:
            kind = self._pick(("int", "string", "double", "attribute", "attribute"))
            other = self._pick((kind, kind, "int", "string"))
            return f"{self.of(kind, d)} {self._pick(('<', '<=', '>', '>='))} {self.of(other, d)}"

        def loop() -> str:
            name = f"v{d}"
            macro = self._pick(("all", "exists", "exists_one"))
            over = self._pick(("list", "map"))
            body = self._with(
                name, "string" if over == "map" else "int", lambda: self.of("bool", d)
            )
            return f"{self.of(over, d)}.{macro}({name}, {body})"

        def pairs() -> str:
            """A loop with two variables over a map of attributes."""
            macro = self._pick(("all", "exists", "existsOne"))
            body = self._with(
                f"k{d}",
                "string",
                lambda: self._with(f"w{d}", "attribute", lambda: self.of("bool", d)),
            )
            return f"{self.of('map', d)}.{macro}(k{d}, w{d}, {body})"

        return [
            *leaf,
            compared,
            compared,
            pairs,
            ordered,
            ordered,
            loop,
            lambda: f"({self.of('bool', d)} && {self.of('bool', d)})",
            lambda: f"({self.of('bool', d)} || {self.of('bool', d)})",
            lambda: f"!({self.of('bool', d)})",
            lambda: f"({self.of('bool', d)} ? {self.of('bool', d)} : {self.of('bool', d)})",
            lambda: (
                f"{self.of('string', d)}.{self._pick(('contains', 'startsWith', 'endsWith'))}"
                f"({self.of('string', d)})"
            ),
            lambda: f"{self.of('string', d)}.matches({self._quote(self._pick(_PATTERNS))})",
            lambda: f"{self.of('attribute', d)} in {self.of('list', d)}",
            lambda: f"{self.of('string', d)} in {self.of('map', d)}",
            lambda: (
                f"{self.of('quantity', d)}.{self._pick(('isGreaterThan', 'isLessThan'))}"
                f"({self.of('quantity', d)})"
            ),
            lambda: (
                f"{self.of(self._pick(('version', 'attribute')), d)}."
                f"{self._pick(('isGreaterThan', 'isLessThan'))}({self.of('version', d)})"
            ),
            lambda: f"{self.of('optional', d)}.hasValue()",
            lambda: (
                f"sets.{self._pick(('contains', 'equivalent', 'intersects'))}"
                f"({self.of('list', d)}, {self.of('list', d)})"
            ),
            lambda: f"{self.of('list', d)}.isSorted()",
            lambda: f"{self._pick(('isQuantity', 'isSemver'))}({self.of('string', d)})",
            lambda: f"{self.of('address', d)}.{self._pick(texts.TESTS)}()",
            lambda: f"{self._pick(('isIP', 'ip.isCanonical'))}({self._address_text(d)})",
            lambda: f"isCIDR({self._network_text(d)})",
            lambda: f"isURL({self._text(texts.URLS, 'string', d)})",
            lambda: f"{self.of('network', d)}.containsIP({self._either('address', d)})",
            lambda: f"{self.of('network', d)}.containsCIDR({self._either('network', d)})",
            lambda: f"{self._complaints(d)}.hasValue()",
            lambda: f"type({self.of(self._pick(_LIBRARY), d)}) == {self._pick(('net.IP', 'int'))}",
            lambda: f"{self.of('address', d)} in [{self.of('address', d)}]",
            lambda: f"{self.of('address', d)} in {{{self.of('address', d)}: 1}}",
            lambda: f"type({self.of('attribute', d)}) == {self._pick(('int', 'string', 'bool'))}",
        ]

    def _int(self, d: int, flat: bool) -> list[Any]:
        leaf = [lambda: self._pick(_INTS), lambda: str(self._random.randint(-5, 50))]
        if flat:
            return leaf
        return [
            *leaf,
            lambda: (
                f"({self.of('int', d)} {self._pick(('+', '-', '*', '/', '%'))} {self.of('int', d)})"
            ),
            lambda: f"size({self.of(self._pick(('string', 'list', 'map', 'attribute')), d)})",
            lambda: f"int({self.of(self._pick(('string', 'double', 'attribute')), d)})",
            lambda: f"-({self.of('int', d)})",
            lambda: (
                f"{self.of('string', d)}."
                f"{self._pick(('indexOf', 'lastIndexOf'))}({self.of('string', d)})"
            ),
            lambda: f"{self.of('list', d)}.{self._pick(('sum', 'min', 'max'))}()",
            lambda: f"{self.of('list', d)}[{self.of('int', d)}]",
            lambda: f"{self.of('quantity', d)}.compareTo({self.of('quantity', d)})",
            lambda: f"{self.of('quantity', d)}.asInteger()",
            lambda: f"{self.of('version', d)}.{self._pick(('major', 'minor', 'patch'))}()",
            lambda: f"{self.of('optional', d)}.orValue({self.of('int', d)})",
            lambda: f"{self.of('address', d)}.family()",
            lambda: f"{self.of('network', d)}.prefixLength()",
            lambda: f"{self.of('url', d)}.getQuery().size()",
        ]

    def _double(self, d: int, flat: bool) -> list[Any]:
        leaf = [lambda: self._pick(_DOUBLES)]
        if flat:
            return leaf
        return [
            *leaf,
            lambda: f"({self.of('double', d)} {self._pick('+-*/')} {self.of('double', d)})",
            lambda: f"double({self.of(self._pick(('int', 'string')), d)})",
            lambda: f"{self.of('quantity', d)}.asApproximateFloat()",
        ]

    def _string(self, d: int, flat: bool) -> list[Any]:
        leaf = [lambda: self._quote(self._pick(_STRINGS)), lambda: "device.driver"]
        if flat:
            return leaf
        return [
            *leaf,
            *leaf,
            lambda: f"({self.of('string', d)} + {self.of('string', d)})",
            lambda: f"string({self.of(self._pick(('int', 'bool', 'attribute')), d)})",
            lambda: f"{self.of('string', d)}.{self._pick(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda: f"{self.of('string', d)}.substring({self.of('int', 0)})",
            lambda: (
                f"{self.of('string', d)}.replace({self.of('string', d)}, {self.of('string', d)})"
            ),
            lambda: (
                f"{self.of('string', d)}.split({self.of('string', d)}).join({self.of('string', d)})"
            ),
            lambda: f"{self.of('string', d)}.find({self._quote(self._pick(_PATTERNS))})",
            lambda: f"{self.of('string', d)}.charAt({self.of('int', 0)})",
            lambda: f"{self.of('url', d)}.{self._pick(texts.PARTS)}()",
            lambda: f"{self.of('url', d)}.getQuery()['q'][0]",
            lambda: f"string({self.of(self._pick(_LIBRARY[:3]), d)})",
            lambda: f"{self._complaints(d)}.orValue(['']).join()",
            lambda: self._formatted(d),
            lambda: self._formatted(d),
        ]

    def _quantity(self, d: int, flat: bool) -> list[Any]:
        leaf = [
            lambda: f"quantity({self._quote(self._pick(_QUANTITIES))})",
            lambda: f'device.capacity["{self._pick(_DOMAINS)}"].{self._pick(("memory", "cores"))}',
        ]
        if flat:
            return leaf
        return [
            *leaf,
            *leaf,
            lambda: (
                f"{self.of('quantity', d)}.{self._pick(('add', 'sub'))}"
                f"({self.of(self._pick(('quantity', 'int')), d)})"
            ),
            lambda: f"quantity({self.of('string', d)})",
        ]

    def _version(self, d: int, flat: bool) -> list[Any]:
        return [
            lambda: f"semver({self._quote(self._pick(_VERSIONS))})",
            lambda: f'device.attributes["{DRIVER}"].version',
            lambda: f"semver({self.of('string', 0)}, true)",
        ]

    def _address_text(self, d: int) -> str:
        return self._text(texts.ADDRESSES, "string", d)

    def _network_text(self, d: int) -> str:
        choices = [self._pick(texts.ADDRESSES) + length for length in texts.LENGTHS]
        return self._text(choices, "string", d)

    def _either(self, kind: str, d: int) -> str:
        """An address or network, or a text of one."""
        if self._random.random() < 0.5:
            return self.of(kind, d)
        return self._address_text(d) if kind == "address" else self._network_text(d)

    def _formatted(self, d: int) -> str:
        clauses = self._random.choices(list(texts.CLAUSES), k=self._random.randint(0, 3))
        kinds = [texts.CLAUSES[clause] for clause in clauses]
        values = [self.of(self._pick(kind), d) for kind in kinds if kind]
        if self._random.random() < 0.1:
            values = values[1:] or ["1"]
        wrapped = [f"dyn({one})" if self._random.random() < 0.3 else one for one in values]
        text = self._quote(" ".join(clauses) + self._pick(("", "", "", "ä", "%")))
        if self._random.random() < 0.3:
            text = f"dyn({text})"
        return f"{text}.format([{', '.join(wrapped)}])"

    def _complaints(self, d: int) -> str:
        return f"{self.of('format', d)}.validate({self._text(texts.NAMES, 'string', d)})"

    def _address(self, d: int, flat: bool) -> list[Any]:
        leaf = [lambda: f"ip({self._address_text(d)})"]
        return leaf if flat else [*leaf, *leaf, lambda: f"{self.of('network', d)}.ip()"]

    def _network(self, d: int, flat: bool) -> list[Any]:
        return [
            lambda: f"cidr({self._network_text(d)})",
            lambda: f"cidr({self._network_text(d)}).masked()",
        ]

    def _url(self, d: int, flat: bool) -> list[Any]:
        return [lambda: f"url({self._text(texts.URLS, 'string', d)})"]

    def _format(self, d: int, flat: bool) -> list[Any]:
        return [
            lambda: f"format.{self._pick(texts.FORMATS)}()",
            lambda: f"format.named({self._text(texts.FORMATS, 'string', d)}).value()",
        ]

    def _optional(self, d: int, flat: bool) -> list[Any]:
        leaf = [
            lambda: f'device.attributes["{self._pick(_DOMAINS)}"].?{self._pick(_NAMES)}',
            lambda: f'device.attributes[?"{self._pick(_DOMAINS)}"].count',
        ]
        if flat:
            return leaf
        return [
            *leaf,
            *leaf,
            lambda: f"optional.of({self.of('int', d)})",
            lambda: "optional.none()",
            lambda: f"optional.ofNonZeroValue({self.of('int', d)})",
            lambda: f"{self.of('optional', d)}.or({self.of('optional', d)})",
            lambda: f"{self.of('list', d)}[?{self.of('int', d)}]",
            lambda: f"{self.of('list', d)}.{self._pick(('first', 'last'))}()",
            lambda: (
                f"{self.of('optional', d)}.optMap(o{d}, "
                + self._with(f"o{d}", "int", lambda: self.of("int", d))
                + ")"
            ),
        ]

    def _list(self, d: int, flat: bool) -> list[Any]:
        def literal() -> str:
            return (
                "[" + ", ".join(self.of("int", d) for _ in range(self._random.randint(0, 4))) + "]"
            )

        if flat:
            return [literal]

        def mapped(macro: str, kind: str) -> Any:
            name = f"m{d}"
            return lambda: (
                f"{self.of('list', d)}.{macro}({name}, "
                + self._with(name, "int", lambda: self.of(kind, d))
                + ")"
            )

        return [
            literal,
            literal,
            mapped("map", "int"),
            mapped("filter", "bool"),
            mapped("sortBy", "int"),
            lambda: f"({self.of('list', d)} + {self.of('list', d)})",
            lambda: f"{self.of('list', d)}.{self._pick(('distinct', 'reverse', 'sort'))}()",
            lambda: f"{self.of('list', d)}.slice({self.of('int', 0)}, {self.of('int', 0)})",
            lambda: f"lists.range({self._random.randint(-1, 5)})",
            lambda: f"{self.of('list', d)}.transformList(i{d}, j{d}, i{d} + j{d})",
        ]

    def _map(self, d: int, flat: bool) -> list[Any]:
        return [
            lambda: "device.attributes",
            lambda: f'device.attributes["{self._pick(_DOMAINS)}"]',
            lambda: f'{{"a": {self.of("int", d)}, "b": {self.of("int", d)}}}',
            lambda: (
                f'device.attributes["{self._pick(_DOMAINS)}"].transformMap(k, v, k != "model", v)'
            ),
            lambda: f'device.capacity["{self._pick(_DOMAINS)}"].transformMapEntry(k, v, {{k: k}})',
            lambda: f"lists.range({self.of('int', 0)} % 5).transformMap(i, j, i + j)",
        ]


def random_devices(seed: int) -> list[dict[str, Any]]:
    """Four devices; their attributes of one name can have different types."""
    draw = random.Random(seed)
    devices = []
    for _ in range(4):
        attributes: dict[str, Any] = {}
        for name in _NAMES[:5]:
            for domain in ("", "other.example.com/"):
                if draw.random() < 0.6:
                    attributes[domain + name] = draw.choice(_attributes_named(name, draw))
        capacity = {
            name: {"value": draw.choice(_QUANTITIES)}
            for name in ("memory", "other.example.com/cores")
            if draw.random() < 0.7
        }
        devices.append(
            {
                "driver": DRIVER,
                "allowMultipleAllocations": draw.random() < 0.5,
                "attributes": attributes,
                "capacity": capacity,
            }
        )
    return devices


def _attributes_named(name: str, draw: random.Random) -> list[dict[str, Any]]:
    usual: dict[str, dict[str, Any]] = {
        "model": {"string": draw.choice(_STRINGS)},
        "count": {"int": draw.randint(-3, 20)},
        "healthy": {"bool": draw.random() < 0.5},
        "version": {"version": draw.choice(_VERSIONS)},
        "note": {"string": draw.choice(_STRINGS)},
    }
    return [usual[name]] * 4 + list(usual.values())
