"""On somebody else's cluster a scenario keeps to itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.config.defaults import default_config
from stowplan.sim.scenarios import Cluster, Options, Outcome
from stowplan.sim.scenarios.own_names import MARK, own_scheduler_name, place_of, under_own_names
from stowplan.sim.scenarios.run import _play

Json = dict[str, Any]


def test_names() -> None:
    assert place_of("", "") == "default"
    assert place_of("shop", "") == "shop"
    assert place_of("", "mine") == place_of("default", "mine") == place_of("mine", "mine") == "mine"
    assert place_of("shop", "mine") == place_of("mine-shop", "mine") == "mine-shop"
    assert own_scheduler_name("default-scheduler", "mine") == "mine-default-scheduler"
    config = under_own_names(default_config(), "mine")
    assert [each.scheduler_name for each in config.profiles] == ["mine-default-scheduler"]


def _pod(name: str) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }


def _node(name: str) -> Json:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": offers, "allocatable": offers}}


@pytest.fixture
async def server() -> Any:
    running = ApiServer(kubelet=KubeletOptions(start_delay_s=0.01, stop_delay_s=0.01))
    running.create("", "v1", "nodes", _node("theirs"))
    running.create("", "v1", "pods", _pod("theirs"), namespace="default")
    await running.start()
    yield running
    await running.stop()


async def _scenario(cluster: Cluster) -> None:
    await cluster.create_node("mine", labels={"mine": "yes"})
    await cluster.create_pod("web", namespace="shop", nodeSelector={"mine": "yes"})
    await cluster.create_pod("other", schedulerName="somebody")
    await cluster.settle()
    assert await cluster.node_of("web", namespace="shop") == "mine"
    assert await cluster.node_of("other") == ""
    assert len(await cluster.list("Pod", namespace="*")) == 2


async def _run(server: ApiServer, folder: Path) -> Outcome:
    kubeconfig = folder / "kubeconfig"
    await asyncio.to_thread(kubeconfig.write_text, server.kubeconfig())
    return await _play(_scenario, str(kubeconfig), Options())


async def test_others_are_left_alone_and_nothing_stays(server: ApiServer, tmp_path: Path) -> None:
    outcome = await _run(server, tmp_path)
    assert outcome.problem == ""
    (other, web) = outcome.placements
    prefix = other.partition("/")[0]
    assert prefix.startswith("stowplan-scenario-")
    assert web == f"{prefix}-shop/web"
    subjects = {entry.subject for entry in outcome.entries}
    assert not [each for each in subjects if "theirs" in each]
    objects = {
        kind: [record["metadata"]["name"] for record in _all(server, kind)]
        for kind in ("nodes", "pods", "namespaces")
    }
    assert objects["nodes"] == ["theirs"]
    assert objects["pods"] == ["theirs"]
    assert not [name for name in objects["namespaces"] if name.startswith("stowplan")]
    assert "nodeName" not in _all(server, "pods")[0]["spec"]


async def test_figures_are_those_of_the_scenario_alone(server: ApiServer, tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("mine", cpu=4, labels={"mine": "yes"})
        await cluster.create_pod("web", cpu=2, nodeSelector={"mine": "yes"})
        await cluster.settle()

    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(kubeconfig.write_text, server.kubeconfig())
    outcome = await _play(scenario, str(kubeconfig), Options())
    assert outcome.figures.nodes == 1
    assert outcome.figures.utilisation["cpu"].end == 0.5
    assert "deleted" not in outcome.counts
    assert not [entry for entry in outcome.entries if entry.text == "deleted"]


async def test_two_runs_do_not_meet(server: ApiServer, tmp_path: Path) -> None:
    first, second = await _run(server, tmp_path), await _run(server, tmp_path)
    assert first.problem == second.problem == ""
    assert not first.placements.keys() & second.placements.keys()
    marks = {pod["metadata"]["labels"][MARK] for each in (first, second) for pod in each.pods}
    assert len(marks) == 2


def _all(server: ApiServer, plural: str) -> list[Json]:
    from stowplan.apiserver.kinds import kind_for

    kind = kind_for("", "v1", plural)
    assert kind is not None
    return [record.object for record in server.store.records(kind)]
