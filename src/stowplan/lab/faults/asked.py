"""What a request asks of an API server: its verb, resource and name, as in RequestInfo.

Called by the proxy for every request, so that a fault can be aimed at `create pods/binding` or at
`watch nodes` rather than at a path.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Asked:
    """One request. `verb` and `resource` are empty outside `/api` and `/apis`."""

    method: str
    target: str
    path: str
    query: str
    verb: str = ""
    #: With its subresource: `pods`, `pods/binding`.
    resource: str = ""
    name: str = ""

    @property
    def is_list(self) -> bool:
        return self.verb == "list"

    @property
    def is_watch(self) -> bool:
        return self.verb == "watch"


def read_request(method: str, target: str) -> Asked:
    """Classify a request by its method and target."""
    parts = urlsplit(target)
    words = [word for word in parts.path.split("/") if word]
    if words[:1] == ["api"]:
        rest = words[2:]
    elif words[:1] == ["apis"]:
        rest = words[3:]
    else:
        rest = []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    resource, name = "/".join(rest[:1] + rest[2:]), "".join(rest[1:2])
    return Asked(
        method,
        target,
        parts.path,
        parts.query,
        _verb(method, name, parts.query) if resource else "",
        resource,
        name,
    )


def _verb(method: str, name: str, query: str) -> str:
    if method == "GET":
        if parse_qs(query).get("watch", ["0"])[0] in ("1", "true"):
            return "watch"
        return "get" if name else "list"
    return "deletecollection" if method == "DELETE" and not name else _VERBS.get(method, "")
