"""The audit of a history: bindings are judged as of their revision, and races are not faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.audit.cluster import (
    HOST,
    ZONE,
    History,
    Json,
    anti,
    at,
    bind_object,
    claim,
    device_claim,
    devices,
    event,
    kinds,
    node,
    pod,
    spread,
    together,
    uses,
    volume,
    wants,
)

A = {"app": "a"}
TAINT = {"key": "gpu", "effect": "NoSchedule"}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
Plant = Callable[[History], History]


def zone(name: str) -> Json:
    return {"labels": {ZONE: name}}


FAULTY: dict[str, tuple[str, Plant]] = {
    "two pods that do not fit together, one of them gone again": (
        "overcommit",
        lambda history: (
            history.put(node("n1", cpu="1"))
            .bind(pod("a", cpu="600m"), "n1", 0)
            .bind(pod("b", cpu="600m"), "n1", 0)
            .gone("Pod", "a", "default")
        ),
    ),
    "a terminating pod still occupies": (
        "overcommit",
        lambda history: (
            history.put(node("n1", cpu="1"))
            .bind(pod("a", cpu="600m"), "n1", 0)
            .put(bind_object(pod("a", cpu="600m", terminating=True), "n1", 0))
            .bind(pod("b", cpu="600m"), "n1", 20)
        ),
    ),
    "a node that came back smaller a while ago": (
        "overcommit",
        lambda history: (
            history.put(node("n1", cpu="4"))
            .gone("Node", "n1")
            .put(node("n1", cpu="1"))
            .tick(60)
            .bind(pod("b", cpu="2"), "n1", 60)
        ),
    ),
    "a pod that was resized a while ago": (
        "overcommit",
        lambda history: (
            history.put(node("n1", cpu="1"))
            .bind(pod("a", cpu="100m"), "n1", 0)
            .put(bind_object(pod("a", cpu="800m"), "n1", 0))
            .tick(60)
            .bind(pod("b", cpu="600m"), "n1", 60)
        ),
    ),
    "a pod of a deleted node counts when the node is back": (
        "overcommit",
        lambda history: (
            history.put(node("n1", cpu="1"))
            .bind(pod("a", cpu="600m"), "n1", 0)
            .gone("Node", "n1")
            .put(node("n1", cpu="1"))
            .bind(pod("b", cpu="600m"), "n1", 30)
        ),
    ),
    "a node that never was": ("missing-node", lambda history: history.bind(pod("b"), "n9", 0)),
    "a cordon": (
        "unschedulable",
        lambda history: (
            history.put(node("n1"), node("n1", unschedulable=True))
            .tick(60)
            .bind(pod("b"), "n1", 60)
        ),
    ),
    "a taint": (
        "taint",
        lambda history: (
            history.put(node("n1"), node("n1", taints=[TAINT])).tick(60).bind(pod("b"), "n1", 60)
        ),
    ),
    "a taint that was removed later": (
        "taint",
        lambda history: (
            history.put(node("n1", taints=[TAINT])).bind(pod("b"), "n1", 0).put(node("n1"))
        ),
    ),
    "node affinity": (
        "node-affinity",
        lambda history: history.put(node("n1")).bind(pod("b", nodeSelector={"x": "y"}), "n1", 0),
    ),
    "a host port": (
        "host-port",
        lambda history: (
            history.put(node("n1"))
            .bind(pod("a", ports=[80]), "n1", 0)
            .bind(pod("b", ports=[80]), "n1", 0)
        ),
    ),
    "its own anti-affinity": (
        "anti-affinity",
        lambda history: (
            history.put(node("n1"))
            .bind(pod("a", labels=A), "n1", 0)
            .bind(pod("b", affinity=anti(A)), "n1", 0)
        ),
    ),
    "the anti-affinity of a pod that stands already": (
        "anti-affinity",
        lambda history: (
            history.put(node("n1"))
            .bind(pod("a", affinity=anti(A)), "n1", 0)
            .bind(pod("b", labels=A), "n1", 0)
        ),
    ),
    "affinity with a pod that left a while ago": (
        "affinity",
        lambda history: (
            history.put(node("n1"))
            .bind(pod("a", labels=A), "n1", 0)
            .gone("Pod", "a", "default")
            .tick(60)
            .bind(pod("b", affinity=together(A)), "n1", 60)
        ),
    ),
    "spread": (
        "spread",
        lambda history: (
            history.put(node("n1", **zone("y")), node("n2", **zone("z")))
            .bind(pod("a", labels=A), "n1", 0)
            .tick(60)
            .bind(pod("b", labels=A, topologySpreadConstraints=[spread(A)]), "n1", 60)
        ),
    ),
    "a volume's zone": (
        "volume-zone",
        lambda history: history.put(
            node("n1", **zone("y")), volume("v", labels={ZONE: "z"}), claim("c", "v")
        ).bind(pod("b", volumes=uses("c")), "n1", 0),
    ),
    "a volume's node": (
        "volume-affinity",
        lambda history: history.put(node("n1"), volume("v", hosts=["n2"]), claim("c", "v")).bind(
            pod("b", volumes=uses("c")), "n1", 0
        ),
    ),
    "a claim that is bound later": (
        "volume-unbound",
        lambda history: (
            history.put(node("n1"), volume("v"), claim("c"))
            .bind(pod("b", volumes=uses("c")), "n1", 0)
            .put(claim("c", "v"))
        ),
    ),
    "ReadWriteOncePod": (
        "rwop",
        lambda history: (
            history.put(node("n1"), volume("v"), claim("c", "v", "ReadWriteOncePod"))
            .bind(pod("a", volumes=uses("c")), "n1", 0)
            .bind(pod("b", volumes=uses("c")), "n1", 0)
        ),
    ),
    "a node that changed": (
        "double-bind",
        lambda history: (
            history.put(node("n1"), node("n2")).bind(pod("b"), "n1", 0).bind(pod("b"), "n2", 0)
        ),
    ),
    "two bindings that succeeded": (
        "double-bind",
        lambda history: (
            history.put(node("n1")).bind(pod("b"), "n1", 0).ask("b", "n1", 0).ask("b", "n1", 1)
        ),
    ),
    "a binding that succeeded, to another node": (
        "double-bind",
        lambda history: history.put(node("n1")).bind(pod("b"), "n1", 0).ask("b", "n2", 0),
    ),
    "two bindings without a UID": (
        "double-bind",
        lambda history: (
            history.put(node("n1"))
            .bind(pod("b"), "n1", 0)
            .ask("b", "n1", 0, uid="")
            .ask("b", "n1", 1, uid="")
        ),
    ),
    "a device that two claims held for a while": (
        "device",
        lambda history: (
            history.put(node("n1"), devices("d"), device_claim("x"), device_claim("y"))
            .put(device_claim("x", "d"), pod("b", resourceClaims=wants("y")))
            .put(device_claim("y", "d", pods=["b"]))
            .bind(pod("b", resourceClaims=wants("y")), "n1", 0)
            .gone("ResourceClaim", "x", "default")
        ),
    ),
    "more of a shared device than it had": (
        "device-capacity",
        lambda history: (
            history.put(node("n1"), devices("d", device=SHARED))
            .tick(20)
            .put(device_claim("x", "d", shareID="1", consumedCapacity={"memory": "6Gi"}))
            .put(pod("b", resourceClaims=wants("y")))
            .put(
                device_claim("y", "d", pods=["b"], shareID="2", consumedCapacity={"memory": "6Gi"})
            )
            .bind(pod("b", resourceClaims=wants("y")), "n1", 20)
        ),
    ),
    "a claim that was reserved too late": (
        "device-claim",
        lambda history: (
            history.put(node("n1"), device_claim("y"))
            .bind(pod("b", resourceClaims=wants("y")), "n1", 0)
            .put(device_claim("y", "d", pods=["b"]))
        ),
    ),
    "a reservation that stays": (
        "reservation",
        lambda history: (
            history.put(node("n1"), device_claim("y", "d", pods=["b"]))
            .bind(pod("b", resourceClaims=wants("y")), "n1", 0)
            .gone("Pod", "b", "default")
            .tick(300)
        ),
    ),
    "a pod left behind": (
        "pending",
        lambda history: history.put(node("n1"), pod("b")).tick(300),
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_planted_fault(name: str) -> None:
    kind, plant = FAULTY[name]
    (found,) = plant(History()).audit()
    assert (found.kind, found.pod) == (kind, "default/b")
    assert found.message


CLEAN: dict[str, Plant] = {
    "a device that went from claim to claim": lambda history: (
        history.put(node("n1"), devices("d"), device_claim("x", "d"))
        .put(device_claim("x"))
        .put(device_claim("y", "d", pods=["b"]))
        .bind(pod("b", resourceClaims=wants("y")), "n1", 0)
    ),
    "a device that became smaller meanwhile": lambda history: (
        history.put(node("n1"), devices("d", device=SHARED))
        .put(devices("d", device={"allowMultipleAllocations": True}))
        .put(device_claim("y", "d", shareID="1", consumedCapacity={"memory": "6Gi"}))
    ),
    "a claim that was freed while the binding was on its way": lambda history: (
        history.put(node("n1"), device_claim("y", "d", pods=["b"]))
        .tick(0)
        .put(device_claim("y"))
        .bind(pod("b", resourceClaims=wants("y")), "n1", 0)
    ),
    "a reservation that goes soon after its pod": lambda history: (
        history.put(node("n1"), device_claim("y", "d", pods=["b"]))
        .bind(pod("b", resourceClaims=wants("y")), "n1", 0)
        .gone("Pod", "b", "default")
        .tick(30)
    ),
    "room that became free": lambda history: (
        history.put(node("n1", cpu="1"))
        .bind(pod("a", cpu="600m"), "n1", 0)
        .gone("Pod", "a", "default")
        .bind(pod("b", cpu="600m"), "n1", 0)
        .put({**bind_object(pod("b", cpu="600m"), "n1", 0), "status": {"phase": "Failed"}})
        .bind(pod("c", cpu="600m"), "n1", 0)
    ),
    "a pod of the same name": lambda history: (
        history.put(node("n1", cpu="1"), node("n2"))
        .bind(pod("b", cpu="600m"), "n1", 0)
        .gone("Pod", "b", "default")
        .put(pod("b", uid="other"))
        .bind(pod("b", uid="other"), "n2", 1)
        .ask("b", "n1", 0)
        .ask("b", "n2", 1, uid="other")
    ),
    "a node that came back smaller while the binding was under way": lambda history: (
        history.put(node("n1", cpu="4"))
        .tick(60)
        .gone("Node", "n1")
        .put(node("n1", cpu="1"))
        .bind(pod("b", cpu="2"), "n1", 61)
    ),
    "a node that went while the binding was under way": lambda history: (
        history.put(node("n1")).tick(60).gone("Node", "n1").bind(pod("b"), "n1", 61)
    ),
    "a taint and a cordon that came while the binding was under way": lambda history: (
        history.put(node("n1"))
        .tick(60)
        .put(node("n1", taints=[TAINT], unschedulable=True))
        .bind(pod("b"), "n1", 61)
    ),
    "a binding that was sent again, and a taint in between": lambda history: (
        history.put(node("n1"))
        .tick(60)
        .put(node("n1", taints=[TAINT]))
        .ask("b", "n1", 55, code=503)
        .ask("b", "n1", 90)
        .bind(pod("b"), "n1", 90)
    ),
    "a nodeName that the creator set": lambda history: history.put(
        node("n1", cpu="1", taints=[TAINT]), pod("a", "n1", cpu="2"), pod("b", "n1", bound=9)
    ),
    "a pod of another scheduler that came meanwhile": lambda history: (
        history.put(node("n1", cpu="1"))
        .tick(60)
        .bind(pod("a", cpu="600m", schedulerName="other"), "n1", 60)
        .bind(pod("b", cpu="600m"), "n1", 61)
    ),
    "a resize meanwhile": lambda history: (
        history.put(node("n1", cpu="1"))
        .bind(pod("a", cpu="100m"), "n1", 0)
        .tick(60)
        .put(bind_object(pod("a", cpu="800m"), "n1", 0))
        .bind(pod("b", cpu="600m"), "n1", 61)
    ),
    "affinity with a pod whose binding comes later": lambda history: (
        history.put(node("n1"), pod("a", labels=A))
        .bind(pod("b", affinity=together(A)), "n1", 0)
        .bind(pod("a", labels=A), "n1", 1)
    ),
    "affinity with a pod whose binding was refused": lambda history: (
        history.put(node("n1"), pod("a", labels=A))
        .bind(pod("b", affinity=together(A)), "n1", 0)
        .ask("a", "n1", 0, code=409)
        .ask("b", "n1", 0)
        .gone("Pod", "a", "default")
    ),
    "affinity with a pod that just left": lambda history: (
        history.put(node("n1"))
        .bind(pod("a", labels=A), "n1", 0)
        .gone("Pod", "a", "default")
        .bind(pod("b", affinity=together(A)), "n1", 1)
    ),
    "spread, bound in another order than decided": lambda history: (
        history.put(node("n1", **zone("y")), node("n2", **zone("z")))
        .put(pod("a", labels=A, topologySpreadConstraints=[spread(A)]))
        .bind(pod("b", labels=A, topologySpreadConstraints=[spread(A)]), "n1", 0)
        .bind(pod("c", labels=A, topologySpreadConstraints=[spread(A)]), "n1", 0)
        .bind(pod("a", labels=A, topologySpreadConstraints=[spread(A)]), "n2", 0)
    ),
    "spread over a zone that is new": lambda history: (
        history.put(node("n1", **zone("y")), node("n2", **zone("z")))
        .bind(pod("a", labels=A), "n1", 0)
        .bind(pod("b", labels=A), "n2", 0)
        .tick(60)
        .put(node("n3", **zone("x")))
        .bind(pod("c", labels=A, topologySpreadConstraints=[spread(A)]), "n1", 61)
    ),
    "anti-affinity in a zone to which the node just moved": lambda history: (
        history.put(node("n1", **zone("y")), node("n2", **zone("z")))
        .bind(pod("a", labels=A), "n1", 0)
        .tick(60)
        .put(node("n2", **zone("y")))
        .bind(pod("b", affinity=anti(A, ZONE)), "n2", 61)
    ),
    "a place that was freed a moment ago": lambda history: (
        history.put(node("n1", cpu="1"))
        .bind(pod("a", cpu="1"), "n1", 0)
        .put(pod("b", cpu="1"))
        .tick(300)
        .gone("Pod", "a", "default")
        .tick(310)
    ),
    "bindings that were refused": lambda history: (
        history.put(node("n1"))
        .ask("b", "n1", 0, code=409)
        .ask("b", "n1", 0)
        .bind(pod("b"), "n1", 0)
    ),
    "a dry run": lambda history: (
        history.put(node("n1"))
        .bind(pod("b"), "n1", 0)
        .ask("b", "n1", 0)
        .ask("b", "n2", 0, query="?dryRun=All")
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert kinds(CLEAN[name](History()).audit()) == []


def test_own_pods_in_flight_are_no_excuse() -> None:
    """Two replicas of one scheduler that both lead: neither knows of the other's pods."""
    history = History().put(node("n1", cpu="1"), pod("a", cpu="600m"), pod("b", cpu="600m"))
    history.bind(pod("a", cpu="600m"), "n1", 0).bind(pod("b", cpu="600m"), "n1", 0)
    assert kinds(history.audit(in_flight_s=60.0)) == [("overcommit", "b")]


