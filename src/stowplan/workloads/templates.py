"""Templates of objects: YAML with the little of Go's text/template that scheduler_perf uses.

A file is compiled once into a tree in which only the values that hold an action are computed for
each object, so that thousands of objects cost no parsing. Invariant: `build` gives what upstream's
rendering, its YAML reader and its typed client would have sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from stowplan.errors import ConfigError
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed, text_of
from stowplan.loader.yaml_scalars import plain
from stowplan.loader.yaml_text import compose_yaml
from stowplan.workloads.expressions import BadExpression, Evaluate, as_text, parse

JsonObject: TypeAlias = dict[str, Any]
_Build: TypeAlias = Callable[[int, int], Any]

_ACTION = re.compile(r"\{\{(.*?)\}\}")
_HOLE = re.compile("\ue000(\\d+)\ue001")
#: Kinds that upstream decodes into Go structs before sending them.
_TYPED = frozenset({"Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"})
#: Maps whose keys are data; everywhere else keys are names of fields.
_QUANTITIES = frozenset({"allocatable", "capacity", "limits", "overhead", "requests"})
_MAPS = _QUANTITIES | {"annotations", "labels", "matchLabels", "nodeSelector", "volumeAttributes"}
_QUOTED = frozenset("'\"|>")
_TAG = "tag:yaml.org,2002:"


class Template:
    """A file that describes one object out of many; `build` makes the one with a number.

    `expected` is the kind that it must be, and is if the file does not say.
    """

    def __init__(self, path: Path, *, expected: str = "") -> None:
        self.path = path
        try:
            text = text_of(read_file(path))
        except Malformed as problem:
            raise ConfigError(f"cannot be read: {problem}", where=str(path)) from None
        compiler = _Compiler(path, text)
        top = compiler.top
        self.kind = compiler.plain_text(top, "kind") or expected
        self.api_version = compiler.plain_text(top, "apiVersion") or ("v1" if expected else "")
        if not self.kind or not self.api_version:
            raise ConfigError("apiVersion and kind must be given", where=str(path))
        if expected and self.kind != expected:
            raise ConfigError(f"is a {self.kind}, not a {expected}", where=str(path))
        self._fixed, self._build = compiler.compile(typed=self.kind in _TYPED)

    def __repr__(self) -> str:
        return f"Template({str(self.path)!r})"

    def build(self, index: int, count: int) -> JsonObject:
        """The object number `index` of `count`. Parts are shared: do not change them."""
        if self._fixed is not None:
            return self._fixed
        built: JsonObject = self._build(index, count)
        return built


class _Compiler:
    """One file's text, its actions cut out, as YAML nodes."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._actions: list[Evaluate] = []
        lines = [
            self._without_actions(line, number)
            for number, line in enumerate(text.splitlines(), start=1)
        ]
        try:
            top = compose_yaml("\n".join(lines))
        except Malformed as problem:
            where = f"{path}:{problem.line}" if problem.line else str(path)
            raise ConfigError(f"is not YAML: {problem.reason}", where=where) from None
        if not isinstance(top, MappingNode):
            raise ConfigError("does not describe an object", where=str(path))
        self.top = top
        self._typed = False

    def _without_actions(self, line: str, number: int) -> str:
        def cut(action: re.Match[str]) -> str:
            try:
                self._actions.append(parse(action.group(1)))
            except BadExpression as problem:
                raise ConfigError(str(problem), where=f"{self._path}:{number}") from None
            return f"\ue000{len(self._actions) - 1}\ue001"

        line = _ACTION.sub(cut, line)
        if "{{" in line:
            raise ConfigError("`{{` has no `}}` on its line", where=f"{self._path}:{number}")
        return line

    def plain_text(self, top: MappingNode, name: str) -> str:
        for key, value in top.value:
            if key.value == name and isinstance(value, ScalarNode):
                text: str = value.value
                return text
        return ""

    def compile(self, *, typed: bool) -> tuple[JsonObject | None, _Build]:
        """The object if it is always the same, and what builds it otherwise."""
        self._typed = typed
        build = self._node(self.top, "")
        return (build(0, 1) if not self._actions else None), build

    def _node(self, node: Node, field: str) -> _Build:
        if isinstance(node, MappingNode):
            return self._mapping(node, field)
        if isinstance(node, SequenceNode):
            items = [self._node(item, "") for item in node.value]
            if not any(_varies(item) for item in items):
                return _always([item(0, 1) for item in items])
            return lambda index, count: [item(index, count) for item in items]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, as_it_stands=self._typed and field in _QUANTITIES)

    def _mapping(self, node: MappingNode, field: str) -> _Build:
        free = field in _MAPS
        members: list[tuple[_Build, _Build]] = []
        seen: set[str] = set()
        for key, value in node.value:
            where = f"{self._path}:{key.start_mark.line + 1}"
            if not isinstance(key, ScalarNode) or key.value == "<<":
                raise ConfigError("keys must be plain text", where=where)
            if key.value in seen:
                raise ConfigError(f"`{key.value}` is given twice", where=where)
            seen.add(key.value)
            name: str = key.value
            if self._typed and not free:
                name = name[:1].lower() + name[1:]  # Go's JSON does not mind upper case
            inner = field if free else name
            if self._typed and value.tag == f"{_TAG}null":
                continue  # as if it were absent
            members.append((self._text(name, where), self._node(value, inner)))
        if not any(_varies(part) for member in members for part in member):
            return _always({name(0, 1): value(0, 1) for name, value in members})
        return lambda index, count: {
            name(index, count): value(index, count) for name, value in members
        }

    def _scalar(self, node: ScalarNode, *, as_it_stands: bool) -> _Build:
        text: str = node.value
        where = f"{self._path}:{node.start_mark.line + 1}"
        build = self._text(text, where)
        if as_it_stands or node.style in _QUOTED:
            return build
        if not _varies(build):
            return _always(plain(text))
        return lambda index, count: plain(build(index, count))

    def _text(self, text: str, where: str) -> _Build:
        """Text with its actions' results put in."""
        parts = _HOLE.split(text)
        if len(parts) == 1:
            return _always(text)
        texts, holes = parts[0::2], [self._actions[int(number)] for number in parts[1::2]]

        def filled(index: int, count: int) -> str:
            pieces = [texts[0]]
            try:
                for hole, after in zip(holes, texts[1:], strict=True):
                    pieces += (as_text(hole(index, count)), after)
            except BadExpression as problem:
                made = f"number {index} of {count}: {problem}"
                raise ConfigError(made, where=where) from None
            return "".join(pieces)

        return filled


class _Always:
    """Builds the same thing every time."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self, index: int, count: int) -> Any:
        return self._value


def _always(value: Any) -> _Build:
    return _Always(value)


def _varies(build: _Build) -> bool:
    return not isinstance(build, _Always)
