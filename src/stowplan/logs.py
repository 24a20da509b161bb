"""Logging as Kubernetes components do it: klog text or JSON lines on stderr, with key/values.

    from stowplan.logs import V4, get_logger, kv

    log = get_logger(__name__)
    log.info("Bound pod", extra=kv(pod=key, node=name))           # -v=0 and up
    log.log(V4, "Skipped backoff", extra=kv(pod=key))             # -v=4 and up
    log.error("Bind failed", exc_info=error, extra=kv(pod=key))   # with its traceback

klog's verbosity V(n) is the numeric level `INFO - n`, so INFO itself is V(0), V(10) is DEBUG, and
`-v N` simply sets the threshold. This module imports no other module of Stowplan. A log call never
raises, whatever its values are: a broken `__str__` becomes part of the line.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, TextIO, TypeAlias

import msgspec

V1 = logging.INFO - 1
V2 = logging.INFO - 2
V3 = logging.INFO - 3
V4 = logging.INFO - 4
V5 = logging.INFO - 5

LogFormat: TypeAlias = Literal["text", "json"]

#: Seconds between two lines that repeat each other.
FOLDED_S = 10.0

_ROOT = "stowplan"
#: Patterns of --vmodule with their verbosity.
_vmodule: list[tuple[str, int]] = []
#: Loggers whose level it has set.
_raised: list[logging.Logger] = []
_TRACEBACK_VERBOSITY = 4
_JSON_RESERVED = frozenset({"ts", "v", "msg", "caller", "logger"})
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module.

    Loggers of other packages (users' plugins) become children of ours, so that `-v` applies to
    them too.
    """
    if name != _ROOT and not name.startswith(_ROOT + "."):
        name = f"{_ROOT}.{name}"
    logger = logging.getLogger(name)
    _raise_verbosity(logger)
    return logger


def kv(**fields: object) -> dict[str, object]:
    """Key/values of a log line, for `extra=`; formatted only if the line is written."""
    return {"kv": fields}


class Folding:
    """At most one log line per `FOLDED_S`; the next one says how many were left out."""

    def __init__(self) -> None:
        self._next = -math.inf
        self._folded = 0

    def turn(self, now: float) -> int | None:
        """How many lines were left out before this one; None: leave out this one too."""
        if now < self._next:
            self._folded += 1
            return None
        folded, self._folded = self._folded, 0
        self._next = now + FOLDED_S
        return folded


def configure(
    verbosity: int,
    fmt: LogFormat,
    stream: TextIO | None = None,
    *,
    vmodule: Sequence[tuple[str, int]] = (),
    split: bool = False,
) -> None:
    """Send all logs to `stream` (default: stderr). Other libraries log from WARNING up.

    `vmodule` raises the verbosity of modules by patterns, as klog's flag does: a pattern with a
    slash is compared with stowplan/queue/hints, others with hints. `split` sends everything below
    ERROR to stdout. A second call replaces our handler and leaves other handlers alone.
    """
    formatter: logging.Formatter
    if fmt == "text":
        formatter = TextFormatter(verbosity)
    elif fmt == "json":
        formatter = JsonFormatter(verbosity)
    else:
        raise ValueError(f'unknown log format {fmt!r}: use "text" or "json"')
    install(formatter, stream)
    if split:
        _split()
    logging.getLogger().setLevel(logging.WARNING)
    _vmodule[:] = vmodule
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    """Change the verbosity of a running process; the format and `vmodule` stay."""
    logging.getLogger(_ROOT).setLevel(_level(verbosity))
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, TextFormatter | JsonFormatter):
            handler.formatter.verbosity = verbosity
    while _raised:
        _raised.pop().setLevel(logging.NOTSET)
    for name in list(logging.Logger.manager.loggerDict) if _vmodule else ():
        if name.startswith(f"{_ROOT}."):
            _raise_verbosity(logging.getLogger(name))


def _level(verbosity: int) -> int:
    return max(1, logging.INFO - max(0, verbosity))