def test_spread_beside_pods_without_the_constraint() -> None:
    """One that was bound before may have been decided on afterwards, and asks for no balance."""
    spreading: Json = {"labels": A, "topologySpreadConstraints": [spread(A)]}
    history = History().put(node("n1", **zone("y")), node("n2", **zone("z"))).tick(60)
    history.bind(pod("a", labels=A), "n1", 60).bind(pod("b", **spreading), "n1", 61)
    assert kinds(history.audit()) == []
    assert kinds(history.audit(in_flight_s=0.0)) == [("spread", "b")]


def test_spread_beyond_what_is_in_flight() -> None:
    """The binding that would explain it comes too late to have been decided before."""
    spreading: Json = {"labels": A, "topologySpreadConstraints": [spread(A)]}
    history = History().put(node("n1", **zone("y")), node("n2", **zone("z")))
    history.put(pod("late", **spreading))
    history.bind(pod("a", **spreading), "n1", 0).bind(pod("b", **spreading), "n1", 0)
    history.tick(60).bind(pod("late", **spreading), "n2", 60)
    assert kinds(history.audit()) == [("spread", "b")]
    assert kinds(history.audit(in_flight_s=90.0)) == []


def test_events() -> None:
    history = History().put(node("n1"))
    history.bind(pod("a"), "n1", 0).bind(pod("b"), "n1", 0).put(event("a"))
    history.put(event("b", "Pulled")).bind(pod("late"), "n1", 290).tick(300)
    assert kinds(history.audit(ignore=frozenset())) == [("no-event", "b")]


