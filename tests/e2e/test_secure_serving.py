"""The HTTPS port of `stowplan run` beside kube-scheduler's, on one control plane.

Tokens are reviewed and rights are decided by the real kube-apiserver, which also publishes the CAs
of client certificates. Every answer is compared with kube-scheduler's own.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.scraping import Labels, read_families
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


@pytest.mark.parametrize("path", ["/configz", "/healthz", "/no-such-path"])
def test_a_certificate_of_another_ca_gets_nothing(schedulers: Schedulers, path: str) -> None:
    stranger = Authority("strangers").client("root", "system:masters")
    assert schedulers.both(path, certificate=stranger).status == 401


def test_an_expired_certificate_gets_nothing(schedulers: Schedulers) -> None:
    late = schedulers.users.client("root", "system:masters", hours=(-2, -1))
    assert schedulers.both("/configz", certificate=late).status == 401


def test_a_token_counts_beside_a_certificate_of_another_ca(schedulers: Schedulers) -> None:
    stranger = Authority("strangers").client("root", "system:masters")
    headers = bearer(schedulers.tokens["stranger"])
    assert schedulers.both("/configz", headers, stranger).status == 403


def test_a_proxys_certificate_without_headers_names_no_user(schedulers: Schedulers) -> None:
    proxy = schedulers.proxies.client("front-proxy")
    assert schedulers.both("/configz", certificate=proxy).status == 401


@pytest.mark.parametrize("path", ["/no-such-path", "/metrics/no-such", "/healthz/no-such"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_paths(schedulers: Schedulers, path: str, method: str) -> None:
    answer = schedulers.both(path, certificate=schedulers.root, method=method)
    assert answer == Answer(404, "404 page not found\n", "text/plain; charset=utf-8")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "HEAD", "OPTIONS"])
def test_plain_http_to_the_https_port(schedulers: Schedulers, method: str) -> None:
    request = f"{method} /healthz HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    answer = sent(schedulers.our_port, request)
    assert answer == sent(schedulers.kube_port, request)
    assert answer.endswith(b"Client sent an HTTP request to an HTTPS server.\n")


def test_junk_to_the_https_port(schedulers: Schedulers) -> None:
    assert sent(schedulers.our_port, b"hello\r\n") == sent(schedulers.kube_port, b"hello\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n", b"431"),
        (b"GARBAGE\r\n\r\n", b"400"),
    ],
    ids=["huge headers", "no request"],
)
def test_bad_requests(schedulers: Schedulers, request_bytes: bytes, status: bytes) -> None:
    for port in (schedulers.kube_port, schedulers.our_port):
        assert sent(port, request_bytes, with_tls=True).startswith(b"HTTP/1.1 " + status)
    assert schedulers.ours("/healthz").status == 200


def sent(port: int, data: bytes, *, with_tls: bool = False) -> bytes:
    """All that a client gets that sends these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        if with_tls:
            connection = ssl._create_unverified_context().wrap_socket(connection)
        received = bytearray()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(data)
        with connection, contextlib.suppress(ConnectionError, ssl.SSLError):
            while chunk := connection.recv(65536):
                received += chunk
        return bytes(received)


def test_an_anonymous_client_gets_nothing_on_any_path(schedulers: Schedulers) -> None:
    """The server itself says which paths it has, so that no new one is forgotten here."""
    index = json.loads(schedulers.ours("/", certificate=schedulers.root).body)["paths"]
    assert {"/metrics", "/configz", "/flagz", "/statusz", "/debug/pprof/profile"} <= {*index}
    opened = {
        path
        for path in ("/", *index)
        for method in ("GET", "POST", "PUT", "HEAD", "DELETE")
        if schedulers.ask(schedulers.our_port, path, method=method).status != 403
    }
    assert opened == {"/healthz", "/livez", "/readyz"}


def test_new_cas_in_the_config_map_are_used(schedulers: Schedulers) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    more = Authority("more")
    ann = more.client("ann")
    assert schedulers.both("/configz", certificate=ann).status == 401
    known = schedulers.plane.api.get(path)["data"]["client-ca-file"]
    data = {"client-ca-file": known + more.cert.decode()}
    schedulers.plane.api.patch(path, {"data": data})

    def is_known(port: int) -> bool:
        return schedulers.ask(port, "/configz", certificate=ann).status == 403

    # Far less than a poll would take.
    wait_for("kube-scheduler to know ann", lambda: is_known(schedulers.kube_port), 20)
    wait_for("stowplan to know ann", lambda: is_known(schedulers.our_port), 20)
    assert "Cannot use the CAs" not in schedulers.log.read_text()


