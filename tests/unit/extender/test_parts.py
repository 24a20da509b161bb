"""A configuration as the WCA scheduler's users have it, on a live cluster and Prometheus."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.extender.configuration import Configured, Settings, load
from stowplan.extender.parts import Parts
from tests.unit.api.api_kit import until
from tests.unit.extender import kit
from tests.unit.extender.cluster_kit import running_cluster
from tests.unit.extender.fake_prometheus import FakePrometheus, by, serving

CONFIG = """
loggers:
  wca.scheduler: INFO
monitored_namespaces: [default]
reschedule_token_file: {token}
dram_threshold: 60
kubeapi: &kubeapi !Kubeapi
  host: http://127.0.0.1
  port: !Env TEST_API_PORT
data_provider: &data_provider !ClusterScoreDataProvider
  kubeapi: *kubeapi
  prometheus: !Prometheus
    host: http://127.0.0.1
    port: {prometheus}
    timeout: 5.0
  queries: !Queries
    APP_REQUESTED_RESOURCES_QUERY_MAP:
      cpu: 'app_req{{dim="cpu"}}'
      mem: 'app_req{{dim="mem"}}'
      wss: 'app_req{{dim="wss"}}'
    NODE_CAPACITY_RESOURCES_QUERY_MAP:
      wss: 'node_capacity{{dim="wss"}}'
algorithm: !{algorithm}
  dimensions: [mem, cpu, wss]
  data_provider: *data_provider
