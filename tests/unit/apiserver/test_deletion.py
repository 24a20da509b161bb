"""Deletion: grace, finalizers, preconditions, collections, namespaces; and eviction."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from tests.unit.apiserver.serving import NODES, PODS, Api, node, pod, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
OVER_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


async def bound_pod(api: Api, name: str = "a", **metadata: Any) -> None:
    await api.create(PODS, pod(name, metadata))
    await api.bind(name, "n1")


async def test_an_unbound_pod_goes_at_once(api: Api) -> None:
    await api.create(PODS, pod())
    answer = await api.request("DELETE", f"{PODS}/a")
    assert answer.status == 200
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.request("GET", f"{PODS}/a")).status == 404


async def test_a_bound_pod_waits_for_its_kubelet(api: Api) -> None:
    await bound_pod(api)
    answer = await api.request("DELETE", f"{PODS}/a")
    metadata = answer.body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert metadata["deletionTimestamp"]
    assert metadata["generation"] == 2
    assert await api.get(f"{PODS}/a") == answer.body
    again = await api.request("DELETE", f"{PODS}/a")
    assert again.body == answer.body
    shorter = await api.request("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await api.request("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 50})
    assert longer.body == shorter.body
    await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    assert (await api.request("GET", f"{PODS}/a")).status == 404


async def test_a_finished_pod_goes_at_once(api: Api) -> None:
    await bound_pod(api)
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    await api.request("DELETE", f"{PODS}/a")
    assert (await api.request("GET", f"{PODS}/a")).status == 404


async def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": ["a.b/c", "a.b/d"]}})
    answer = await api.request("DELETE", f"{CONFIG_MAPS}/c")
    assert answer.body["metadata"]["deletionTimestamp"]
    await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": ["a.b/d"]}})
    assert (await api.get(f"{CONFIG_MAPS}/c"))["metadata"]["finalizers"] == ["a.b/d"]
    async with api.watch(CONFIG_MAPS) as watch:
        await watch.take(1)
        await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": None}})
        assert await watch.take(1) == [("DELETED", "c")]
    assert (await api.request("GET", f"{CONFIG_MAPS}/c")).status == 404


async def test_most_kinds_answer_with_a_status(api: Api) -> None:
    created = await api.create(NODES, node())
    answer = await api.request("DELETE", f"{NODES}/n1")
    assert answer.status == 200
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "n1", "kind": "nodes", "uid": created["metadata"]["uid"]},
    }


async def test_deleting_a_node_leaves_its_pods(api: Api) -> None:
    await api.create(NODES, node())
    await bound_pod(api)
    await api.request("DELETE", f"{NODES}/n1")
    assert (await api.get(f"{PODS}/a"))["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("preconditions", "what"),
    [({"uid": "other"}, "the UID"), ({"resourceVersion": "1"}, "the ResourceVersion")],
)
async def test_preconditions(api: Api, preconditions: dict[str, str], what: str) -> None:
    await api.create(PODS, pod())
    answer = await api.request("DELETE", f"{PODS}/a", {"preconditions": preconditions})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert f"{what} in the precondition" in answer.message
    current = (await api.get(f"{PODS}/a"))["metadata"]
    good = {"uid": current["uid"], "resourceVersion": current["resourceVersion"]}
    assert (await api.request("DELETE", f"{PODS}/a", {"preconditions": good})).status == 200


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name in "abc":
        await api.create(PODS, pod(name, {"labels": {"keep": str(name == "b").lower()}}))
    answer = await api.request("DELETE", f"{PODS}?labelSelector=keep!=true")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "c"]
    assert [i["metadata"]["name"] for i in (await api.get(PODS))["items"]] == ["b"]


async def test_dry_runs_delete_nothing(api: Api) -> None:
    await api.create(PODS, pod())
    await api.request("DELETE", f"{PODS}/a?dryRun=All")
    await api.request("DELETE", f"{PODS}/a", {"dryRun": ["All"]})
    await api.request("DELETE", f"{PODS}?dryRun=All")
    assert (await api.request("GET", f"{PODS}/a")).status == 200


async def test_a_namespace_goes_when_it_is_empty() -> None:
    async with serving(KubeletOptions(start_delay_s=0, stop_delay_s=0.05)) as api:
        await api.create(NODES, node())
        await api.create("/api/v1/namespaces", {"metadata": {"name": "x"}})
        place = "/api/v1/namespaces/x"
        await api.create(f"{place}/configmaps", {"metadata": {"name": "c"}})
        await api.create(f"{place}/pods", pod("a"))
        body = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
        await api.create(f"{place}/pods/a/binding", body)
        answer = await api.request("DELETE", place)
        assert answer.body["status"]["phase"] == "Terminating"
        refused = await api.request("POST", f"{place}/configmaps", {"metadata": {"name": "d"}})
        if refused.status != 404:  # it may already be gone
            assert refused.status == 403
            assert refused.message == (
                'configmaps "d" is forbidden: unable to create new content in namespace x because'
                " it is being terminated"
            )
        await api.eventually(place, lambda seen: seen.status == 404)
        assert (await api.get("/api/v1/pods"))["items"] == []


# Eviction


async def evict(api: Api, name: str = "a", **options: Any) -> Any:
    body = {"metadata": {"name": name}, "deleteOptions": options}
    return await api.request("POST", f"{PODS}/{name}/eviction", body)


async def running_pod(api: Api, *, ready: bool = True) -> None:
    await bound_pod(api, labels={"app": "web"})
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    await api.patch(f"{PODS}/a/status", {"status": status})


async def budget(api: Api, **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.create(BUDGETS, {"metadata": {"name": "p"}, "spec": spec})
    await api.patch(f"{BUDGETS}/p/status", {"status": {"observedGeneration": 1, **status}})


async def test_eviction_without_a_budget(api: Api) -> None:
    await running_pod(api)
    answer = await evict(api)
    assert answer.status == 201
    evicted = await api.get(f"{PODS}/a")
    assert evicted["metadata"]["deletionTimestamp"]
    (target,) = [c for c in evicted["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert target["reason"] == "EvictionByEvictionAPI"


async def test_eviction_takes_from_the_budget(api: Api) -> None:
    await running_pod(api)
    await budget(api, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    assert (await evict(api)).status == 201
    status = (await api.get(f"{BUDGETS}/p"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]


async def test_eviction_over_the_budget(api: Api) -> None:
    await running_pod(api)
    await budget(api, currentHealthy=1, desiredHealthy=1)
    answer = await evict(api)
    assert (answer.status, answer.reason, answer.message) == (429, "TooManyRequests", OVER_BUDGET)
    assert answer.body["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget p needs 1 healthy pods and has 1 currently",
        }
    ]
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/a"))["metadata"]


async def test_eviction_while_the_budget_is_not_processed(api: Api) -> None:
    await running_pod(api)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.create(BUDGETS, {"metadata": {"name": "p"}, "spec": spec})
    answer = await evict(api)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "10")


async def test_an_unready_pod_may_go_when_the_others_are_enough(api: Api) -> None:
    await running_pod(api, ready=False)
    await budget(api, currentHealthy=1, desiredHealthy=1)
    assert (await evict(api)).status == 201
    assert (await api.get(f"{BUDGETS}/p"))["status"]["disruptionsAllowed"] == 0


async def test_a_pending_pod_needs_no_budget(api: Api) -> None:
    await api.create(PODS, pod(metadata={"labels": {"app": "web"}}))
    await budget(api)
    assert (await evict(api)).status == 201
    assert (await api.request("GET", f"{PODS}/a")).status == 404


async def test_two_budgets_are_one_too_many(api: Api) -> None:
    await running_pod(api)
    await budget(api, disruptionsAllowed=1)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.create(BUDGETS, {"metadata": {"name": "q"}, "spec": spec})
    answer = await evict(api)
    assert answer.status == 500
    assert "more than one PodDisruptionBudget" in answer.message
