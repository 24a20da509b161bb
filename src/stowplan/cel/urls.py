"""URLs: `url(device.attributes["x"].endpoint).getHostname()`.

Parsed as Go's `net/url` does, which rejects and normalizes differently from Python's `urllib`. As
Go's strings are bytes, parsing works on text in which each character is one byte (`_bytes_of`).
"""

from __future__ import annotations

import string
from dataclasses import dataclass, replace

from stowplan.cel.addresses import AddressError, parse_address
from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import Failure
from stowplan.cel.go_text import from_utf8, quoted, utf8
from stowplan.cel.values import Map, Opaque, Value, count_comparisons

_define = FUNCTIONS.overload
_TYPE = "kubernetes.URL"
_MOST_PARAMETERS = 10_000
_ALNUM = string.ascii_letters + string.digits

#: Bytes that need no escape, by part of the URL.
_PATH = frozenset(_ALNUM + "-_.~$&+,/:;=@")
_HOST = frozenset(_ALNUM + "-_.~!$&'()*+,;=:[]<>\"")
_USER = frozenset(_ALNUM + "-_.~$&+,;=")
_QUERY = frozenset(_ALNUM + "-_.~")
_FRAGMENT = frozenset(_ALNUM + "-_.~$&+,/:;=?@!()*")
_USERINFO = frozenset(_ALNUM + "-._:~!$&'()*+,;=%@")
#: Characters of a path or fragment that are kept as written.
_KEPT = frozenset("!$&'()*+,;=:@[]%")


class UrlError(ValueError):
    """The text is not a URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url(Opaque):
    scheme: str
    host: str
    path: str
    #: In bytes.
    query: str
    #: As `URL.String` writes it; URLs of the same text are equal.
    text: str

    type_name = _TYPE
    go_type = "*url.URL"

    def same(self, other: Opaque) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __str__(self) -> str:
        return _text_of(self.text)


def _bytes_of(text: str) -> str:
    return utf8(text).decode("latin-1")


def _text_of(raw: str) -> str:
    return from_utf8(raw.encode("latin-1"))


def parse_request_uri(text: str) -> None:
    """Go's url.ParseRequestURI: an absolute URL or path. Raises UrlError."""
    try:
        _parse(_bytes_of(text), is_request=True)
    except UrlError as error:
        raise UrlError(f"parse {quoted(text)}: {error}") from None


def parse_url(text: str) -> Url:
    """Go's url.Parse, for text that is also a request URI. Raises UrlError."""
    parse_request_uri(text)
    raw, _, fragment = _bytes_of(text).partition("#")
    try:
        url = _parse(raw, is_request=False)
    except UrlError as error:
        raise UrlError(f"parse {quoted(_text_of(raw))}: {error}") from None
    if not fragment:
        return url
    try:
        return replace(url, text=f"{url.text}#{_as_written(fragment, _FRAGMENT)}")
    except UrlError as error:
        raise UrlError(f"parse {quoted(text)}: {error}") from None


