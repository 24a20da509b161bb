"""Everything that was asked of a kube-apiserver, read from its audit log.

Tests compare it with what a scheduler is allowed to ask, and count it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Bindings with what they say; of watches both ends, because one that still runs has only begun.
_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  resources: [{group: "", resources: [pods/binding]}]
- level: None
  users: ["system:apiserver", "system:anonymous", "system:unsecured"]
- level: Metadata
"""


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
    #: Of a binding: the pod's UID, and where it was to go.
    uid: str = ""
    node: str = ""

    @property
    def right(self) -> tuple[str, str, str]:
        return (self.group, self.resource, self.verb)


class AuditTrail:
    """The audit log of one control plane; `flags` are for its kube-apiserver."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "audit.log"
        policy = directory / "audit-policy.yaml"
        policy.write_text(_POLICY)
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"]

    def mark(self) -> int:
        """Where the log ends now; requests begun before it may still be written behind it."""
        return self._log.stat().st_size

    def requests(self, user: str, since: int = 0) -> list[Request]:
        """All that the user asked for, each request once, in the order of the answers."""
        seen: set[str] = set()
        found = []
        for identity, request in self._read(since):
            if request.user == user and identity not in seen:
                seen.add(identity)
                found.append(request)
        return found

    def _read(self, since: int) -> Iterator[tuple[str, Request]]:
        with self._log.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # it is just being written
                event = json.loads(line)
                about = event.get("objectRef", {})
                parts = [about.get("resource", ""), about.get("subresource", "")]
                body = event.get("requestObject", {})
                yield (
                    event["auditID"],
                    Request(
                        user=event["user"].get("username", ""),
                        verb=event["verb"],
                        group=about.get("apiGroup", ""),
                        resource="/".join(part for part in parts if part),
                        namespace=about.get("namespace", ""),
                        name=about.get("name", ""),
                        uri=event["requestURI"],
                        code=event.get("responseStatus", {}).get("code", 0),
                        uid=body.get("metadata", {}).get("uid", ""),
                        node=body.get("target", {}).get("name", ""),
                    ),
                )
