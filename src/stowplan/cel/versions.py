"""Semantic versions in expressions: `device.attributes["x"].driver.isLessThan(semver("2.0.0"))`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import Failure
from stowplan.cel.go_text import quoted
from stowplan.cel.values import MAX_UINT, Opaque, Value

_define = FUNCTIONS.overload
_TYPE = "kubernetes.Semver"
_NUMBER = re.compile(r"[0-9]*", re.ASCII)
_WORD = re.compile(r"[0-9A-Za-z-]*", re.ASCII)


class VersionError(ValueError):
    """The text is not a semantic version; the message is that of upstream's library."""


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    numbers: tuple[int, int, int]
    #: Identifiers of the prerelease: (0, number, "") or (1, 0, word), in their order.
    prerelease: tuple[tuple[int, int, str], ...]
    text: str

    type_name = _TYPE
    unhashable = "cel.Semver"
    go_type = "semver.Version"

    def compare(self, other: Semver) -> int:
        mine, theirs = self._key(), other._key()
        return (mine > theirs) - (mine < theirs)

    def _key(self) -> tuple[object, ...]:
        return self.numbers, not self.prerelease, self.prerelease

    def same(self, other: Opaque) -> bool:
        return isinstance(other, Semver) and self.compare(other) == 0

    def __str__(self) -> str:
        return self.text


def parse_semver(text: str) -> Semver:
    """MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]. Raises VersionError."""
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    patch, has_build, build = parts[2].partition("+")
    patch, has_prerelease, prerelease = patch.partition("-")
    major, minor = _number("Major", parts[0]), _number("Minor", parts[1])
    numbers = (major, minor, _number("Patch", patch))
    identifiers = tuple(map(_identifier, prerelease.split("."))) if has_prerelease else ()
    for word in build.split(".") if has_build else ():
        if not word:
            raise VersionError("Build meta data is empty")
        if not _WORD.fullmatch(word):
            raise VersionError(f"Invalid character(s) found in build meta data {quoted(word)}")
    return Semver(numbers, identifiers, text)


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise VersionError(f"Invalid character(s) found in {name.lower()} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise VersionError(f"{name} number must not contain leading zeroes {quoted(text)}")
    return _parsed(text)


def _parsed(text: str) -> int:
    if not text:
        raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise VersionError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> tuple[int, int, str]:
    if not text:
        raise VersionError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise VersionError(
                f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}"
            )
        return 0, _parsed(text), ""
    if not _WORD.fullmatch(text):
        raise VersionError(f"Invalid character(s) found in prerelease {quoted(text)}")
    return 1, 0, text


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[index] = bare if bare[:1] in set("0123456789") and bare else "0" + bare
    if len(parts) < 3:
        if re.search(r"[+-]", parts[-1]):
            raise VersionError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@_define("semver", "string_to_semver", f"(string) -> {_TYPE}")
@_define("semver", "string_bool_to_semver", f"(string, bool) -> {_TYPE}")
def semver(text: str, normalize: bool = False) -> Value:
    try:
        return parse_semver(_normalized(text) if normalize else text)
    except VersionError as error:
        return Failure(str(error))


@_define("isSemver", "is_semver_string", "(string) -> bool")
@_define("isSemver", "is_semver_string_bool", "(string, bool) -> bool")
def is_semver(text: str, normalize: bool = False) -> Value:
    return isinstance(semver(text, normalize), Semver)


@_define("isGreaterThan", "semver_is_greater_than", f"{_TYPE}.({_TYPE}) -> bool")
def is_greater(one: Semver, other: Semver) -> Value:
    return one.compare(other) == 1


@_define("isLessThan", "semver_is_less_than", f"{_TYPE}.({_TYPE}) -> bool")
def is_less(one: Semver, other: Semver) -> Value:
    return one.compare(other) == -1


@_define("compareTo", "semver_compare_to", f"{_TYPE}.({_TYPE}) -> int")
def compare_to(one: Semver, other: Semver) -> Value:
    return one.compare(other)


def _signed(number: int) -> int:
    """A uint64 as an int64, as Go converts it."""
    return number - (1 << 64) if number > (1 << 63) - 1 else number


@_define("major", "semver_major", f"{_TYPE}.() -> int")
def major(one: Semver) -> Value:
    return _signed(one.numbers[0])


@_define("minor", "semver_minor", f"{_TYPE}.() -> int")
def minor(one: Semver) -> Value:
    return _signed(one.numbers[1])


@_define("patch", "semver_patch", f"{_TYPE}.() -> int")
def patch(one: Semver) -> Value:
    return _signed(one.numbers[2])
