"""Claims from templates, reservations that end, and pods that wait for their devices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from tests.unit.apiserver.serving import NODES, PODS, Answer, Api, node, pod, serving
from tests.unit.apiserver.test_devices import CLAIMS, RESULT, TEMPLATES, claim

KUBELET = KubeletOptions(start_delay_s=0.0, stop_delay_s=0.0)
FINALIZER = "resource.kubernetes.io/delete-protection"
FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_NAME = {"name": "gpu", "resourceClaimName": "a"}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving(KUBELET, device_claims=True) as found:
        await found.create(NODES, node("n"))
        yield found


def template() -> dict[str, Any]:
    metadata = {"labels": {"l": "1"}, "annotations": {"x": "y"}}
    return {"metadata": {"name": "t"}, "spec": {**claim(), "metadata": metadata}}


def is_gone(answer: Answer) -> bool:
    return answer.status == 404


def is_running(answer: Answer) -> bool:
    return bool(answer.body["status"]["phase"] == "Running")


async def claim_of(api: Api, name: str) -> dict[str, Any]:
    """The claim that was made for the pod's one template."""
    answer = await api.eventually(
        f"{PODS}/{name}", lambda found: "resourceClaimStatuses" in found.body["status"]
    )
    made = answer.body["status"]["resourceClaimStatuses"]
    assert [each["name"] for each in made] == ["gpu"]
    found: dict[str, Any] = await api.get(f"{CLAIMS}/{made[0]['resourceClaimName']}")
    return found


async def allocate(api: Api, claim_name: str, *pods: dict[str, Any]) -> None:
    """What a scheduler writes before it binds."""
    path = f"{CLAIMS}/{claim_name}"
    await api.patch(path, {"metadata": {"finalizers": [FINALIZER]}})
    consumers = [
        {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        for each in pods
    ]
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": consumers}
    await api.patch(f"{path}/status", {"status": status})


async def test_a_claim_is_made_from_a_template_that_comes_later(api: Api) -> None:
    owner = await api.create(PODS, pod("p", resourceClaims=[FROM_TEMPLATE]))
    await api.create(TEMPLATES, template())
    made = await claim_of(api, "p")
    metadata = made["metadata"]
    assert metadata["name"].startswith("p-gpu-")
    assert metadata["labels"] == {"l": "1"}
    assert metadata["annotations"] == {"x": "y", "resource.kubernetes.io/pod-claim-name": "gpu"}
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
    assert metadata["ownerReferences"] == [reference | {"uid": owner["metadata"]["uid"]}]
    assert made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"


async def test_a_pod_runs_once_its_claim_is_reserved_for_it(api: Api) -> None:
    await api.create(CLAIMS, claim())
    other = await api.create(PODS, pod("other"))
    waiting = await api.create(PODS, pod("p", resourceClaims=[BY_NAME]))
    await api.bind("p", "n")
    await api.bind("other", "n")
    await api.eventually(f"{PODS}/other", is_running)
    assert (await api.get(f"{PODS}/p"))["status"]["phase"] == "Pending"
    await allocate(api, "a", waiting, other)
    await api.eventually(f"{PODS}/p", is_running)


async def test_a_pod_bound_without_a_scheduler_gets_the_reservation(api: Api) -> None:
    await api.create(CLAIMS, claim())
    await allocate(api, "a")
    await api.create(PODS, pod("p", resourceClaims=[BY_NAME], nodeName="n"))
    await api.eventually(f"{PODS}/p", is_running)
    consumers = (await api.get(f"{CLAIMS}/a"))["status"]["reservedFor"]
    assert [each["name"] for each in consumers] == ["p"]


async def test_devices_are_free_when_the_last_pod_ends(api: Api) -> None:
    await api.create(CLAIMS, claim())
    users = [await api.create(PODS, pod(name, resourceClaims=[BY_NAME])) for name in ("one", "two")]
    await allocate(api, "a", *users)
    await api.request("DELETE", f"{PODS}/one")
    left = await api.eventually(
        f"{CLAIMS}/a", lambda found: len(found.body["status"]["reservedFor"]) == 1
    )
    assert "allocation" in left.body["status"]
    await api.request("DELETE", f"{PODS}/two")
    freed = await api.eventually(f"{CLAIMS}/a", lambda found: not found.body["status"])
    assert "finalizers" not in freed.body["metadata"]


async def test_a_generated_claim_goes_with_its_pod(api: Api) -> None:
    await api.create(TEMPLATES, template())
    for name, ends in (("deleted", False), ("ended", True)):
        owner = await api.create(PODS, pod(name, resourceClaims=[FROM_TEMPLATE]))
        made = (await claim_of(api, name))["metadata"]["name"]
        await allocate(api, made, owner)
        if ends:
            await api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
        else:
            await api.request("DELETE", f"{PODS}/{name}")
        await api.eventually(f"{CLAIMS}/{made}", is_gone)
    assert not api.server.has_work
    assert (await api.get(CLAIMS))["items"] == []


async def test_a_deleted_claim_stays_while_a_pod_uses_it(api: Api) -> None:
    await api.create(CLAIMS, claim())
    user = await api.create(PODS, pod("p", resourceClaims=[BY_NAME]))
    await allocate(api, "a", user)
    await api.request("DELETE", f"{CLAIMS}/a")
    held = await api.get(f"{CLAIMS}/a")
    assert "deletionTimestamp" in held["metadata"]
    assert "allocation" in held["status"]
    await api.request("DELETE", f"{PODS}/p")
    await api.eventually(f"{CLAIMS}/a", is_gone)


async def test_a_replaced_pod_does_not_keep_the_reservation(api: Api) -> None:
    await api.create(CLAIMS, claim())
    first = await api.create(PODS, pod("p", resourceClaims=[BY_NAME]))
    await allocate(api, "a", first)
    await api.request("DELETE", f"{PODS}/p")
    await api.create(PODS, pod("p", resourceClaims=[BY_NAME]))
    await api.eventually(f"{CLAIMS}/a", lambda found: not found.body["status"])
