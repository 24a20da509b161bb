"""Scenarios over claims, claim templates, allocations and pods with claims."""

from __future__ import annotations

from tests.e2e.device_bodies import (
    CLAIMS,
    CONDITION,
    CONSUMER,
    DEVICE_STATUS,
    IMMUTABLE,
    OPAQUE,
    TEMPLATES,
    TWO_NODES,
    UUID,
    allocation,
    cel,
    claim,
    exactly,
    pod_with_claims,
    result,
    status,
    template,
)
from tests.e2e.parity import APPLY, JSON_PATCH, MERGE, STRATEGIC, Step
from tests.e2e.parity_objects import named
from tests.e2e.parity_pods import PODS, TABLE, create

SCENARIOS: dict[str, list[Step]] = {
    "claims are made with defaults": [
        create(claim(exactly()), CLAIMS),
        create(claim(exactly(allocationMode="All"), name="b"), CLAIMS),
        create(
            claim(
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "x", "deviceClassName": "gpu"},
                        {
                            "name": "y",
                            "deviceClassName": "gpu",
                            "count": 2,
                            "tolerations": [{"key": "k"}],
                            "selectors": [cel("device.driver == 'x'")],
                        },
                    ],
                },
                exactly(
                    capacity={"requests": {"memory": "1024Mi"}},
                    tolerations=[{"operator": "Exists", "effect": "NoExecute"}],
                )
                | {"name": "s"},
                constraints=[
                    {"matchAttribute": "gpu.example.com/model"},
                    {"requests": ["r/x", "s"], "distinctAttribute": "gpu.example.com/model"},
                ],
                config=[{"requests": ["s"], **OPAQUE}, OPAQUE],
                name="c",
            ),
            CLAIMS,
        ),
        create({"metadata": {"generateName": "x-"}, "spec": {"devices": {}}}, CLAIMS),
        create(named("d"), CLAIMS),
        create(named("e", status={"reservedFor": [CONSUMER]}, spec={}), CLAIMS),
        create(template(exactly()), TEMPLATES),
        create(named("b", spec={}), TEMPLATES),
        Step("GET", CLAIMS, accept=TABLE),
        Step("GET", TEMPLATES, accept=TABLE),
        Step("GET", f"{CLAIMS}?fieldSelector=metadata.name%3Da"),
        Step("GET", f"{CLAIMS}?fieldSelector=spec.a%3Da"),
    ],
    "claims are immutable": [
        create(claim(exactly()), CLAIMS),
        Step(
            "PATCH",
            f"{CLAIMS}/a",
            {"spec": {"devices": {"requests": [exactly(count=2)]}}},
            MERGE,
            drop=IMMUTABLE,
        ),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": ["x/y"]}}, STRATEGIC),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": ["x/z"]}}, STRATEGIC),
        create(template(exactly()), TEMPLATES),
        Step(
            "PATCH",
            f"{TEMPLATES}/a",
            {"spec": {"spec": {"devices": {"requests": [exactly(count=2)]}}}},
            MERGE,
            drop=IMMUTABLE,
        ),
        Step("DELETE", f"{CLAIMS}/a"),
        Step("GET", CLAIMS, accept=TABLE),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": None}}, MERGE),
        Step("GET", f"{CLAIMS}/a"),
        Step("DELETE", f"{TEMPLATES}/a"),
    ],
    "claims that are refused": [
        create(claim({"name": "r"}), CLAIMS),
        create(claim(exactly() | {"name": "-"}), CLAIMS),
        create(claim(exactly() | {"firstAvailable": [{"name": "x"}]}), CLAIMS),
        create(claim({"name": "r", "firstAvailable": [{"name": "X"}, {"name": "X"}]}), CLAIMS),
        create(claim(*[exactly() for _ in range(2)]), CLAIMS),
        create(claim(*[exactly() | {"name": f"r{i}"} for i in range(33)]), CLAIMS),
        create(claim(exactly(deviceClassName="")), CLAIMS),
        create(claim(exactly(deviceClassName="A_")), CLAIMS),
        create(claim(exactly(allocationMode="All", count=2)), CLAIMS),
        create(claim(exactly(count=-1)), CLAIMS),
        create(claim(exactly(allocationMode="Some")), CLAIMS),
        create(claim(exactly(adminAccess=True)), CLAIMS),
        create(template(exactly(adminAccess=True)), TEMPLATES),
        create(claim(exactly(selectors=[{}])), CLAIMS),
        create(claim(exactly(selectors=[cel("device.x")])), CLAIMS),
        create(claim(exactly(selectors=[cel("nothing == 1")])), CLAIMS),
        create(claim(exactly(selectors=[cel("device.driver")])), CLAIMS),
        create(claim(exactly(selectors=[cel("true" + " " * 10240)])), CLAIMS),
        create(claim(exactly(selectors=[cel("lists.range(999990).size() > 1")])), CLAIMS),
        create(claim(exactly(selectors=[cel("true")] * 33)), CLAIMS),
        create(claim(exactly(tolerations=[{"operator": "X", "effect": "Y"}])), CLAIMS),
        create(claim(exactly(tolerations=[{"operator": "Exists", "value": "Y"}])), CLAIMS),
        create(claim(exactly(tolerations=[{"key": "-", "value": "-"}])), CLAIMS),
        create(claim(exactly(), constraints=[{}]), CLAIMS),
        create(claim(exactly(), constraints=[{"matchAttribute": "model"}]), CLAIMS),
        create(claim(exactly(), constraints=[{"matchAttribute": "/"}]), CLAIMS),
        create(claim(exactly(), constraints=[{"matchAttribute": "A_/9"}]), CLAIMS),
        create(claim(exactly(), constraints=[{"matchAttribute": f"a/{'x' * 33}"}]), CLAIMS),
        create(
            claim(exactly(), constraints=[{"matchAttribute": "a/b", "requests": ["x", "r/y"]}]),
            CLAIMS,
        ),
        create(
            claim(exactly(), constraints=[{"matchAttribute": "a/b", "requests": ["r", "r"]}]),
            CLAIMS,
        ),
        create(
            claim(exactly(), constraints=[{"matchAttribute": "a/b", "requests": ["r/a/b"]}]),
            CLAIMS,
        ),
        create(claim(exactly(), config=[{}]), CLAIMS),
        create(claim(exactly(), config=[{"opaque": {"driver": "", "parameters": None}}]), CLAIMS),
        create(claim(exactly(), config=[{"opaque": {"driver": "x" * 64}}]), CLAIMS),
        create(claim(exactly(), config=[{"opaque": {"driver": "A_", "parameters": {}}}]), CLAIMS),
        create(
            claim(
                exactly(), config=[{"opaque": {"driver": "a", "parameters": {"a": "x" * 10240}}}]
            ),
            CLAIMS,
        ),
        create(named("a", spec={"devices": {"requests": "x"}}), CLAIMS),
        create(named("a", spec={"devices": {"requests": [{"exactly": {"count": "x"}}]}}), CLAIMS),
        create(template({"name": "r"}), TEMPLATES),
        create(named("a", spec={"metadata": {"name": "x"}, "spec": {}}), TEMPLATES),
    ],
    "the status of claims": [
        create(claim(exactly(), exactly() | {"name": "s"}), CLAIMS),
        status({"reservedFor": [CONSUMER]}),
        status({"allocation": allocation(result()), "reservedFor": [CONSUMER]}),
        Step("GET", CLAIMS, accept=TABLE),
        Step(
            "PATCH",
            f"{CLAIMS}/a/status",
            {"status": {"reservedFor": [{**CONSUMER, "uid": "v"}]}},
            STRATEGIC,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/a/status",
            {"status": {"reservedFor": [{"uid": "u", "$patch": "delete"}]}},
            STRATEGIC,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/a/status",
            {"metadata": {"labels": {"x": "y"}, "finalizers": ["a/b"]}, "spec": {"devices": {}}},
            MERGE,
        ),
        status({"allocation": allocation(result(device="e"))}, drop=IMMUTABLE),
        status({"devices": [{**DEVICE_STATUS, "conditions": [CONDITION]}]}),
        status({"devices": [{**DEVICE_STATUS, "device": "e"}]}),
        status({"devices": [{**DEVICE_STATUS, "data": [1]}]}),
        status({"devices": [{**DEVICE_STATUS, "conditions": [{**CONDITION, "reason": "-"}]}]}),
        status({"devices": [{**DEVICE_STATUS, "conditions": [{"type": "", "status": "x"}]}]}),
        status({"devices": [{**DEVICE_STATUS, "networkData": {"ips": ["1.2.3.4"]}}]}),
        status({"devices": [{**DEVICE_STATUS, "networkData": {"ips": ["1.2.3.4/24"]}}]}),
        status({"reservedFor": None, "allocation": None}),
        Step("GET", CLAIMS, accept=TABLE),
        status(
            {
                "allocation": allocation(
                    result(tolerations=[{"key": "a"}], consumedCapacity={"memory": "1024Mi"}),
                    result(request="s", shareID=UUID),
                    config=[{"source": "FromClaim", "requests": ["r"], **OPAQUE}],
                )
                | {"nodeSelector": TWO_NODES, "allocationTimestamp": "2025-01-01T00:00:00Z"}
            }
        ),
        status({"reservedFor": [{**CONSUMER, "uid": str(i)} for i in range(256)]}),
        status({"reservedFor": [{**CONSUMER, "uid": str(i)} for i in range(257)]}),
        status({"reservedFor": [{"resource": "", "name": "", "uid": ""}]}),
        status({"reservedFor": [CONSUMER, CONSUMER]}),
        Step("DELETE", f"{CLAIMS}/a"),
    ],
    "allocations that are refused": [
        create(claim(exactly()), CLAIMS),
        status({"allocation": allocation(result(request="x"))}),
        status({"allocation": allocation(result(driver="", pool="", device=""))}),
        status({"allocation": allocation(result(driver="x" * 64, pool="A//b", device="D"))}),
        status({"allocation": allocation(result(pool="x" * 254))}),
        status({"allocation": allocation(result(adminAccess=True))}),
        status({"allocation": allocation(result(shareID="x"))}),
        status({"allocation": allocation(result(shareID=UUID.replace("-", "")))}),
        status({"allocation": allocation(result(shareID=UUID.replace("1", "z")))}),
        status({"allocation": allocation(result(bindingConditions=["a"]))}, drop=()),
        status({"allocation": allocation(*[result()] * 33)}),
        status({"allocation": allocation(config=[{"source": "x"}])}),
        status({"allocation": allocation(config=[{"source": ""}])}),
        status({"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}}),
        status(
            {
                "allocation": allocation(
                    result(
                        bindingConditions=["a", "a", "-", "b", "c"],
                        bindingFailureConditions=["a", "d", "d"],
                    )
                )
            }
        ),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": ["x/y"]}}, MERGE),
        status({"allocation": allocation(result()), "reservedFor": [CONSUMER]}),
        Step("DELETE", f"{CLAIMS}/a"),
        status({"reservedFor": [{**CONSUMER, "uid": "w"}]}),
        status({"reservedFor": None}),
        status({"allocation": None}),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": None}}, MERGE),
    ],
    "claims applied": [
        Step(
            "PATCH",
            f"{CLAIMS}/a?fieldManager=one",
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim(exactly())},
            APPLY,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/a/status?fieldManager=two&force=true",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "a"},
                "status": {"allocation": allocation(result()), "reservedFor": [CONSUMER]},
            },
            APPLY,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/a/status?fieldManager=three",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "a"},
                "status": {"reservedFor": [{**CONSUMER, "uid": "v"}]},
            },
            APPLY,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/a/status",
            [{"op": "remove", "path": "/status/reservedFor/0"}],
            JSON_PATCH,
        ),
    ],
    "pods with claims": [
        create(
            pod_with_claims(
                {"name": "x", "resourceClaimName": "a"},
                {"name": "y", "resourceClaimTemplateName": "b"},
                uses=[{"name": "x"}, {"name": "y", "request": "r"}],
            ),
            PODS,
        ),
        Step(
            "PATCH",
            f"{PODS}/a/status",
            {"status": {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "a-y-1"}]}},
            STRATEGIC,
        ),
        Step(
            "PATCH",
            f"{PODS}/a/status",
            {"status": {"resourceClaimStatuses": [{"name": "x"}]}},
            STRATEGIC,
        ),
        Step(
            "PATCH",
            f"{PODS}/a/status",
            {"status": {"resourceClaimStatuses": [{"name": "z", "resourceClaimName": "A_"}]}},
            MERGE,
        ),
        Step(
            "PATCH",
            f"{PODS}/a/status",
            {"status": {"extendedResourceClaimStatus": {"resourceClaimName": ""}}},
            MERGE,
        ),
        Step(
            "PATCH",
            f"{PODS}/a/status",
            {
                "status": {
                    "extendedResourceClaimStatus": {
                        "resourceClaimName": "b",
                        "requestMappings": [
                            {
                                "containerName": "c",
                                "resourceName": "x.y/z",
                                "requestName": "container-0-request-0",
                            },
                            {"containerName": "x", "resourceName": "x.y/z", "requestName": "-"},
                        ],
                    }
                }
            },
            MERGE,
        ),
        Step(
            "PATCH",
            f"{PODS}/a",
            {"spec": {"resourceClaims": [{"name": "z", "resourceClaimName": "a"}]}},
            STRATEGIC,
        ),
    ],
    "pods with claims that are refused": [
        create(pod_with_claims({"name": "x"}), PODS),
        create(pod_with_claims({"name": "", "resourceClaimName": "A_"}), PODS),
        create(
            pod_with_claims(
                {"name": "X", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}
            ),
            PODS,
        ),
        create(pod_with_claims(*[{"name": "x", "resourceClaimName": "a"}] * 2), PODS),
        create(pod_with_claims(uses=[{"name": "x"}, {"name": ""}]), PODS),
        create(
            pod_with_claims(
                {"name": "x", "resourceClaimName": "a"},
                uses=[{"name": "x", "request": "-"}, {"name": "x"}, {"name": "x"}, {"name": "y"}],
            ),
            PODS,
        ),
    ],
}
