"""The pod that a user names on the command line, and names that no object can have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from stowplan.errors import ConfigError

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE: Final = "lower case letters, digits, '-' and '.', with a letter or digit at both ends"
_MAX_NAME: Final = 253
_MAX_NAMESPACE: Final = 63


@dataclass(frozen=True, slots=True)
class PodName:
    """A pod that need not exist."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def parse_pod_name(text: str, namespace: str | None, default: str) -> PodName:
    """`name` or `namespace/name` as typed; `namespace` is the flag's, `default` the context's."""
    before, slash, name = text.rpartition("/")
    if slash and namespace is not None and before != namespace:
        raise ConfigError(f"{text!r} is in another namespace than --namespace {namespace!r}")
    found = PodName(before if slash else namespace or default, name)
    check_name("pod", found.name)
    check_namespace(found.namespace)
    return found


def check_name(kind: str, name: str) -> None:
    """Names go into paths and keys: one that no object can have is refused where it was typed."""
    if not _SUBDOMAIN.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigError(
            f"{name!r} cannot be the name of a {kind}: it must be {_NAME_RULE} (at most "
            f"{_MAX_NAME} characters)"
        )


def check_namespace(name: str) -> None:
    if not _SUBDOMAIN.fullmatch(name) or "." in name or len(name) > _MAX_NAMESPACE:
        raise ConfigError(
            f"{name!r} cannot be the name of a namespace: it must be lower case letters, digits "
            f"and '-', with a letter or digit at both ends (at most {_MAX_NAMESPACE} characters)"
        )