#: Families about the clients of the port.
ACCESS = (
    "apiserver_client_certificate_expiration_seconds",
    "apiserver_delegated_authn_request_duration_seconds",
    "apiserver_delegated_authn_request_total",
    "apiserver_delegated_authz_request_duration_seconds",
    "apiserver_delegated_authz_request_total",
    "authenticated_user_requests_total",  # the parser's suffix
    "authentication_attempts_total",
    "authentication_duration_seconds",
    "authentication_token_cache_active_fetch_count",
    "authentication_token_cache_fetch_total",
    "authentication_token_cache_request_duration_seconds",
    "authentication_token_cache_request_total",
    "authorization_attempts_total",
    "authorization_duration_seconds",
)


def test_requests_are_counted_alike(schedulers: Schedulers) -> None:
    """The same requests to both add the same to every series, by token, certificate and none."""
    counted = []
    for number, port in enumerate((schedulers.kube_port, schedulers.our_port)):
        before = access_counts(schedulers, port)
        # Names that were not asked about before, so that no answer is kept.
        plane, name = schedulers.plane, f"counted-{number}"
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        plane.api.create(accounts, {"metadata": {"name": name}})
        token = bearer(plane.service_account_token("default", name))
        user = schedulers.users.client(f"{name}@example.com")
        schedulers.ask(port, "/healthz")
        for _ in range(3):
            schedulers.ask(port, "/configz", token)
        schedulers.ask(port, "/configz", bearer(f"wrong-{number}"))
        schedulers.ask(port, "/configz", certificate=user)
        schedulers.ask(port, "/configz", certificate=Authority("x").client("x"))
        schedulers.ask(port, f"/anonymous-{number}")
        schedulers.ask(port, "/configz", certificate=schedulers.users.client("admin"))
        counted.append(access_counts(schedulers, port) - before)
    upstream, ours = counted
    assert ours == upstream
    added = {name for name, _ in upstream}
    assert {*ACCESS} - added == {"authentication_token_cache_active_fetch_count"}
    assert "rest_client_requests_total" in added


def access_counts(schedulers: Schedulers, port: int) -> Counter[tuple[str, Labels]]:
    text = schedulers.ask(port, "/metrics", certificate=schedulers.root).body
    for name in ("authenticated_user_requests", "authentication_attempts"):
        assert f"\n# TYPE {name} counter\n{name}{{" in text
    families = read_families(text)
    counts = Counter(
        {
            (name, labels): int(value)
            for name in ACCESS
            for labels, value in families[name].values.items()
        }
    )
    reviews = "rest_client_requests_total"
    for labels, value in families[reviews].values.items():
        if ("method", "POST") in labels:  # neither program creates anything else here
            counts[reviews, labels] = int(value)
    return counts


def test_families_about_clients_have_the_same_shape(schedulers: Schedulers) -> None:
    schedulers.both("/configz", bearer(schedulers.tokens["stranger"]))
    upstream, ours = (
        read_families(schedulers.ask(port, "/metrics", certificate=schedulers.root).body)
        for port in (schedulers.kube_port, schedulers.our_port)
    )
    workqueues = [name for name in upstream if name.startswith("workqueue_")]
    assert len(workqueues) == 7
    for name in (*ACCESS, *workqueues):
        assert ours[name].kind == upstream[name].kind, name
        assert ours[name].labels == upstream[name].labels, name
        assert ours[name].bounds == upstream[name].bounds, name
    for name in workqueues:
        assert ours[name].label_values("name") == upstream[name].label_values("name")


def test_an_api_server_that_is_gone(schedulers: Schedulers) -> None:
    """Tokens are refused, rights are an error, health is answered; then all is as before."""
    new = schedulers.users.client("new-user")
    ports = (schedulers.kube_port, schedulers.our_port)
    schedulers.plane.stop_apiserver()
    try:
        assert schedulers.both("/healthz").status == 200
        assert schedulers.both("/configz", bearer("unknown")).status == 401
        upstream, ours = (schedulers.ask(port, "/configz", certificate=new) for port in ports)
        # What follows is each program's own words for a refused connection.
        start = 'Internal Server Error: "/configz": '
        assert (ours.status, ours.content_type) == (upstream.status, upstream.content_type)
        assert ours.status == 500
        assert ours.body.startswith(start)
        assert upstream.body.startswith(start)
    finally:
        schedulers.plane.start_apiserver()

    def works_again() -> bool:
        answers = (schedulers.ask(port, "/configz", certificate=new) for port in ports)
        return all(answer.status == 403 for answer in answers)

    wait_for("reviews to work again", works_again)


