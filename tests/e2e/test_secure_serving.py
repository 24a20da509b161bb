"""The HTTPS port of `stowplan run` beside kube-scheduler's, on one control plane.

Tokens are reviewed and rights are decided by the real kube-apiserver, which also publishes the CAs
of client certificates. Every answer is compared with kube-scheduler's own.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.unit.api.tls_kit import Authority, Pair
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e


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
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
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


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schedulers]:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    folder = tmp_path_factory.mktemp("serving")
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
        log, port = folder / "stowplan.log", free_port()
        command = [
            *(sys.executable, "-m", "stowplan", "run", f"--kubeconfig={plane.kubeconfig}"),
            *("--leader-elect=false", "--scheduler-name=ours", f"--secure-port={port}", "-v=10"),
        ]
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)
        found = Schedulers(
            int(upstream.url.rpartition(":")[2]), port, users, proxies, tokens, log, folder
        )

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            # The first look may come before the CAs are looked up: then the handshake fails.
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


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_need_no_credentials(schedulers: Schedulers, path: str) -> None:
    assert schedulers.both(path) == Answer(200, "ok", "text/plain; charset=utf-8")


@pytest.mark.parametrize("path", ["/configz", "/", "/no-such-path", "/healthz/ping"])
def test_anonymous_clients_get_nothing_else(schedulers: Schedulers, path: str) -> None:
    answer = schedulers.both(path)
    assert answer.status == 403
    message = json.loads(answer.body)["message"]
    assert message == f'forbidden: User "system:anonymous" cannot get path "{path}"'


def test_anonymous_clients_get_no_metrics(schedulers: Schedulers) -> None:
    """The control plane's kube-scheduler opens this path, for benchmarks."""
    assert schedulers.ours("/metrics").status == 403


def test_other_verbs_are_other_rights(schedulers: Schedulers) -> None:
    headers = bearer(schedulers.tokens["scraper"])
    answer = schedulers.both("/configz", headers, method="POST")
    assert answer.status == 403
    assert " cannot post path " in answer.body


@pytest.mark.parametrize(
    "headers",
    [bearer("nonsense"), bearer("a.b.c"), {"Authorization": "bearer x" + "y" * 9000}],
    ids=["word", "dots", "long"],
)
@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
def test_a_wrong_token_is_401(schedulers: Schedulers, path: str, headers: dict[str, str]) -> None:
    answer = schedulers.both(path, headers)
    assert (answer.status, json.loads(answer.body)["reason"]) == (401, "Unauthorized")


def test_a_service_account_with_rights(schedulers: Schedulers) -> None:
    answer = schedulers.ours("/metrics", bearer(schedulers.tokens["scraper"]))
    assert answer.status == 200
    assert "scheduler_pending_pods" in answer.body


def test_a_service_account_without_rights(schedulers: Schedulers) -> None:
    answer = schedulers.both("/configz", bearer(schedulers.tokens["stranger"]))
    assert answer.status == 403
    assert schedulers.ours("/metrics", bearer(schedulers.tokens["stranger"])).status == 403
    assert "system:serviceaccount:default:stranger" in answer.body


def test_rights_are_for_paths(schedulers: Schedulers) -> None:
    headers = bearer(schedulers.tokens["scraper"])
    assert schedulers.both("/configz", headers).status == 403
    assert schedulers.ours("/metrics/no-such", headers).status == 404


def test_a_client_certificate_names_the_user(schedulers: Schedulers) -> None:
    ann = schedulers.users.client("ann")
    assert schedulers.ours("/metrics", certificate=ann).status == 200
    answer = schedulers.both("/configz", certificate=ann)
    assert answer.status == 403
    assert 'User \\"ann\\"' in answer.body