def _raise_verbosity(logger: logging.Logger) -> None:
    """Apply the first pattern of --vmodule that matches a module's logger."""
    path = logger.name.replace(".", "/")
    file = path.rpartition("/")[2]
    for pattern, verbosity in _vmodule:
        if fnmatchcase(path if "/" in pattern else file, pattern):
            logger.setLevel(min(_level(verbosity), logging.getLogger(_ROOT).level))
            _raised.append(logger)
            return


def _split() -> None:
    """Let our handler write errors only, and add one that writes everything else to stdout."""
    root = logging.getLogger()
    errors = next(handler for handler in root.handlers if isinstance(handler, _LineHandler))
    errors.setLevel(logging.ERROR)
    others = _LineHandler(sys.stdout)
    others.setFormatter(errors.formatter)
    others.addFilter(lambda record: record.levelno < logging.ERROR)
    root.addHandler(others)


def install(formatter: logging.Formatter, stream: TextIO | None = None) -> None:
    """Send all logs to `stream` with the caller's formatter, and do not change levels."""
    handler = _LineHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _LineHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)


class _LineHandler(logging.StreamHandler[TextIO]):
    """Our handler; the class lets `install` find and replace it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore errors of the log stream itself, because they cannot be reported."""


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
    fields = _fields(record, verbosity)
    return "".join(f" {_key(key)}={_text_value(value)}" for key, value in fields)


class JsonFormatter(logging.Formatter):
    """One JSON object per line; `ts` in milliseconds; like upstream's, errors have no `v`."""

    def __init__(self, verbosity: int = 0) -> None:
        super().__init__()
        self.verbosity = verbosity

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {"ts": record.created * 1000}
        if record.levelno < logging.ERROR:
            line["v"] = max(0, logging.INFO - record.levelno)
        line["msg"] = _message(record)
        line["caller"] = f"{record.filename}:{record.lineno}"
        line["logger"] = record.name
        for key, value in _fields(record, self.verbosity):
            line[f"{key}_" if key in _JSON_RESERVED else key] = value
        try:
            return _encode_json(line)
        except Exception:
            return _encode_json({_printable(k): _json_or_text(v) for k, v in line.items()})


def _fields(record: logging.LogRecord, verbosity: int) -> Iterator[tuple[str, object]]:
    """What follows the message: the error first, as klog writes it, then the caller's pairs."""
    given = getattr(record, "kv", None)
    pairs: dict[str, object] = (
        {_text(key): value for key, value in given.items()} if isinstance(given, Mapping) else {}
    )
    raised = record.exc_info[1] if record.exc_info else None
    error = pairs.pop("err", raised)
    if error is not None:
        yield "err", _error_text(error)
    yield from pairs.items()
    wanted = record.levelno >= logging.ERROR or verbosity >= _TRACEBACK_VERBOSITY
    if raised is not None and wanted:
        yield "stacktrace", _stack_text(raised)


def _error_text(error: object) -> str:
    """Some exceptions (TimeoutError, CancelledError) have no text but their name."""
    return _text(error) or type(error).__name__


def _stack_text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    except Exception as broken:
        return f"<no traceback: {type(broken).__name__}>"


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
    """Numbers bare, collections as JSON, all else quoted; several lines become klog's block."""
    if isinstance(value, bool | int | float) or value is None:
        return _json_text(value)
    if isinstance(value, list | tuple | dict | set | frozenset):
        return _printable(_json_text(value))
    text = _text(value)
    if "\n" in text:
        lines = "".join(f"\t{_printable(line)}\n" for line in text.split("\n"))
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
        return _printable(_text(value))
    return value


def _encode_json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=_text).decode()


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as broken:
        return f"<unprintable {type(value).__name__}: {type(broken).__name__}>"


def _key(key: str) -> str:
    return key if key.isidentifier() else _printable(key)


def _printable(text: str) -> str:
    """Without control characters and lone surrogates, which would break a line or its encoding."""
    return text if text.isprintable() else "".join(map(_escape, text))


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
