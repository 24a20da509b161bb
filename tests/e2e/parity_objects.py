"""Scenarios over all the kinds: what the server makes of an object, and lists of them."""

from __future__ import annotations

from typing import Any

from tests.e2e.parity import MERGE, STRATEGIC, Step
from tests.e2e.parity_pods import NAMESPACE, PODS, TABLE, create, patch, pod

APPS = "/apis/apps/v1/namespaces/{ns}"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
EVENTS_V1 = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
STORAGE = "/apis/storage.k8s.io/v1"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODE = "/api/v1/nodes/{ns}"
ADDRESS = ("spec.clusterIP", "spec.clusterIPs")
# DIVERGES: nobody would take these finalizers off in the embedded server.
PROTECTION = (
    "metadata.finalizers",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
)
SELECTOR = {"matchLabels": {"a": "b"}}
CONTAINER = {
    "name": "c",
    "image": "nginx:1.2",
    "ports": [{"containerPort": 80}],
    "livenessProbe": {"httpGet": {"port": 80}},
    "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
}
VOLUMES = [
    {"name": "v"},
    {"name": "w", "configMap": {"name": "z"}},
    {"name": "h", "hostPath": {"path": "/x"}},
]
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [CONTAINER], "volumes": VOLUMES},
}
REVIEW = {
    "kind": "SelfSubjectAccessReview",
    "apiVersion": "authorization.k8s.io/v1",
    "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
}


def named(name: str = "a", **rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **rest}


def event(name: str, **rest: Any) -> dict[str, Any]:
    return named(name, reason="R", type="Normal", **rest)


POD_REFERENCE = {"kind": "Pod", "namespace": "{ns}", "name": "p"}
SPREADING = {
    "maxSkew": 1,
    "topologyKey": "z",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SELECTOR,
    "matchLabelKeys": ["l"],
}
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "h", "labelSelector": SELECTOR, "matchLabelKeys": ["l"]}
        ],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 5,
                "podAffinityTerm": {
                    "topologyKey": "h",
                    "labelSelector": SELECTOR,
                    "mismatchLabelKeys": ["l"],
                },
            }
        ],
    }
}


def container(name: str, image: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **rest}


