"""The HTTPS port of Stowplan beside kube-scheduler's: every answer is compared."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator

import pytest
import yaml

from tests.docs_blocks import REPOSITORY
from tests.e2e.serving_pair import Answer, Schedulers, bearer, serving_pair
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schedulers]:
    with serving_pair(tmp_path_factory.mktemp("serving")) as found:
        yield found


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


def test_questions_need_the_verb_post(schedulers: Schedulers) -> None:
    """The role of docs/dry-run-api.md, and clients without it."""
    page = (REPOSITORY / "docs/dry-run-api.md").read_text()
    role = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api = schedulers.plane.api
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "autoscaler"}})
    subject = {"kind": "ServiceAccount", "name": "autoscaler", "namespace": "default"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    api.create(f"{rbac}/clusterroles", role)
    api.create(
        f"{rbac}/clusterrolebindings",
        {
            "metadata": {"name": "autoscaler"},
            "roleRef": {**ref, "name": role["metadata"]["name"]},
            "subjects": [subject],
        },
    )
    token = schedulers.plane.service_account_token("default", "autoscaler")
    body = json.dumps({"questions": [{"pod": {"metadata": {"name": "p"}}}]})

    def post(headers: dict[str, str]) -> Answer:
        typed = {"Content-Type": "application/json", **headers}
        return schedulers.ask(schedulers.our_port, "/v1/decide", typed, method="POST", body=body)

    answer = wait_for("the role to be known", lambda: _allowed(post(bearer(token))))
    assert list(json.loads(answer.body)) == ["answers"]
    assert schedulers.ours("/v1/openapi.json", bearer(token)).status == 200
    # The verb get was not granted, so nothing is said about methods.
    assert schedulers.ours("/v1/decide", bearer(token)).status == 403
    for headers, user in (
        ({}, "system:anonymous"),
        (bearer(schedulers.tokens["scraper"]), "system:serviceaccount:default:scraper"),
    ):
        refused = post(headers)
        message = json.loads(refused.body)["message"]
        assert refused.status == 403
        assert message == f'forbidden: User "{user}" cannot post path "/v1/decide"'
    assert post(bearer("wrong")).status == 401


def _allowed(answer: Answer) -> Answer | None:
    """Rights take a moment to be known, and refusals are kept for 10 s."""
    return answer if answer.status == 200 else None


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
    """All that a client gets that sends these bytes; with TLS, the beginning of it."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        if with_tls:
            connection = ssl._create_unverified_context().wrap_socket(connection)
        received = bytearray()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(data)
        with connection, contextlib.suppress(ConnectionError, ssl.SSLError):
            while chunk := connection.recv(65536):
                received += chunk
                if with_tls:
                    break
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


def test_no_token_is_logged(schedulers: Schedulers) -> None:
    schedulers.ours("/metrics", bearer("hunter2-" + "x" * 30))
    schedulers.ours("/metrics", bearer(schedulers.tokens["scraper"]))
    text = schedulers.log.read_text()
    assert "Unable to authenticate the request" in text
    assert "hunter2" not in text
    assert schedulers.tokens["scraper"] not in text
