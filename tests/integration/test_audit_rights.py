"""`stowplan audit` for a user who may not read everything: what it skips and what it says."""

from __future__ import annotations

import json
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.integration.http_thread import serving
from tests.integration.test_audit import audit
from tests.unit.audit.cluster import Json, claim, node, pod, uses, volume

#: A pod that stands where its volume cannot be used.
OBJECTS: dict[str, list[Json]] = {
    "nodes": [node("n1"), node("n2")],
    "pods": [pod("b", "n1", volumes=uses("c"))],
    "persistentvolumeclaims": [claim("c", "v")],
    "persistentvolumes": [volume("v", hosts=["n2"])],
}


def audit_as(readable: Collection[str], folder: Path) -> CompletedProcess[str]:
    """Audit a cluster of `OBJECTS`, of which the user may list only these resources."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            plural = self.path.partition("?")[0].rpartition("/")[2]
            body: Json = {"kind": "List", "metadata": {}, "items": OBJECTS.get(plural, [])}
            if plural not in readable:
                message = f"{plural} is forbidden: at the cluster scope"
                body = {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
            text = json.dumps(body).encode()
            self.send_response(body.get("code", 200))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as port:
        file = folder / "kubeconfig"
        config = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "a", "user": {}}],
        }
        file.write_text(json.dumps(config))
        return audit("--kubeconfig", str(file))


@pytest.mark.parametrize(
    ("readable", "skipped"),
    [
        (
            ["nodes", "pods", "persistentvolumes"],
            "Note: volume-unbound, volume-affinity, volume-zone, rwop not checked for 1 bound pod "
            "with claims: no persistentvolumeclaims were read.",
        ),
        (
            ["nodes", "pods", "persistentvolumeclaims"],
            "Note: volume-affinity, volume-zone not checked for 1 bound pod with claims: "
            "no persistentvolumes were read.",
        ),
    ],
)
def test_claims_and_volumes_that_may_not_be_read_are_not_missing(
    readable: list[str], skipped: str, tmp_path: Path
) -> None:
    done = audit_as(readable, tmp_path)
    assert done.returncode == 0, done.stdout
    assert skipped in done.stdout.splitlines()
    assert "Note: namespaces not read: namespaces is forbidden" in done.stdout


def test_with_all_rights_they_are_checked(tmp_path: Path) -> None:
    done = audit_as(OBJECTS, tmp_path)
    assert done.returncode == 1, done.stderr
    assert "volume-affinity   default/b" in done.stdout
    assert "not checked for" not in done.stdout


def test_a_user_who_may_not_list_pods_is_told_what_to_do(tmp_path: Path) -> None:
    done = audit_as(["nodes"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: pods is forbidden: at the cluster scope. Fix: get the right to list nodes, and "
        "pods of all namespaces, or audit a file that `kubectl get nodes,pods,... -A -o yaml` "
        "wrote with it: --filename FILE\n"
    )
