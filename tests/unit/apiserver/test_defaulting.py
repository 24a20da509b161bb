"""Defaults that scheduling depends on, or that kubectl shows."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.pod_defaults import qos_class
from tests.unit.apiserver.serving import NODES, PODS, Api, node, pod


def container(name: str = "c", **rest: Any) -> dict[str, Any]:
    return {"name": name, "image": "nginx:1", **rest}


async def test_the_usual_fields(api: Api) -> None:
    created = await api.create(PODS, pod())
    spec = created["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert spec["containers"] == [
        {
            "name": "c",
            "image": "nginx",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]
    assert spec["tolerations"] == [
        {
            "key": f"node.kubernetes.io/{name}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for name in ("not-ready", "unreachable")
    ]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("r.io:5000/a/nginx", "Always"),
        ("r.io:5000/a/nginx:1", "IfNotPresent"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
async def test_pull_policy(api: Api, image: str, policy: str) -> None:
    created = await api.create(PODS, pod(containers=[container(image=image)]))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_requests_come_from_limits_one_by_one(api: Api) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    resources = {"limits": limits, "requests": {"cpu": "500m"}}
    created = await api.create(
        PODS,
        pod(
            containers=[container(resources=resources)],
            initContainers=[container("i", resources={"limits": limits})],
        ),
    )
    assert created["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "500m",
        "memory": "1Gi",
    }
    assert created["spec"]["initContainers"][0]["resources"]["requests"] == limits


@pytest.mark.parametrize(
    ("written", "shown"),
    [("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), (2, "2")],
)
async def test_quantities_are_shown_in_canonical_form(
    api: Api, written: str | int, shown: str
) -> None:
    resources = {"requests": {"memory": written}}
    created = await api.create(PODS, pod(containers=[container(resources=resources)]))
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"memory": shown}


async def test_amounts_finer_than_a_thousandth_are_rounded_up(api: Api) -> None:
    resources = {"requests": {"cpu": "0.0001"}}
    created = await api.create(PODS, pod(containers=[container(resources=resources)]))
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1m"}


async def test_pod_level_requests(api: Api) -> None:
    created = await api.create(
        PODS,
        pod(
            resources={"limits": {"cpu": "2", "memory": "2Gi"}},
            containers=[
                container("a", resources={"requests": {"cpu": "100m"}}),
                container("b", resources={"requests": {"cpu": "200m"}}),
            ],
            initContainers=[container("i", resources={"requests": {"cpu": "1"}})],
        ),
    )
    assert created["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
    assert created["status"]["qosClass"] == "Burstable"


async def test_host_network_makes_host_ports(api: Api) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"}]
    created = await api.create(PODS, pod(hostNetwork=True, containers=[container(ports=ports)]))
    assert created["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
        {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"},
    ]


async def test_tolerations_of_the_client_are_kept(api: Api) -> None:
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    created = await api.create(PODS, pod(tolerations=[mine]))
    keys = [toleration["key"] for toleration in created["spec"]["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert "tolerationSeconds" not in created["spec"]["tolerations"][0]
    everything = await api.create(PODS, pod("b", tolerations=[{"operator": "Exists"}]))
    assert everything["spec"]["tolerations"] == [{"operator": "Exists"}]


async def test_match_label_keys_become_requirements(api: Api) -> None:
    selector = {"matchLabels": {"app": "web"}}
    anti = {"topologyKey": "h", "labelSelector": selector, "mismatchLabelKeys": ["rev", "absent"]}
    created = await api.create(
        PODS,
        pod(
            metadata={"labels": {"rev": "7"}},
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                    "matchLabelKeys": ["rev"],
                }
            ],
            affinity={
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}
            },
        ),
    )
    spec = created["spec"]
    assert spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [
        {"key": "rev", "operator": "In", "values": ["7"]}
    ]
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchExpressions"] == [
        {"key": "rev", "operator": "NotIn", "values": ["7"]}
    ]


async def test_a_gated_pod_says_so(api: Api) -> None:
    created = await api.create(PODS, pod(schedulingGates=[{"name": "x.y/z"}]))
    (condition,) = created["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Burstable"),
        (
            [
                {
                    "limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "1000m", "memory": "1024Mi"},
                }
            ],
            "Guaranteed",
        ),
        (
            [
                {"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}},
                {},
            ],
            "Burstable",
        ),
        ([{"requests": {"nvidia.com/gpu": "1"}}], "BestEffort"),
    ],
)
def test_qos_class(resources: list[dict[str, Any]], expected: str) -> None:
    spec = {"containers": [{"name": str(i), "resources": r} for i, r in enumerate(resources)]}
    assert qos_class(spec) == expected


async def test_allocatable_comes_from_capacity(api: Api) -> None:
    created = await api.create(NODES, node())
    assert created["status"]["allocatable"] == {"cpu": "4"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}
    created = await api.create(NODES, {"metadata": {"name": "n2"}, "status": status})
    assert created["status"]["allocatable"] == {"cpu": "3"}


async def test_nulls_and_empty_values_are_not_stored(api: Api) -> None:
    sent = pod(
        metadata={"labels": {}, "annotations": None, "creationTimestamp": None},
        nodeName="",
        nodeSelector={},
        hostNetwork=False,
        volumes=[],
        affinity=None,
        unheardOf=True,
    )
    spec = (await api.create(PODS, sent))["spec"]
    absent = {"nodeName", "nodeSelector", "hostNetwork", "volumes", "affinity", "unheardOf"}
    assert not absent & spec.keys()


async def test_workloads(api: Api) -> None:
    pod_spec: dict[str, Any] = {"containers": [container()]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec}
    body: dict[str, Any] = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    created = await api.create("/apis/apps/v1/namespaces/default/deployments", body)
    spec = created["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert "enableServiceLinks" not in spec["template"]["spec"]  # pods only
    pod_spec["restartPolicy"] = "Never"
    body = {"metadata": {"name": "j"}, "spec": {"template": template}}
    job = await api.create("/apis/batch/v1/namespaces/default/jobs", body)
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