def test_system_masters_may_everything(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    assert schedulers.ours("/configz", certificate=root).status == 200


def test_a_proxy_names_the_user_in_headers(schedulers: Schedulers) -> None:
    proxy = schedulers.proxies.client("front-proxy")
    headers = {"X-Remote-User": "bob", "X-Remote-Group": "system:masters"}
    assert schedulers.ours("/configz", headers, proxy).status == 200
    answer = schedulers.both("/configz", {"X-Remote-User": "bob"}, proxy)
    assert answer.status == 403
    assert 'User \\"bob\\"' in answer.body


def test_headers_are_believed_from_proxies_only(schedulers: Schedulers) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    assert schedulers.both("/configz", headers).status == 403
    other = schedulers.proxies.client("other-proxy")
    assert schedulers.both("/configz", headers, other).status == 401
    ann = schedulers.users.client("ann")
    assert 'User \\"ann\\"' in schedulers.both("/configz", headers, ann).body


def test_a_certificate_of_another_ca_gets_nothing(schedulers: Schedulers) -> None:
    """kube-scheduler says 401; OpenSSL ends the handshake."""
    stranger = Authority("strangers").client("root", "system:masters")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        schedulers.ours("/configz", certificate=stranger)


def test_requests_and_limits_of_every_pod(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    upstream = schedulers.ask(schedulers.kube_port, "/metrics/resources", certificate=root).body
    assert upstream.count("kube_pod_resource_limit{") > 6
    assert schedulers.ours("/metrics/resources", certificate=root).body == upstream


def leaves(tree: object, path: str = "") -> Iterator[str]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from leaves(value, f"{path}[{number}]")
    else:
        yield path


def test_configz_is_complete(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    upstream = json.loads(schedulers.ask(schedulers.kube_port, "/configz", certificate=root).body)
    ours = json.loads(schedulers.ours("/configz", certificate=root).body)
    assert set(leaves(upstream)) - set(leaves(ours)) == set()


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_statusz_as_json(schedulers: Schedulers, version: str) -> None:
    root = schedulers.users.client("root", "system:masters")
    headers = {"Accept": f"application/json;v={version};g=config.k8s.io;as=Statusz"}
    upstream = schedulers.ask(schedulers.kube_port, "/statusz", headers, root)
    ours = schedulers.ours("/statusz", headers, root)
    assert ours.content_type == upstream.content_type
    assert json.loads(ours.body).keys() == json.loads(upstream.body).keys()


def test_flagz_has_every_flag_of_kube_scheduler(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    headers = {"Accept": "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"}
    upstream = json.loads(schedulers.ask(schedulers.kube_port, "/flagz", headers, root).body)
    ours = json.loads(schedulers.ours("/flagz", headers, root).body)
    assert set(upstream["flags"]) - set(ours["flags"]) == set()
    assert ours["flags"]["secure-port"] == str(schedulers.our_port)


def test_statusz_as_text(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    text = schedulers.ours("/statusz", certificate=root).body
    assert text.startswith("\nkube-scheduler statusz\nWarning: ")
    assert "Emulation version:  1.36\n" in text
    assert "Paths:  /configz /healthz /livez" in text.replace("/flagz ", "")


def test_the_verbosity_can_be_changed(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    ann = schedulers.users.client("ann")
    path = "/debug/flags/v"

    def put(port: int, value: str, certificate: Pair) -> Answer:
        return schedulers.ask(port, path, None, certificate, "PUT", value)

    for value in ("3", "x", "", "-1", "0"):
        ours = put(schedulers.our_port, value, root)
        assert ours == put(schedulers.kube_port, value, root)
    assert put(schedulers.our_port, "10", ann).status == 403
    assert schedulers.both(path, certificate=root).status == 406
    assert put(schedulers.our_port, "10", root).status == 200


def test_no_token_is_logged(schedulers: Schedulers) -> None:
    schedulers.ours("/metrics", bearer("hunter2-" + "x" * 30))
    schedulers.ours("/metrics", bearer(schedulers.tokens["scraper"]))
    text = schedulers.log.read_text()
    assert "Unable to authenticate the request" in text
    assert "hunter2" not in text
    assert schedulers.tokens["scraper"] not in text
