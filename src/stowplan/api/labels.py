"""Label syntax, and requirements on labels: what every kind of selector is made of.

Selectors written as objects (`selectors`) and as text (`selector_text`) both end up as tuples of
`Requirement`, checked by `make_requirement`. Equal, double-equal and In are one operator here,
values are sorted and requirements ordered, so that selectors which mean the same compare and hash
the same and can key caches. Error texts are the API server's own: its clients know them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '({_NAME})?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_RE = re.compile(_NAME)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_INTEGER_RE = re.compile("[+-]?[0-9]+")
_MAX_NAME = 63
#: Up to so many values are compared one by one.
_FEW_VALUES = 16
_MAX_SUBDOMAIN = 253


class Requirement(NamedTuple):
    """One condition on one label; `values` sorted and without repetition."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == "In":
            if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            return f"{self.key} in ({','.join(self.values)})"
        if self.operator == "NotIn":
            if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            return f"{self.key} notin ({','.join(self.values)})"
        if self.operator in ("Gt", "Lt"):
            return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"
        return self.key if self.operator == "Exists" else f"!{self.key}"


class CompiledSelector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A label selector, ready to be asked. No requirements and not `nothing`: matches all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    """An absent selector (nil upstream): it matches no labels at all."""

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return not self.nothing and all_match(self.requirements, labels or _NO_LABELS)

    @property
    def is_empty(self) -> bool:
        """Whether it lets everything through."""
        return not self.requirements and not self.nothing

    def adding(self, more: Iterable[Requirement]) -> CompiledSelector:
        """This selector ANDed with more; nothing stays nothing."""
        if self.nothing:
            return self
        return CompiledSelector(canonical([*self.requirements, *more]))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


NOTHING = CompiledSelector(nothing=True)
EVERYTHING = CompiledSelector()
_NO_LABELS: dict[str, str] = {}


def all_match(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether the labels meet every requirement. NotIn and DoesNotExist accept a missing key."""
    for key, operator, values in requirements:
        value = labels.get(key)
        if operator == "In":
            if value is None or not _is_one_of(value, values):
                return False
        elif operator == "NotIn":
            if value is not None and _is_one_of(value, values):
                return False
        elif operator == "Exists":
            if value is None:
                return False
        elif operator == "DoesNotExist":
            if value is not None:
                return False
        elif value is None or not _compares(value, operator, values[0]):
            return False
    return True


def _is_one_of(value: str, values: tuple[str, ...]) -> bool:
    """Whether a value is among sorted ones, of which there may be very many."""
    if len(values) <= _FEW_VALUES:
        return value in values
    place = bisect_left(values, value)
    return place < len(values) and values[place] == value


def canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Ordered and without repetition."""
    return tuple(sorted(set(requirements)))


def parse_int64(text: str) -> int | None:
    """The integer that Go's ParseInt reads, or None."""
    if _INTEGER_RE.fullmatch(text) is None or len(text) > _MAX_SUBDOMAIN:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def make_requirement(key: str, operator: Operator, values: Sequence[str] | None) -> Requirement:
    """A valid requirement, or a ValueError that lists all that is wrong with it."""
    if errors := requirement_errors(key, operator, values):
        raise ValueError(join_errors(errors))
    return Requirement(key, operator, tuple(sorted(set(values or ()))))


def requirement_errors(
    key: str, operator: Operator, values: Sequence[str] | None, path: str = ""
) -> list[str]:
    """All that is wrong with a requirement; `path` is where it stands in its object."""
    given = values or ()
    at = f"{path}." if path else ""
    errors = []
    if key_errors := label_key_errors(key):
        errors.append(invalid(f"{at}key", key, "; ".join(key_errors)))
    if operator in ("In", "NotIn") and not given:
        reason = "for 'in', 'notin' operators, values set can't be empty"
        errors.append(invalid(f"{at}values", values, reason))
    elif operator in ("Exists", "DoesNotExist") and given:
        reason = "values set must be empty for exists and does not exist"
        errors.append(invalid(f"{at}values", values, reason))
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            reason = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(invalid(f"{at}values", values, reason))
        reason = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            invalid(f"{at}values[{i}]", value, reason)
            for i, value in enumerate(given)
            if parse_int64(value) is None
        ]
    errors += [
        invalid(f"{at}values[{i}][{key}]", value, "; ".join(problems))
        for i, value in enumerate(given)
        if (problems := label_value_errors(value))
    ]
    return errors


def join_errors(errors: Sequence[str]) -> str:
    """Several errors as one text, the way upstream aggregates them."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def label_key_errors(key: str) -> list[str]:
    """What is wrong with a label key: an optional DNS subdomain and "/", then a name."""
    errors = []
    parts = key.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    name = parts[-1]
    if len(parts) == 2:
        prefix = parts[0]
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            if _size(prefix) > _MAX_SUBDOMAIN:
                errors.append(f"prefix part must be no more than {_MAX_SUBDOMAIN} bytes")
            if _SUBDOMAIN_RE.fullmatch(prefix) is None:
                errors.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > _MAX_NAME:
        errors.append(f"name part must be no more than {_MAX_NAME} bytes")
    if _NAME_RE.fullmatch(name) is None:
        errors.append(f"name part {_NAME_RULE}")
    return errors


def subdomain_errors(name: str) -> list[str]:
    """What is wrong with an RFC 1123 subdomain, which the name of a Lease must be."""
    errors = []
    if _size(name) > _MAX_SUBDOMAIN:
        errors.append(f"must be no more than {_MAX_SUBDOMAIN} bytes")
    if _SUBDOMAIN_RE.fullmatch(name) is None:
        errors.append(_SUBDOMAIN_RULE)
    return errors


def namespace_errors(name: str) -> list[str]:
    """What is wrong with the name of a namespace, which must be an RFC 1123 label."""
    if _size(name) <= _MAX_NAME and "." not in name and _SUBDOMAIN_RE.fullmatch(name) is not None:
        return []
    return [
        f"a namespace has up to {_MAX_NAME} lower case letters, digits and '-', and starts and "
        "ends with a letter or a digit"
    ]


def label_value_errors(value: str) -> list[str]:
    """What is wrong with a label value: at most 63 bytes, and empty or a name."""
    errors = []
    if _size(value) > _MAX_NAME:
        errors.append(f"must be no more than {_MAX_NAME} bytes")
    if value and _NAME_RE.fullmatch(value) is None:
        errors.append(_VALUE_RULE)
    return errors


def invalid(path: str, value: str | Sequence[str] | None, reason: str) -> str:
    """The API's text for a bad value at a field path."""
    shown = msgspec.json.encode(value).decode()
    return f"{path}: Invalid value: {shown}: {reason}"


def _size(text: str) -> int:
    """In bytes; also of what was typed in no known encoding and came as surrogates."""
    return len(text.encode(errors="surrogatepass"))


def _compares(value: str, operator: Operator, bound: str) -> bool:
    number, limit = parse_int64(value), parse_int64(bound)
    if number is None or limit is None:
        return False
    return number > limit if operator == "Gt" else number < limit
