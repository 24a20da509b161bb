"""The extender with a data provider on the real control plane, with the rights that are shipped:
what it knows of nodes and pods, the webhook that the API server asks, and rescheduling.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.integration.extender_kit import ExtenderProcess, extender
from tests.integration.http_thread import serving
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DEPLOY = Path(__file__).parents[2] / "deploy" / "extender"
ACCOUNT = ("wca-scheduler", "wca-scheduler")
ACCOUNT_AND_ROLES = (
    "base/namespace.yaml",
    "base/serviceaccount.yaml",
    "base/rbac.yaml",
    "rescheduling/rbac.yaml",
)
PODS = "/api/v1/namespaces/default/pods"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
TOP_TIER = "toptierlimit.cri-resource-manager.intel.com/pod"
MEMORY_TYPE = "cri-resource-manager.intel.com/memory-type"
COLD_START = "cri-resource-manager.intel.com/cold-start"
TOKEN = "s3cret"
CONFIG = """\
kubeapi: &kubeapi !Kubeapi
  host: {host}
  port: !Env API_PORT
  client_token_path: {token}
  server_cert_ca_path: {ca}
data_provider: &data_provider !ClusterScoreDataProvider
  kubeapi: *kubeapi
  prometheus: !Prometheus {{host: 127.0.0.1, port: {prometheus}, timeout: 5}}
algorithm: !Score
  data_provider: *data_provider
  score_target: 1.0
