"""Command lines as Go's pflag reads them, for the `kube-scheduler` entry point.

`--flag=value` and `--flag value`; flags of type bool take a value only after `=`; `_` counts as `-`
in names; lists are separated by commas and grow with each repetition. `parse_arguments` returns the
flags that were given, each with its value. Errors have pflag's text.
"""

from __future__ import annotations

import csv
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from stowplan.api.quantity import parse_quantity
from stowplan.config.durations import parse_duration
from stowplan.config.feature_gates import parse_bool
from stowplan.config.kubernetes_version import KUBERNETES_VERSION

#: The version of kube-scheduler whose command line and behaviour are ours.
#: Kinds whose flags may stand alone.
ALONE: Final = frozenset({"bool", "version"})


class Flag(NamedTuple):
    """A flag. `kind` and `default` are written as in upstream's help."""

    name: str
    kind: str
    default: str
    help: str
    #: Why the flag changes nothing here; empty if it works.
    without_effect: str = ""
    short: str = ""

    @property
    def title(self) -> str:
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"


def parse_arguments(arguments: Sequence[str], flags: Iterable[Flag]) -> dict[str, Any]:
    """The flags that were given, by name; click.UsageError says what is wrong."""
    by_name = {flag.name: flag for flag in flags}
    by_letter = {flag.short: flag for flag in by_name.values() if flag.short}
    given: dict[str, list[str]] = {}
    left = list(arguments)
    stray: list[str] = []
    while left:
        word = left.pop(0)
        if word == "--":
            stray += left
            break
        if not word.startswith("-") or word == "-":
            stray.append(word)
        elif word.startswith("--"):
            _long(word, left, by_name, given)
        else:
            _short(word, left, by_letter, given)
    if any(stray):
        raise click.UsageError(f"kube-scheduler does not take any arguments, got {stray}")
    return {name: parse_value(by_name[name], texts) for name, texts in given.items()}


def _long(
    word: str, left: list[str], by_name: Mapping[str, Flag], given: dict[str, list[str]]
) -> None:
    name, equals, value = word[2:].partition("=")
    if not name or name.startswith("-"):
        raise click.UsageError(f"bad flag syntax: {word}")
    flag = by_name.get(name.replace("_", "-"))
    if flag is None:
        raise click.UsageError(f"unknown flag: --{name}")
    if not equals:
        value = _next(flag, left, f"--{name}")
    given.setdefault(flag.name, []).append(value)


def _short(
    word: str, left: list[str], by_letter: Mapping[str, Flag], given: dict[str, list[str]]
) -> None:
    letters = word[1:]
    while letters:
        flag = by_letter.get(letters[0])
        if flag is None:
            raise click.UsageError(f"unknown shorthand flag: {letters[0]!r} in {word}")
        rest, letters = letters[1:], ""
        if rest.startswith("=") and len(rest) > 1:
            value = rest[1:]
        elif flag.kind in ALONE:
            value, letters = "true", rest
        else:
            value = rest or _next(flag, left, f"{flag.short!r} in {word}")
        given.setdefault(flag.name, []).append(value)


def _next(flag: Flag, left: list[str], shown: str) -> str:
    if flag.kind in ALONE:
        return "true"
    if not left:
        raise click.UsageError(f"flag needs an argument: {shown}")
    return left.pop(0)


def parse_value(flag: Flag, texts: Sequence[str]) -> Any:
    """The value of a flag: the items of all `texts` for a list, else the value of the last."""
    items: list[Any] = []
    mapping: dict[str, str] = {}
    value: Any = None
    for text in texts:
        try:
            value = _PARSERS[flag.kind](text)
        except ValueError as problem:
            reason = f'invalid argument "{text}" for "{flag.title}" flag: {problem}'
            raise click.UsageError(reason) from None
        if isinstance(value, list):
            items += value
        elif isinstance(value, dict):
            mapping |= value
    return tuple(items) if isinstance(value, list) else mapping or value


def _integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            raise ValueError("it is not a whole number") from None
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError("value out of range")
        return value

    return parse


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("it is not a number") from None


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip())) if text else "0.0.0.0"  # noqa: S104 - upstream's
    except ValueError:
        raise ValueError(f'failed to parse IP: "{text}"') from None


def _strings(text: str) -> list[str]:
    return next(csv.reader([text]), []) if text else []


def _int32_slice(text: str) -> list[int]:
    return [_integer(32)(item) for item in text.split(",")]


def _named_cert_key(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Parse `CERT,KEY[:NAME,...]`."""
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2 or not all(parts):
        raise ValueError("expected comma separated certificate and key file paths")
    return [(parts[0], parts[1], tuple(filter(None, (name.strip() for name in names.split(",")))))]


def _string_to_string(text: str) -> dict[str, str]:
    """`metric,label=v1,v2`, or several such pairs in quotes."""
    pairs = [text.strip('"')] if text.count("=") == 1 else _strings(text)
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        found[key] = value
    return found


def _level(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text) or int(text) >= 2**31:
        raise ValueError("it is not a number of 0 or more")
    return int(text)


def _patterns(text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for item in filter(None, text.split(",")):
        pattern, _, level = item.partition("=")
        if not pattern or not level.isdecimal():
            raise ValueError(f'"{item}" does not have the pattern=N format')
        found.append((pattern, int(level)))
    return found


def _version(text: str) -> str:
    if text == "raw":
        return text
    if text.startswith("v"):
        if not re.fullmatch(rf"{re.escape(KUBERNETES_VERSION)}([-+].*)?", text):
            raise ValueError(f"the version must begin with {KUBERNETES_VERSION}")
        return text
    return str(parse_bool(text)).lower()


def _quantity(text: str) -> str:
    parse_quantity(text)
    return text


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": str,
    "strings": _strings,
    "bool": parse_bool,
    "int": _integer(64),
    "int32": _integer(32),
    "float32": _number,
    "duration": parse_duration,
    "ip": _ip,
    "int32Slice": _int32_slice,
    "namedCertKey": _named_cert_key,
    "stringToString": _string_to_string,
    "colonSeparatedMultimapStringString": lambda text: [s for s in text.split(",") if s],
    "Level": _level,
    "pattern=N,...": _patterns,
    "quantity": _quantity,
    "version": _version,
}
