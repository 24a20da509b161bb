"""Junk in, a proper refusal out: no body makes the API server stumble over its own feet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.history import Record
from stowplan.apiserver.kinds import KINDS, Kind
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.server import ApiServer
from stowplan.errors import ApiError

Json = dict[str, Any]

SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
}
TERM = {"topologyKey": "zone", "labelSelector": SELECTOR, "matchLabelKeys": ["c"]}
POD_SPEC: Json = {
    "containers": [
        {
            "name": "c",
            "image": "x:1",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
        }
    ],
    "initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}],
    "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w"}],
    "tolerations": [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    ],
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}],
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["n"]}
                        ],
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": []}}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": TERM}
            ],
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
            "minDomains": 1,
        }
    ],
    "schedulingGates": [{"name": "g"}],
    "resources": {"limits": {"cpu": "2"}},
    "overhead": {"cpu": "1m"},
    "priorityClassName": "system-node-critical",
}
WORKLOAD: Json = {
    "selector": SELECTOR,
    "template": {"metadata": {"labels": {"a": "b", "k": "v"}}, "spec": POD_SPEC},
}
JOB_TEMPLATE = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}
CLAIM_SPEC: Json = {
    "devices": {
        "requests": [
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": "gpu",
                    "allocationMode": "ExactCount",
                    "count": 2,
                    "selectors": [{"cel": {"expression": "device.driver == 'x'"}}],
                    "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}],
                    "capacity": {"requests": {"memory": "1Gi"}},
                },
            },
            {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "gpu"}]},
        ],
        "constraints": [{"requests": ["r", "s/t"], "matchAttribute": "x/model"}],
        "config": [{"requests": ["r"], "opaque": {"driver": "x", "parameters": {"a": 1}}}],
    }
}
BODIES: dict[str, Json] = {
    "pods": {"spec": POD_SPEC, "status": {"conditions": [{"type": "x", "status": "True"}]}},
    "nodes": {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "events": {"involvedObject": {"kind": "Pod", "namespace": "default"}, "count": 1},
    "leases": {"spec": {"leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000006Z"}},
    "priorityclasses": {"value": 5, "globalDefault": False},
    "poddisruptionbudgets": {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "deployments": {"spec": WORKLOAD},
    "jobs": {"spec": {"template": JOB_TEMPLATE, "completions": 1}},
    "secrets": {"stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    "services": {"spec": {"ports": [{"port": 80}], "type": "ClusterIP"}},
    "persistentvolumes": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}},
        }
    },
    "storageclasses": {"provisioner": "x", "allowedTopologies": [{"matchLabelExpressions": []}]},
    "resourceclaims": {"spec": CLAIM_SPEC},
    "resourceclaimtemplates": {"spec": {"metadata": {"labels": {"a": "b"}}, "spec": CLAIM_SPEC}},
    "deviceclasses": {
        "spec": {
            "selectors": [{"cel": {"expression": "device.driver == 'x'"}}],
            "config": [{"opaque": {"driver": "x", "parameters": {"a": 1}}}],
            "extendedResourceName": "x.y/z",
        }
    },
    "resourceslices": {
        "spec": {
            "driver": "x",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [
                {
                    "name": "d",
                    "attributes": {"model": {"string": "A"}, "x/v": {"version": "1.2.3"}},
                    "capacity": {
                        "memory": {
                            "value": "10Gi",
                            "requestPolicy": {
                                "default": "1Gi",
                                "validRange": {"min": "1Gi", "max": "9Gi", "step": "1Gi"},
                            },
                        }
                    },
                    "allowMultipleAllocations": True,
                    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
                    "consumesCounters": [
                        {"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}
                    ],
                    "bindingConditions": ["a"],
                    "bindingFailureConditions": ["b"],
                },
                {
                    "name": "e",
                    "allowMultipleAllocations": True,
                    "capacity": {
                        "cores": {
                            "value": "9",
                            "requestPolicy": {"default": "1", "validValues": ["1", "2"]},
                        }
                    },
                },
            ],
        }
    },
}
#: What may be written to `/status` of the claim above.
CLAIM_STATUS: Json = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": "x",
                    "pool": "p",
                    "device": "d",
                    "shareID": "11111111-2222-3333-4444-555555555555",
                    "consumedCapacity": {"memory": "1Gi"},
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "bindingConditions": ["a"],
                    "bindingFailureConditions": ["b"],
                }
            ],
            "config": [
                {
                    "source": "FromClaim",
                    "requests": ["r"],
                    "opaque": {"driver": "x", "parameters": {"a": 1}},
                }
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ]
        },
    },
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    "devices": [
        {
            "driver": "x",
            "pool": "p",
            "device": "d",
            "shareID": "11111111-2222-3333-4444-555555555555",
            "conditions": [
                {
                    "type": "a",
                    "status": "True",
                    "reason": "R",
                    "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }
            ],
            "networkData": {"ips": ["1.2.3.4/24"], "interfaceName": "eth0"},
            "data": {"a": 1},
        }
    ],
}
METADATA = {"name": "a", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x.y/z"]}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.just("-1"),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just([{}]),
    st.just({"a": None}),
    st.just({"": {}}),
)


def paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in an object."""
    found = [at] if at else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*at, index))
    return found


