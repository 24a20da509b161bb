"""Errors of single configuration fields, worded as Kubernetes words them.

Every check collects `FieldError`s so that a user sees all mistakes at once; `raise_errors` turns
them into the one ConfigError that reaches the command line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Sequence

import msgspec

from stowplan.config.durations import Duration
from stowplan.errors import ConfigError
from stowplan.redaction import redact


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong at `path`; the path is empty where the file as a whole is wrong.

    `meant` is the path of the field that an unknown field is probably a misspelling of.
    """

    path: str
    message: str
    meant: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def invalid(path: str, value: object, detail: str) -> FieldError:
    return FieldError(path, f"Invalid value: {_show(path, value)}: {detail}")


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: str, value: object) -> FieldError:
    return FieldError(path, f"Duplicate value: {_show(path, value)}")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, f"Forbidden: {detail}")


def not_supported(path: str, value: str, allowed: Sequence[str]) -> FieldError:
    """Report a value outside a fixed list in upstream's words, with a suggestion."""
    supported = ", ".join(json.dumps(one) for one in allowed)
    hint = did_you_mean(value, allowed)
    text = f"Unsupported value: {_show(path, value)}: supported values: {supported}{hint}"
    return FieldError(path, text)


def did_you_mean(name: str, allowed: Collection[str]) -> str:
    """`; did you mean "x"?`, or nothing where no allowed name comes close."""
    close = closest(name, allowed)
    return f'; did you mean "{close}"?' if close else ""


def closest(name: str, allowed: Collection[str]) -> str:
    """The allowed name that comes closest, or an empty text if none comes close."""
    lowered = {candidate.lower(): candidate for candidate in allowed}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.7)
    return lowered[close[0]] if close else ""


def raise_errors(errors: Iterable[FieldError], *, where: str = "") -> None:
    """Raise one ConfigError with a line for each error, each line naming the file."""
    lines = [str(error) for error in errors]
    if lines:
        raise ConfigError(f"\n{where}: ".join(lines) if where else "\n".join(lines), where=where)


def _show(path: str, value: object) -> str:
    """Values in messages look as Go shows them, JSON and durations as their text, but redacted."""
    if isinstance(value, Duration):
        value = str(value)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    shown = redact(value, path.rpartition(".")[2].partition("[")[0])
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
