"""Log records as lines: klog's text, and the JSON of Kubernetes components.

One record is one line, whatever its values contain: characters that a terminal or a log collector
could take for the end of a line, or for a command, are escaped. The only exception is a `Block`,
whose further lines all begin with a tab.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Mapping
from typing import Any

import msgspec

_TRACEBACK_VERBOSITY = 4
_JSON_RESERVED = frozenset({"ts", "v", "msg", "caller", "logger"})
#: Keys whose texts name an object: "namespace/name", or a name alone.
_OBJECT_KEYS = frozenset({"pod", "node", "preemptor", "victim"})
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class Block(str):
    """A text of several lines that Stowplan composed itself: a dump, a traceback.

    The text format writes it as klog's block, a line below the other.
    """

    __slots__ = ()


class Plain(str):
    """The name of a node or pod that is a text in JSON too, because kube-scheduler's is."""

    __slots__ = ()


class TextFormatter(logging.Formatter):
    """`I1115 02:10:05.123456   12345 loop.py:42] "Bound pod" pod="ns/a" node="n1"`."""

    def __init__(self, verbosity: int = 0) -> None:
        super().__init__()
        self.verbosity = verbosity

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        return (
            f"{_severity(record.levelno)}{when}.{micros:06d} {record.process or os.getpid():7d} "
            f"{record.filename}:{record.lineno}] {_quote(_message(record))}"
            f"{fields_text(record, self.verbosity)}"
        )


def fields_text(record: logging.LogRecord, verbosity: int = 0) -> str:
    """What follows the message in a line of text: each key and value after a space."""
    pairs, error, stack = _parts(record, verbosity)
    if error is not None:
        pairs = {"err": error, **pairs}
    if stack is not None:
        pairs["stacktrace"] = stack
    return "".join(f" {_key(key)}={_text_value(value)}" for key, value in pairs.items())


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with upstream's keys in upstream's order.

    `ts` is in milliseconds; errors have no `v`, and their `err` follows the other pairs.
    """

    def __init__(self, verbosity: int = 0) -> None:
        super().__init__()
        self.verbosity = verbosity

    def format(self, record: logging.LogRecord) -> str:
        folder, _, file = record.pathname.replace(os.sep, "/").rpartition("/")
        line: dict[str, object] = {
            "ts": round(record.created * 1000, 4),
            "logger": record.name,
            "caller": f"{folder.rpartition('/')[2]}/{file}:{record.lineno}",
            "msg": _message(record),
        }
        if record.levelno < logging.ERROR:
            line["v"] = max(0, logging.INFO - record.levelno)
        pairs, error, stack = _parts(record, self.verbosity)
        for key, value in pairs.items():
            if key in _OBJECT_KEYS and isinstance(value, str) and not isinstance(value, Plain):
                value = _reference(value)
            line[f"{key}_" if key in _JSON_RESERVED else key] = value
        if error is not None:
            line["err"] = error
        if stack is not None:
            line["stacktrace"] = stack
        try:
            return _encode_json(line)
        except Exception:
            return _encode_json({printable(k): _json_or_text(v) for k, v in line.items()})


def fields_of(record: logging.LogRecord) -> Mapping[Any, object]:
    """The pairs of `kv`; none if `extra` was something else."""
    given = getattr(record, "kv", None)
    return given if isinstance(given, Mapping) else {}


def error_text(error: object) -> str:
    """Some exceptions (TimeoutError, CancelledError) have no text but their name."""
    return _text(error) or (type(error).__name__ if isinstance(error, BaseException) else "")


def printable(text: str) -> str:
    """Without control characters and lone surrogates, which would break a line or its encoding."""
    return text if text.isprintable() else "".join(map(_escape, text))


def _parts(
    record: logging.LogRecord, verbosity: int
) -> tuple[dict[str, object], str | None, Block | None]:
    """The caller's pairs, the error that has a place of its own, and its traceback.

    As klog does: the `err` of an error line stands apart, other lines have theirs where it is.
    """
    pairs = {_text(key): value for key, value in fields_of(record).items()}
    raised = record.exc_info[1] if record.exc_info else None
    error: object = None
    if record.levelno >= logging.ERROR:
        error = pairs.pop("err", raised)
    elif "err" in pairs:
        pairs["err"] = error_text(pairs["err"])
    else:
        error = raised
    is_wanted = record.levelno >= logging.ERROR or verbosity >= _TRACEBACK_VERBOSITY
    stack = _stack_text(raised) if raised is not None and is_wanted else None
    return pairs, None if error is None else error_text(error), stack


def _reference(value: str) -> dict[str, str]:
    namespace, _, name = value.rpartition("/")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _stack_text(error: BaseException) -> Block:
    try:
        return Block("".join(traceback.format_exception(error)).rstrip("\n"))
    except Exception as broken:
        return Block(f"<no traceback: {type(broken).__name__}>")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Another library's format string and arguments do not match.
        return f"{_text(record.msg)} {_text(record.args)}"


def _severity(level: int) -> str:
    if level >= logging.CRITICAL:
        return "F"
    if level >= logging.ERROR:
        return "E"
    return "W" if level >= logging.WARNING else "I"


def _text_value(value: object) -> str:
    """Numbers bare, collections as JSON, all else quoted."""
    if isinstance(value, bool | int | float) or value is None:
        return _json_text(value)
    if isinstance(value, list | tuple | dict | set | frozenset):
        return _json_text(value)
    text = _text(value)
    if isinstance(value, Block) and "\n" in text:
        lines = "".join(f"\t{printable(line)}\n" for line in text.split("\n"))
        return f"<\n{lines} >"
    return _quote(text)


def _json_text(value: object) -> str:
    try:
        return _encode_json(value)
    except Exception:
        return _quote(_text(value))


def _json_or_text(value: object) -> object:
    """Return the value if JSON can encode it, else its text (a lone surrogate, a cycle)."""
    try:
        _encode_json(value)
    except Exception:
        return printable(_text(value))
    return value


def _encode_json(value: object) -> str:
    """JSON in one line; what is not printable can only stand in its strings."""
    text = msgspec.json.encode(value, enc_hook=_text).decode()
    return text if text.isprintable() else "".join(map(_escape_json, text))


def _escape_json(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as broken:
        return f"<unprintable {type(value).__name__}: {type(broken).__name__}>"


def _key(key: str) -> str:
    return _quote(key) if '"' in key or "=" in key else printable(key)


def _quote(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(char) or _escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return _ESCAPES.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