def with_junk(body: Json, path: tuple[str | int, ...], junk: Any) -> Json:
    changed = copy.deepcopy(body)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = junk
    return changed


def check(write: Callable[[], Record]) -> None:
    """It is refused as the client's mistake, or what was accepted can be shown."""
    refused: ApiError | None = None
    try:
        assert write().encoded
    except ApiError as error:
        refused = error
    assert refused is None or 400 <= refused.status < 500, refused


def kind_of(plural: str) -> Kind:
    return next(kind for kind in KINDS if kind.plural == plural)


@pytest.mark.parametrize("plural", BODIES)
@given(data=st.data())
def test_one_wrong_value_anywhere(plural: str, data: st.DataObject) -> None:
    kind = kind_of(plural)
    body = {"metadata": METADATA, **BODIES[plural]}
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    writer = server.rest.writer
    namespace = "default" if kind.namespaced else ""
    collection, single = ResourcePath(kind, namespace), ResourcePath(kind, namespace, "a")
    path = data.draw(st.sampled_from(paths(body)))
    junk = data.draw(JUNK)
    changed = with_junk(body, path, junk)
    check(lambda: writer.create(collection, changed, WriteOptions()))
    if server.store.get(kind, namespace, "a") is None:
        writer.create(collection, copy.deepcopy(body), WriteOptions())
    check(lambda: writer.update(single, changed, WriteOptions())[0])


@given(path=st.sampled_from(paths(CLAIM_STATUS)), junk=JUNK)
def test_the_status_of_a_claim(path: tuple[str | int, ...], junk: Any) -> None:
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    claim: Json = {"metadata": {"name": "a"}, **BODIES["resourceclaims"]}
    kind = kind_of("resourceclaims")
    server.create(kind.group, kind.version, kind.plural, claim, namespace="default")
    body = {**claim, "status": with_junk(CLAIM_STATUS, path, junk)}
    target = ResourcePath(kind, "default", "a", "status")
    check(lambda: server.rest.writer.update(target, body, WriteOptions())[0])


@given(junk=JUNK, where=st.sampled_from(["metadata", "target", "deleteOptions"]))
def test_bindings_and_evictions(junk: Any, where: str) -> None:
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    spec = {"containers": [{"name": "c", "image": "x"}]}
    server.create("", "v1", "pods", {"metadata": {"name": "a"}, "spec": spec}, namespace="default")
    good: Json = {"metadata": {"name": "a"}, "target": {"name": "n"}, "deleteOptions": {}}
    body = {**good, where: junk}
    for act in (server.rest.pods.bind, server.rest.pods.evict):
        with suppress(ApiError):
            act("default", "a", body)
