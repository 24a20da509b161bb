"""Requests to the API server that keep their connection, for thousands of pods.

Used by the load and the observer, each with a connection of its own, straight to the API server:
faults of the proxies are for the schedulers alone.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from stowplan.lab.controlplane import ControlPlane

_TIMEOUT_S = 15.0
MERGE = "application/merge-patch+json"


class Away(Exception):
    """The API server did not answer; whether the request took effect is not known."""


class Api:
    """One connection, opened when it is needed."""

    def __init__(self, plane: ControlPlane) -> None:
        self._address = urlsplit(plane.url).netloc
        self._tls = ssl.create_default_context(cafile=str(plane.certificate_authority))
        self._headers = {"Authorization": f"Bearer {plane.admin_token}"}
        self._connection: http.client.HTTPSConnection | None = None

    def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and decoded answer; raises Away if there is none."""
        answer = self._send(method, path, body, content_type)
        try:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            self.close()
            raise Away(str(problem)) from None

    def watch(self, path: str) -> Iterator[dict[str, Any]]:
        """Events until the stream ends; raises Away if it breaks."""
        answer = self._send("GET", path, None, "")
        try:
            while line := answer.readline():
                yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Away(str(problem)) from None
        finally:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(
        self, method: str, path: str, body: Any, content_type: str
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._address, context=self._tls, timeout=_TIMEOUT_S
            )
        headers = dict(self._headers)
        raw = None
        if body is not None:
            raw = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        try:
            self._connection.request(method, path, raw, headers)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise Away(str(problem)) from None
