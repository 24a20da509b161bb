"""Pods and claims for the comparison of claim controllers: steps, and what is to be seen then.

Each case has a namespace of its own, so that all can be played at the same time. The steps write
what users, a scheduler and a kubelet would.
"""

from __future__ import annotations

from typing import Any

from tests.e2e.controllers_beside import Case, Json, Step

FINALIZER = "resource.kubernetes.io/delete-protection"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
#: Of no interest: chance, time, and who wrote what.
_CHANCE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "generation")


class World(Case):
    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    @property
    def claims(self) -> str:
        return f"/apis/resource.k8s.io/v1/namespaces/{self.name}/resourceclaims"

    async def template(self, name: str = "t", **metadata: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": SPEC}}
        await self.send("POST", f"{self.claims[:-1]}templates", body)

    async def claim(self, name: str) -> None:
        await self.send("POST", self.claims, {"metadata": {"name": name}, "spec": SPEC})

    async def pod(self, name: str, *claims: Json, **spec: Any) -> None:
        whole = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": list(claims),
            "terminationGracePeriodSeconds": 0,
            **spec,
        }
        await self.send("POST", self.pods, {"metadata": {"name": name}, "spec": whole})

    async def made(self, pod: str, entry: str = "gpu") -> str:
        """The name of the claim that was made for a pod; `play` has waited for it."""
        stored = await self.send("GET", f"{self.pods}/{pod}")
        names = {
            each["name"]: each["resourceClaimName"]
            for each in stored["status"]["resourceClaimStatuses"]
        }
        return str(names[entry])

    async def allocate(self, claim: str, *pods: str) -> None:
        """What a scheduler writes before it binds."""
        path = f"{self.claims}/{claim}"
        await self.send("PATCH", path, {"metadata": {"finalizers": [FINALIZER]}})
        consumers = []
        for pod in pods:
            uid = (await self.send("GET", f"{self.pods}/{pod}"))["metadata"]["uid"]
            consumers.append({"resource": "pods", "name": pod, "uid": uid})
        status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": consumers}
        await self.send("PATCH", f"{path}/status", {"status": status})

    async def bind(self, pod: str) -> None:
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": "n"}}
        await self.send("POST", f"{self.pods}/{pod}/binding", body)

    async def end(self, pod: str, phase: str = "Succeeded") -> None:
        """What a kubelet writes when all containers have ended."""
        await self.send("PATCH", f"{self.pods}/{pod}/status", {"status": {"phase": phase}})

    async def delete(self, path: str) -> None:
        await self.send("DELETE", path, {"gracePeriodSeconds": 0})

    async def view(self) -> dict[str, Any]:
        pods = (await self.send("GET", self.pods))["items"]
        claims = (await self.send("GET", self.claims))["items"]
        uids = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
        names = {claim["metadata"]["name"]: _name(claim) for claim in claims}
        seen: dict[str, Any] = {}
        for claim in claims:
            seen[f"claim {_name(claim)}"] = _claim_view(claim, uids)
        for pod in pods:
            status = pod["status"]
            seen[f"pod {pod['metadata']['name']}"] = {
                "phase": status.get("phase"),
                "leaving": "deletionTimestamp" in pod["metadata"],
                # The real controller writes them in random order.
                "claims": {
                    each["name"]: names.get(each.get("resourceClaimName"), "gone")
                    for each in status.get("resourceClaimStatuses") or ()
                },
            }
        return seen


def _name(claim: Json) -> str:
    """Without the five characters of chance."""
    metadata = claim["metadata"]
    prefix = metadata.get("generateName")
    name = str(metadata["name"])
    if prefix is None:
        return name
    assert name.startswith(prefix[:58])
    assert len(name) == min(len(prefix), 58) + 5
    return f"{prefix}?"


def _claim_view(claim: Json, uids: dict[str, str]) -> Json:
    metadata = {key: value for key, value in claim["metadata"].items() if key not in _CHANCE}
    metadata["name"] = _name(claim)
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = "now"
    for owner in metadata.get("ownerReferences") or ():
        owner["uid"] = uids.get(owner["uid"], "another")
    status = claim.get("status") or {}
    for consumer in status.get("reservedFor") or ():
        consumer["uid"] = uids.get(consumer["uid"], "another")
    return {"metadata": metadata, "spec": claim["spec"], "status": status}


FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_NAME = {"name": "gpu", "resourceClaimName": "a"}


async def _template(world: World) -> None:
    await world.template(labels={"l": "1"}, annotations={"x": "y"})


async def _pod(world: World) -> None:
    await world.pod("p", FROM_TEMPLATE)


async def _pod_with_two_claims(world: World) -> None:
    await world.claim("a")
    await world.pod(
        "p", FROM_TEMPLATE, {**BY_NAME, "name": "other"}, {**FROM_TEMPLATE, "name": "x"}
    )


async def _pod_with_long_names(world: World) -> None:
    await world.pod("pod-" + "p" * 50, {**FROM_TEMPLATE, "name": "entry-" + "e" * 40})


async def _claim(world: World) -> None:
    await world.claim("a")


async def _two_pods(world: World) -> None:
    await world.pod("p", BY_NAME)
    await world.pod("q", BY_NAME)


async def _schedule_made(world: World) -> None:
    await world.allocate(await world.made("p"), "p")
    await world.bind("p")


async def _schedule_both(world: World) -> None:
    await world.allocate("a", "p", "q")
    await world.bind("p")
    await world.bind("q")


async def _allocate_for_nobody(world: World) -> None:
    await world.allocate("a")


async def _pod_on_a_node(world: World) -> None:
    await world.pod("p", BY_NAME, nodeName="n")


async def _end(world: World) -> None:
    await world.end("p")


async def _fail_other(world: World) -> None:
    await world.end("q", "Failed")


async def _delete_pod(world: World) -> None:
    await world.delete(f"{world.pods}/p")


async def _delete_other(world: World) -> None:
    await world.delete(f"{world.pods}/q")


async def _delete_claim(world: World) -> None:
    await world.delete(f"{world.claims}/a")


async def _reserve_for_a_stranger(world: World) -> None:
    """The consumer is a pod that does not exist."""
    consumer = {"resource": "pods", "name": "nobody", "uid": "no-such-uid"}
    await world.allocate("a")
    await world.send("PATCH", f"{world.claims}/a/status", {"status": {"reservedFor": [consumer]}})


CASES: dict[str, list[Step[World]]] = {
    "a-life": [_template, _pod, _schedule_made, _end, _delete_pod],
    "deleted-while-it-runs": [_template, _pod, _schedule_made, _delete_pod],
    "deleted-while-it-waits": [_template, _pod, _delete_pod, _pod],
    "template-comes-later": [_pod, _template],
    "several-claims": [_template, _pod_with_two_claims, _end],
    "long-names": [_template, _pod_with_long_names],
    "ended-before-it-was-scheduled": [_template, _pod, _end],
    "shared-claim": [_claim, _two_pods, _schedule_both, _end, _fail_other, _delete_other],
    "shared-claim-deleted": [_claim, _two_pods, _schedule_both, _end, _delete_claim, _delete_other],
    "bound-by-others": [_claim, _allocate_for_nobody, _pod_on_a_node, _end],
    "unused-claim-deleted": [_claim, _allocate_for_nobody, _delete_claim],
    "stranger": [_claim, _reserve_for_a_stranger],
}
