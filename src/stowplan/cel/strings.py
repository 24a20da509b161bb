"""Functions of strings: those of the language, and version 2 of cel-go's string extension."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.cel.declarations import FUNCTIONS, Implementation
from stowplan.cel.errors import CostLimitExceeded, Failure, no_such_overload
from stowplan.cel.go_text import utf8
from stowplan.cel.operators import missing
from stowplan.cel.regex import compiled_regex
from stowplan.cel.values import LONGEST, Value, show

_define = FUNCTIONS.overload
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
#: What Go's strings.TrimSpace removes.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _out_of_range(index: int) -> Failure:
    return Failure(f"index out of range: {index}")


# Of the language itself. At run time the receiver can have any type.


def _of_strings(test: Callable[[str, str], bool]) -> Implementation:
    def run(text: Value, other: Value) -> Value:
        if not isinstance(text, str) or not isinstance(other, str):
            return no_such_overload()
        return test(text, other)

    return run


for _name, _overload, _test in (
    ("contains", "contains_string", lambda text, other: other in text),
    ("endsWith", "ends_with_string", str.endswith),
    ("startsWith", "starts_with_string", str.startswith),
):
    FUNCTIONS.declare(_name, _overload, "string.(string) -> bool")
    FUNCTIONS.operator(_name)(_of_strings(_test))


@FUNCTIONS.operator("matches")
def matches(text: Value, pattern: Value) -> Value:
    if not isinstance(text, str):
        return missing("matches", text)
    if not isinstance(pattern, str):
        return no_such_overload()
    compiled = compiled_regex(pattern)
    if isinstance(compiled, str):
        return Failure(compiled)
    return compiled.first(text) is not None


FUNCTIONS.declare("matches", "matches", "(string, string) -> bool")
FUNCTIONS.declare("matches", "matches_string", "string.(string) -> bool")


@_define("find", "string_find_string", "string.(string) -> string")
def find(text: str, pattern: str) -> Value:
    compiled = compiled_regex(pattern)
    if isinstance(compiled, str):
        return Failure(f"Illegal regex: {compiled}")
    return compiled.first(text) or ""


@_define("findAll", "string_find_all_string", "string.(string) -> list(string)")
@_define("findAll", "string_find_all_string_int", "string.(string, int) -> list(string)")
def find_all(text: str, pattern: str, limit: int = -1) -> Value:
    compiled = compiled_regex(pattern)
    if isinstance(compiled, str):
        return Failure(f"Illegal regex: {compiled}")
    return list(compiled.all(text, limit))


# The extension


@_define("charAt", "string_char_at_int", "string.(int) -> string")
def char_at(text: str, index: int) -> Value:
    if not 0 <= index <= len(text):
        return _out_of_range(index)
    return text[index : index + 1]


@_define("indexOf", "string_index_of_string", "string.(string) -> int")
@_define("indexOf", "string_index_of_string_int", "string.(string, int) -> int")
def index_of(text: str, part: str, offset: int = 0) -> Value:
    if not part:
        return offset
    if offset < 0:
        return _out_of_range(offset)
    return text.find(part, offset)


@_define("lastIndexOf", "string_last_index_of_string", "string.(string) -> int")
def last_index_of(text: str, part: str) -> Value:
    if not part:
        return len(text)
    if len(utf8(text)) < len(utf8(part)):
        return -1
    return last_index_of_from(text, part, len(text) - 1)


@_define("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int")
def last_index_of_from(text: str, part: str, offset: int) -> Value:
    if not part:
        return offset
    if offset < 0:
        return _out_of_range(offset)
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, min(offset, len(text)) + len(part))


@_define("lowerAscii", "string_lower_ascii", "string.() -> string")
def lower_ascii(text: str) -> Value:
    return text.translate(_LOWER)


@_define("upperAscii", "string_upper_ascii", "string.() -> string")
def upper_ascii(text: str) -> Value:
    return text.translate(_UPPER)


@_define("replace", "string_replace_string_string", "string.(string, string) -> string")
@_define("replace", "string_replace_string_string_int", "string.(string, string, int) -> string")
def replace(text: str, old: str, new: str, count: int = -1) -> Value:
    times = text.count(old)
    if len(text) + times * len(new) > LONGEST:
        raise CostLimitExceeded
    return text.replace(old, new, count if count >= 0 else -1)


@_define("split", "string_split_string", "string.(string) -> list(string)")
@_define("split", "string_split_string_int", "string.(string, int) -> list(string)")
def split(text: str, separator: str, count: int = -1) -> Value:
    if count == 0:
        return []
    if separator:
        return list(text.split(separator, count - 1 if count > 0 else -1))
    if count < 0 or count > len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


@_define("substring", "string_substring_int", "string.(int) -> string")
def substring_from(text: str, start: int) -> Value:
    return text[start:] if 0 <= start <= len(text) else _out_of_range(start)


@_define("substring", "string_substring_int_int", "string.(int, int) -> string")
def substring(text: str, start: int, end: int) -> Value:
    if start > end:
        return Failure(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            return _out_of_range(index)
    return text[start:end]


@_define("trim", "string_trim", "string.() -> string")
def trim(text: str) -> Value:
    return text.strip(_SPACE)


@_define("strings.quote", "strings_quote", "(string) -> string")
def quote(text: str) -> Value:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


@_define("join", "list_join", "list(string).() -> string")
@_define("join", "list_join_string", "list(string).(string) -> string")
def join(items: list[Value], separator: str = "") -> Value:
    for item in items:
        if not isinstance(item, str):
            return Failure(f"join: invalid input: {show(item)}")
    if sum(len(str(item)) + len(separator) for item in items) > LONGEST:
        raise CostLimitExceeded
    return separator.join(str(item) for item in items)
