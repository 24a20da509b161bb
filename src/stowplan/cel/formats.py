"""Named formats: `format.dns1123Label().validate(device.driver)` returns the errors, or none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.go_text import from_utf8, utf8
from stowplan.cel.urls import UrlError, parse_request_uri
from stowplan.cel.values import NONE, Opaque, Opt, Value

Complaints = Callable[[str], list[str]]
_define = FUNCTIONS.overload
_TYPE = "kubernetes.NamedFormat"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_UUID = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"

_LETTERS = "consist of lower case alphanumeric characters"
_ENDS = "and must start and end with an alphanumeric character"
_LABEL_RULE = f"a lowercase RFC 1123 label must {_LETTERS} or '-', {_ENDS}"
_SUBDOMAIN_RULE = f"a lowercase RFC 1123 subdomain must {_LETTERS}, '-' or '.', {_ENDS}"
_DNS_1035_RULE = (
    f"a DNS-1035 label must {_LETTERS} or '-', start with an alphabetic character, and end with "
    "an alphanumeric character"
)
_KEY_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    + _ENDS
)


@dataclass(frozen=True, slots=True)
class Format(Opaque):
    name: str
    complaints: Complaints
    #: `validate` costs as much as a regular expression of this length.
    pattern_size: int

    type_name = _TYPE
    unhashable = "cel.Format"

    def same(self, other: Opaque) -> bool:
        return isinstance(other, Format) and self.name == other.name


def _is_match(pattern: str, text: str) -> bool:
    """Whether the whole text matches. These patterns take linear time in Python's `re`, too."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(utf8(text)) > limit else []


def _breaks(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _label(text: str) -> list[str]:
    if _is_match(_LABEL, text):
        return _too_long(text, 63)
    if _is_match(_SUBDOMAIN, text):
        return [*_too_long(text, 63), "must not contain dots"]
    return [*_too_long(text, 63), _breaks(_LABEL_RULE, _LABEL, "my-name", "123-abc")]


def _by_pattern(limit: int, rule: str, pattern: str, *examples: str, unit: str = "") -> Complaints:
    def complaints(text: str) -> list[str]:
        found = _too_long(text, limit, unit or "characters")
        if not _is_match(pattern, text):
            found.append(_breaks(rule, pattern, *examples))
        return found

    return complaints


_subdomain = _by_pattern(253, _SUBDOMAIN_RULE, _SUBDOMAIN, "example.com")
_dns_1035 = _by_pattern(63, _DNS_1035_RULE, _DNS_1035, "my-name", "abc-123")
_prefix_of_key = _by_pattern(253, _SUBDOMAIN_RULE, _SUBDOMAIN, "example.com", unit="bytes")


def _qualified_name(text: str) -> list[str]:
    rule = _breaks(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        ]
    found: list[str] = []
    if slash:
        complaints = _prefix_of_key(prefix) if prefix else ["must be non-empty"]
        found += [f"prefix part {complaint}" for complaint in complaints]
    of_name = _too_long(name, 63, "bytes") if name else ["must be non-empty"]
    if not _is_match(_KEY, name):
        of_name.append(rule)
    return found + [f"name part {complaint}" for complaint in of_name]


def _as_prefix(of: Complaints) -> Complaints:
    """A name to which something will be appended may end with a dash."""

    def complaints(text: str) -> list[str]:
        data = utf8(text)
        if len(data) > 1 and data.endswith(b"-"):
            return of(from_utf8(data[:-2]) + "a")
        return of(text)

    return complaints


def _uri(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    """Go's layout 2006-01-02: with leading zeros, and a year 0."""
    if not _is_match(r"\d{4}-\d\d-\d\d", text):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(utf8(text)) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return False
    time = re.fullmatch(_TIME, parts[1])
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


def _test(is_valid: Callable[[str], bool], complaint: str) -> Complaints:
    return lambda text: [] if is_valid(text) else [complaint]


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", _label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _dns_1035, 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _as_prefix(_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _as_prefix(_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _as_prefix(_dns_1035), 30),
    "labelValue": Format(
        "LabelValue",
        _by_pattern(63, _VALUE_RULE, _VALUE, "MyValue", "my_value", "12345", unit="bytes"),
        40,
    ),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format(
        "uuid",
        _test(lambda text: _is_match(_UUID, text), "does not match the UUID format"),
        len(_UUID),
    ),
    "byte": Format("byte", _test(lambda text: _is_match(_BASE64, text), "invalid base64"), 84),
    "date": Format("date", _test(_is_date, "invalid date"), len(_TIME)),
    "datetime": Format("datetime", _test(_is_datetime, "invalid datetime"), len(_TIME)),
}
for _name, _format in _FORMATS.items():
    _define(f"format.{_name}", f"format.{_name}", f"() -> {_TYPE}")(lambda of=_format: of)


@_define("format.named", "format-named", f"(string) -> optional_type({_TYPE})")
def named(name: str) -> Value:
    return Opt((_FORMATS[name],)) if name in _FORMATS else NONE


@_define("validate", "format-validate", f"{_TYPE}.(string) -> optional_type(list(string))")
def validate(of: Format, text: str) -> Value:
    complaints = of.complaints(text)
    return Opt((list(complaints),)) if complaints else NONE
