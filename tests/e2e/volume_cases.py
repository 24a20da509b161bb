"""Claims and volumes for the comparison of volume controllers: steps, and what is to be seen then.

Each case has a namespace, a class and names of volumes of its own, so that all can be played at
the same time. Volumes get a step before the claims that are to choose among them: while they are
not yet Available, which one is taken is a matter of chance.
"""

from __future__ import annotations

from typing import Any

from tests.e2e.controllers_beside import MERGE, Case, Json, Step

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
LATER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
NOBODY = "nobody.example.com"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class World(Case):
    @property
    def claims_path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/persistentvolumeclaims"

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    async def create_class(
        self, mode: str = "Immediate", provisioner: str = NO_PROVISIONER
    ) -> None:
        body = {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Retain"}
        await self.send("POST", CLASSES, {"metadata": {"name": self.name}, **body})

    async def create_volume(self, name: str, size: str = "5Gi", **spec: Any) -> None:
        labels, ref = spec.pop("labels", {}), spec.pop("promised_to", None)
        if ref is not None:
            spec["claimRef"] = {"namespace": self.name, "name": ref}
        body = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.name,
            "hostPath": {"path": "/nowhere"},
            **spec,
        }
        metadata = {"name": f"{self.name}-{name}", "labels": labels}
        await self.send("POST", VOLUMES, {"metadata": metadata, "spec": body})

    async def create_claim(self, name: str, size: str = "1Gi", **spec: Any) -> None:
        if "volumeName" in spec:
            spec["volumeName"] = f"{self.name}-{spec['volumeName']}"
        body = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": self.name,
            **spec,
        }
        await self.send("POST", self.claims_path, {"metadata": {"name": name}, "spec": body})

    async def promise(self, volume: str, claim: str) -> None:
        """What kube-scheduler writes."""
        uid = (await self.send("GET", f"{self.claims_path}/{claim}"))["metadata"]["uid"]
        ref = {"namespace": self.name, "name": claim, "uid": uid}
        marks = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        await self.send(
            "PATCH",
            f"{VOLUMES}/{self.name}-{volume}",
            {"metadata": marks, "spec": {"claimRef": ref}},
        )

    async def select(self, claim: str, node: str) -> None:
        """What kube-scheduler writes where a volume has to be made."""
        marks = {"annotations": {SELECTED_NODE: node}}
        await self.send("PATCH", f"{self.claims_path}/{claim}", {"metadata": marks})

    async def delete_claim(self, name: str) -> None:
        await self.send("DELETE", f"{self.claims_path}/{name}")

    async def create_pod(self, name: str, *volumes: str) -> None:
        """A pod with generic ephemeral volumes, which stays pending."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": self.name,
        }
        template = {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "b"}}, "spec": spec}
        body = {
            "containers": [{"name": "main", "image": "i"}],
            "volumes": [
                {"name": each, "ephemeral": {"volumeClaimTemplate": template}} for each in volumes
            ],
        }
        await self.send("POST", self.pods_path, {"metadata": {"name": name}, "spec": body})

    async def delete_pod(self, name: str) -> None:
        await self.send("DELETE", f"{self.pods_path}/{name}?gracePeriodSeconds=0")

    async def delete_volume(self, name: str) -> None:
        """Though it is in use, which a real one is protected against."""
        path = f"{VOLUMES}/{self.name}-{name}"
        await self.send("DELETE", path)
        patch = {"metadata": {"finalizers": None}}
        async with self.session.patch(path, json=patch, headers=MERGE) as answer:
            assert answer.status in (200, 404), await answer.text()

    async def view(self) -> dict[str, Json]:
        """All that a volume controller is to be judged by."""
        claims = (await self.send("GET", self.claims_path))["items"]
        uids = {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims}
        seen = {f"claim {claim['metadata']['name']}": _claim_view(claim) for claim in claims}
        for volume in (await self.send("GET", VOLUMES))["items"]:
            name = volume["metadata"]["name"]
            if name.startswith(f"{self.name}-"):
                seen[f"volume {name}"] = _volume_view(volume, uids)
        return seen


def _claim_view(claim: Json) -> Json:
    return {
        "volume": claim["spec"].get("volumeName", ""),
        "annotations": claim["metadata"].get("annotations", {}),
        "labels": claim["metadata"].get("labels", {}),
        "owners": [
            {name: value for name, value in owner.items() if name != "uid"}
            for owner in claim["metadata"].get("ownerReferences", ())
        ],
        "status": claim["status"],
    }


def _volume_view(volume: Json, uids: dict[str, str]) -> Json:
    ref = dict(volume["spec"].get("claimRef", {}))
    ref.pop("resourceVersion", None)
    if "uid" in ref:
        ref["uid"] = "the claim's" if ref["uid"] == uids.get(ref["name"]) else "of one that is gone"
    return {
        "claim": ref,
        "annotations": volume["metadata"].get("annotations", {}),
        "phase": volume["status"]["phase"],
    }


# The smallest that suits


async def _sizes(world: World) -> None:
    await world.create_class()
    for name, size in (("a", "9Gi"), ("b", "1Gi"), ("c", "3Gi"), ("d", "4Gi")):
        await world.create_volume(name, size)
    both = ["ReadWriteOnce", "ReadOnlyMany"]
    await world.create_volume("e", "2Gi", accessModes=both)


async def _claims_of_sizes(world: World) -> None:
    await world.create_claim("data", "2Gi")


async def _one_more_of_any_access(world: World) -> None:
    await world.create_claim("reader", accessModes=["ReadOnlyMany"])
    await world.create_claim("huge", "99Gi")


# What does not suit


async def _unsuitable(world: World) -> None:
    await world.create_class()
    await world.create_volume("block", volumeMode="Block", labels={"tier": "fast"})
    await world.create_volume("slow", labels={"tier": "slow"})
    await world.create_volume("plain", storageClassName="", labels={"tier": "fast"})
    await world.create_claim("data", selector={"matchLabels": {"tier": "fast"}})
    await world.create_claim("raw", volumeMode="Block", selector={"matchLabels": {"tier": "x"}})


async def _something_suitable(world: World) -> None:
    await world.create_volume("late", labels={"tier": "fast"})


# Promises of a user


async def _promised(world: World) -> None:
    await world.create_class()
    await world.create_volume("mine", "9Gi", promised_to="data")
    await world.create_volume("tiny", "1Mi", promised_to="big")
    await world.create_volume("smaller", "2Gi")


async def _claims_with_promises(world: World) -> None:
    await world.create_claim("data")
    await world.create_claim("big", "50Gi")


async def _another_promise(world: World) -> None:
    await world.create_volume("too-late", promised_to="data")


# Claims of ephemeral volumes


async def _ephemeral(world: World) -> None:
    await world.create_class()
    await world.create_volume("first", "1Gi")
    await world.create_volume("second", "2Gi")
    await world.create_claim("theirs-scratch", "9Gi")
    await world.create_pod("mine", "scratch")
    await world.create_pod("theirs", "scratch")


async def _claim_lost(world: World) -> None:
    await world.delete_claim("mine-scratch")


async def _other_claim_lost(world: World) -> None:
    await world.delete_claim("theirs-scratch")


async def _pods_gone(world: World) -> None:
    await world.delete_pod("mine")
    await world.delete_pod("theirs")


# Claims that name their volume


async def _named(world: World) -> None:
    await world.create_class()
    await world.create_volume("one")
    await world.create_volume("tiny", "1Mi")


async def _first_name(world: World) -> None:
    await world.create_claim("first", volumeName="one")
    await world.create_claim("too-big", volumeName="tiny")
    await world.create_claim("nowhere", volumeName="nothing")


async def _second_name(world: World) -> None:
    await world.create_claim("second", volumeName="one")


# Binding that is the scheduler's business


async def _delayed(world: World) -> None:
    await world.create_class(LATER)
    await world.create_volume("disk")
    await world.create_volume("smaller", "2Gi")


async def _delayed_claim(world: World) -> None:
    await world.create_claim("data")


async def _scheduler_promises(world: World) -> None:
    await world.promise("disk", "data")


async def _promise_to_the_wrong(world: World) -> None:
    """To a claim that has a volume: it must be undone."""
    await world.promise("smaller", "data")


# Ends


async def _in_use(world: World) -> None:
    await world.create_class()
    await world.create_volume("disk")


async def _delete_claim(world: World) -> None:
    await world.delete_claim("data")


async def _delete_volume(world: World) -> None:
    await world.delete_volume("disk")


async def _same_volume_again(world: World) -> None:
    await world.create_volume("disk")


# Volumes that somebody should make


async def _to_be_made(world: World) -> None:
    await world.create_class("Immediate", NOBODY)
    await world.create_claim("data")
    await world.create_claim("choosy", selector={"matchLabels": {"tier": "fast"}})


async def _to_be_made_for_a_node(world: World) -> None:
    await world.create_class(LATER, NOBODY)
    await world.create_claim("data")
    await world.create_claim("idle")


async def _select_node(world: World) -> None:
    await world.select("data", "some-node")


async def _classless(world: World) -> None:
    await world.create_claim("unknown-class")


async def _class_arrives(world: World) -> None:
    await world.create_class("Immediate", NOBODY)


CASES: dict[str, list[Step[World]]] = {
    "sizes": [_sizes, _claims_of_sizes, _one_more_of_any_access],
    "unsuitable": [_unsuitable, _something_suitable],
    "promised": [_promised, _claims_with_promises, _another_promise],
    "named": [_named, _first_name, _second_name],
    "delayed": [_delayed, _delayed_claim, _scheduler_promises, _promise_to_the_wrong],
    "released": [_in_use, _delayed_claim, _delete_claim, _delayed_claim],
    "lost": [_in_use, _delayed_claim, _delete_volume, _same_volume_again],
    "immediate": [_to_be_made],
    "for-a-node": [_to_be_made_for_a_node, _select_node],
    "no-class": [_classless, _class_arrives],
    "ephemeral": [_ephemeral, _claim_lost, _other_claim_lost, _pods_gone],
}