def _parse(raw: str, *, is_request: bool) -> Url:
    # cel-go's size is 1, however long the text is.
    count_comparisons(len(raw) // 4)
    if any(char < " " or char == "\x7f" for char in raw):
        raise UrlError("net/url: invalid control character in URL")
    if not raw and is_request:
        raise UrlError("empty url")
    if raw == "*":
        return Url("", "", "*", "", "*")
    scheme, rest = _scheme(raw)
    rest, mark, query = rest.partition("?")
    prefix = f"{scheme}:" if scheme else ""
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", query, prefix + rest + mark + query)
        if is_request:
            raise UrlError("invalid URI for request")
    host, authority = "", ""
    if (scheme or not (is_request or rest.startswith("///"))) and rest.startswith("//"):
        inside, slash, after = rest[2:].partition("/")
        rest = slash + after
        user, host = _authority(scheme, inside)
        authority = user + _escaped(host, _HOST)
        if authority or (scheme and rest):
            authority = "//" + authority
    path = _as_written(rest, _PATH)
    text = prefix + authority + path + mark + query
    return Url(scheme, _text_of(host), _text_of(path), query, text)


def _scheme(raw: str) -> tuple[str, str]:
    for index, char in enumerate(raw):
        if char == ":":
            if index == 0:
                raise UrlError("missing protocol scheme")
            return raw[:index].lower(), raw[index + 1 :]
        if char not in _ALNUM and (index == 0 or char not in "+-."):
            break
        if index == 0 and char in string.digits:
            break
    return "", raw


def _authority(scheme: str, inside: str) -> tuple[str, str]:
    """The user as `URL.String` writes it, with its @, and the host."""
    userinfo, at, host_text = inside.rpartition("@")
    host = _host(scheme, host_text)
    if not at:
        return "", host
    if not _USERINFO.issuperset(userinfo):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    shown = [_escaped(_unescaped(part, None), _USER) for part in (name, password)]
    return shown[0] + colon + shown[1] + "@", host


def _host(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        raise UrlError("invalid IP-literal")
    if opening == 0:
        return _ip_literal(host)
    colon = host.find(":")
    if colon >= 0:
        if scheme not in ("http", "https"):
            colon = host.rfind(":")
        _check_port(host[colon:])
    return _unescaped(host, _HOST)


def _ip_literal(host: str) -> str:
    closing = host.rfind("]")
    if closing < 0:
        raise UrlError("missing ']' in host")
    port = host[closing + 1 :]
    _check_port(port)
    name, percent, zone = host[1:closing].partition("%25")
    literal = _unescaped(name, _HOST) + _unescaped(percent + zone, _HOST, is_zone=True)
    try:
        address, _ = parse_address(_text_of(literal))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if address.bits == 32:
        raise UrlError("invalid IP-literal")
    return f"[{literal}]{port}"


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and all(char in string.digits for char in text[1:]))


def _check_port(text: str) -> None:
    if not _is_port(text):
        raise UrlError(f"invalid port {quoted(_text_of(text))} after host")


def _unescaped(raw: str, host: frozenset[str] | None, *, is_zone: bool = False) -> str:
    """The text without %-escapes. `host`: the bytes that a host may contain; few may be escaped."""
    parts = raw.split("%")
    if host is not None:
        _check_host(parts[0], host)
    plain = [parts[0]]
    for index, part in enumerate(parts[1:], 1):
        digits = part[:2]
        if len(digits) < 2 or not all(char in string.hexdigits for char in digits):
            raise _bad_escape("%" + "%".join(parts[index:])[:2])
        byte = chr(int(digits, 16))
        if host is not None and digits != "25":
            bad = byte != " " and byte not in host if is_zone else byte < "\x80"
            if bad:
                raise _bad_escape("%" + digits)
        if host is not None:
            _check_host(part[2:], host)
        plain += (byte, part[2:])
    return "".join(plain)


def _bad_escape(text: str) -> UrlError:
    return UrlError(f"invalid URL escape {quoted(_text_of(text))}")


def _check_host(part: str, host: frozenset[str]) -> None:
    for char in part:
        if char < "\x80" and char not in host:
            raise UrlError(f"invalid character {quoted(char)} in host name")


def _escaped(raw: str, plain: frozenset[str]) -> str:
    return "".join(char if char in plain else f"%{ord(char):02X}" for char in raw)


def _as_written(raw: str, plain: frozenset[str]) -> str:
    """The author's own escapes if they are valid, otherwise Go's. Raises UrlError."""
    unescaped = _unescaped(raw, None)
    if all(char in plain or char in _KEPT for char in raw):
        return raw
    return _escaped(unescaped, plain)


def _parameters(query: str) -> dict[str, list[Value]]:
    count_comparisons(len(query) // 4)
    found: dict[str, list[Value]] = {}
    if query.count("&") >= _MOST_PARAMETERS:
        return found
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.replace("+", " ").partition("=")
        try:
            name, text = (_text_of(_unescaped(one, None)) for one in (key, value))
        except UrlError:
            continue
        found.setdefault(name, []).append(text)
    return found


def _host_and_port(one: Url) -> tuple[str, str]:
    name, colon, port = one.host.rpartition(":")
    if not colon or not _is_port(":" + port):
        name, port = one.host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


@_define("url", "string_to_url", f"(string) -> {_TYPE}")
def to_url(text: str) -> Value:
    try:
        return parse_url(text)
    except UrlError as error:
        return Failure(f"URL parse error during conversion from string: {error}")


@_define("isURL", "is_url_string", "(string) -> bool")
def is_url(text: str) -> Value:
    try:
        parse_request_uri(text)
    except UrlError:
        return False
    return True


@_define("getQuery", "url_get_query", f"{_TYPE}.() -> map(string, list(string))")
def query_of(one: Url) -> Value:
    return Map(list(_parameters(one.query).items()))


for _name, _overload, _run in (
    ("getScheme", "url_get_scheme", lambda one: one.scheme),
    ("getHost", "url_get_host", lambda one: one.host),
    ("getHostname", "url_get_hostname", lambda one: _host_and_port(one)[0]),
    ("getPort", "url_get_port", lambda one: _host_and_port(one)[1]),
    ("getEscapedPath", "url_get_escaped_path", lambda one: one.path),
):
    _define(_name, _overload, f"{_TYPE}.() -> string")(_run)
