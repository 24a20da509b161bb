"""Scenarios of mistakes: junk bodies, wrong types, unknown fields, invalid objects."""

from __future__ import annotations

from typing import Any

from tests.e2e.parity import JSON_PATCH, MERGE, STRATEGIC, Step
from tests.e2e.parity_objects import (
    APPS,
    BUDGETS,
    CLASSES,
    EVENTS_V1,
    JOBS,
    LEASES,
    SELECTOR,
    STORAGE,
    named,
)
from tests.e2e.parity_pods import NAMESPACE, PODS, create, patch, pod

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
VALUES = ["x"]


def one_container(**rest: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "nginx", **rest}])


def resources(**rest: Any) -> dict[str, Any]:
    return one_container(resources=rest)


def toleration(**rest: Any) -> dict[str, Any]:
    return pod(tolerations=[rest])


def spread(**rest: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", **rest}


def node_affinity(**rest: Any) -> dict[str, Any]:
    return pod(affinity={"nodeAffinity": rest})


BAD_EXPRESSIONS = [
    {"key": "a", "operator": "In"},
    {"key": "a", "operator": "Exists", "values": VALUES},
    {"key": "a", "operator": "Gt"},
    {"key": "a b", "operator": "x", "values": ["c d"]},
]
BAD_FIELDS = [
    {"key": "x", "operator": "In", "values": ["a"]},
    {"key": "metadata.name", "operator": "Exists"},
    {"key": "metadata.name", "operator": "In", "values": ["A"]},
    {"key": "metadata.name", "operator": "In", "values": []},
]
BAD_SELECTOR = {
    "matchLabels": {"a": "b c"},
    "matchExpressions": [
        {"key": "a", "operator": "x"},
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": VALUES},
    ],
}
ONCE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}