"""
RESULTS = {
    'app_req{dim="cpu"}': by("app", web=2),
    'app_req{dim="mem"}': by("app", web=4),
    'app_req{dim="wss"}': by("app", web=2.5),  # 62.5 % of 4
    'node_capacity{dim="wss"}': by("node", n1=10, n2=2),
}
ARGS = {
    "Pod": {"metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}}},
    "NodeNames": ["n1", "n2"],
}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "namespace": "default",
        "operation": "CREATE",
        "object": {"metadata": {"labels": {"app": "web"}}},
    },
}


def written(tmp_path: Path, prometheus: int, algorithm: str = "Fit") -> Path:
    (tmp_path / "token").write_text("secret")
    path = tmp_path / "config.yaml"
    text = CONFIG.format(token=tmp_path / "token", prometheus=prometheus, algorithm=algorithm)
    path.write_text(text)
    return path


async def test_the_whole_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_cluster() as cluster, serving(FakePrometheus(dict(RESULTS))) as fake:
        monkeypatch.setenv("TEST_API_PORT", str(cluster.port))
        configured = load(written(tmp_path, fake.port))
        cluster.node("n1")
        cluster.node("n2")
        cluster.pod("web-0", node="n1")
        parts = Parts(configured)
        async with kit.stage(configured.algorithm) as served:
            parts.attach(served.service)
            reply = await served.ask("/readyz")
            assert reply.status == 503
            assert b"[-]kubeapi failed: not started" in reply.body
            await parts.start()
            try:

                async def is_ready() -> bool:
                    return (await served.ask("/readyz")).body == b"ok"

                while not await is_ready():
                    pass
                reply = await served.ask("/filter", json.dumps(ARGS).encode())
                # n2 has 2 GB for a working set of 2.5
                assert reply.content["NodeNames"] == ["n1"]
                assert reply.content["FailedNodes"] == {
                    "n2": "Could not fit node for dimensions: missing (wss: 0.5)."
                }
                review = (await served.ask("/mutate", json.dumps(REVIEW).encode())).content
                patch = json.loads(base64.b64decode(review["response"]["patch"]))
                assert patch[0]["value"] == {
                    "toptierlimit.cri-resource-manager.intel.com/pod": "2.5G",
                    "cri-resource-manager.intel.com/memory-type": "dram",
                }
                reply = await served.ask("/reschedule", b"", Authorization="Bearer secret")
                assert reply.content["Deleted"] == []
                lines = (await served.ask("/metrics")).body.decode().splitlines()
                assert "wca_scheduler_kubeapi_nodes 2.0" in lines
                assert "wca_scheduler_prometheus_up 1.0" in lines
                assert 'wca_scheduler_mutations{result="patched"} 1.0' in lines
                assert 'wca_scheduler_reschedules{result="done"} 1.0' in lines
            finally:
                await parts.stop()


async def test_without_prometheus_it_is_ready_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        monkeypatch.setenv("TEST_API_PORT", str(cluster.port))
        configured = load(written(tmp_path, 1, "Score"))
        cluster.node("n1")
        parts = Parts(configured)
        async with kit.stage(configured.algorithm) as served:
            parts.attach(served.service)
            await parts.start()
            try:
                kubeapi = configured.settings.kubeapi
                await until(lambda: kubeapi.is_synced)
                reply = await served.ask("/readyz")
                assert reply.status == 200
                assert b"[+]prometheus ok: 8 of 8 queries have no fresh result" in reply.body
                names = [line.split()[0] for line in reply.body.decode().splitlines()
                         if line.startswith("[")]  # fmt: skip
                assert names == ["[+]kubeapi", "[+]prometheus", "[+]rescheduling"], "each once"
                reply = await served.ask("/filter", json.dumps(ARGS).encode())
                assert reply.content["NodeNames"] == ["n1", "n2"], "what is not known fits"
                reply = await served.ask("/prioritize", json.dumps(ARGS).encode())
                assert [each["Score"] for each in reply.content] == [0, 0]
                review = (await served.ask("/mutate", json.dumps(REVIEW).encode())).content
                assert review["response"] == {"uid": "u", "allowed": True}
                lines = (await served.ask("/metrics")).body.decode().splitlines()
                assert "wca_scheduler_prometheus_up 0.0" in lines
                assert 'wca_scheduler_mutations{result="unknown_app"} 1.0' in lines
            finally:
                await parts.stop()


async def test_the_algorithm_s_provider_and_cluster_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_API_PORT", "1")
    path = written(tmp_path, 1)
    text = path.read_text().replace("data_provider: &", "other: &").replace("kubeapi: &", "api: &")
    path.write_text(text)
    configured = load(path)
    assert configured.settings.data_provider is None
    parts = Parts(configured)
    assert [name for name, _ in parts._named()] == ["kubeapi", "prometheus", "rescheduling"]
    assert parts.mutator._data_provider is configured.algorithm.data_provider  # type: ignore[attr-defined]  # only this class has it
    assert parts.rescheduler._kubeapi is parts._running[0]


async def test_the_smallest_configuration_has_a_webhook_that_admits_all() -> None:
    async with kit.stage() as served:
        parts = Parts(Configured(kit.Calls()))
        parts.attach(served.service)
        await parts.start()
        review = (await served.ask("/mutate", json.dumps(REVIEW).encode())).content
        assert review["response"] == {"uid": "u", "allowed": True}
        assert (await served.ask("/reschedule", b"")).status == 403
        assert (await served.ask("/readyz")).body == b"ok"
        await parts.stop()


async def test_the_webhook_answers_also_where_credentials_are_needed() -> None:
    async with kit.stage(gate=lambda head, certificate: False) as served:
        Parts(Configured(kit.Calls())).attach(served.service)
        assert (await served.ask("/mutate", json.dumps(REVIEW).encode())).status == 200
        assert (await served.ask("/filter", kit.ARGS_TEXT)).status == 401


def test_rescheduling_without_a_cluster_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="needs `kubeapi: !Kubeapi`"):
        Parts(Configured(kit.Calls(), settings=Settings(reschedule_interval=5)))


def test_dimensions_without_a_query_are_told_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_API_PORT", "1")
    path = written(tmp_path, 1)
    path.write_text(path.read_text().replace("[mem, cpu, wss]", "[mem, cpu, membw_read]"))
    with pytest.raises(ConfigError, match="Missing query for node capacity for resource membw_re"):
        load(path)