SCENARIOS: dict[str, list[Step]] = {
    "namespaced kinds": [
        create(named(data={"x": "y"}), f"{NAMESPACE}/configmaps"),
        create(named("b"), f"{NAMESPACE}/configmaps"),
        create(named(stringData={"x": "y"}), f"{NAMESPACE}/secrets"),
        create(named(), f"{NAMESPACE}/serviceaccounts"),
        Step(
            "POST",
            f"{NAMESPACE}/services",
            named(spec={"selector": {"a": "b"}, "ports": [{"port": 80}]}),
            drop=ADDRESS,
        ),
        create(
            named(spec={"selector": {"a": "b"}, "template": TEMPLATE}),
            f"{NAMESPACE}/replicationcontrollers",
        ),
        create(named(spec={"selector": SELECTOR, "template": TEMPLATE}), f"{APPS}/deployments"),
        create(named(spec={"selector": SELECTOR, "template": TEMPLATE}), f"{APPS}/replicasets"),
        create(
            named(spec={"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE}),
            f"{APPS}/statefulsets",
        ),
        create(named(spec={"selector": SELECTOR, "template": TEMPLATE}), f"{APPS}/daemonsets"),
        create(
            named(
                spec={
                    "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
                }
            ),
            JOBS,
        ),
        create(named(spec={"minAvailable": 1, "selector": SELECTOR}), BUDGETS),
        Step(
            "POST",
            f"{NAMESPACE}/persistentvolumeclaims",
            named(
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            ),
            drop=PROTECTION,
        ),
        create(
            named(storageClassName="x", capacity="1000Mi"),
            f"{STORAGE}/namespaces/{{ns}}/csistoragecapacities",
        ),
        Step("GET", f"{APPS}/deployments/a/scale"),
        Step("GET", f"{NAMESPACE}/replicationcontrollers/a/scale"),
        patch(f"{APPS}/deployments/a/scale", {"spec": {"replicas": 7}}, MERGE),
        patch(f"{APPS}/replicasets/a/scale", {"spec": {"replicas": 8}}, STRATEGIC),
        patch(f"{APPS}/statefulsets/a/scale", {"spec": {"replicas": -1}}, MERGE),
        Step(
            "PUT",
            f"{APPS}/statefulsets/a/scale",
            {"metadata": {"name": "a", "namespace": "{ns}"}, "spec": {"replicas": 0}},
        ),
        Step("GET", f"{APPS}/statefulsets/a"),
        Step("GET", f"{APPS}/deployments/none/scale"),
        Step("DELETE", f"{APPS}/deployments/a"),
        Step("DELETE", f"{NAMESPACE}/services/a", drop=ADDRESS),
        Step("DELETE", f"{NAMESPACE}/serviceaccounts/a"),
    ],
    "events": [
        create(
            event(
                "a",
                involvedObject=POD_REFERENCE,
                message="M",
                source={"component": "x"},
                count=1,
                firstTimestamp="2026-01-02T03:04:05Z",
                lastTimestamp="2026-01-02T03:04:05Z",
            ),
            f"{NAMESPACE}/events",
        ),
        Step("GET", f"{EVENTS_V1}/a"),
        create(
            event(
                "b",
                regarding=POD_REFERENCE,
                note="M",
                action="Binding",
                eventTime="2026-01-02T03:04:05.000001Z",
                reportingController="x",
                reportingInstance="y",
            ),
            EVENTS_V1,
        ),
        Step("GET", f"{NAMESPACE}/events/b"),
        Step("GET", f"{NAMESPACE}/events"),
        Step("GET", EVENTS_V1),
        Step("GET", f"{NAMESPACE}/events?fieldSelector=involvedObject.name=p,reason=R"),
        Step("GET", f"{EVENTS_V1}?fieldSelector=regarding.name=p"),
        Step("GET", f"{EVENTS_V1}?fieldSelector=foo=p"),
        Step("GET", f"{NAMESPACE}/events?fieldSelector=foo=p"),
        patch(
            f"{EVENTS_V1}/b",
            {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}},
        ),
        Step("GET", f"{NAMESPACE}/events/b"),
        Step("DELETE", f"{EVENTS_V1}/b"),
    ],
    "leases": [
        Step("PUT", f"{LEASES}/l", named("l", spec={"holderIdentity": "a"})),
        Step("PUT", f"{LEASES}/l", named("l", spec={"holderIdentity": "a"})),
        Step(
            "PUT",
            f"{LEASES}/l",
            {
                "metadata": {"name": "l", "resourceVersion": "{rv:l}"},
                "spec": {
                    "holderIdentity": "b",
                    "leaseDurationSeconds": 15,
                    "acquireTime": "2026-01-02T03:04:05.000000Z",
                    "renewTime": "2026-01-02T03:04:05.123456Z",
                    "leaseTransitions": 0,
                },
            },
        ),
        Step("PUT", f"{LEASES}/l", {"metadata": {"name": "l", "resourceVersion": "1"}}),
        patch(f"{LEASES}/l", {"spec": {"holderIdentity": ""}}),
        create(named("l"), LEASES),
        create({"metadata": {"name": "m", "resourceVersion": "4"}}, LEASES),
        patch(f"{LEASES}/none", {"spec": {"holderIdentity": ""}}),
        patch(f"{LEASES}/l", {"spec": {}, "metadata": {"resourceVersion": "2"}}),
        patch(f"{LEASES}/l", {"metadata": {"name": "z"}}),
        patch(f"{LEASES}/l", {"spec": 5}),
        patch(f"{LEASES}/l", {"spec": 5}, "foo/bar"),
        Step("DELETE", f"{LEASES}/l"),
    ],
    "cluster kinds": [
        create(
            named("{ns}", status={"capacity": {"cpu": "4000m", "memory": "1024Mi", "pods": "110"}}),
            "/api/v1/nodes",
        ),
        Step("GET", NODE),
        create(named("{ns}", value=100), CLASSES),
        create(named("{ns}", provisioner="x/y"), f"{STORAGE}/storageclasses"),
        create(named("{ns}", spec={"drivers": []}), f"{STORAGE}/csinodes"),
        create(named("{ns}", spec={}), f"{STORAGE}/csidrivers"),
        create(
            named(
                "{ns}",
                spec={
                    "attacher": "a",
                    "nodeName": "n",
                    "source": {"persistentVolumeName": "x"},
                },
            ),
            f"{STORAGE}/volumeattachments",
        ),
        Step(
            "POST",
            "/api/v1/persistentvolumes",
            named(
                "{ns}",
                spec={
                    "capacity": {"storage": "10240Ki"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/x"},
                },
            ),
            drop=PROTECTION,
        ),
        patch(
            NODE,
            {"spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}},
            STRATEGIC,
        ),
        Step("GET", "/api/v1/nodes?fieldSelector=metadata.name={ns},spec.unschedulable=true"),
        Step("GET", "/api/v1/nodes?fieldSelector=metadata.name={ns},spec.unschedulable=false"),
        patch(
            f"{NODE}/status",
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "allocatable": {"cpu": "3.5"},
                }
            },
            STRATEGIC,
        ),
        Step("DELETE", NODE),
        Step("DELETE", f"{CLASSES}/{{ns}}"),
        *(
            Step("DELETE", f"{STORAGE}/{plural}/{{ns}}")
            for plural in ("storageclasses", "csinodes", "csidrivers", "volumeattachments")
        ),
        Step("DELETE", "/api/v1/persistentvolumes/{ns}", drop=PROTECTION),
        Step("GET", f"{CLASSES}/system-node-critical"),
        Step("GET", "/api/v1/namespaces/kube-system"),
        Step(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            REVIEW,
            drop=("status.reason",),
        ),
        Step("GET", NAMESPACE),
        Step("DELETE", NAMESPACE),
    ],
    "pod specs": [
        create(
            pod(
                "q",
                containers=[
                    container(
                        "c",
                        "a/b:1",
                        resources={
                            "limits": {"cpu": "1000m", "memory": "1.5Gi"},
                            "requests": {"cpu": "0.5"},
                        },
                    ),
                    container(
                        "d",
                        "x@sha256:" + "0" * 64,
                        ports=[{"containerPort": 80, "hostPort": 0, "protocol": ""}],
                    ),
                    container("e", "r.io:5000/x"),
                ],
                initContainers=[
                    container(
                        "i",
                        "i:latest",
                        restartPolicy="Always",
                        resources={"limits": {"cpu": "0.0001"}},
                    )
                ],
            )
        ),
        create(
            pod(
                "h",
                hostNetwork=True,
                containers=[container("c", "x:1", ports=[{"containerPort": 81}])],
            )
        ),
        create(
            pod(
                "g",
                containers=[
                    container("c", "x:1", resources={"limits": {"cpu": "1", "memory": "1Gi"}})
                ],
            )
        ),
        create(
            pod(
                "t",
                {"labels": {"l": "v"}},
                tolerations=[{"operator": "Exists"}],
                topologySpreadConstraints=[SPREADING],
                affinity=ANTI_AFFINITY,
            )
        ),
        create(
            pod(
                "pl",
                resources={"limits": {"cpu": "2", "memory": "2Gi"}},
                containers=[
                    container("c", "x:1", resources={"requests": {"cpu": "100m"}}),
                    container("d", "x:1", resources={"requests": {"cpu": "200m"}}),
                ],
            )
        ),
        create(pod("pm", resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})),
        create(pod("sys", priorityClassName="system-node-critical")),
        create(pod("np", preemptionPolicy="Never")),
        create(pod("pr", priority=0)),
        create(pod("st", nodeName="foo", serviceAccountName="default", volumes=[{"name": "x"}])),
        Step("GET", f"{PODS}?limit=2"),
        Step("GET", f"{PODS}?labelSelector=l=v"),
        Step("GET", f"{PODS}?labelSelector=l%20in%20(v,w),!z"),
        Step("GET", f"{PODS}?fieldSelector=spec.nodeName=foo"),
        Step("GET", f"{PODS}?fieldSelector=spec.nodeName!=foo,spec.hostNetwork=true"),
        Step("DELETE", f"{PODS}?labelSelector=l=v"),
        Step("DELETE", PODS),
        Step("GET", PODS),
    ],
    "lists": [
        *(create(pod(name)) for name in "abcde"),
        Step("GET", f"{PODS}?limit=2"),
        Step("GET", f"{PODS}?limit=2&resourceVersion={{rv:c}}"),
        Step("GET", f"{PODS}?resourceVersion={{rv:c}}&resourceVersionMatch=Exact"),
        Step("GET", f"{PODS}?resourceVersion={{rv:c}}&resourceVersionMatch=NotOlderThan"),
        Step("GET", f"{PODS}?resourceVersion={{rv:c}}&limit=1&resourceVersionMatch=NotOlderThan"),
        Step("GET", f"{PODS}?resourceVersionMatch=Exact"),
        Step("GET", f"{PODS}?resourceVersion=0&resourceVersionMatch=Exact"),
        Step("GET", f"{PODS}?resourceVersion=1&resourceVersionMatch=Foo"),
        Step("GET", f"{PODS}?resourceVersion=99999999&resourceVersionMatch=Exact"),
        Step("GET", f"{PODS}?sendInitialEvents=true"),
        Step("GET", f"{PODS}?limit=-1"),
        Step(
            "GET", PODS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        ),
        Step(
            "GET",
            f"{PODS}/a",
            accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ),
        Step("GET", f"{PODS}/a", accept=TABLE),
        Step("GET", PODS, accept=TABLE),
        Step("GET", f"{PODS}?includeObject=Object", accept=TABLE),
    ],
    "finalizers": [
        create({"metadata": {"name": "cm", "finalizers": ["a.b/c"]}}, f"{NAMESPACE}/configmaps"),
        Step("DELETE", f"{NAMESPACE}/configmaps/cm"),
        Step("GET", f"{NAMESPACE}/configmaps/cm"),
        Step("DELETE", f"{NAMESPACE}/configmaps/cm"),
        patch(f"{NAMESPACE}/configmaps/cm", {"metadata": {"finalizers": None}}, MERGE),
        Step("GET", f"{NAMESPACE}/configmaps/cm"),
        create(named("cm"), f"{NAMESPACE}/configmaps"),
        Step("DELETE", f"{NAMESPACE}/configmaps/cm"),
    ],
}
