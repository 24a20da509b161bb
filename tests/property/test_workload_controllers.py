"""Workload controllers under random users: whatever happened, every workload gets its pods."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import InProcess
from stowplan.apiserver.kinds import DEPLOYMENTS, JOBS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from stowplan.errors import Conflict, NotFound
from stowplan.sim.virtual.time_loop import TimeLoop, run_virtually

Json = dict[str, Any]

APPS = "/apis/apps/v1/namespaces/default"
PATHS = {
    "deployments": APPS,
    "replicasets": APPS,
    "statefulsets": APPS,
    "jobs": "/apis/batch/v1/namespaces/default",
    "pods": "/api/v1/namespaces/default",
}
STEPS = 60
LONG_S = 3000.0


class Users:
    """Random requests to one cluster."""

    def __init__(self, cluster: EmbeddedCluster, rng: Random) -> None:
        self.store = cluster.store
        self.http = InProcess(cluster)
        self.rng = rng

    async def ask(self, method: str, path: str, body: Json | None = None) -> None:
        encoded = None if body is None else msgspec.json.encode(body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        await self.http.request(method, path, body=encoded, content_type=kind)

    async def step(self) -> None:
        rng = self.rng
        plural = rng.choice(["deployments", "replicasets", "statefulsets"])
        name = f"{plural[0]}{rng.randrange(2)}"
        path = f"{PATHS[plural]}/{plural}"
        action = rng.choice(
            ["create", "scale", "roll", "delete", "pod", "pod", "label", "job", "pause"]
        )
        pods = [record.key[1] for record in self.store.records(PODS)]
        # A pod that a StatefulSet lost keeps the name that the next one needs, everywhere.
        nameless = [pod for pod in pods if not pod.startswith("s")]
        match action:
            case "create":
                await self.ask("POST", path, workload(plural, name, rng))
            case "scale":
                body: Json = {"spec": {"replicas": rng.randrange(6)}}
                await self.ask("PATCH", f"{path}/{name}/scale", body)
            case "roll":
                containers = [{"name": "c", "image": f"image:{rng.randrange(4)}"}]
                template = {"spec": {"containers": containers}}
                await self.ask("PATCH", f"{path}/{name}", {"spec": {"template": template}})
            case "pause":
                body = {"spec": {"paused": rng.random() < 0.4}}
                await self.ask("PATCH", f"{APPS}/deployments/d{rng.randrange(2)}", body)
            case "delete":
                policy = rng.choice(["Background", "Foreground", "Orphan"])
                await self.ask("DELETE", f"{path}/{name}", {"propagationPolicy": policy})
            case "pod" if pods:
                await self.ask("DELETE", f"{PATHS['pods']}/pods/{rng.choice(pods)}")
            case "label" if nameless:
                labels = {"app": rng.choice(["d0", "r0", "elsewhere"])}
                body = {"metadata": {"labels": labels}}
                await self.ask("PATCH", f"{PATHS['pods']}/pods/{rng.choice(nameless)}", body)
            case "job":
                await self.ask("POST", f"{PATHS['jobs']}/jobs", job(f"j{rng.randrange(9)}", rng))


def workload(plural: str, name: str, rng: Random) -> Json:
    pod = {"containers": [{"name": "c", "image": "image:0"}], "nodeName": "n"}
    spec: Json = {
        "replicas": rng.randrange(5),
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    }
    if plural == "deployments" and rng.random() < 0.3:
        spec["strategy"] = {"type": "Recreate"}
    if plural == "statefulsets":
        spec["podManagementPolicy"] = rng.choice(["OrderedReady", "Parallel"])
    return {"metadata": {"name": name}, "spec": spec}


def job(name: str, rng: Random) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}], "nodeName": "n"}
    marks = {"stowplan.io/exit-code": rng.choice(["0", "0", "1"])}
    spec: Json = {
        "completions": rng.randrange(1, 5),
        "parallelism": rng.randrange(1, 4),
        "backoffLimit": rng.randrange(3),
        "completionMode": rng.choice(["Indexed", "NonIndexed"]),
        "template": {"metadata": {"annotations": marks}, "spec": pod},
    }
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("seed", range(20))
def test_every_workload_gets_its_pods(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    async def play(loop: TimeLoop) -> None:
        rng = Random(seed)
        cluster = EmbeddedCluster(
            kubelet=KubeletOptions(job_run_s=2.0),
            clock=loop.clock,
            rng=Random(seed),
            workloads=WorkloadControllerOptions(),
        )
        cluster.create(NODES.group, NODES.version, NODES.plural, {"metadata": {"name": "n"}})
        cluster.start_controllers()
        users = Users(cluster, rng)
        for _ in range(STEPS):
            try:
                await users.step()
            except (NotFound, Conflict):
                pass  # it is not there, or there already
            if rng.random() < 0.7:
                await asyncio.sleep(rng.choice([0.0, 0.06, 0.7, 5.0]))
        for record in cluster.store.records(DEPLOYMENTS):
            path = f"{APPS}/deployments/{record.key[1]}"
            await users.ask("PATCH", path, {"spec": {"paused": False}})
        await asyncio.sleep(LONG_S)
        problems = check(cluster)
        await cluster.stop_controllers()
        assert not problems, problems

    run_virtually(play)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def check(cluster: EmbeddedCluster) -> list[str]:
    """What is not as its owner wants it."""
    store = cluster.store
    problems = []
    owned: Counter[str] = Counter()
    for record in store.records(PODS):
        pod = record.object
        if "deletionTimestamp" in pod["metadata"]:
            problems.append(f"pod {record.key[1]} is stuck in deletion")
        owners = pod["metadata"].get("ownerReferences") or ()
        owned.update(owner["uid"] for owner in owners)
        if not all(exists(cluster, owner["uid"]) for owner in owners):
            problems.append(f"pod {record.key[1]} has outlived its owner")
    for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
        for record in store.records(kind):
            obj, what = record.object, f"{kind.kind} {record.key[1]}"
            if "deletionTimestamp" in obj["metadata"]:
                problems.append(f"{what} is stuck in deletion")
            wanted, status = obj["spec"]["replicas"], obj["status"]
            if status.get("readyReplicas", 0) != wanted or status.get("replicas", 0) != wanted:
                problems.append(f"{what} wants {wanted}: {status}")
            if kind is not DEPLOYMENTS and owned[obj["metadata"]["uid"]] != wanted:
                problems.append(f"{what} wants {wanted}, owns {owned[obj['metadata']['uid']]}")
    for record in store.records(JOBS):
        obj = record.object
        conditions = {each["type"] for each in obj["status"].get("conditions") or ()}
        if not conditions & {"Complete", "Failed"}:
            problems.append(f"job {record.key[1]} has not ended: {obj['status']}")
        if "Complete" in conditions and obj["status"]["succeeded"] < obj["spec"]["completions"]:
            problems.append(f"job {record.key[1]} is complete too early: {obj['status']}")
    return problems


def exists(cluster: EmbeddedCluster, uid: str) -> bool:
    return any(
        record.object["metadata"]["uid"] == uid
        for kind in (REPLICA_SETS, STATEFUL_SETS, JOBS)
        for record in cluster.store.records(kind)
    )
