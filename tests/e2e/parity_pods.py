"""Scenarios around the life of a pod: writing, binding, deleting, evicting, watching."""

from __future__ import annotations

from typing import Any

from tests.e2e.parity import APPLY, JSON_PATCH, MERGE, STRATEGIC, Step

NAMESPACE = "/api/v1/namespaces/{ns}"
PODS = f"{NAMESPACE}/pods"
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
SECOND = "&timeoutSeconds=1"
INITIAL = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def pod(name: str = "a", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec},
    }


def create(body: Any, path: str = PODS) -> Step:
    return Step("POST", path, body)


def patch(path: str, body: Any, content_type: str = MERGE) -> Step:
    return Step("PATCH", path, body, content_type=content_type)


def bind(name: str, **metadata: Any) -> Step:
    return create(
        {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": "n1"}},
        f"{PODS}/{name}/binding",
    )


def evict(name: str, query: str = "", **more: Any) -> Step:
    body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}, **more}
    return create(body, f"{PODS}/{name}/eviction{query}")


SCENARIOS: dict[str, list[Step]] = {
    "create and read": [
        create(pod()),
        create(pod()),
        Step("GET", f"{PODS}/a"),
        Step("GET", PODS),
        Step("GET", f"{PODS}/none"),
        create({**pod(), "metadata": {"generateName": "x-"}}),
    ],
    "binding": [
        create(pod()),
        bind("a", uid="x"),
        bind("a", resourceVersion="1"),
        bind("a", labels={"l": "1"}, annotations={"x": "y"}, uid="{uid:a}"),
        Step("GET", f"{PODS}/a"),
        bind("a"),
        bind("none"),
        create({"metadata": {"name": "a"}, "target": {"name": "n1"}}, f"{NAMESPACE}/bindings"),
        create({"metadata": {"name": "b"}, "target": {"name": "n1"}}, f"{PODS}/a/binding"),
        create({"metadata": {"name": "a"}, "target": {"name": ""}}, f"{PODS}/a/binding"),
        create(
            {"metadata": {"name": "a"}, "target": {"kind": "X", "name": "x"}}, f"{PODS}/a/binding"
        ),
        Step("DELETE", f"{PODS}/a"),
        bind("a"),
        Step("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5}),
        Step("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}),
        Step("GET", f"{PODS}/a"),
        create(pod("b")),
        create({"metadata": {"name": "b"}, "target": {"name": "n1"}}, f"{NAMESPACE}/bindings"),
        Step("GET", f"{PODS}/b"),
    ],
    "gates": [
        create(pod(schedulingGates=[{"name": "x.y/z"}])),
        bind("a"),
        patch(f"{PODS}/a", [{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH),
        Step("GET", f"{PODS}/a"),
        Step("DELETE", f"{PODS}/a"),
    ],
    "deletion": [
        create(pod()),
        Step("DELETE", f"{PODS}/a", {"preconditions": {"uid": "z"}}),
        Step("DELETE", f"{PODS}/a", {"preconditions": {"resourceVersion": "3"}}),
        Step("DELETE", f"{PODS}/a", {"kind": "Foo"}),
        Step("DELETE", f"{PODS}/a", {"gracePeriodSeconds": "x"}),
        Step("DELETE", f"{PODS}/a?gracePeriodSeconds=x"),
        Step("DELETE", f"{PODS}/a", {"propagationPolicy": "Foo"}),
        Step("DELETE", f"{PODS}/a?propagationPolicy=Background"),
        Step("DELETE", f"{PODS}/a"),
    ],
    "status": [
        create(pod()),
        patch(
            f"{PODS}/a/status",
            {
                "status": {
                    "nominatedNodeName": "n",
                    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "R"}],
                },
                "spec": {"x": 1},
            },
            STRATEGIC,
        ),
        Step(
            "PUT",
            f"{PODS}/a/status",
            {**pod(metadata={"labels": {"x": "y"}}), "status": {"phase": "Running"}},
        ),
        Step("GET", f"{PODS}/a"),
        Step("GET", f"{PODS}/a/status"),
        patch(f"{PODS}/a/status", {"status": {"qosClass": "Guaranteed"}}, STRATEGIC),
        patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "A"}}, STRATEGIC),
        bind("a"),
        patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "x"}}, STRATEGIC),
    ],
    "updates": [
        create(
            pod(
                tolerations=[{"key": "k", "operator": "Exists"}],
                nodeSelector={"a": "b"},
                schedulingGates=[{"name": "g"}],
            )
        ),
        Step("PUT", f"{PODS}/a", pod("b")),
        Step("PUT", f"{PODS}/none", pod("none")),
        Step("PUT", f"{PODS}/a", pod(metadata={"resourceVersion": "1"})),
        Step("PUT", f"{PODS}/a", pod(metadata={"uid": "1"})),
        Step("PUT", f"{PODS}/a", pod(metadata={"namespace": "other"})),
        Step("PUT", f"{PODS}/a", pod(nodeName="q")),
        patch(f"{PODS}/a", {"spec": {"containers": [{"name": "c", "image": "x"}]}}, STRATEGIC),
        patch(f"{PODS}/a", {"spec": {"tolerations": [{"key": "z", "operator": "Exists"}]}}),
        patch(
            f"{PODS}/a", {"spec": {"tolerations": [{"key": "z", "operator": "Exists"}]}}, STRATEGIC
        ),
        patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}}),
        patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 6}}),
        patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": None}}),
        patch(f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "h"}]}}),
        patch(f"{PODS}/a", {"spec": {"nodeSelector": {"c": "d"}}}),
        patch(f"{PODS}/a", {"spec": {"schedulingGates": None}}),
        patch(f"{PODS}/a", {"spec": {"containers": [{"name": "c2", "image": "x"}]}}, STRATEGIC),
        patch(f"{PODS}/a", {"spec": {"containers": [{"name": "c", "image": ""}]}}, STRATEGIC),
        patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, STRATEGIC),
        patch(f"{PODS}/a", {"metadata": {"uid": "q"}}),
        patch(f"{PODS}/a", {"metadata": {"namespace": "q"}}),
        patch(f"{PODS}/a", {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        patch(f"{PODS}/a", {"metadata": {"creationTimestamp": None, "generation": 7}}),
    ],
    "dry run": [
        create(pod(), f"{PODS}?dryRun=All"),
        Step("GET", f"{PODS}/a"),
        create(pod(), f"{PODS}?dryRun=Foo"),
        create(pod()),
        patch(f"{PODS}/a?dryRun=All", {"metadata": {"labels": {"x": "z"}}}),
        Step("PUT", f"{PODS}/a?dryRun=All", pod(metadata={"labels": {"q": "r"}})),
        create(
            {"metadata": {"name": "a"}, "target": {"name": "n"}}, f"{PODS}/a/binding?dryRun=All"
        ),
        Step("DELETE", f"{PODS}/a?dryRun=All"),
        Step("DELETE", f"{PODS}?dryRun=All"),
        evict("a", "?dryRun=All"),
        Step("GET", f"{PODS}/a"),
        Step("DELETE", f"{PODS}/a", {"dryRun": ["All"]}),
        Step("GET", f"{PODS}/a"),
    ],
    "eviction": [
        create(pod(metadata={"labels": {"x": "y"}})),
        create(
            {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "b"}},
            f"{PODS}/a/eviction",
        ),
        evict("none"),
        bind("a"),
        patch(
            f"{PODS}/a/status",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        ),
        create(
            {
                "metadata": {"name": "p"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}},
            },
            BUDGETS,
        ),
        evict("a"),
        patch(
            f"{BUDGETS}/p/status",
            {
                "status": {
                    "observedGeneration": 1,
                    "desiredHealthy": 1,
                    "currentHealthy": 1,
                    "expectedPods": 1,
                }
            },
        ),
        evict("a"),
        patch(f"{BUDGETS}/p/status", {"status": {"disruptionsAllowed": 1, "currentHealthy": 2}}),
        evict("a", deleteOptions={"preconditions": {"uid": "x"}}),
        evict("a"),
        Step("GET", f"{PODS}/a"),
        Step("GET", f"{BUDGETS}/p"),
        create(pod("p1", {"labels": {"x": "y"}})),
        evict("p1"),
        Step("GET", f"{PODS}/p1"),
    ],
    "watches": [
        create(pod("a")),
        create(pod("b", {"labels": {"x": "y"}})),
        bind("b"),
        patch(f"{PODS}/b", {"metadata": {"labels": {"x": "z"}}}),
        Step("DELETE", f"{PODS}/b?gracePeriodSeconds=3"),
        Step("DELETE", f"{PODS}/b?gracePeriodSeconds=0"),
        create(pod("c", {"finalizers": ["a.b/c"]})),
        Step("DELETE", f"{PODS}/c"),
        patch(f"{PODS}/c", {"metadata": {"finalizers": None}}),
        create(pod("d")),
        Step("DELETE", f"{PODS}/d"),
        Step("GET", f"{PODS}?watch=1&resourceVersion={{rv:a}}{SECOND}"),
        Step("GET", f"{PODS}?watch=1&resourceVersion={{rv:a}}&labelSelector=x=y{SECOND}"),
        Step(
            "GET", f"{PODS}?watch=1&resourceVersion={{rv:a}}&fieldSelector=spec.nodeName={SECOND}"
        ),
        Step("GET", f"{PODS}?watch=1{SECOND}"),
        Step("GET", f"{PODS}?watch=true&resourceVersion=0{SECOND}"),
        Step("GET", f"{PODS}?watch=1{INITIAL}{SECOND}"),
        Step("GET", f"{PODS}?watch=1&sendInitialEvents=true{SECOND}"),
        Step("GET", f"{PODS}?watch=1&resourceVersionMatch=NotOlderThan{SECOND}"),
        Step("GET", f"{PODS}/a?watch=1{SECOND}"),
        Step("GET", f"{PODS}?watch=1{SECOND}", accept=TABLE),
        Step("GET", f"{PODS}?watch=1{INITIAL}{SECOND}", accept=TABLE),
        Step("GET", f"{PODS}?watch=1{INITIAL}{SECOND}", accept=PARTIAL),
        Step("GET", f"{PODS}?watch=1&resourceVersion=abc{SECOND}"),
    ],
    "apply": [
        patch(f"{PODS}/a?fieldManager=m", pod(), APPLY),
        patch(f"{PODS}/a", pod(), APPLY),
        patch(f"{PODS}/a?fieldManager=m", {**pod(), "spec": {"foo": 1}}, APPLY),
        patch(f"{PODS}/a?fieldManager=m", pod("b"), APPLY),
        patch(f"{PODS}/a?fieldManager=m", {**pod(), "apiVersion": "v2"}, APPLY),
    ],
}
