"""Remove secrets from everything that users see: configurations, URLs and error texts.

`/configz`, `stowplan config check -o`, log lines, events and error messages pass what they quote
through here. Files that are read again (`--write-config-to`, `config migrate`) must not: they need
the secrets. Invariant: a secret that is malformed is hidden, too, because mistakes are what error
messages quote.
"""

from __future__ import annotations

import re
from typing import Any, Final

#: What a secret value is replaced by, as in `kubectl config view`.
REDACTED: Final = "REDACTED"
#: What a secret part of a URL is replaced by, as in Go's `URL.Redacted`.
_HIDDEN: Final = "xxxxx"

# Certificates are public, but a file with a certificate often holds its key as well.
_SECRET_NAME: Final = re.compile(
    r"((key|cert|ca|certificate|authority)[-_]?data"
    r"|passw(or)?d|passphrase|token|secret|credentials?|auth(orization)?|bearer"
    r"|(api|access|private|client|tls)[-_]?key)$",
    re.IGNORECASE,
)
_URL_NAME: Final = re.compile(r"(url|url[-_]?prefix|server|host|endpoint|proxy)$", re.IGNORECASE)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]*")


def redact_url(url: str) -> str:
    """Return the URL without its password, query and fragment.

    A user name without a password is hidden too, because it may be a token. Everything up to the
    last `@` counts as user and password, because an unescaped password may hold any character.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    userinfo, at, address = rest.rpartition("@")
    if at:
        user, colon, _ = userinfo.partition(":")
        at = f"{user}:{_HIDDEN}@" if colon else f"{_HIDDEN}@"
    address = re.sub(r"([?#]).*", rf"\1{_HIDDEN}", address, count=1, flags=re.DOTALL)
    return f"{scheme}{separator}{at}{address}"


def redact_text(text: str) -> str:
    """Redact every URL in a text."""
    return _URL.sub(lambda found: redact_url(found[0]), text) if "://" in text else text


def redact(value: Any, name: str = "") -> Any:
    """Copy plain data (dicts, lists, scalars) without secrets.

    Values of keys that name a secret are replaced, `name` being the key of the value itself; URLs
    in all other strings are redacted.
    """
    if isinstance(value, dict):
        inherited = name if _is_secret(name) else ""
        return {key: redact(item, inherited or str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, name) for item in value]
    if _is_secret(name) and not isinstance(value, bool) and value not in (None, ""):
        return REDACTED
    if not isinstance(value, str):
        return value
    is_url = _URL.match(value) is not None or _URL_NAME.search(name) is not None
    return redact_url(value) if is_url else redact_text(value)


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None
