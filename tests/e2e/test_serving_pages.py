"""Pages of the HTTPS port beside kube-scheduler's: metrics, /configz, /flagz, /statusz."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e.scraping import Labels, read_families
from tests.e2e.serving_pair import Answer, Schedulers, bearer, serving_pair
from tests.unit.api.tls_kit import Authority, Pair

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schedulers]:
    with serving_pair(tmp_path_factory.mktemp("serving")) as found:
        yield found


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
            for name in {*ACCESS} & families.keys()  # without a request there are no samples
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
