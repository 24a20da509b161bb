"""`stowplan explain` as people run it: on an API server, on a file, with mistakes."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.objects import ClaimVolume, Volume
from stowplan.api.paging import ListResult
from stowplan.api.resources import CATALOGED, NODES, PODS, Resource
from stowplan.config.defaults import default_config
from stowplan.errors import Forbidden
from stowplan.explain.change import with_spec
from stowplan.explain.reasoning import Explainer
from stowplan.explain.sources import read_live
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import thing_of
from stowplan.testing import as_manifest, node, pod
from tests.embedded_fixtures import EmbeddedServer

T = TypeVar("T")


def explain(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", "explain", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)


ONE_POD = yaml.safe_dump(as_manifest(pod("frontend")))

WITH_NODE = yaml.safe_dump_all([as_manifest(pod("frontend")), as_manifest(node("worker-1"))])
OWNED = """
apiVersion: v1
kind: Pod
metadata:
  name: web-6cf57-abcde
  labels: {pod-template-hash: 6cf57}
  ownerReferences:
  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-6cf57, uid: a, controller: true}
spec: {containers: [{name: a, image: a}]}
"""


@pytest.fixture(scope="module")
def kubeconfig(embedded_server: EmbeddedServer) -> str:
    """A cluster with two nodes: one is full, the other tainted."""
    nodes = [node("full", cpu=4), node("gpu", cpu=4, taints=["dedicated=gpu:NoSchedule"])]
    pods = [
        pod("batch", cpu=3, node="full"),
        pod("web", cpu=2),
        pod("web-2", cpu=2),
        pod("gated", gates=["example.com/wait"]),
    ]

    async def create() -> None:
        config = load_cluster_config(kubeconfig=str(embedded_server.kubeconfig_path))
        async with ApiClient(config) as client:
            for each in nodes:
                await client.create(NODES, as_manifest(each))
            for made in pods:
                await client.create(PODS, as_manifest(made), namespace="default")

    asyncio.run(create())
    return str(embedded_server.kubeconfig_path)


def test_a_pending_pod_of_a_cluster(kubeconfig: str) -> None:
    done = explain("web", "--kubeconfig", kubeconfig)
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.split("\n\n")[0]
    assert "default/web is pending. None of 2 nodes can take it" in first
    assert "1 has too little free cpu" in first
    assert "cpu: asks for 2, 1 of 4 is free, 1 short" in done.stdout
    assert "taint dedicated=gpu:NoSchedule" in done.stdout
    again = f"stowplan explain web -n default --kubeconfig {kubeconfig} --fix\n"
    assert done.stdout.endswith(again)


def test_the_same_as_data_with_fixes(kubeconfig: str) -> None:
    for output, load in (("json", json.loads), ("yaml", yaml.safe_load)):
        done = explain("default/web", "--kubeconfig", kubeconfig, "--fix", "-o", output)
        said = load(done.stdout)
        assert (said["pod"], said["state"], said["nodes"]) == ("default/web", "Pending", 2)
        assert {each["plugin"] for each in said["reasons"]} == {
            "NodeResourcesFit",
            "TaintToleration",
        }
        kinds = [each["kind"] for each in said["fixes"]]
        assert kinds[0] == "Toleration"
        assert "Eviction" in kinds


def test_one_node_beside_the_best(kubeconfig: str) -> None:
    done = explain("web", "--node", "gpu", "--kubeconfig", kubeconfig)
    assert "default/web does not fit on gpu: a plugin refuses it." in done.stdout
    assert "NodeResourcesFit       accepts it" in done.stdout
    assert "TaintToleration        taint dedicated=gpu:NoSchedule" in done.stdout


def test_a_placed_pod_is_judged_as_if_it_were_not_there(kubeconfig: str) -> None:
    done = explain("batch", "--kubeconfig", kubeconfig)
    assert done.stdout.startswith("default/batch is on full. Now it would fit on 1 of 2 nodes.")


def test_all_pending_pods_by_cause(kubeconfig: str) -> None:
    done = explain("--pending", "--kubeconfig", kubeconfig)
    lines = done.stdout.splitlines()
    assert lines[0].split("   ")[0] == "PODS"
    assert lines[1].startswith("2 ")
    assert "default/web, default/web-2" in lines[1]
    assert "held by scheduling gates" in lines[2]
    groups = json.loads(explain("--pending", "-o", "json", "--kubeconfig", kubeconfig).stdout)
    assert [each["pods"] for each in groups] == [2, 1]


def test_a_pod_that_fits_waits_for_the_scheduler_that_it_names() -> None:
    lost = as_manifest(pod("lost"))
    lost["spec"]["schedulerName"] = "nope"
    done = explain("--pending", "-f", "-", stdin=yaml.safe_dump_all([as_manifest(node("a")), lost]))
    assert "fits now, but nope has not placed it" in done.stdout


def test_a_file_on_standard_input() -> None:
    objects = [as_manifest(node("a", cpu=1)), as_manifest(pod("big", cpu=2))]
    done = explain(
        "big",
        "-f",
        "-",
        stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    assert (
        "The only node is too small (it asks for 2 cpu, and none has more than 1)." in done.stdout
    )


def test_the_command_that_is_shown_names_the_same_cluster(tmp_path: Path) -> None:
    file, config = tmp_path / "my cluster.yaml", tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump_all([as_manifest(node("a")), as_manifest(pod("web", cpu=99))]))
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    done = explain("web", "-f", str(file), "--config", str(config))
    shown = done.stdout.splitlines()[-1].partition("See what would help:  stowplan explain ")[2]
    assert shown.endswith(" --fix")
    again = explain(*shlex.split(shown))
    assert (again.returncode, again.stderr) == (0, "")
    assert "it fits on a" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ([], "", "Name a POD, or ask for --pending."),
        ([""], "", "Name a POD, or ask for --pending."),
        (["web", "--pending"], "", "--pending goes without a POD and without --fix."),
        (["--pending", "--fix"], "", "--pending goes without a POD and without --fix."),
        (["web", "-f", "-"], "kind: [", "-: is neither YAML nor JSON"),
        (["web", "-f", "-"], "[1, 2]", "-: objects[0]"),
        (["web", "-f", "-"], "", "-: holds no objects"),
        (["pod/frontent", "-f", "-"], ONE_POD, 'not found; did you mean "frontend"?'),
        (["web", "-n", "defualt", "-f", "-"], ONE_POD, 'did you mean "default"?'),
        (["--pending", "-n", "defualt", "-f", "-"], ONE_POD, 'namespace "defualt" not found'),
        (["frontedn", "-f", "-"], ONE_POD, 'did you mean "frontend"?'),
        (["web", "-f", "-"], OWNED, 'default/web" not found; did you mean web-6cf57-abcde?'),
        (
            ["deploy/web", "-f", "-"],
            OWNED,
            '"default/web" not found; did you mean web-6cf57-abcde?',
        ),
        (["deployment/web", "-n", "default", "-f", "-"], OWNED, "did you mean web-6cf57-abcde?"),
        (["wbe", "-f", "-"], OWNED, "not found; did you mean web-6cf57-abcde?"),
        (["frontend", "--node", "worker-9", "-f", "-"], WITH_NODE, 'did you mean "worker-1"?'),
        (["web", "-f", "no/such/file"], "", "no/such/file: cannot be read"),
        (["Not_A_Name", "-f", "-"], "", "cannot be the name of a pod"),
        (["web", "--config", "no/such/file", "-f", "-"], "", "no/such/file"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments: list[str], text: str, message: str) -> None:
    done = explain(*arguments, stdin=text)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_one_node_of_a_file_without_claims() -> None:
    made = as_manifest(pod("web"))
    made["spec"]["volumes"] = [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]
    text = yaml.safe_dump_all([as_manifest(node("a")), made])
    done = explain("web", "--node", "a", "-f", "-", stdin=text)
    assert "Its claim data could not be read: its volumes are left out." in done.stdout
    assert "NodeResourcesFit" in done.stdout
    assert "VolumeBinding" not in done.stdout


def test_a_node_that_does_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(as_manifest(pod("web"))))
    done = explain("web", "-f", str(file), "--node", "nowhere")
    assert done.returncode == 1
    assert 'node "nowhere" not found' in done.stderr


def test_no_name_moves_the_cursor(tmp_path: Path) -> None:
    """An error text of a plugin, a label or a taint may hold anything."""
    evil = as_manifest(
        node("a", taints=[{"key": "a", "value": "x\x1b[2J", "effect": "NoSchedule"}])
    )
    file = tmp_path / "cluster.yaml"
    file.write_text(
        yaml.safe_dump(
            {"apiVersion": "v1", "kind": "List", "items": [evil, as_manifest(pod("web"))]}
        )
    )
    done = explain("web", "-f", str(file), "--fix")
    assert "\x1b" not in done.stdout + done.stderr


def completed(line: str, kubeconfig: str = "") -> list[str]:
    """What bash is offered for the last word."""
    words = ["stowplan", "explain", *line.split(" ")]
    env = {
        **os.environ,
        "_STOWPLAN_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "KUBECONFIG": kubeconfig or "/no/such/file",
    }
    command = [sys.executable, "-m", "stowplan"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return [each.removeprefix("plain,") for each in done.stdout.split()]


def test_names_are_completed(kubeconfig: str) -> None:
    assert completed("we", kubeconfig) == ["web", "web-2"]
    assert completed("default/ga", kubeconfig) == ["default/gated"]
    assert completed("web --node f", kubeconfig) == ["full"]
    assert completed("-n def", kubeconfig) == ["default"]
    assert completed("-n nowhere we", kubeconfig) == []


def test_without_a_cluster_nothing_is_completed_and_nothing_is_said() -> None:
    assert completed("we") == []
    assert completed("--node f") == []


def test_a_server_that_does_not_answer_offers_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        server = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        file = tmp_path / "kubeconfig"
        file.write_text(
            yaml.safe_dump(
                {
                    "current-context": "a",
                    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                    "clusters": [{"name": "a", "cluster": {"server": server}}],
                    "users": [{"name": "a", "user": {}}],
                }
            )
        )
        assert completed("we", str(file)) == []


def test_kinds_that_may_not_be_listed_are_one_warning(
    kubeconfig: str,
) -> None:
    """As of a user who may list nodes and pods, and nothing else."""
    warnings: list[str] = []
    config = load_cluster_config(kubeconfig=kubeconfig)

    class Refusing(ApiClient):
        async def list_all(self, resource: Resource[T], **more: Any) -> ListResult[T]:
            if resource not in (NODES, PODS):
                raise Forbidden(f"{resource.plural} is forbidden", status=403)
            return await super().list_all(resource, **more)

    async def read() -> GivenCluster:
        async with Refusing(config) as client:
            return await read_live(client, CATALOGED, warnings.append)

    cluster = asyncio.run(read())
    assert len(cluster.things) == 6
    settings = Configuration(default_config(), default_registry())
    data = Volume("data", persistent_volume_claim=ClaimVolume("data"))
    asked = with_spec(pod("with-claim", cpu=9), volumes=(data,))
    said = Explainer(cluster, settings).explain(thing_of(PODS, asked))
    assert "too small (it asks for 9 cpu" in said.summary
    assert said.summary.endswith("Its claim data could not be read: its volumes are left out.")
    (warning,) = warnings
    assert warning.startswith("decided without namespaces, services, ")
    assert warning.endswith("namespaces is forbidden")


def test_nodes_or_pods_that_may_not_be_listed_are_an_error_with_a_remedy(kubeconfig: str) -> None:
    """As of a developer who may see one namespace."""
    config = load_cluster_config(kubeconfig=kubeconfig)

    class Refusing(ApiClient):
        async def list_all(self, resource: Resource[T], **more: Any) -> ListResult[T]:
            raise Forbidden(f"{resource.plural} is forbidden", status=403)

    async def read() -> None:
        async with Refusing(config) as client:
            await read_live(client, (), pytest.fail)

    with pytest.raises(Forbidden, match=r"nodes is forbidden. Fix: .*--server URL.*-f FILE"):
        asyncio.run(read())


def test_a_cluster_without_nodes_is_not_taken_for_a_file() -> None:
    settings = Configuration(default_config(), default_registry())
    said = Explainer(GivenCluster(), settings).explain(thing_of(PODS, pod("web")))
    assert said.summary == "default/web is pending. The cluster has no nodes."
    assert said.advice == "A kubelet registers its node when it starts; see kubectl get nodes."