SCENARIOS: dict[str, list[Step]] = {
    "bodies": [
        Step("POST", PODS, raw=b"{"),
        Step("POST", PODS, raw=b""),
        Step("POST", PODS, raw=b"xx"),
        Step("POST", PODS, raw=b'{"a":1}{'),
        Step("POST", PODS, raw=b"a: b: c", content_type="application/yaml"),
        Step("POST", PODS, raw=b"x: y", content_type="text/foo"),
        create({"kind": "Foo", "apiVersion": "v1"}),
        create({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}}),
        create({"kind": "Lease", "apiVersion": "v1"}, LEASES),
        create({"kind": "Lease", "apiVersion": "coordination.k8s.io/v9"}, LEASES),
        create({"metadata": {"name": "A_b"}, "spec": {}}),
        create({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    ],
    "places": [
        Step("PUT", PODS, pod()),
        Step("POST", "/api/v1/pods", pod()),
        Step("DELETE", "/api/v1/pods"),
        Step("DELETE", "/api/v1/namespaces"),
        Step("OPTIONS", "/api/v1/pods"),
        Step("GET", "/api/v1/podz"),
        Step("GET", f"{PODS}?limit=abc"),
        Step("GET", f"{PODS}?resourceVersion=abc"),
        Step("GET", f"{PODS}?labelSelector=a%20b"),
        Step("GET", f"{PODS}?labelSelector=%21"),
        Step("GET", f"{PODS}?fieldSelector=a"),
        Step("GET", f"{PODS}?fieldSelector=spec.foo=1"),
        Step("GET", f"{NAMESPACE}/configmaps?fieldSelector=spec.foo=1"),
        create(pod(), "/api/v1/namespaces/nonono/pods"),
        Step("GET", "/api/v1/namespaces/nonono/pods"),
        create(pod(priorityClassName="nono")),
        create(pod(priority=5)),
    ],
    "types": [
        create({"metadata": {"name": "a"}, "spec": "x"}),
        create({"metadata": {"name": 5}, "spec": {}}),
        create({"metadata": "x"}),
        create({"metadata": {"name": "a", "labels": {"a": 1}}}),
        create(pod(containers={})),
        create(pod(containers=["x"])),
        create(pod(containers=[{"name": 1}])),
        create(resources(requests={"cpu": "x1"})),
        create(pod(priority="1")),
        create(pod(priority=1.5)),
        create(pod(hostNetwork="true")),
        create(pod(affinity=[])),
        create(toleration(tolerationSeconds="1")),
        create(one_container(ports=[{"containerPort": "x"}])),
        create(named("n", status={"capacity": {"cpu": "zz"}}), "/api/v1/nodes"),
        create(named("n", spec={"leaseDurationSeconds": "x"}), LEASES),
        create(named("n", spec={"renewTime": "x"}), LEASES),
    ],
    "unknown fields": [
        create({**pod(), "spec": {"foo": 1}}, f"{PODS}?fieldValidation=Strict"),
        create({**pod(), "foo": 1}, f"{PODS}?fieldValidation=Warn"),
        Step("PUT", f"{PODS}/a?fieldValidation=Strict", {**pod(), "foo": 1}),
        patch(f"{PODS}/a?fieldValidation=Strict", {"spec": {"foo": 1}}, MERGE),
        patch(f"{PODS}/a?fieldValidation=Strict", {"spec": {"foo": 1}}, STRATEGIC),
        patch(
            f"{PODS}/a?fieldValidation=Strict",
            [{"op": "add", "path": "/spec/foo", "value": 1}],
            JSON_PATCH,
        ),
        create(pod("z"), f"{PODS}?fieldValidation=Foo"),
    ],
    "metadata": [
        create(pod("A")),
        create(pod("a" * 254)),
        create(pod("a.b_c")),
        create(pod(metadata={"labels": {"a b": "c"}})),
        create(pod(metadata={"labels": {"a": "c d"}})),
        create(pod(metadata={"annotations": {"a b": "c d"}})),
        create(pod(metadata={"finalizers": ["x y"]})),
        create(pod(metadata={"finalizers": ["foo"]})),
        create(pod(metadata={"ownerReferences": [{"kind": "x"}]})),
        create({**pod(), "metadata": {"generateName": "a."}}),
        create({**pod(), "metadata": {"generateName": "a-"}}),
        create(named("A.b"), "/api/v1/namespaces"),
    ],
    "containers": [
        create(pod(containers=[])),
        create(pod(containers=[{"name": "", "image": ""}])),
        create(pod(containers=[{"name": "A", "image": "x"}])),
        create(pod(containers=[{"name": "c", "image": "x"}, {"name": "c", "image": "x"}])),
        create(pod(initContainers=[{"name": "c", "image": "x"}])),
        create(one_container(ports=[{"containerPort": 0}])),
        create(
            one_container(ports=[{"containerPort": 70000, "hostPort": 70000, "protocol": "FOO"}])
        ),
        create(
            one_container(
                ports=[{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]
            )
        ),
        create(one_container(imagePullPolicy="x")),
        create(resources(requests={"cpu": "2"}, limits={"cpu": "1"})),
        create(resources(requests={"cpu": "-1"})),
        create(resources(requests={"foo": "1"})),
        create(resources(requests={"a.b/c": "1"})),
        create(resources(limits={"a.b/c": "1500m"})),
        create(resources(requests={"a.b/c": "1"}, limits={"a.b/c": "2"})),
        create(resources(requests={"hugepages-2Mi": "2Mi"}, limits={"hugepages-2Mi": "2Mi"})),
        create(pod(resources={"limits": {"foo": "1"}})),
        create(pod(resources={"limits": {"a.b/c": "1"}})),
    ],
    "pod fields": [
        create(pod(restartPolicy="x")),
        create(pod(dnsPolicy="x")),
        create(pod(nodeName="A")),
        create(pod(serviceAccountName="A_")),
        create(pod(priorityClassName="A_")),
        create(pod(activeDeadlineSeconds=0)),
        create(pod(preemptionPolicy="x")),
        create(pod(volumes=[{"name": ""}])),
        create(pod(volumes=[{"name": "x"}, {"name": "x"}])),
        create(pod(hostname="A")),
    ],
    "placement": [
        create(pod(nodeSelector={"a b": "c"})),
        create(toleration()),
        create(toleration(key="a", operator="x")),
        create(toleration(key="a", effect="x")),
        create(toleration(key="a", operator="Exists", value="b")),
        create(toleration(key="a", tolerationSeconds=3)),
        create(toleration(key="a", value="b c")),
        create(toleration(key="a b")),
        create(toleration(key="a", operator="Lt", value="b")),
        create(pod(schedulingGates=[{"name": "a b"}])),
        create(pod(schedulingGates=[{"name": "a"}, {"name": "a"}])),
        create(pod(schedulingGates=[{"name": "a"}], nodeName="n")),
        create(
            pod(
                topologySpreadConstraints=[
                    {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}
                ]
            )
        ),
        create(pod(topologySpreadConstraints=[spread(minDomains=2, nodeTaintsPolicy="x")])),
        create(pod(topologySpreadConstraints=[spread(), spread(maxSkew=2)])),
        create(pod(topologySpreadConstraints=[spread(labelSelector=BAD_SELECTOR)])),
        create(node_affinity(**{REQUIRED: {"nodeSelectorTerms": []}})),
        create(
            node_affinity(
                **{
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": BAD_EXPRESSIONS, "matchFields": BAD_FIELDS}
                        ]
                    }
                }
            )
        ),
        create(
            node_affinity(
                **{
                    PREFERRED: [
                        {
                            "weight": 0,
                            "preference": {"matchExpressions": [{"key": "a", "operator": "x"}]},
                        }
                    ]
                }
            )
        ),
        create(
            pod(
                affinity={
                    "podAffinity": {
                        REQUIRED: [{"topologyKey": ""}],
                        PREFERRED: [
                            {
                                "weight": 101,
                                "podAffinityTerm": {
                                    "topologyKey": "a b",
                                    "labelSelector": BAD_SELECTOR,
                                },
                            }
                        ],
                    }
                }
            )
        ),
    ],
    "other kinds": [
        create(
            named("n", spec={"taints": [{"key": "", "effect": ""}, {"key": "a b", "effect": "x"}]}),
            "/api/v1/nodes",
        ),
        create(
            named("n", spec={"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}),
            "/api/v1/nodes",
        ),
        create(named("n", status={"allocatable": {"pods": "1.5"}}), "/api/v1/nodes"),
        create(named("N_"), "/api/v1/nodes"),
        create(named("{ns}", value=2000000000), CLASSES),
        create(named("system-foo", value=1), CLASSES),
        create(named("{ns}", value=1, preemptionPolicy="x"), CLASSES),
        create(named("{ns}", value=1), CLASSES),
        patch(f"{CLASSES}/{{ns}}", {"value": 2}),
        patch(f"{CLASSES}/{{ns}}", {"preemptionPolicy": "Never"}),
        Step("DELETE", f"{CLASSES}/{{ns}}"),
        create(named("l", spec={"leaseDurationSeconds": 0, "leaseTransitions": -1}), LEASES),
        create(named("p", spec={"minAvailable": 1, "maxUnavailable": 1}), BUDGETS),
        create(named("p", spec={"minAvailable": "x"}), BUDGETS),
        create(named("p", spec={"minAvailable": -1}), BUDGETS),
        create(named("{ns}"), f"{STORAGE}/storageclasses"),
        create(named("{ns}", provisioner="x", volumeBindingMode="y"), f"{STORAGE}/storageclasses"),
        create(named("{ns}", provisioner="x"), f"{STORAGE}/storageclasses"),
        patch(f"{STORAGE}/storageclasses/{{ns}}", {"provisioner": "z"}),
        Step("DELETE", f"{STORAGE}/storageclasses/{{ns}}"),
        create(named("c"), f"{NAMESPACE}/persistentvolumeclaims"),
        create(named("{ns}"), "/api/v1/persistentvolumes"),
        create(named("d"), f"{APPS}/deployments"),
        create(named("d", spec={"selector": {}, "template": TEMPLATE}), f"{APPS}/deployments"),
        create(
            named("d", spec={"selector": {"matchLabels": {"x": "y"}}, "template": TEMPLATE}),
            f"{APPS}/deployments",
        ),
        create(
            named(
                "d",
                spec={
                    "replicas": -1,
                    "selector": SELECTOR,
                    "template": {
                        **TEMPLATE,
                        "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"},
                    },
                },
            ),
            f"{APPS}/deployments",
        ),
        *(
            create(named("d", spec={"selector": {}, "template": TEMPLATE}), f"{APPS}/{plural}")
            for plural in ("replicasets", "daemonsets", "statefulsets")
        ),
        *(
            create(
                named("d", spec={"selector": SELECTOR, "template": TEMPLATE, **spec}),
                f"{APPS}/deployments",
            )
            for spec in (
                {"strategy": {"rollingUpdate": {"maxSurge": "x%"}}},
                {"strategy": {"rollingUpdate": {"maxSurge": -5, "maxUnavailable": "500%"}}},
                {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
                {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
                {"minReadySeconds": 700, "revisionHistoryLimit": -1},
            )
        ),
        *(
            create(
                named("d", spec={"selector": SELECTOR, "template": TEMPLATE, **spec}),
                f"{APPS}/statefulsets",
            )
            for spec in (
                {"podManagementPolicy": "Sideways"},
                {"updateStrategy": {"rollingUpdate": {"partition": -1}}, "minReadySeconds": -2},
                {"ordinals": {"start": -1}},
            )
        ),
        create(named("j", spec={"template": TEMPLATE}), JOBS),
        *(
            create(named("j", spec={"template": ONCE, **spec}), JOBS)
            for spec in (
                {"completions": -1, "parallelism": -2, "backoffLimit": -3},
                {"activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1},
                {"completionMode": "Indexed", "parallelism": 2},
                {"completionMode": "Indexed", "completions": 1, "parallelism": 100_001},
                {"completionMode": "Sorted"},
            )
        ),
        create(named("e", involvedObject={"namespace": "zz"}), f"{NAMESPACE}/events"),
        create(named("e", regarding={"namespace": "zz"}), EVENTS_V1),
        create(named("s", spec={}), f"{NAMESPACE}/services"),
    ],
}
