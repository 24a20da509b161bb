"""Logging as Kubernetes components do it: klog text or JSON lines on stderr, with key/values.

    from stowplan.logs import V4, get_logger, kv

    log = get_logger(__name__)
    log.info("Bound pod", extra=kv(pod=key, node=name))           # -v=0 and up
    log.log(V4, "Skipped backoff", extra=kv(pod=key))             # -v=4 and up
    log.error("Bind failed", exc_info=error, extra=kv(pod=key))   # with its traceback

klog's verbosity V(n) is the numeric level `INFO - n`, so INFO itself is V(0), V(10) is DEBUG, and
`-v N` simply sets the threshold. This package imports no other module of Stowplan. A log call never
raises, whatever its values are: a broken `__str__` becomes part of the line.

Where a value is costly to compute, or the code is hot, ask `log.isEnabledFor(V4)` first.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, TextIO, TypeAlias

from stowplan.logs.folding import FOLDED_S, Folding, LineHandler
from stowplan.logs.lines import Block, JsonFormatter, Plain, TextFormatter, fields_text, printable

__all__ = [
    "FOLDED_S",
    "V1",
    "V2",
    "V3",
    "V4",
    "V5",
    "V6",
    "V10",
    "Block",
    "Folding",
    "JsonFormatter",
    "LogFormat",
    "Plain",
    "TextFormatter",
    "configure",
    "fields_text",
    "get_logger",
    "install",
    "kv",
    "printable",
    "set_verbosity",
]

V1 = logging.INFO - 1
V2 = logging.INFO - 2
V3 = logging.INFO - 3
V4 = logging.INFO - 4
V5 = logging.INFO - 5
V6 = logging.INFO - 6
V10 = logging.INFO - 10

LogFormat: TypeAlias = Literal["text", "json"]

_ROOT = "stowplan"
#: Patterns of --vmodule with their verbosity.
_vmodule: list[tuple[str, int]] = []
#: Loggers whose level it has set.
_raised: list[logging.Logger] = []


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
    """Key/values of a log line, for `extra=`; formatted only if the line is written.

    In JSON, texts named `pod`, `node`, `preemptor` and `victim` become objects with `name` and
    `namespace`, as kube-scheduler writes them; `Plain` texts stay texts.
    """
    return {"kv": fields}


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


def install(
    formatter: logging.Formatter, stream: TextIO | None = None, *, unfolded: str = ""
) -> None:
    """Send all logs to `stream` with the caller's formatter, and do not change levels.

    Lines of the logger `unfolded` are all written, however often they repeat each other.
    """
    handler = LineHandler(stream if stream is not None else sys.stderr, unfolded)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, LineHandler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)


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
    errors = next(handler for handler in root.handlers if isinstance(handler, LineHandler))
    errors.setLevel(logging.ERROR)
    others = LineHandler(sys.stdout)
    others.setFormatter(errors.formatter)
    others.addFilter(lambda record: record.levelno < logging.ERROR)
    root.addHandler(others)
