"""Field errors in apimachinery's words, and the checks of names that many fields share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from stowplan.api.labels import label_key_errors, label_value_errors
from stowplan.apiserver.statuses import Cause

NameCheck: TypeAlias = Callable[[str], list[str]]
#: Of a value, and the path to it.
Check: TypeAlias = Callable[[Any, str], list[Cause]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_RE, _SUBDOMAIN_RE = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_MAX_LABEL, _MAX_SUBDOMAIN = 63, 253
_ANNOTATIONS_LIMIT = 256 * 1024


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, _with("Required value", detail), "FieldValueRequired")


def wrong(field: str, value: Any, detail: str) -> Cause:
    return Cause(field, _with(f"Invalid value: {quoted(value)}", detail))


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    values = ", ".join(quoted(text) for text in supported)
    text = f"Unsupported value: {quoted(value)}: supported values: {values}"
    return Cause(field, text, "FieldValueNotSupported")


def duplicate(field: str, value: Any, detail: str = "") -> Cause:
    return Cause(field, _with(f"Duplicate value: {quoted(value)}", detail), "FieldValueDuplicate")


def not_allowed(field: str, detail: str) -> Cause:
    return Cause(field, f"Forbidden: {detail}", "FieldValueForbidden")


def missing(field: str, value: Any, detail: str = "") -> Cause:
    return Cause(field, _with(f"Not found: {quoted(value)}", detail), "FieldValueNotFound")


def too_long(field: str, most: int) -> Cause:
    return Cause(field, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")


def too_many(field: str, count: int, most: int) -> Cause:
    text = f"Too many: {count}: must have at most {most} item{'s' if most != 1 else ''}"
    return Cause(field, text, "FieldValueTooMany")


def quoted(value: Any) -> str:
    return "null" if value is None else msgspec.json.encode(value).decode()


def _with(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def one_of(field: str, value: str, supported: tuple[str, ...]) -> list[Cause]:
    if not value:
        return [required(field)]
    return [] if value in supported else [unsupported(field, value, supported)]


def label_name(text: str) -> list[str]:
    """An RFC 1123 label: containers, namespaces, ..."""
    problems = []
    if len(text) > _MAX_LABEL:
        problems.append(f"must be no more than {_MAX_LABEL} characters")
    if not _LABEL_RE.fullmatch(text) and _SUBDOMAIN_RE.fullmatch(text):
        problems.append("must not contain dots")
    elif not _LABEL_RE.fullmatch(text):
        problems.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or"
            " '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or"
            f" '123-abc', regex used for validation is '{_LABEL}')"
        )
    return problems


def subdomain_name(text: str) -> list[str]:
    """An RFC 1123 subdomain: the names of most objects."""
    problems = []
    if len(text) > _MAX_SUBDOMAIN:
        problems.append(f"must be no more than {_MAX_SUBDOMAIN} characters")
    if not _SUBDOMAIN_RE.fullmatch(text):
        problems.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '-' or '.', and must start and end with an alphanumeric character (e.g."
            f" 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    return problems


def name_causes(field: str, text: str, check: NameCheck) -> list[Cause]:
    return [wrong(field, text, problem) for problem in check(text)]


@lru_cache(maxsize=4096)
def key_problems(key: str) -> tuple[str, ...]:
    """Of a label key, or of anything else that is formed like one; the same few come again."""
    return tuple(label_key_errors(key))


def label_key_causes(field: str, key: str) -> list[Cause]:
    return [wrong(field, key, problem) for problem in key_problems(key)]


def labels_causes(field: str, labels: Mapping[str, str]) -> list[Cause]:
    causes = []
    for key, value in sorted(labels.items()):
        causes += label_key_causes(field, key)
        causes += [wrong(field, value, problem) for problem in label_value_errors(value)]
    return causes


def annotations_causes(field: str, annotations: Mapping[str, str]) -> list[Cause]:
    causes = []
    for key in sorted(annotations):
        causes += [wrong(field, key, problem) for problem in key_problems(key.lower())]
    size = sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        causes.append(too_long(field, _ANNOTATIONS_LIMIT))
    return causes


def in_range(field: str, value: int, low: int, high: int) -> list[Cause]:
    if low <= value <= high:
        return []
    return [wrong(field, value, f"must be between {low} and {high}, inclusive")]


def not_negative(field: str, value: int) -> list[Cause]:
    return [wrong(field, value, "must be greater than or equal to 0")] if value < 0 else []


def positive(field: str, value: int) -> list[Cause]:
    return [wrong(field, value, "must be greater than zero")] if value <= 0 else []


def each(items: Sequence[Any] | None, most: int, path: str, check: Check) -> list[Cause]:
    """Check every item, unless there are too many; a negative `most` is no limit."""
    items = items or ()
    if 0 <= most < len(items):
        return [too_many(path, len(items), most)]
    return [cause for index, item in enumerate(items) for cause in check(item, f"{path}[{index}]")]


def each_unique(
    items: Sequence[Any] | None, most: int, path: str, check: Check, key: Callable[[Any], Any]
) -> list[Cause]:
    """The same, of items of which no two may have the same key."""
    items = items or ()
    causes = each(items, most, path, check)
    if 0 <= most < len(items):
        return causes
    seen = set()
    for index, item in enumerate(items):
        if key(item) in seen:
            causes.append(duplicate(f"{path}[{index}]", key(item)))
        seen.add(key(item))
    return causes
