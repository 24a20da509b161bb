"""Scenarios over claims, claim templates, device classes and resource slices."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.e2e.parity import APPLY, JSON_PATCH, MERGE, STRATEGIC, Step
from tests.e2e.parity_objects import named
from tests.e2e.parity_pods import PODS, TABLE, create, patch, pod
from tests.property.test_apiserver_junk import BODIES, CLAIM_STATUS, paths, with_junk

DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/{{ns}}/resourceclaims"
TEMPLATES = f"{DEVICES}/namespaces/{{ns}}/resourceclaimtemplates"
CLASSES = f"{DEVICES}/deviceclasses"
SLICES = f"{DEVICES}/resourceslices"
SLICE = f"{SLICES}/{{ns}}"
CLASS = f"{CLASSES}/{{ns}}"

DRIVER = "gpu.example.com"
#: kube-apiserver shows the whole internal struct.
IMMUTABLE = ("message", "details.causes")


def exactly(**more: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **more}}


def claim(*requests: dict[str, Any], name: str = "a", **devices: Any) -> dict[str, Any]:
    return named(name, spec={"devices": {"requests": list(requests), **devices}})


def template(*requests: dict[str, Any], name: str = "a", **devices: Any) -> dict[str, Any]:
    return named(name, spec={"spec": {"devices": {"requests": list(requests), **devices}}})


def cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def device_slice(*devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "driver": DRIVER,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
        **spec,
    }
    if not whole.keys() & {"nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeName"}:
        whole["nodeName"] = "n"
    whole = {key: value for key, value in whole.items() if value is not None}
    return named("{ns}", spec=whole)


def device(name: str = "d", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def capacity(value: str = "10Gi", **policy: Any) -> dict[str, Any]:
    return device(
        allowMultipleAllocations=True,
        capacity={"memory": {"value": value, "requestPolicy": policy}},
    )


def result(**more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": "p", "device": "d", **more}


def allocation(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"devices": {"results": list(results), **more}}


def status(body: dict[str, Any], name: str = "a", **rest: Any) -> Step:
    return Step("PATCH", f"{CLAIMS}/{name}/status", {"status": body}, MERGE, **rest)


def selector(*values: str) -> dict[str, Any]:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [value]}]}
        for value in values
    ]
    return {"nodeSelectorTerms": terms}


CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}
DEVICE_STATUS = {"driver": DRIVER, "pool": "p", "device": "d"}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}
OPAQUE = {"opaque": {"driver": DRIVER, "parameters": {"kind": "X", "a": [1]}}}
UUID = "11111111-2222-3333-4444-555555555555"
TWO_NODES = selector("a", "b")


def pod_with_claims(*claims: dict[str, Any], uses: list[Any] | None = None) -> dict[str, Any]:
    whole = pod("a")
    whole["spec"]["resourceClaims"] = list(claims)
    if uses is not None:
        whole["spec"]["containers"][0]["resources"] = {"claims": uses}
    return whole


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
    "device classes": [
        create(
            named(
                "{ns}",
                spec={
                    "selectors": [cel("device.driver == 'gpu.example.com'")],
                    "config": [OPAQUE],
                    "extendedResourceName": "example.com/gpu",
                },
            ),
            CLASSES,
        ),
        Step("GET", CLASS, accept=TABLE),
        patch(CLASS, {"spec": {"extendedResourceName": "gpu"}}),
        patch(CLASS, {"spec": {"extendedResourceName": "kubernetes.io/gpu"}}),
        patch(CLASS, {"spec": {"extendedResourceName": "requests.x/gpu"}}),
        patch(CLASS, {"spec": {"extendedResourceName": None}}),
        patch(CLASS, {"metadata": {"labels": {"a": "b"}}}),
        patch(CLASS, {"spec": {"selectors": [cel("device.nothing")]}}),
        patch(CLASS, {"spec": {"config": [{}]}}),
        Step("DELETE", CLASS),
        create(named("A_"), CLASSES),
        create(named("{ns}"), CLASSES),
        Step("DELETE", CLASS),
    ],
    "resource slices": [
        create(
            device_slice(
                device(
                    attributes={
                        "model": {"string": "A100"},
                        "x.y/cores": {"int": 4},
                        "healthy": {"bool": False},
                        "version": {"version": "1.2.3-a+b"},
                    },
                    capacity={"memory": {"value": "81920Mi"}},
                    taints=[{"key": "k", "effect": "NoSchedule"}],
                    bindsToNode=True,
                    bindingConditions=["a"],
                    bindingFailureConditions=["b"],
                )
            ),
            SLICES,
        ),
        Step("GET", SLICE, accept=TABLE),
        Step("GET", f"{SLICES}?fieldSelector=metadata.name%3D{{ns}}%2Cspec.nodeName%3Dn"),
        Step("GET", f"{SLICES}?fieldSelector=metadata.name%3D{{ns}}%2Cspec.driver%3Dx"),
        Step("GET", f"{SLICES}?fieldSelector=spec.pool%3Dx"),
        patch(SLICE, {"spec": {"pool": {"generation": 2}}}),
        patch(SLICE, {"metadata": {"labels": {"a": "b"}}}),
        patch(SLICE, {"spec": {"nodeName": "m"}}),
        patch(SLICE, {"spec": {"driver": "m", "pool": {"name": "q"}}}),
        patch(SLICE, {"spec": {"nodeName": None, "allNodes": True}}),
        Step("DELETE", SLICE),
        create(device_slice(capacity(default="1Gi", validValues=["1Gi", "2Gi"])), SLICES),
        Step("DELETE", SLICE),
        create(
            device_slice(capacity(default="1Gi", validRange={"min": "1Gi", "step": "1Gi"})),
            SLICES,
        ),
        Step("DELETE", SLICE),
        create(
            device_slice(
                device(
                    attributes={"a": {"strings": ["x"], "string": "y"}},
                    nodeAllocatableResourceMappings={"cpu": {"capacityKey": "x"}},
                )
            ),
            SLICES,
        ),
        Step("DELETE", SLICE),
        create(
            device_slice(
                devices=None,
                sharedCounters=[{"name": "s", "counters": {"memory": {"value": "1Gi"}}}],
                nodeSelector=selector("a"),
            ),
            SLICES,
        ),
        Step("DELETE", SLICE),
        create(
            device_slice(
                device(
                    nodeName="n",
                    consumesCounters=[
                        {"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}
                    ],
                ),
                device("e", allNodes=True),
                perDeviceNodeSelection=True,
            ),
            SLICES,
        ),
        Step("DELETE", SLICE),
    ],
    "resource slices that are refused": [
        create(named("{ns}"), SLICES),
        create(device_slice(driver="", pool={"name": "", "generation": -1}), SLICES),
        create(device_slice(nodeName=""), SLICES),
        create(device_slice(nodeName="-"), SLICES),
        create(device_slice(allNodes=False), SLICES),
        create(device_slice(allNodes=True, nodeName="n"), SLICES),
        create(
            device_slice(nodeSelector={}),
            SLICES,
        ),
        create(device_slice(device(), sharedCounters=[{"name": "s"}]), SLICES),
        create(device_slice(devices=None, sharedCounters=[{"name": ""}]), SLICES),
        create(
            device_slice(
                devices=None, sharedCounters=[{"name": "s", "counters": {"A_": {"value": "1"}}}] * 2
            ),
            SLICES,
        ),
        create(device_slice(device("D")), SLICES),
        create(device_slice(device(), device()), SLICES),
        create(device_slice(*[device(f"d{i}") for i in range(129)]), SLICES),
        create(
            device_slice(
                *[device(f"d{i}", taints=[{"key": "k", "effect": "None"}]) for i in range(65)]
            ),
            SLICES,
        ),
        create(device_slice(device(taints=[{"key": "-", "effect": ""}])), SLICES),
        create(device_slice(device(taints=[{"key": "k", "value": "-", "effect": "X"}])), SLICES),
        create(device_slice(device(taints=[{"key": "k", "effect": "None"}] * 17)), SLICES),
        create(device_slice(device(attributes={"a": {}})), SLICES),
        create(device_slice(device(attributes={"9": {"int": 1}})), SLICES),
        create(device_slice(device(attributes={"a/": {"int": 1}})), SLICES),
        create(device_slice(device(attributes={"/a": {"int": 1}})), SLICES),
        create(device_slice(device(attributes={"a": {"version": "1.2"}})), SLICES),
        create(device_slice(device(attributes={"a": {"string": "x" * 65}})), SLICES),
        create(device_slice(device(attributes={f"a{i}": {"int": i} for i in range(33)})), SLICES),
        create(device_slice(device(nodeName="n")), SLICES),
        create(device_slice(device(), perDeviceNodeSelection=True), SLICES),
        create(
            device_slice(device(nodeName="n", allNodes=True), perDeviceNodeSelection=True), SLICES
        ),
        create(
            device_slice(device(nodeName="", allNodes=False), perDeviceNodeSelection=True), SLICES
        ),
        create(device_slice(device(consumesCounters=[{"counterSet": ""}])), SLICES),
        create(
            device_slice(
                device(
                    consumesCounters=[{"counterSet": "s", "counters": {"a": {"value": "1"}}}] * 2
                )
            ),
            SLICES,
        ),
        create(device_slice(device(capacity={"m": {"value": "1", "requestPolicy": {}}})), SLICES),
        create(device_slice(capacity(validValues=["1Gi"])), SLICES),
        create(device_slice(capacity(validRange={})), SLICES),
        create(device_slice(capacity(default="1", validRange={}, validValues=["1"])), SLICES),
        create(device_slice(capacity(default="1", validValues=["2", "1", "20Gi"])), SLICES),
        create(device_slice(capacity(default="3", validValues=["2", "2", "4"])), SLICES),
        create(device_slice(capacity(default="1", validRange={"max": "2"})), SLICES),
        create(device_slice(capacity(default="1", validRange={"min": "2", "max": "1"})), SLICES),
        create(
            device_slice(
                capacity(default="3Gi", validRange={"min": "1Gi", "max": "6Gi", "step": "4Gi"})
            ),
            SLICES,
        ),
        create(
            device_slice(
                capacity(default="1Gi", validRange={"min": "1Gi", "max": "20Gi", "step": "10Gi"})
            ),
            SLICES,
        ),
        create(device_slice(device(bindingConditions=["a"])), SLICES),
        create(device_slice(device(bindingFailureConditions=["a"])), SLICES),
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


#: In place of any value of an object.
_JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    2**40,
    "",
    "-1",
    "x",
    "X_",
    "1Gi",
    "0.5",
    [],
    {},
    [{}],
    ["a", "a"],
)
_PLURALS = ("resourceclaims", "resourceclaimtemplates", "deviceclasses", "resourceslices")


def _with_any_junk(rng: Random, body: dict[str, Any]) -> dict[str, Any]:
    path, junk = rng.choice(paths(body)), rng.choice(_JUNK)
    if path[-1] == "expression":
        junk = "x"  # syntax errors of CEL are compared elsewhere
    elif "onditions" in str(path[-1]) and junk == []:
        junk = None  # Go tells an empty list from none, and shows it
    return with_junk(body, path, junk)


def _mutated(rng: Random, plural: str) -> Step:
    body = {"metadata": {"name": "a", "labels": {"a": "b"}}, **BODIES[plural]}
    body = _with_any_junk(rng, body)
    places = {"resourceclaims": CLAIMS, "resourceclaimtemplates": TEMPLATES}
    path = places.get(plural, f"{DEVICES}/{plural}")
    # The causes say what the message says; where JSON has the wrong type, Go's text has Go's types.
    return Step("POST", f"{path}?dryRun=All", body, drop=("message",))


def _mutated_status(rng: Random) -> Step:
    whole = _with_any_junk(rng, CLAIM_STATUS)
    body = {"metadata": {"name": "a"}, **BODIES["resourceclaims"], "status": whole}
    return Step("PUT", f"{CLAIMS}/a/status?dryRun=All", body, drop=("message",))


def _random_steps(seed: int, count: int) -> list[Step]:
    rng = Random(seed)
    steps = [create({"metadata": {"name": "a"}, **BODIES["resourceclaims"]}, CLAIMS)]
    steps += [_mutated_status(rng) for _ in range(count)]
    return steps + [_mutated(rng, plural) for plural in _PLURALS for _ in range(count)]


SCENARIOS["random device objects"] = _random_steps(seed=1, count=100)