dram_threshold: 60
cold_start_duration: 60
reschedule_token_file: {reschedule_token}
"""
# Only `a` suits persistent memory. Its working set is half of its memory, b's is more than 60 %.
RESULTS: dict[str, list[tuple[Mapping[str, str], float]]] = {
    'app_req{dim="cpu"}': [({"app": "a"}, 2), ({"app": "b"}, 3), ({"app": "c"}, 1)],
    'app_req{dim="mem"}': [({"app": "a"}, 4), ({"app": "b"}, 4), ({"app": "c"}, 1)],
    'app_req{dim="wss"}': [({"app": "a"}, 2), ({"app": "b"}, 2.5)],
    "app_profile": [({"app": "a"}, 0.5), ({"app": "b"}, 2), ({"app": "c"}, 9)],
    "node_type": [
        ({"node": "n1", "nodetype": "pmem"}, 1),
        ({"node": "n2", "nodetype": "dram"}, 1),
    ],
}


class _Prometheus(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        result = [
            {"metric": labels, "value": [1.5, str(value)]}
            for labels, value in RESULTS.get(query, [])
        ]
        data = {"resultType": "vector", "result": result}
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the method's own
        """Nothing."""


@dataclass
class Scene:
    plane: ControlPlane
    running: ExtenderProcess
    ca: bytes

    def create(self, name: str, app: str | None = None, node: str = "", **metadata: Any) -> Any:
        owner = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "s",
            "uid": "1",
            "controller": True,
        }
        about = {"name": name, "ownerReferences": [owner], **metadata}
        if app is not None:
            about["labels"] = {"app": app}
        spec: dict[str, Any] = {
            "containers": [{"name": "c", "image": "example.test/c:1"}],
            "terminationGracePeriodSeconds": 0,
        }
        if node:
            spec["nodeName"] = node
        return self.plane.api.create(PODS, {"metadata": about, "spec": spec})

    def ask(self, path: str, content: Any = None, **headers: str) -> bytes:
        context = ssl.create_default_context(cadata=self.ca.decode())
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        data = None if content is None else json.dumps(content).encode()
        url = f"https://127.0.0.1:{self.running.port}{path}"
        request = urllib.request.Request(url, data, headers)
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*handlers).open(request, timeout=30) as answer:
            body: bytes = answer.read()
        return body

    def metrics(self) -> list[str]:
        return self.ask("/metrics").decode().splitlines()

    @contextmanager
    def webhook(self, version: str) -> Iterator[None]:
        """The API server asks about each pod of `default`, and takes no failure."""
        hook = {
            "name": "wca.example.test",
            "sideEffects": "None",
            "admissionReviewVersions": [version],
            "failurePolicy": "Fail",
            "timeoutSeconds": 30,
            "clientConfig": {
                "url": f"https://127.0.0.1:{self.running.port}/mutate",
                "caBundle": base64.b64encode(self.ca).decode(),
            },
            "rules": [
                {
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                }
            ],
        }
        self.plane.api.create(WEBHOOKS, {"metadata": {"name": "wca-scheduler"}, "webhooks": [hook]})
        try:
            yield
        finally:
            self.plane.api.delete(f"{WEBHOOKS}/wca-scheduler")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    require_binaries("etcd", "kube-apiserver", "kubectl")
    directory = tmp_path_factory.mktemp("extender")
    authority = Authority()
    pair = authority.server()
    for name, content in (
        ("tls.crt", pair.cert),
        ("tls.key", pair.key),
        ("reschedule-token", TOKEN.encode()),
    ):
        (directory / name).write_bytes(content)
    with ControlPlane() as plane, serving(_Prometheus) as port:
        _prepare(plane)
        (directory / "token").write_text(plane.service_account_token(*ACCOUNT))
        api = urlsplit(plane.url)
        config = CONFIG.format(
            host=api.hostname,
            token=directory / "token",
            ca=plane.certificate_authority,
            prometheus=port,
            reschedule_token=directory / "reschedule-token",
        )
        flags = (
            f"--tls-cert-file={directory / 'tls.crt'}",
            f"--tls-private-key-file={directory / 'tls.key'}",
        )
        env = {"API_PORT": str(api.port)}
        with extender(directory, config, *flags, env=env) as running:
            on = Scene(plane, running, authority.cert)
            wait_for("all to be known", lambda: "wca_scheduler_prometheus_up 1.0" in on.metrics())
            wait_for("all to be ready", lambda: on.ask("/readyz") == b"ok")
            yield on
            assert running.end() == 0, running.log
            assert "orbidden" not in running.log


def _prepare(plane: ControlPlane) -> None:
    """Nodes, and the account and rights of deploy/extender with rescheduling."""
    for name, labels in (("n1", {}), ("n2", {}), ("boss", {"node-role.kubernetes.io/master": ""})):
        offers = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        plane.api.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": offers, "allocatable": offers},
            },
        )
    for file in ACCOUNT_AND_ROLES:
        plane.kubectl("apply", "-f", str(DEPLOY / file), check=True)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_webhook_annotates_pods_and_blocks_none(scene: Scene, version: str) -> None:
    with scene.webhook(version):

        def try_it() -> Any:
            """The API server learns of a webhook a moment after it was made."""
            made = scene.create(f"a-{version}", "a")
            scene.plane.api.delete(f"{PODS}/a-{version}", grace_seconds=0)
            return made["metadata"].get("annotations")

        assert wait_for("the API server to ask", try_it) == {
            TOP_TIER: "2G",
            MEMORY_TYPE: "dram,pmem",
            COLD_START: '{"duration":"60s"}',
        }
        made = scene.create(f"b-{version}", "b", annotations={"mine/own": "stays"})
        assert made["metadata"]["annotations"] == {
            "mine/own": "stays",
            TOP_TIER: "2.5G",
            MEMORY_TYPE: "dram",
        }
        for name, app in (("stranger", "stranger"), ("bare", None)):
            made = scene.create(f"{name}-{version}", app)
            assert "annotations" not in made["metadata"]
        patched = scene.plane.api.patch(
            f"{PODS}/b-{version}", {"metadata": {"annotations": {"more": "1"}}}
        )
        assert patched["metadata"]["annotations"][TOP_TIER] == "2.5G"
    for name in ("b", "stranger", "bare"):
        scene.plane.api.delete(f"{PODS}/{name}-{version}", grace_seconds=0)
    lines = scene.metrics()
    assert 'wca_scheduler_mutations{result="failed"} 0.0' in lines


def test_pods_are_seen_and_rescheduled(scene: Scene) -> None:
    """n1 has persistent memory and 4 CPUs: there is room for a-0 (2) once b-0 (3) has gone."""
    for name, node in (("a-0", "n2"), ("b-0", "n1"), ("c-0", "n2")):
        scene.create(name, name[0], node)
    scene.create("loner", "b", "n1", ownerReferences=[])
    wait_for("the pods to be seen", lambda: "wca_scheduler_kubeapi_pods 4.0" in scene.metrics())
    pod = {"metadata": {"name": "x", "namespace": "default", "labels": {"app": "c"}}}
    answer = json.loads(scene.ask("/filter", {"Pod": pod, "NodeNames": ["n1", "n2"]}))
    # n1: 4 - 3 - 3 (two pods of b) is less than the 1 that c needs; and c does not suit it.
    assert answer["NodeNames"] == ["n2"]
    assert answer["FailedNodes"] == {"n1": "Could not fit node for dimensions: missing (cpu: 3.0)."}
    dry = json.loads(scene.ask("/reschedule?dryRun=true", {}, Authorization=f"Bearer {TOKEN}"))
    assert sorted(dry["WouldDelete"]) == ["a-0", "b-0"]
    assert dry["Skipped"] == {"loner": "it has no controller that would replace it"}
    assert len(scene.plane.api.get(PODS)["items"]) == 4
    done = json.loads(scene.ask("/reschedule", {}, Authorization=f"Bearer {TOKEN}"))
    assert done["Deleted"] == dry["WouldDelete"]
    left = [each["metadata"]["name"] for each in scene.plane.api.get(PODS)["items"]]
    assert sorted(left) == ["c-0", "loner"]
    wait_for("it to be seen", lambda: "wca_scheduler_kubeapi_pods 2.0" in scene.metrics())
    assert 'wca_scheduler_rescheduled_pods{result="deleted"} 2.0' in scene.metrics()
