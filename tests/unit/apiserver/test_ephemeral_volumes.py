"""Claims of generic ephemeral volumes; tests/e2e compares them with kube-controller-manager's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from tests.unit.apiserver.serving import NODES, PODS, Answer, Api, node, pod, serving

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
KUBELET = KubeletOptions(start_delay_s=0.0, stop_delay_s=0.0)
SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving(KUBELET, volumes=VolumeControllerOptions()) as found:
        await found.create(NODES, node("n"))
        yield found


def with_volume(name: str, *volumes: str, **metadata: Any) -> dict[str, Any]:
    body = pod(name)
    template = {"metadata": metadata, "spec": SPEC}
    body["spec"]["volumes"] = [
        {"name": each, "ephemeral": {"volumeClaimTemplate": template}} for each in volumes
    ]
    return body


def is_gone(answer: Answer) -> bool:
    return answer.status == 404


def is_there(answer: Answer) -> bool:
    return answer.status == 200


async def test_a_pod_gets_its_claims_which_go_with_it(api: Api) -> None:
    made = await api.create(PODS, with_volume("p", "a", "b", labels={"l": "1"}))
    claim = (await api.eventually(f"{CLAIMS}/p-a", is_there)).body
    await api.eventually(f"{CLAIMS}/p-b", is_there)
    assert claim["spec"]["resources"] == SPEC["resources"]
    assert claim["metadata"]["labels"] == {"l": "1"}
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "p", made["metadata"]["uid"])
    await api.request("DELETE", f"{PODS}/p")
    await api.eventually(f"{CLAIMS}/p-a", is_gone)
    await api.eventually(f"{CLAIMS}/p-b", is_gone)


async def test_a_claim_that_is_deleted_is_made_again(api: Api) -> None:
    await api.create(PODS, with_volume("p", "a"))
    first = (await api.eventually(f"{CLAIMS}/p-a", is_there)).body["metadata"]["uid"]
    await api.request("DELETE", f"{CLAIMS}/p-a")

    def is_another(answer: Answer) -> bool:
        return answer.status == 200 and bool(answer.body["metadata"]["uid"] != first)

    await api.eventually(f"{CLAIMS}/p-a", is_another)


async def test_a_claim_of_another_owner_stays(api: Api) -> None:
    other = await api.create(CLAIMS, {"metadata": {"name": "p-a"}, "spec": SPEC})
    await api.create(PODS, with_volume("p", "a", "b"))
    await api.eventually(f"{CLAIMS}/p-b", is_there)
    await api.request("DELETE", f"{PODS}/p")
    await api.eventually(f"{CLAIMS}/p-b", is_gone)
    assert (await api.get(f"{CLAIMS}/p-a"))["metadata"]["uid"] == other["metadata"]["uid"]


async def test_a_pod_of_the_same_name_gets_a_claim_of_its_own(api: Api) -> None:
    for _ in range(2):
        made = await api.create(PODS, with_volume("p", "a"))
        uid = made["metadata"]["uid"]

        def is_its_own(answer: Answer, uid: str = uid) -> bool:
            return answer.status == 200 and bool(
                answer.body["metadata"]["ownerReferences"][0]["uid"] == uid
            )

        await api.eventually(f"{CLAIMS}/p-a", is_its_own)
        await api.request("DELETE", f"{PODS}/p")


async def test_nothing_is_kept_of_pods_that_are_gone(api: Api) -> None:
    controller = api.server.ephemeral_volumes
    assert controller is not None
    for number in range(5):
        await api.create(PODS, with_volume(f"p{number}", "a"))
    await api.eventually(f"{CLAIMS}/p4-a", is_there)
    assert len(controller._users) == 5
    for number in range(5):
        await api.request("DELETE", f"{PODS}/p{number}")
    for number in range(5):
        await api.eventually(f"{CLAIMS}/p{number}-a", is_gone)
    assert not controller._users
