"""YAML to values, as sigs.k8s.io/yaml turns it into JSON, within limits.

Values are built from the parser's events without recursion: PyYAML's own composer ends the process
on deep input, and its constructor knows dates, sets and bytes, which JSON does not. The parser is
libyaml's, whose messages are those of kubectl.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, NamedTuple

import yaml

from stowplan.loader.json_text import load_json
from stowplan.loader.malformed import LIMITS, Limits, Malformed, at_byte, text_of
from stowplan.loader.yaml_scalars import plain

_Parser: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final[dict[str, Any]] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}
_TEXTS: Final = ("str", "timestamp", "!")
_NUMBER: Final = re.compile(r"[-+]?[.\d][.\d_]*([eE][-+]?\d+)?|[-+]?0[xob][\da-f_]+", re.IGNORECASE)
_SECOND: Final = "expected a single document, but found another document"


class Repeated(NamedTuple):
    """A key that a mapping has twice."""

    path: str
    name: str
    first_line: int
    line: int
    column: int


class Located(dict[str, Any]):
    """A mapping that knows its line, and that of each of its keys."""

    line = 0

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class How:
    """How to read."""

    limits: Limits = LIMITS
    #: Mappings are `Located`, and keys are text as it is written: a field may be called `on`.
    located: bool = False
    #: Collects keys that a mapping has twice; the last one counts, as for kubectl.
    repeated: list[Repeated] | None = None
    #: Accept any tag, for `compose_yaml`.
    any_tag: bool = False


def load_yaml(data: bytes | str, how: How = How()) -> Any:  # noqa: B008  is immutable
    """The value of the only document; None if there is none."""
    first, *others = _documents(data, how, most=2) or [_Document(None, 0)]
    if others:
        raise Malformed(_SECOND, others[0].line, 1)
    return first.value


def load_yaml_all(data: bytes | str, how: How = How()) -> list[Any]:  # noqa: B008  is immutable
    """The values of all documents but empty ones."""
    return [each.value for each in _documents(data, how) if each.value is not None]


def load_all(data: bytes, limits: Limits) -> list[Any]:
    """All documents but empty ones, of JSON or YAML: a YAML parser takes minutes for large JSON."""
    if data.lstrip().startswith(b"{"):
        try:
            return [load_json(data, limits=limits)]
        except Malformed:
            pass  # several documents, or YAML in flow style
    return load_yaml_all(data, How(limits))


def check_yaml(data: bytes | str) -> None:
    """Raise Malformed unless PyYAML's recursive composer can read the text without harm.

    For readers that give tags a meaning of their own.
    """
    load_yaml(data, How(any_tag=True))


def compose_yaml(data: bytes | str) -> yaml.Node | None:
    """The only document as PyYAML's nodes."""
    check_yaml(data)
    composed: yaml.Node | None = _Parser(data).get_single_node()
    return composed


def dump_yaml(value: Any, *, sort_keys: bool = False) -> str:
    """YAML that `load_yaml`, kubectl and PyYAML all read as the same value."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True)
    return text


#: Characters that YAML 1.1 takes for line breaks.
_LINE_BREAKS: Final = frozenset("\x85\u2028\u2029")


class _Dumper(yaml.SafeDumper):
    """Quotes text that PyYAML takes for text and go-yaml does not, such as `y` and `1e3`."""

    def represent_text(self, text: str) -> yaml.Node:
        style = None if plain(text) is text else "'"
        if not _LINE_BREAKS.isdisjoint(text):
            style = '"'  # PyYAML would break the line there
        return self.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


class _Document(NamedTuple):
    value: Any
    line: int


def _documents(data: bytes | str, how: How, most: int = 1 << 31) -> list[_Document]:
    text = text_of(data) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > how.limits.size:
        raise Malformed(f"is larger than {how.limits.size >> 20} MiB")
    found: list[_Document] = []
    try:
        parser = _Parser(encoded)
        try:
            while len(found) < most and parser.check_event():
                event: Any = parser.get_event()
                line = event.start_mark.line + 1
                if type(event) is yaml.DocumentStartEvent:
                    found.append(_Document(_Builder(parser, how).build(), line))
        finally:
            parser.dispose()
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        assert mark is not None  # libyaml knows one of them
        reason = problem.problem or problem.context or ""
        raise Malformed(reason, mark.line + 1, mark.column + 1) from None
    except yaml.reader.ReaderError as problem:
        reason = f"unacceptable character #x{int(problem.character):04x}: {problem.reason}"
        raise at_byte(encoded, problem.position, reason) from None
    return found


class _Anchored(NamedTuple):
    """A value with a name: how many values it holds, aliases followed, and how many levels."""

    value: Any
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come."""

    value: Any
    anchor: str | None
    start: Any
    #: Where the key that waits for its value stands; None if no key waits.
    key_mark: Any = None
    key: str = ""
    is_merge: bool = False
    size: int = 1
    height: int = 1
    first_lines: dict[str, int] = field(default_factory=dict)


