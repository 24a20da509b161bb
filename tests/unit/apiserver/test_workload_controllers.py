"""Workload controllers over HTTP: races, refusals, ends and the number of reconciliations.

What a workload becomes is compared with kube-controller-manager in
tests/e2e/test_workload_controllers.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.apiserver.kinds import REPLICA_SETS
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from stowplan.apiserver.workload_controllers.job_indexes import format_indexes, parse_indexes
from tests.unit.apiserver.serving import NODES, PODS, Answer, Api, node, pod, serving

APPS = "/apis/apps/v1/namespaces/default"
DEPLOYMENTS = f"{APPS}/deployments"
REPLICASETS = f"{APPS}/replicasets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUICK = WorkloadControllerOptions(settle_s=0.01, job_backoff_s=0.01)
KUBELET = KubeletOptions(start_delay_s=0.0, stop_delay_s=0.0, job_run_s=0.0)


@pytest.fixture
async def cluster() -> AsyncIterator[Api]:
    async with serving(KUBELET, workloads=QUICK) as api:
        await api.create(NODES, node())
        yield api


def workload(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(**spec)},
        },
    }


def pod_spec(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = pod(nodeName="n1", **spec)["spec"]
    return made


def job(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"annotations": annotations or {}}
    template = {"metadata": metadata, "spec": pod_spec(restartPolicy="Never")}
    return {"metadata": {"name": "job"}, "spec": {"template": template, **spec}}


def is_gone(answer: Answer) -> bool:
    return answer.status == 404


def has(**status: int) -> Any:
    return lambda answer: all(
        answer.body["status"].get(name, 0) == value for name, value in status.items()
    )


def condition(name: str) -> Any:
    return lambda answer: any(
        each["type"] == name and each["status"] == "True"
        for each in answer.body["status"].get("conditions") or ()
    )


def count(number: int) -> Any:
    return lambda answer: len(answer.body["items"]) == number


async def test_a_deployment_gets_its_pods(cluster: Api) -> None:
    await cluster.create(DEPLOYMENTS, workload("web", 3))
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=3, readyReplicas=3))
    (owner,) = (await cluster.get(PODS))["items"][0]["metadata"]["ownerReferences"]
    (replica_set,) = (await cluster.get(REPLICASETS))["items"]
    assert (owner["kind"], owner["name"]) == ("ReplicaSet", replica_set["metadata"]["name"])
    lost = (await cluster.get(PODS))["items"][0]["metadata"]["name"]
    await cluster.request("DELETE", f"{PODS}/{lost}")
    await cluster.eventually(f"{PODS}/{lost}", is_gone)
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=3))


async def test_the_pods_of_a_deleted_node_are_replaced(cluster: Api) -> None:
    await cluster.create(DEPLOYMENTS, workload("web", 2))
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=2))
    before = {each["metadata"]["uid"] for each in (await cluster.get(PODS))["items"]}
    await cluster.request("DELETE", f"{NODES}/n1")
    await cluster.create(NODES, node("n2"))

    def is_replaced(answer: Answer) -> bool:
        uids = {each["metadata"]["uid"] for each in answer.body["items"]}
        return len(uids) == 2 and not uids & before

    await cluster.eventually(PODS, is_replaced)


async def test_without_controllers_nothing_happens() -> None:
    async with serving(KUBELET) as api:
        await api.create(DEPLOYMENTS, workload("web", 3))
        await api.create(NODES, node())
        await api.eventually(f"{NODES}/n1", lambda answer: "conditions" in answer.body["status"])
        assert (await api.get(f"{DEPLOYMENTS}/web"))["status"] == {}
        answer = await api.request("DELETE", f"{DEPLOYMENTS}/web?propagationPolicy=Foreground")
        assert answer.body["status"] == "Success"


async def test_a_user_who_writes_all_the_time_disturbs_no_rollout(cluster: Api) -> None:
    path = f"{DEPLOYMENTS}/web"
    await cluster.create(DEPLOYMENTS, workload("web", 10))
    for number in range(40):
        body: dict[str, Any] = {"metadata": {"annotations": {"turn": str(number)}}}
        if number % 10 == 5:
            image = {"name": "c", "image": f"nginx:{number}"}
            body["spec"] = {"template": {"spec": {"containers": [image]}}}
        await cluster.patch(path, body, "application/strategic-merge-patch+json")
    answer = await cluster.eventually(
        path, has(replicas=10, updatedReplicas=10, availableReplicas=10, terminatingReplicas=0)
    )
    assert answer.body["metadata"]["annotations"]["turn"] == "39"
    images = {each["spec"]["containers"][0]["image"] for each in (await cluster.get(PODS))["items"]}
    assert images == {"nginx:35"}


async def test_a_stale_write_of_a_user_is_refused_and_nothing_is_lost(cluster: Api) -> None:
    created = await cluster.create(DEPLOYMENTS, workload("web", 2))
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=2))
    created["spec"]["replicas"] = 9
    answer = await cluster.request("PUT", f"{DEPLOYMENTS}/web", created)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert len((await cluster.get(PODS))["items"]) == 2


async def test_pods_that_are_refused_come_when_the_reason_is_gone(cluster: Api) -> None:
    await cluster.create(DEPLOYMENTS, workload("web", 2, priorityClassName="late"))
    answer = await cluster.eventually(f"{DEPLOYMENTS}/web", condition("ReplicaFailure"))
    messages = [each["message"] for each in answer.body["status"]["conditions"]]
    assert any("no PriorityClass with name late was found" in message for message in messages)
    events = (await cluster.get("/api/v1/namespaces/default/events"))["items"]
    assert "FailedCreate" in {event["reason"] for event in events}
    await cluster.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "late"}, "value": 1}
    )
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=2))


async def test_a_burst_of_changes_costs_few_writes_of_the_status() -> None:
    async with serving(KUBELET, workloads=WorkloadControllerOptions(settle_s=0.2)) as api:
        await api.create(NODES, node())
        await api.create(REPLICASETS, workload("rs", 250))
        await api.eventually(f"{REPLICASETS}/rs", has(availableReplicas=250))
        writes = api.server.store.changes_since(REPLICA_SETS, 0)
        # 250 pods have changed twice each; three bursts of a hundred create them.
        assert len(writes) <= 12, len(writes)


async def test_a_namespace_with_running_jobs_empties_itself(cluster: Api) -> None:
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "brief"}})
    body = job({"stowplan.io/run-seconds": "1000"}, parallelism=3)
    await cluster.create(JOBS.replace("default", "brief"), body)
    pods = PODS.replace("default", "brief")
    await cluster.eventually(pods, count(3))
    finalizers = (await cluster.get(pods))["items"][0]["metadata"]["finalizers"]
    assert finalizers == ["batch.kubernetes.io/job-tracking"]
    await cluster.request("DELETE", "/api/v1/namespaces/brief")
    await cluster.eventually("/api/v1/namespaces/brief", is_gone)


async def test_a_job_that_fails_is_tried_again_until_its_limit(cluster: Api) -> None:
    await cluster.create(JOBS, job({"stowplan.io/exit-code": "3"}, backoffLimit=2))
    answer = await cluster.eventually(f"{JOBS}/job", condition("Failed"))
    assert answer.body["status"]["failed"] == 3
    pods = (await cluster.get(PODS))["items"]
    assert [each["status"]["phase"] for each in pods] == ["Failed"] * 3
    ended = pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")


async def test_a_job_with_billions_of_indexes_costs_its_pods_alone(cluster: Api) -> None:
    body = job({"stowplan.io/run-seconds": "1000"}, completions=2_000_000_000, parallelism=3)
    body["spec"]["completionMode"] = "Indexed"
    await cluster.create(JOBS, body)
    await cluster.eventually(f"{JOBS}/job", has(active=3))
    pods = (await cluster.get(PODS))["items"]
    assert sorted(each["spec"]["hostname"] for each in pods) == ["job-0", "job-1", "job-2"]


async def test_a_deleted_pod_of_a_job_is_counted_and_replaced(cluster: Api) -> None:
    await cluster.create(JOBS, job({"stowplan.io/run-seconds": "1000"}))
    answer = await cluster.eventually(PODS, count(1))
    name = answer.body["items"][0]["metadata"]["name"]
    await cluster.request("DELETE", f"{PODS}/{name}")
    await cluster.eventually(f"{PODS}/{name}", is_gone)
    await cluster.eventually(f"{JOBS}/job", has(failed=1, active=1))


async def test_a_finished_job_goes_after_its_time(cluster: Api) -> None:
    await cluster.create(JOBS, job(ttlSecondsAfterFinished=0))
    await cluster.eventually(f"{JOBS}/job", is_gone)
    await cluster.eventually(PODS, count(0))


async def test_pods_of_an_owner_from_elsewhere_stay(cluster: Api) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "far", "uid": "1-2-3"}
    await cluster.create(PODS, pod("copied", {"ownerReferences": [{**owner, "controller": True}]}))
    await cluster.create(DEPLOYMENTS, workload("web", 1))
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=1))
    assert "deletionTimestamp" not in (await cluster.get(f"{PODS}/copied"))["metadata"]


async def test_an_object_with_two_owners_outlives_one(cluster: Api) -> None:
    owners = []
    for name in ("first", "second"):
        made = await cluster.create(DEPLOYMENTS, workload(name, 0))
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        owners.append({**reference, "uid": made["metadata"]["uid"]})
    path = "/api/v1/namespaces/default/configmaps"
    await cluster.create(path, {"metadata": {"name": "shared", "ownerReferences": owners}})
    await cluster.request("DELETE", f"{DEPLOYMENTS}/first")
    answer = await cluster.eventually(
        f"{path}/shared", lambda found: len(found.body["metadata"]["ownerReferences"]) == 1
    )
    assert answer.body["metadata"]["ownerReferences"] == owners[1:]
    await cluster.request("DELETE", f"{DEPLOYMENTS}/second")
    await cluster.eventually(f"{path}/shared", is_gone)


async def test_a_claim_template_without_a_name_is_reported(cluster: Api) -> None:
    body = workload("db", 1)
    body["spec"]["volumeClaimTemplates"] = [{"spec": {}}]
    await cluster.create(f"{APPS}/statefulsets", body)
    answer = await cluster.eventually("/api/v1/namespaces/default/events", count(1))
    (event,) = answer.body["items"]
    assert event["reason"] == "FailedCreate"
    assert event["message"].startswith("create Pod in StatefulSet db failed: PersistentVolumeClaim")


async def test_min_ready_seconds_delay_availability(cluster: Api) -> None:
    body = workload("web", 1)
    body["spec"]["minReadySeconds"] = 1
    await cluster.create(DEPLOYMENTS, body)
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(readyReplicas=1, availableReplicas=0))
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=1))


async def test_workloads_from_before_a_restart_are_served(cluster: Api) -> None:
    await cluster.create(DEPLOYMENTS, workload("web", 1))
    await cluster.eventually(f"{DEPLOYMENTS}/web", has(availableReplicas=1))
    server = cluster.server
    await server.stop()
    server.create("apps", "v1", "deployments", workload("next", 2), namespace="default")
    await server.start(port=server.port)
    await cluster.eventually(f"{DEPLOYMENTS}/next", has(availableReplicas=2))
    assert (await cluster.get(f"{DEPLOYMENTS}/web"))["status"]["availableReplicas"] == 1


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2, 5, 7, 8], "0-2,5,7,8")],
)
def test_completed_indexes(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 9) == set(indexes)
    assert parse_indexes("2-99999999,x,", 4) == {2, 3}
