"""Bindings that a kube-apiserver was asked for, read from its audit log.

`AuditTrail` has them recorded with their bodies, and other requests with their users. A request is
logged when it is answered. The audit ID identifies it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stowplan.audit.items import seconds
from stowplan.errors import ConfigError
from stowplan.loader.files import read_lines
from stowplan.loader.json_text import load_json

_BINDINGS = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  resources: [{group: "", resources: [pods/binding]}]
- level: None
"""
# Of watches both ends, because one that still runs has only begun.
_OTHERS = """\
  users: ["system:apiserver", "system:anonymous", "system:unsecured"]
- level: Metadata
"""


_NEVER_ROTATED_MIB = 100_000
_BEGUN = "ResponseStarted"


@dataclass(frozen=True)
class Request:
    """One request and its answer."""

    user: str
    verb: str
    group: str
    #: With the subresource: `pods/binding`.
    resource: str
    namespace: str
    name: str
    #: For requests that are about no resource, such as /healthz.
    uri: str
    code: int
    #: Of a binding: the pod's UID, and the node.
    uid: str = ""
    node: str = ""
    received_at: float = 0.0

    @property
    def right(self) -> tuple[str, str, str]:
        """What RBAC must allow for it: group, resource and verb."""
        return (self.group, self.resource, self.verb)

    @property
    def is_bind(self) -> bool:
        return self.resource == "pods/binding" and self.verb == "create"

    @property
    def succeeded(self) -> bool:
        return 200 <= self.code < 300


class AuditTrail:
    """The audit log of one control plane; `flags` are for its kube-apiserver."""

    def __init__(self, directory: Path, *, bindings_only: bool = False) -> None:
        self.path = directory / "audit.log"
        policy = directory / "audit-policy.yaml"
        policy.write_text(_BINDINGS if bindings_only else _BINDINGS + _OTHERS)
        self.flags = [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.path}",
            f"--audit-log-maxsize={_NEVER_ROTATED_MIB}",
        ]

    def mark(self) -> int:
        """Where the log ends now; requests begun before it may still be written behind it."""
        return self.path.stat().st_size

    def requests(self, user: str, since: int = 0) -> list[Request]:
        """All requests of a user, in the order of the answers."""
        return [each for each in read_audit_log(self.path, since) if each.user == user]


def read_audit_log(path: Path, since: int = 0) -> Iterator[Request]:
    """Each request once, in the order of the answers, from a byte position of the log on.

    Lines that an API server was killed in the middle of are passed over; a file that begins with
    something else is not an audit log.
    """
    # A long answer (a watch) is logged when it begins and when it ends.
    begun: set[str] = set()
    is_log = False
    try:
        with path.open("rb") as log:
            log.seek(since)
            for number, line in enumerate(read_lines(log, str(path)), start=1):
                try:
                    event = load_json(line)
                    identity, is_begin = _text(event["auditID"]), event.get("stage") == _BEGUN
                    request = _read(event)
                except (ValueError, AttributeError, KeyError, TypeError) as problem:
                    if is_log or not line.endswith(b"\n"):
                        continue
                    where = f"{path}:{number}"
                    raise ConfigError(f"not an audit event: {problem!r}", where=where) from None
                is_log = True
                if is_begin:
                    begun.add(identity)
                elif identity in begun:
                    begun.remove(identity)
                    continue
                yield request
    except OSError as problem:
        raise ConfigError(f"cannot be read: {problem.strerror}", where=str(path)) from None


def _read(event: Any) -> Request:
    about = event.get("objectRef") or {}
    parts = [_text(about.get("resource", "")), _text(about.get("subresource", ""))]
    body = event.get("requestObject") or {}
    return Request(
        user=_text(event["user"].get("username", "")),
        verb=_text(event["verb"]),
        group=_text(about.get("apiGroup", "")),
        resource="/".join(part for part in parts if part),
        namespace=_text(about.get("namespace", "")),
        name=_text(about.get("name", "")),
        uri=_text(event["requestURI"]),
        code=int((event.get("responseStatus") or {}).get("code", 0)),
        uid=_text((body.get("metadata") or {}).get("uid", "")),
        node=_text((body.get("target") or {}).get("name", "")),
        received_at=seconds(event.get("requestReceivedTimestamp")),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is not a text")
    return value
