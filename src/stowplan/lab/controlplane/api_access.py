"""Plain HTTPS requests to a control plane, for setting things up and looking at the result.

Called by `ControlPlane` and by tests, which must be able to check the product with a client other
than the product's own. Synchronous, standard library only. What must stay true: certificates are
verified, and an error from the server reaches the reader with the server's own message.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from stowplan.lab.controlplane.processes import ControlPlaneError
from stowplan.loader.json_text import load_json

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class ApiError(ControlPlaneError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        self.status = status
        try:
            message = load_json(body)["message"]
        except (ValueError, KeyError, TypeError):
            message = body.strip()
        super().__init__(f"{method} {path}: {status} {message}")


class ApiAccess:
    """One user's access to an API server."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str | None = None) -> None:
        self.url = url
        self._token = token
        # No proxies: a proxy from the environment has nothing to do with our loopback address.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )

    def raw(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        timeout: float = 30.0,
    ) -> str:
        """The text of the answer; raises ApiError for an error status, OSError for no answer."""
        headers = {"Accept": JSON}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                content: bytes = response.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise ApiError(method, path, error.code, text) from None
        return content.decode()

    def get(self, path: str) -> dict[str, Any]:
        return self._decoded("GET", path)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._decoded("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A JSON merge patch."""
        return self._decoded("PATCH", path, body, MERGE_PATCH)

    def delete(self, path: str, grace_seconds: int | None = None) -> dict[str, Any]:
        options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        return self._decoded("DELETE", path, options)

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Place a pod, as a scheduler does."""
        self.create(
            f"/api/v1/namespaces/{namespace}/pods/{pod}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
        )

    def answers(self, path: str, timeout: float = 2.0) -> bool:
        """Whether the path is there and healthy; False also while the server starts or ends."""
        try:
            self.raw("GET", path, timeout=timeout)
        except (ApiError, OSError, http.client.HTTPException):
            return False
        return True

    def _decoded(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        decoded: dict[str, Any] = load_json(self.raw(method, path, body, content_type))
        return decoded


def unverified_access(url: str, token: str | None = None) -> ApiAccess:
    """Access to the endpoints of a server that makes up its certificate in memory.

    Only for servers on the loopback interface that we started ourselves.
    """
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return ApiAccess(url, tls, token)
