"""The audit of a cluster as it is: every kind fires on a planted fault, and not beside it."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.audit import KINDS, Options, audit_cluster
from tests.unit.audit import test_history
from tests.unit.audit.cluster import (
    HOST,
    START,
    ZONE,
    Json,
    anti,
    at,
    audit_now,
    claim,
    device_claim,
    devices,
    event,
    item,
    kinds,
    node,
    pod,
    report_now,
    spread,
    together,
    uses,
    volume,
    wants,
)

A = {"app": "a"}
B = {"app": "b"}


def zone(name: str) -> Json:
    return {"labels": {ZONE: name}}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
PARTS = {"consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "6Gi"}}}]}
COUNTERS = {"memory": {"value": "10Gi"}}

FAULTY: dict[str, tuple[str, list[Json]]] = {
    "cpu": (
        "overcommit",
        [node("n1", cpu="1"), pod("a", "n1", cpu="600m"), pod("b", "n1", cpu="600m")],
    ),
    "number of pods": ("overcommit", [node("n1", pods="1"), pod("a", "n1"), pod("b", "n1")]),
    "extended resource": (
        "overcommit",
        [
            node("n1", allocatable={"example.com/gpu": "1"}),
            pod("a", "n1", requests={"example.com/gpu": "1"}),
            pod("b", "n1", requests={"example.com/gpu": "1"}),
        ],
    ),
    "resource that the node does not have": (
        "overcommit",
        [node("n1"), pod("b", "n1", requests={"example.com/gpu": "1"})],
    ),
    "terminating pods still occupy": (
        "overcommit",
        [
            node("n1", cpu="1"),
            pod("a", "n1", cpu="600m", terminating=True),
            pod("b", "n1", cpu="600m", bound=1),
        ],
    ),
    "a resize in progress counts the larger": (
        "overcommit",
        [
            node("n1", cpu="1"),
            pod(
                "a",
                "n1",
                cpu="100m",
                status={
                    "containerStatuses": [
                        {"name": "main", "resources": {"requests": {"cpu": "900m"}}}
                    ]
                },
            ),
            pod("b", "n1", cpu="200m", bound=1),
        ],
    ),
    "sidecars run beside init containers": (
        "overcommit",
        [
            node("n1", cpu="1"),
            pod(
                "b",
                "n1",
                cpu="100m",
                initContainers=[
                    {
                        "name": "s",
                        "restartPolicy": "Always",
                        "resources": {"requests": {"cpu": "500m"}},
                    },
                    {"name": "i", "resources": {"requests": {"cpu": "600m"}}},
                ],
            ),
        ],
    ),
    "overhead": (
        "overcommit",
        [node("n1", cpu="1"), pod("b", "n1", cpu="900m", overhead={"cpu": "200m"})],
    ),
    "a node that is gone": ("missing-node", [pod("b", "n1")]),
    "cordon": ("unschedulable", [node("n1", unschedulable=True), pod("b", "n1")]),
    "taint": ("taint", [node("n1", taints=[TAINT]), pod("b", "n1")]),
    "NoExecute": ("taint", [node("n1", taints=[{**TAINT, "effect": "NoExecute"}]), pod("b", "n1")]),
    "tolerated with another value": (
        "taint",
        [node("n1", taints=[TAINT]), pod("b", "n1", tolerations=[{"key": "gpu", "value": "no"}])],
    ),
    "nodeSelector": ("node-affinity", [node("n1"), pod("b", "n1", nodeSelector={"disk": "ssd"})]),
    "host port": (
        "host-port",
        [node("n1"), pod("a", "n1", ports=[80]), pod("b", "n1", ports=[80])],
    ),
    "anti-affinity": (
        "anti-affinity",
        [node("n1"), pod("a", "n1", labels=A), pod("b", "n1", affinity=anti(A))],
    ),
    "anti-affinity in a zone": (
        "anti-affinity",
        [
            node("n1", **zone("z")),
            node("n2", **zone("z")),
            pod("a", "n1", labels=A),
            pod("b", "n2", affinity=anti(A, ZONE)),
        ],
    ),
    "anti-affinity in another namespace": (
        "anti-affinity",
        [
            {"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "x"}}},
            node("n1"),
            pod("a", "n1", labels=A, namespace="other", bound=-1),
            pod("b", "n1", affinity=anti(A, namespaceSelector={"matchLabels": {"team": "x"}})),
        ],
    ),
    "affinity": (
        "affinity",
        [node("n1"), node("n2"), pod("a", "n1", labels=A), pod("b", "n2", affinity=together(A))],
    ),
    "affinity on a node without the label": (
        "affinity",
        [node("n1"), pod("a", "n1", labels=A), pod("b", "n1", affinity=together(A, ZONE))],
    ),
    "spread": (
        "spread",
        [
            node("n1", **zone("y")),
            node("n2", **zone("z")),
            pod("a", "n1", labels=A),
            pod("b", "n1", labels=A, topologySpreadConstraints=[spread(A)]),
        ],
    ),
    "volume's node": (
        "volume-affinity",
        [node("n1"), volume("v", hosts=["n2"]), claim("c", "v"), pod("b", "n1", volumes=uses("c"))],
    ),
    "volume's zone": (
        "volume-zone",
        [
            node("n1", **zone("y")),
            volume("v", labels={ZONE: "z"}),
            claim("c", "v"),
            pod("b", "n1", volumes=uses("c")),
        ],
    ),
    "unbound claim": (
        "volume-unbound",
        [node("n1"), claim("c"), pod("b", "n1", volumes=uses("c"))],
    ),
    "no claim": ("volume-unbound", [node("n1"), pod("b", "n1", volumes=uses("c"))]),
    "ReadWriteOncePod": (
        "rwop",
        [
            node("n1"),
            node("n2"),
            volume("v"),
            claim("c", "v", "ReadWriteOncePod"),
            pod("a", "n1", volumes=uses("c"), terminating=True),
            pod("b", "n2", volumes=uses("c")),
        ],
    ),
    "a device in two claims": (
        "device",
        [
            node("n1"),
            devices("d", "e"),
            device_claim("x", "d", pods=["a"]),
            device_claim("y", "e", "d", pods=["b"]),
            pod("a", "n1", resourceClaims=wants("x")),
            pod("b", "n1", resourceClaims=wants("y")),
        ],
    ),
    "a device twice in one claim": (
        "device",
        [
            node("n1"),
            device_claim("y", "d", "d", pods=["b"]),
            pod("b", "n1", resourceClaims=wants("y")),
        ],
    ),
    "more of a shared device than it has": (
        "device-capacity",
        [
            node("n1"),
            devices("d", device=SHARED),
            device_claim("x", "d", shareID="1", consumedCapacity={"memory": "6Gi"}),
            device_claim("y", "d", pods=["b"], shareID="2", consumedCapacity={"memory": "6Gi"}),
            pod("b", "n1", resourceClaims=wants("y")),
        ],
    ),
    "more of a pool's counters than there is": (
        "device-capacity",
        [
            node("n1"),
            devices(name="counters", counters=COUNTERS),
            devices("d", "e", device=PARTS),
            device_claim("x", "d"),
            device_claim("y", "e", pods=["b"]),
            pod("b", "n1", resourceClaims=wants("y")),
        ],
    ),
    "a claim that is not there": (
        "device-claim",
        [node("n1"), pod("b", "n1", resourceClaims=wants("y"))],
    ),
    "a claim that is not allocated": (
        "device-claim",
        [node("n1"), device_claim("y"), pod("b", "n1", resourceClaims=wants("y"))],
    ),
    "a claim that is reserved for another": (
        "device-claim",
        [
            node("n1"),
            device_claim("y", "d", pods=["a"]),
            pod("a", "n1", resourceClaims=wants("y")),
            pod("b", "n1", resourceClaims=wants("y")),
        ],
    ),
    "a reservation for a pod that is gone": (
        "reservation",
        [node("n1"), device_claim("y", "d", pods=["b"])],
    ),
    "a reservation for a pod that ended": (
        "reservation",
        [
            node("n1"),
            device_claim("y", "d", pods=["b"]),
            pod("b", "n1", resourceClaims=wants("y"), status={"phase": "Succeeded"}),
        ],
    ),
    "pending although it fits": ("pending", [node("n1"), pod("b")]),
    "no event": ("no-event", [node("n1"), event("x"), pod("b", "n1")]),
}


@pytest.mark.parametrize("name", FAULTY)
def test_planted_fault(name: str) -> None:
    kind, things = FAULTY[name]
    (found,) = audit_now(*things)
    assert (found.kind, found.pod) == (kind, "default/b")
    assert found.message


CLEAN: dict[str, list[Json]] = {
    "devices, shares of one, admin access and counters": [
        node("n1"),
        devices(name="counters", counters=COUNTERS),
        devices("c", "d", "e", device={**SHARED, **PARTS}),
        device_claim("u", "c", pods=["a"]),
        device_claim("v", "c", adminAccess=True),
        device_claim("w", "c", adminAccess=True),
        pod("a", "n1", resourceClaims=wants("u")),
    ],
    "shares of a device": [
        node("n1"),
        devices("d", device=SHARED),
        device_claim("x", "d", shareID="1", consumedCapacity={"memory": "5Gi"}),
        device_claim("y", "d", shareID="2", consumedCapacity={"memory": "5Gi"}),
    ],
    "just full": [
        node("n1", cpu="1", pods="2"),
        pod("a", "n1", cpu="500m"),
        pod("b", "n1", cpu="500m"),
    ],
    "finished pods do not occupy": [
        node("n1", cpu="1"),
        pod("a", "n1", cpu="1", status={"phase": "Succeeded"}),
        pod("b", "n1", cpu="1"),
    ],
    "an init container is over when others start": [
        node("n1", cpu="1"),
        pod(
            "b",
            "n1",
            cpu="600m",
            initContainers=[{"name": "i", "resources": {"requests": {"cpu": "600m"}}}],
        ),
    ],
    "pod-level requests replace the sum": [
        node("n1", cpu="1"),
        pod("b", "n1", cpu="3", resources={"requests": {"cpu": "1"}}),
    ],
    "tolerated": [
        node(
            "n1", taints=[TAINT, {"key": "soft", "effect": "PreferNoSchedule"}], unschedulable=True
        ),
        pod("b", "n1", tolerations=[{"operator": "Exists"}]),
    ],
    "mirror pods": [
        node("n1", taints=[TAINT]),
        pod("b", "n1", annotations={"kubernetes.io/config.mirror": "x"}),
    ],
    "a nodeName that the creator set": [
        node("n1", taints=[TAINT], cpu="0"),
        event("x"),
        pod("b", "n1", managedFields=[{"fieldsV1": {"f:spec": {"f:nodeName": {}}}}]),
    ],
    "ports on different addresses": [
        node("n1"),
        pod(
            "a", "n1", containers=[{"name": "m", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]
        ),
        pod(
            "b", "n1", containers=[{"name": "m", "ports": [{"hostPort": 80, "hostIP": "10.0.0.2"}]}]
        ),
    ],
    "ports of different protocols": [
        node("n1"),
        pod("a", "n1", containers=[{"name": "m", "ports": [{"hostPort": 53, "protocol": "UDP"}]}]),
        pod("b", "n1", ports=[53]),
    ],
    "anti-affinity in another namespace": [
        node("n1"),
        pod("a", "n1", labels=A, namespace="other"),
        pod("b", "n1", affinity=anti(A)),
    ],
    "anti-affinity with itself": [node("n1"), pod("b", "n1", labels=A, affinity=anti(A))],
    "the first pod of its kind": [node("n1"), pod("b", "n1", labels=A, affinity=together(A))],
    "spread with terminating pods": [
        node("n1", **zone("y")),
        node("n2", **zone("z")),
        pod("a", "n1", labels=A, terminating=True),
        pod("b", "n1", labels=A, topologySpreadConstraints=[spread(A)]),
    ],
    "spread over nodes that the pod may not use": [
        node("n1", **zone("y")),
        node("n2", **zone("z")),
        pod("a", "n1", labels=A),
        pod("b", "n1", labels=A, nodeSelector={HOST: "n1"}, topologySpreadConstraints=[spread(A)]),
    ],
    "gated": [node("n1"), pod("b", schedulingGates=[{"name": "wait"}])],
    "just created": [node("n1"), pod("b", created=590)],
    "pending, and too large": [node("n1", cpu="1"), pod("b", cpu="2")],
    "pending, and promised to another": [
        node("n1", cpu="1"),
        pod(
            "a",
            cpu="1",
            priority=5,
            status={"nominatedNodeName": "n1"},
            nodeSelector={"no": "where"},
        ),
        pod("b", cpu="1"),
    ],
    "older than events are kept": [node("n1"), event("x"), pod("b", "n1", bound=-7200)],
    "event to come": [node("n1"), event("x"), pod("b", "n1", bound=590)],
    "event there": [node("n1"), event("b"), pod("b", "n1")],
    "event of the newer API": [
        node("n1"),
        {"kind": "Event", "metadata": {}, "reason": "Scheduled", "regarding": {"uid": "uid-b"}},
        pod("b", "n1"),
    ],
    "no events given": [node("n1"), pod("b", "n1")],
    "zone by the older label": [
        node("n1", **zone("z")),
        volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "y__z"}, hosts=["n1"]),
        claim("c", "v"),
        pod("b", "n1", volumes=uses("c")),
    ],
}


def test_every_kind_has_a_planted_fault() -> None:
    """`double-bind` can be seen in a history only."""
    assert {kind for kind, _ in FAULTY.values()} == set(KINDS) - {"double-bind"}
    assert {kind for kind, _ in test_history.FAULTY.values()} == set(KINDS) - {"no-event"}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert audit_now(*CLEAN[name]) == []


def test_what_may_have_come_after_the_binding_is_marked() -> None:
    """By the time at which the taints of the node were written, where the API server tells."""

    def tainted(second: float) -> Json:
        fields = [{"time": at(second), "fieldsV1": {"f:spec": {"f:taints": {}}}}]
        return node("n1", taints=[TAINT], managedFields=fields)

    (before,) = audit_now(tainted(-100), pod("b", "n1", bound=0))
    (after,) = audit_now(tainted(100), pod("b", "n1", bound=0))
    (unknown,) = audit_now(node("n1", taints=[TAINT]), pod("b", "n1"))
    assert [before.maybe_later, after.maybe_later, unknown.maybe_later] == [False, True, True]
    assert audit_now(tainted(100), pod("b", "n1", bound=0), certain=True) == []


def test_pods_that_no_scheduler_placed_are_not_blamed() -> None:
    """They occupy all the same: the pod that was bound beside them is to blame."""
    mirror = pod("m", "n1", cpu="1", annotations={"kubernetes.io/config.mirror": "x"}, bound=5)
    (found,) = audit_now(node("n1", cpu="1"), mirror, pod("b", "n1", bound=9))
    assert (found.kind, found.pod, found.maybe_later) == ("overcommit", "default/b", False)
    (found,) = audit_now(node("n1", cpu="1"), mirror, pod("b", "n1", bound=1))
    assert (found.kind, found.pod, found.maybe_later) == ("overcommit", "default/b", True)
    assert audit_now(node("n1", cpu="0"), mirror) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a", "b"]),
        ({"only": frozenset({"taint"})}, ["a"]),
        ({"ignore": frozenset({"taint"})}, ["b"]),
        ({"schedulers": frozenset({"mine"})}, ["b"]),
        ({"since_s": 300.0}, ["b"]),
        ({"grace_s": 700.0}, ["a"]),
    ],
)
def test_options(options: dict[str, Any], expected: list[str]) -> None:
    things = [
        node("n1", taints=[TAINT]),
        node("n2"),
        pod("a", "n1"),
        pod("b", created=400, schedulerName="mine"),
    ]
    assert sorted(name for _, name in kinds(audit_now(*things, **options))) == expected


def test_pending_pods_that_cannot_be_judged_are_counted() -> None:
    report = report_now(
        node("n1"),
        pod("a", resourceClaims=[{"name": "x", "resourceClaimName": "c"}]),
        pod("b", volumes=uses("c")),
        claim("c"),
    )
    assert report.findings == []
    assert [each.split(": ")[1] for each in report.notes if each.startswith("1 pending pod")] == [
        "claims that are not bound yet",
        "resource claims",
    ]


def test_one_finding_for_a_domain_that_is_too_full() -> None:
    full = [
        pod(f"p{number}", "n1", labels=A, topologySpreadConstraints=[spread(A)])
        for number in range(5)
    ]
    found = audit_now(node("n1", **zone("y")), node("n2", **zone("z")), *full)
    assert [each.kind for each in found] == ["spread"]
    assert found[0].message == f"5 matching pods in {ZONE}=y, 0 in the emptiest domain, maxSkew 1"


def test_progress() -> None:
    said: list[str] = []
    things = [node("n1"), pod("a", "n1"), pod("b", cpu="9")]
    audit_cluster(map(item, things), now=START, options=Options(), progress=said.append)
    assert said == ["pod 0 of 2: earlier pods", "pod 0 of 1", "pending pod 1 of 1"]
