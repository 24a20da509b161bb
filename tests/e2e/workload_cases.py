"""Workloads for the comparison of workload controllers: steps, and what must be the same then.

Each case has a namespace of its own, so that all are played at the same time. Pods name their
node in the template: no scheduler takes part. A pod without a node stays as it is, so that a case
can end it itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.e2e.controllers_beside import Case, Json, Step

NODE = "worker"
PATIENCE_S = 60.0
KINDS = {
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "pods": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class World(Case):
    def path(self, plural: str, name: str = "") -> str:
        path = f"{KINDS[plural]}/namespaces/{self.name}/{plural}"
        return f"{path}/{name}" if name else path

    async def create(self, plural: str, body: Json) -> None:
        await self.send("POST", self.path(plural), body)

    async def patch(self, plural: str, name: str, body: Json) -> None:
        await self.send("PATCH", self.path(plural, name), body)

    async def delete(self, plural: str, name: str, policy: str = "Background") -> None:
        await self.send("DELETE", self.path(plural, name), {"propagationPolicy": policy})

    async def items(self, plural: str) -> list[Json]:
        items: list[Json] = (await self.send("GET", self.path(plural)))["items"]
        return items

    async def pods(self) -> list[Json]:
        return sorted(await self.items("pods"), key=lambda pod: str(pod["metadata"]["name"]))

    async def status(self, plural: str, name: str) -> Json:
        status: Json = (await self.send("GET", self.path(plural, name)))["status"]
        return status

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not await holds():
            assert time.monotonic() < deadline, f"{self.name}: not {what} within {PATIENCE_S} s"
            await asyncio.sleep(0.1)

    async def until_pods(self, count: int, phase: str = "Running") -> None:
        """As many pods, all in that phase and none on its way out."""

        async def holds() -> bool:
            pods = await self.pods()
            return len(pods) == count and all(
                pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]
                for pod in pods
            )

        await self.until(f"{count} pods {phase}", holds)

    async def until_image(self, count: int, image: str) -> None:
        async def holds() -> bool:
            images = [pod["spec"]["containers"][0]["image"] for pod in await self.pods()]
            return images == [image] * count

        await self.until(f"{count} pods of {image}", holds)
        await self.until_pods(count)

    async def until_condition(self, plural: str, name: str, condition: str) -> None:
        async def holds() -> bool:
            conditions = (await self.status(plural, name)).get("conditions") or ()
            return any(c["type"] == condition and c["status"] == "True" for c in conditions)

        await self.until(condition, holds)

    async def fail_one_pod(self) -> None:
        """What a kubelet writes when a container ends with an error."""
        found = [pod for pod in await self.pods() if pod["status"]["phase"] == "Pending"]
        name = found[0]["metadata"]["name"]
        await self.send(
            "PATCH", f"{self.path('pods', name)}/status", {"status": {"phase": "Failed"}}
        )

    async def view(self) -> dict[str, Any]:
        """All that a workload controller is to be judged by, without names made by chance."""
        found = {plural: await self.items(plural) for plural in KINDS}
        masks = _masks(found)
        seen: dict[str, Any] = {}
        for plural, items in found.items():
            for obj in items:
                text = json.dumps(_shown(plural, obj), sort_keys=True)
                for secret, mask in masks:
                    text = text.replace(secret, mask)
                shown = json.loads(_TIME.sub("<time>", text))
                name = shown.pop("name")
                seen.setdefault(f"{plural} {name}", []).append(json.dumps(shown, sort_keys=True))
        return {name: sorted(versions) for name, versions in seen.items()}


def _masks(found: dict[str, list[Json]]) -> list[tuple[str, str]]:
    masks = []
    for plural, items in found.items():
        for obj in items:
            metadata = obj["metadata"]
            if plural != "pods":
                masks.append((metadata["uid"], f"<uid of {plural} {metadata['name']}>"))
            if plural == "replicasets" and "pod-template-hash" in metadata.get("labels", {}):
                revision = metadata["annotations"]["deployment.kubernetes.io/revision"]
                masks.append((metadata["labels"]["pod-template-hash"], f"<hash {revision}>"))
            if plural == "statefulsets":
                masks.append((obj["status"].get("updateRevision", "<none>"), "<new revision>"))
                masks.append((obj["status"].get("currentRevision", "<none>"), "<old revision>"))
    return masks


def _shown(plural: str, obj: Json) -> Json:
    metadata, spec, status = obj["metadata"], obj["spec"], obj["status"]
    shown = {"name": metadata["name"], "labels": metadata.get("labels")}
    if plural == "persistentvolumeclaims":
        return {**shown, "spec": spec, "owners": metadata.get("ownerReferences")}
    shown["annotations"] = metadata.get("annotations")
    shown["owners"] = metadata.get("ownerReferences")
    shown["finalizers"] = metadata.get("finalizers")
    if plural != "pods":
        sizes = {key: spec.get(key) for key in ("replicas", "selector")}
        seen = status.pop("observedGeneration", None) == metadata["generation"]
        return {**shown, **sizes, "status": _steady(status), "is_observed": seen}
    if "generateName" in metadata:
        shown["name"] = metadata["generateName"]
    fields = ("hostname", "subdomain", "volumes")
    return {
        **shown,
        **{field: spec.get(field) for field in fields},
        "env": spec["containers"][0].get("env"),
        "image": spec["containers"][0]["image"],
        "phase": status["phase"],
        "is_leaving": "deletionTimestamp" in metadata,
    }


def _steady(status: Json) -> Json:
    """With its conditions in one order."""
    conditions = sorted(status.get("conditions") or (), key=lambda each: str(each["type"]))
    return {**status, "conditions": conditions}


def template(app: str, image: str = "one", node: str = NODE, **spec: Any) -> Json:
    spec = {
        "containers": [{"name": "c", "image": image}],
        "terminationGracePeriodSeconds": 0,
    } | spec
    if node:
        spec["nodeName"] = node
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def workload(name: str, replicas: int, made_of: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": made_of or template(name),
            **spec,
        },
    }


def image(name: str) -> Json:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": name}]}}}}


# Deployments


async def _deploy(world: World) -> None:
    await world.create("deployments", workload("web", 3))
    await world.until_pods(3)
    await world.until_condition("deployments", "web", "Available")


async def _scale_up(world: World) -> None:
    await world.patch("deployments", "web/scale", {"spec": {"replicas": 5}})
    await world.until_pods(5)


async def _roll(world: World) -> None:
    await world.patch("deployments", "web", image("two"))
    await world.until_image(5, "two")


async def _roll_back(world: World) -> None:
    await world.patch("deployments", "web", image("one"))
    await world.until_image(5, "one")


async def _lose_a_pod(world: World) -> None:
    lost = (await world.pods())[0]["metadata"]["name"]
    await world.delete("pods", lost)

    async def holds() -> bool:
        return all(pod["metadata"]["name"] != lost for pod in await world.pods())

    await world.until("replaced", holds)
    await world.until_pods(5)


async def _scale_down(world: World) -> None:
    await world.patch("deployments", "web", {"spec": {"replicas": 1}})
    await world.until_pods(1)


async def _pause_and_change(world: World) -> None:
    await world.patch("deployments", "web", {"spec": {"paused": True}})
    await world.patch("deployments", "web", image("three"))
    await world.patch("deployments", "web", {"spec": {"replicas": 2}})
    await world.until_image(2, "one")


async def _resume(world: World) -> None:
    await world.patch("deployments", "web", {"spec": {"paused": False}})
    await world.until_image(2, "three")


async def _delete_deployment(world: World) -> None:
    await world.delete("deployments", "web")
    await world.until_pods(0)


async def _recreate(world: World) -> None:
    strategy = {"type": "Recreate"}
    await world.create("deployments", workload("web", 2, strategy=strategy, revisionHistoryLimit=0))
    await world.until_pods(2)


async def _roll_recreated(world: World) -> None:
    await world.patch("deployments", "web", image("two"))
    await world.until_image(2, "two")


async def _delete_in_foreground(world: World) -> None:
    await world.delete("deployments", "web", "Foreground")
    await world.until_pods(0)


# ReplicaSets


async def _adopt(world: World) -> None:
    orphan = template("rs")
    orphan["metadata"]["generateName"] = "orphan-"
    await world.create("pods", orphan)
    await world.create("replicasets", workload("rs", 3))
    await world.until_pods(3)


async def _release(world: World) -> None:
    pods = [pod for pod in await world.pods() if pod["metadata"]["name"].startswith("rs-")]
    patch = {"metadata": {"labels": {"app": "other"}}}
    await world.patch("pods", pods[0]["metadata"]["name"], patch)
    await world.until_pods(4)


async def _orphan(world: World) -> None:
    await world.delete("replicasets", "rs", "Orphan")

    async def holds() -> bool:
        return not await world.items("replicasets")

    await world.until("orphaned", holds)


async def _refused(world: World) -> None:
    made_of = template("rs", priorityClassName="missing")
    await world.create("replicasets", workload("rs", 2, made_of))
    await world.until_condition("replicasets", "rs", "ReplicaFailure")


# StatefulSets


async def _state(world: World) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    body = workload("db", 3, serviceName="db", volumeClaimTemplates=[claim])
    await world.create("statefulsets", body)
    await world.until_pods(3)


async def _state_waits(world: World) -> None:
    await world.create("statefulsets", workload("db", 3, template("db", node="")))
    await world.until_pods(1, "Pending")


async def _state_at_once(world: World) -> None:
    spec = {"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}
    await world.create("statefulsets", workload("db", 3, template("db", node=""), **spec))
    await world.until_pods(3, "Pending")


async def _roll_state(world: World) -> None:
    await world.patch("statefulsets", "db", image("two"))
    await world.until_image(3, "two")


async def _roll_half(world: World) -> None:
    strategy = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
    await world.patch("statefulsets", "db", {"spec": strategy})
    await world.patch("statefulsets", "db", image("three"))

    async def holds() -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in await world.pods()]
        return images == ["two", "two", "three"]

    await world.until("half", holds)
    await world.until_pods(3)


async def _shrink_state(world: World) -> None:
    await world.patch("statefulsets", "db", {"spec": {"replicas": 1}})
    await world.until_pods(1)


# Jobs


def job(node: str = NODE, **spec: Any) -> Json:
    made_of = {"spec": template("", node=node, restartPolicy="Never")["spec"]}
    return {"metadata": {"name": "job"}, "spec": {"template": made_of, **spec}}


async def _complete(world: World) -> None:
    await world.create("jobs", job(completions=3, parallelism=2))
    await world.until_condition("jobs", "job", "Complete")


async def _complete_indexes(world: World) -> None:
    await world.create("jobs", job(completions=3, parallelism=3, completionMode="Indexed"))
    await world.until_condition("jobs", "job", "Complete")


async def _start(world: World) -> None:
    await world.create("jobs", job("", completions=4, parallelism=3, backoffLimit=0))
    await world.until_pods(3, "Pending")


async def _fail(world: World) -> None:
    await world.fail_one_pod()
    await world.until_condition("jobs", "job", "Failed")


async def _suspend(world: World) -> None:
    await world.patch("jobs", "job", {"spec": {"suspend": True}})
    await world.until_pods(0)


async def _resume_job(world: World) -> None:
    await world.patch("jobs", "job", {"spec": {"suspend": False, "parallelism": 1}})
    await world.until_pods(1, "Pending")


async def _delete_job(world: World) -> None:
    await world.delete("jobs", "job")
    await world.until_pods(0)


async def _run_out(world: World) -> None:
    await world.create("jobs", job("", activeDeadlineSeconds=1))
    await world.until_condition("jobs", "job", "Failed")


CASES: dict[str, list[Step[World]]] = {
    "deployment": [_deploy, _scale_up, _roll, _roll_back, _lose_a_pod, _scale_down],
    "paused": [_deploy, _scale_down, _pause_and_change, _resume, _delete_deployment],
    "recreate": [_recreate, _roll_recreated, _delete_in_foreground],
    "adoption": [_adopt, _release, _orphan],
    "refused": [_refused],
    "stateful": [_state, _roll_state, _roll_half, _shrink_state],
    "in-order": [_state_waits],
    "at-once": [_state_at_once],
    "job": [_complete, _delete_job],
    "indexed": [_complete_indexes],
    "failing": [_start, _fail],
    "suspended": [_start, _suspend, _resume_job],
    "deadline": [_run_out],
}