class _Builder:
    """One document."""

    def __init__(self, parser: Any, how: How) -> None:
        self._parser = parser
        self._how = how
        self._stack: list[_Open] = []
        #: None while the value is not complete.
        self._anchors: dict[str, _Anchored | None] = {}
        self._aliased = 0
        self._result: Any = None

    def build(self) -> Any:
        get_event = self._parser.get_event
        while True:
            event = get_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value = self._scalar(event)
                if event.anchor is not None:
                    self._anchors[event.anchor] = _Anchored(value)
                self._add(value, event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, kind is yaml.MappingStartEvent)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                closed = self._stack.pop()
                if closed.anchor is not None:
                    complete = _Anchored(closed.value, closed.size, closed.height)
                    self._anchors[closed.anchor] = complete
                self._add(closed.value, closed.start, closed.size, closed.height)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            else:  # the end of the document
                return self._result

    def _open(self, event: Any, is_mapping: bool) -> None:
        tag = "map" if is_mapping else "seq"
        if event.tag not in (None, "!", _TAG + tag) and not self._how.any_tag:
            raise _wrong(event, _meaningless(event.tag))
        self._check_depth(event, 1)
        value: Any = {} if is_mapping else []
        if is_mapping and self._how.located:
            value = Located()
            value.line = event.start_mark.line + 1
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_Open(value, event.anchor, event))

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _wrong(event, f"unknown anchor '{event.anchor}' referenced")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _wrong(event, f"an alias contains itself: anchor '{event.anchor}'")
        self._aliased += anchored.size
        if self._aliased > self._how.limits.aliased:
            most = f"{self._how.limits.aliased:,}"
            raise _wrong(event, f"the aliases up to here stand for more than {most} values")
        self._check_depth(event, anchored.height)
        self._add(anchored.value, event, anchored.size, anchored.height)

    def _check_depth(self, event: Any, height: int) -> None:
        if len(self._stack) + height > self._how.limits.depth:
            most = self._how.limits.depth
            raise _wrong(event, f"is nested too deeply: more than {most} levels")

    def _add(self, value: Any, event: Any, size: int = 1, height: int = 0) -> None:
        """Put a complete value where it belongs."""
        if not self._stack:
            self._result = value
            return
        inner = self._stack[-1]
        inner.size += size
        if height >= inner.height:
            inner.height = height + 1
        if type(inner.value) is list:
            inner.value.append(value)
        elif inner.key_mark is None:
            inner.key_mark = event.start_mark
            inner.is_merge = _is_merge(event)
            inner.key = "" if inner.is_merge else self._key(value, event)
        elif inner.is_merge:
            self._merge(inner, value, event)
            inner.key_mark = None
        else:
            self._put(inner, value)
            inner.key_mark = None

    def _key(self, value: Any, event: Any) -> str:
        if self._how.located and type(event) is yaml.ScalarEvent:
            return str(event.value)
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        if self._how.any_tag:
            return ""
        what = "null" if value is None else "a list" if isinstance(value, list) else "a mapping"
        raise _wrong(event, f"{what} cannot be a key")

    def _put(self, inner: _Open, value: Any) -> None:
        key, mark = inner.key, inner.key_mark
        if self._how.repeated is not None:
            if key in inner.first_lines:
                path, first = self._path(), inner.first_lines[key]
                self._how.repeated.append(
                    Repeated(path, key, first, mark.line + 1, mark.column + 1)
                )
            inner.first_lines.setdefault(key, mark.line + 1)
        inner.value[key] = value
        if self._how.located:
            inner.value.lines[key] = mark.line + 1

    def _merge(self, inner: _Open, value: Any, event: Any) -> None:
        """`<<`: in the order of the text, as go-yaml; of several mappings the first one wins."""
        merged = reversed(value) if isinstance(value, list) else [value]
        for each in merged:
            if not isinstance(each, dict):
                raise _wrong(event, "map merge requires map or sequence of maps as the value")
            inner.value.update(each)
            self._aliased += len(each)
            if isinstance(each, Located):
                inner.value.lines.update(each.lines)
        if self._aliased > self._how.limits.aliased:
            raise _wrong(event, "too many fields are merged")

    def _path(self) -> str:
        """The field that the innermost mapping is reading."""
        path = ""
        for each in self._stack:
            if isinstance(each.value, list):
                path += f"[{len(each.value)}]"
            else:
                path += f".{each.key}" if path else each.key
        return path

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
            raise _wrong(event, "half a surrogate pair")
        if event.tag is None and not event.implicit[0]:
            return text
        most = self._how.limits.digits
        if len(text) > most and _NUMBER.fullmatch(text):
            count = sum(map(str.isdigit, text))
            raise _wrong(event, f"a number of {count} digits; the limit is {most}")
        if event.tag is None:
            value = plain(text)
            if isinstance(value, float) and not isfinite(value) and not self._how.any_tag:
                raise _wrong(event, f"{text} is no number in JSON")
            return value
        return self._tagged(event, text)

    def _tagged(self, event: Any, text: str) -> Any:
        tag = event.tag.removeprefix(_TAG)
        if self._how.any_tag or tag in _TEXTS:
            return text
        if tag not in _SCALARS:
            raise _wrong(event, _meaningless(event.tag))
        value = plain(text)
        if not isinstance(value, _SCALARS[tag]) or (tag == "int" and isinstance(value, bool)):
            raise _wrong(event, f"cannot decode `{text:.60}` as a !!{tag}")
        return value


def _is_merge(event: Any) -> bool:
    return (
        type(event) is yaml.ScalarEvent
        and event.value == "<<"
        and (event.implicit[0] or event.tag == _TAG + "merge")
    )


def _meaningless(tag: str) -> str:
    shown = tag.replace(_TAG, "!!")
    return f"could not determine a constructor for the tag {shown!r}"


def _wrong(event: Any, reason: str) -> Malformed:
    return Malformed(reason, event.start_mark.line + 1, event.start_mark.column + 1)
