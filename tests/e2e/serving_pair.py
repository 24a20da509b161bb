"""kube-scheduler and Stowplan with HTTPS ports, on one control plane, with the same configuration.

Tokens are reviewed and rights are decided by the real kube-apiserver, which also publishes the CAs
of client certificates.
"""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.unit.api.tls_kit import Authority, Pair
from tests.waiting import wait_for

Json = dict[str, Any]


class Answer(NamedTuple):
    status: int
    body: str
    content_type: str


class Schedulers(NamedTuple):
    """Both schedulers' ports, and all that a client may show."""

    kube_port: int
    our_port: int
    users: Authority
    proxies: Authority
    tokens: Mapping[str, str]
    log: Path
    folder: Path
    plane: ControlPlane

    @property
    def root(self) -> Pair:
        """The certificate of a user who may do everything."""
        return self.users.client("root", "system:masters")

    def ask(
        self,
        port: int,
        path: str,
        headers: Mapping[str, str] | None = None,
        certificate: Pair | None = None,
        method: str = "GET",
        body: str | None = None,
    ) -> Answer:
        tls = ssl._create_unverified_context()
        if certificate is not None:
            file = self.folder / "client.pem"
            file.write_bytes(certificate.cert + certificate.key)
            tls.load_cert_chain(file)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=tls)
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(
                response.status, response.read().decode(), response.headers["Content-Type"]
            )
        finally:
            connection.close()

    def ours(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        certificate: Pair | None = None,
    ) -> Answer:
        return self.ask(self.our_port, path, headers, certificate)

    def both(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        certificate: Pair | None = None,
        method: str = "GET",
    ) -> Answer:
        """The answer of both, which is the same."""
        upstream = self.ask(self.kube_port, path, headers, certificate, method)
        ours = self.ask(self.our_port, path, headers, certificate, method)
        assert ours == upstream
        return ours


@contextmanager
def serving_pair(folder: Path) -> Iterator[Schedulers]:
    """Both programs, ready."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    users, proxies = Authority("users"), Authority("proxies")
    (folder / "users.crt").write_bytes(users.cert)
    (folder / "proxies.crt").write_bytes(proxies.cert)
    with ControlPlane(
        apiserver_flags=[
            f"--client-ca-file={folder / 'users.crt'}",
            f"--requestheader-client-ca-file={folder / 'proxies.crt'}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]
    ) as plane:
        tokens = {}
        for name in ("scraper", "stranger"):
            account = {"metadata": {"name": name}}
            plane.api.create("/api/v1/namespaces/default/serviceaccounts", account)
            tokens[name] = plane.service_account_token("default", name)
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rule = {"nonResourceURLs": ["/metrics", "/metrics/*"], "verbs": ["get"]}
        plane.api.create(
            f"{rbac}/clusterroles", {"metadata": {"name": "scrapers"}, "rules": [rule]}
        )
        plane.api.create(
            f"{rbac}/clusterrolebindings",
            {
                "metadata": {"name": "scrapers"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "scrapers",
                },
                "subjects": [
                    {"kind": "ServiceAccount", "name": "scraper", "namespace": "default"},
                    {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"},
                ],
            },
        )
        for name, spec in PODS.items():
            pod = {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", **spec}}
            plane.api.create("/api/v1/namespaces/default/pods", pod)
        delegated = [
            f"--authentication-kubeconfig={plane.kubeconfig}",
            f"--authorization-kubeconfig={plane.kubeconfig}",
        ]
        gates = "--feature-gates=ComponentStatusz=true,ComponentFlagz=true"
        upstream = plane.start_scheduler(None, *delegated, gates)
        kube_port = int(upstream.url.rpartition(":")[2])
        log, port = folder / "stowplan.log", free_port()
        # The same configuration; there are no pods for either.
        command = [
            *(sys.executable, "-m", "stowplan", "kube-scheduler", *delegated, gates),
            *(f"--config={plane.directory / f'kube-scheduler-{kube_port}.yaml'}", "-v=10"),
            *("--bind-address=127.0.0.1", f"--secure-port={port}", "--leader-elect=false"),
        ]
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)
        found = Schedulers(kube_port, port, users, proxies, tokens, log, folder, plane)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            # The first look may come before the CAs are looked up.
            return found.ours("/readyz", certificate=users.client("probe")).status == 200

        try:
            wait_for("stowplan to be ready", is_ready)
            yield found
        finally:
            process.terminate()
            assert process.wait(30) == 0


def container(name: str, requests: Json, limits: Json, **more: str) -> Json:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "image": "i", "resources": resources, **more}


GPU = {"example.com/gpu": "2"}
PODS: dict[str, Json] = {
    "plain": {"containers": [container("a", {"cpu": "100m", "memory": "64Mi"}, {"cpu": "1"})]},
    "nothing": {"containers": [{"name": "a", "image": "i"}]},
    "two": {
        "containers": [
            container("a", {"cpu": "1", "ephemeral-storage": "1Gi"}, {"memory": "1G"}),
            container("b", {"cpu": "250m", **GPU}, GPU),
        ]
    },
    "init": {
        "initContainers": [
            container("side", {"cpu": "100m"}, {"cpu": "200m"}, restartPolicy="Always"),
            container("first", {"cpu": "3"}, {"cpu": "4", "memory": "2Gi"}),
        ],
        "containers": [container("a", {"cpu": "1"}, {"cpu": "2"})],
    },
    "whole": {
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "5", "memory": "3Gi"}},
        "containers": [container("a", {"cpu": "1"}, {"cpu": "2"})],
    },
    "bound": {"nodeName": "n1", "containers": [container("a", {"cpu": "1500m"}, {})]},
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