def test_without_any_event_they_are_not_asked_for() -> None:
    report = History().put(node("n1")).bind(pod("b"), "n1", 0).tick(300).report(ignore=frozenset())
    assert report.findings == []
    assert report.notes == ["Scheduled events not checked: the history holds no events"]


def test_history_that_begins_with_a_compaction() -> None:
    """What stands at its beginning is not judged, and occupies."""
    history = History().put(node("n1", cpu="1"), initial=True)
    history.put(pod("old", "n1", cpu="2"), pod("b", cpu="100m"), initial=True)
    report = history.bind(pod("b", cpu="100m"), "n1", 0).report()
    assert kinds(report.findings) == [("overcommit", "b")]
    assert report.notes == ["the history was compacted: what happened before is unknown"]


def test_figures_and_the_user_of_a_binding() -> None:
    history = History().put(node("n1", taints=[TAINT])).ask("b", "n1", 0).bind(pod("b"), "n1", 0)
    report = history.report()
    (found,) = report.findings
    assert found.message == "taint gpu:NoSchedule is not tolerated (bound by kube-scheduler)"
    assert (found.revision, found.time, found.node) == (3, at(0), "n1")
    assert (report.judged, report.revisions, report.nodes, report.pods) == (1, 3, 1, 1)


def test_labels_that_the_api_server_adds_when_it_binds() -> None:
    """They are not part of what a scheduler decided on."""
    made = pod("b", labels=A, topologySpreadConstraints=[spread(A, matchLabelKeys=[HOST])])
    after = bind_object(made, "n1", 0)
    after["metadata"] = {**after["metadata"], "labels": {**A, HOST: "n1"}}
    history = History().put(node("n1", **zone("y")), node("n2", **zone("z")), made, after)
    assert history.audit() == []


def test_junk_in_etcd_is_passed_over() -> None:
    history = History().put(node("n1"))
    history.put({"kind": "Pod", "metadata": {"name": "x", "namespace": "y"}, "spec": 5})
    assert history.report().revisions == 2