def test_requests_and_limits_of_every_pod(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    upstream = schedulers.ask(schedulers.kube_port, "/metrics/resources", certificate=root).body
    assert upstream.count("kube_pod_resource_limit{") > 6
    assert schedulers.ours("/metrics/resources", certificate=root).body == upstream


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from leaves(value, f"{path}[{number}]")
    else:
        yield path, tree


def test_results_of_health_checks(schedulers: Schedulers) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        schedulers.both(path)
    upstream, ours = (
        read_families(schedulers.ask(port, "/metrics/slis", certificate=schedulers.root).body)
        for port in (schedulers.kube_port, schedulers.our_port)
    )
    assert ours.keys() == upstream.keys()
    for name, family in upstream.items():
        assert (ours[name].kind, ours[name].labels) == (family.kind, family.labels)
    last = "kubernetes_healthcheck"
    assert ours[last].values == upstream[last].values


#: Fields of /configz that differ for the same configuration, and why.
OTHER_CONFIGZ = {
    ".percentageOfNodesToScore": "100 by default: all nodes cost little more than some",
}


def test_configz_has_the_same_values(schedulers: Schedulers) -> None:
    root = schedulers.root
    upstream, ours = (
        dict(leaves(json.loads(schedulers.ask(port, "/configz", certificate=root).body)))
        for port in (schedulers.kube_port, schedulers.our_port)
    )
    assert len(upstream) >= 100
    different = {
        path
        for path in upstream.keys() | ours.keys()
        if upstream.get(path, "absent") != ours.get(path, "absent")
    }
    assert different == {f".componentconfig{path}" for path in OTHER_CONFIGZ}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_statusz_as_json(schedulers: Schedulers, version: str) -> None:
    root = schedulers.users.client("root", "system:masters")
    headers = {"Accept": f"application/json;v={version};g=config.k8s.io;as=Statusz"}
    upstream = schedulers.ask(schedulers.kube_port, "/statusz", headers, root)
    ours = schedulers.ours("/statusz", headers, root)
    assert ours.content_type == upstream.content_type
    theirs, found = json.loads(upstream.body), json.loads(ours.body)
    assert found.keys() == theirs.keys()
    for key in ("kind", "apiVersion", "metadata", "emulationVersion"):
        assert found[key] == theirs[key]
    # kube-scheduler leaves out this page itself.
    assert {*found["paths"]} - {"/statusz"} == {*theirs["paths"]}
    assert found["binaryVersion"].startswith(f"{theirs['binaryVersion']}+stowplan.")


def test_flagz_has_every_flag_of_kube_scheduler(schedulers: Schedulers) -> None:
    root = schedulers.users.client("root", "system:masters")
    headers = {"Accept": "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"}
    upstream = json.loads(schedulers.ask(schedulers.kube_port, "/flagz", headers, root).body)
    ours = json.loads(schedulers.ours("/flagz", headers, root).body)
    assert upstream.keys() == ours.keys()
    theirs, found = upstream["flags"], ours["flags"]
    assert found.pop("secure-port") == str(schedulers.our_port)
    assert theirs.pop("secure-port") == str(schedulers.kube_port)
    assert (found.pop("v"), theirs.pop("v")) == ("10", "0")
    # The control plane opens /metrics of its kube-scheduler, for benchmarks.
    assert theirs.pop("authorization-always-allow-paths") != found.pop(
        "authorization-always-allow-paths"
    )
    assert found == theirs


@pytest.mark.parametrize("page", ["flagz", "statusz"])
@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/json;v=v9;g=config.k8s.io;as=Statusz",
        "application/cbor",
        "text/html",
        "text/html,*/*;q=0.8",
        "text/plain",
        "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz",
    ],
)
def test_formats_of_pages(schedulers: Schedulers, page: str, accept: str) -> None:
    upstream, ours = (
        schedulers.ask(port, f"/{page}", {"Accept": accept}, schedulers.root)
        for port in (schedulers.kube_port, schedulers.our_port)
    )
    assert (ours.status, ours.content_type) == (upstream.status, upstream.content_type)
    if upstream.status != 200:
        assert json.loads(ours.body) == json.loads(upstream.body)


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
