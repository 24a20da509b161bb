"""The work of an audit grows with the objects, never with a product of their numbers."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import pytest

from stowplan.audit import Item, Options, Revision, audit_cluster, audit_history, decode_item
from tests.perf.counting import Work
from tools.large_cluster import objects

Json: TypeAlias = dict[str, Any]
NODES, PODS = 30, 240
HOST = "kubernetes.io/hostname"
NOW = 1_900_000_000.0
#: Twice as many of everything may take a little more than twice the calls.
DOUBLE = 2.3


def own_terms(pods: int) -> list[Json]:
    """Every pod has a label and an anti-affinity term of its own, and all have one in common."""
    made = [thing for thing in objects(NODES, pods) if thing["kind"] == "Pod"]
    for number, pod in enumerate(made):
        pod["metadata"]["labels"]["own"] = f"o{number}"
        pod["metadata"]["namespace"] = "default"
        own = {"labelSelector": {"matchLabels": {"own": f"o{number}"}}, "topologyKey": HOST}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [own]}
        pod["spec"]["affinity"] = {"podAntiAffinity": required, "podAffinity": required}
    return made


def one_group(pods: int) -> list[Json]:
    """All pods are of one group that is spread and excludes itself on a host."""
    made = [thing for thing in objects(NODES, pods) if thing["kind"] == "Pod"]
    rule = {"labelSelector": {"matchLabels": {"app": "one"}}, "topologyKey": HOST}
    constraint = {"maxSkew": pods, "whenUnsatisfiable": "DoNotSchedule", **rule}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    for pod in made:
        pod["metadata"]["labels"]["app"] = "one"
        pod["metadata"]["namespace"] = "default"
        pod["spec"]["topologySpreadConstraints"] = [constraint]
        pod["spec"]["affinity"] = {"podAffinity": required}
    return made


def ports(pods: int) -> list[Json]:
    """Pods with host ports of their own, all on one node."""
    made = [thing for thing in objects(NODES, pods) if thing["kind"] == "Pod"]
    for number, pod in enumerate(made):
        pod["spec"]["nodeName"] = "n0"
        pod["spec"]["containers"][0]["ports"] = [{"hostPort": number + 1}]
    return made


def nodes(count: int) -> list[Json]:
    return [thing for thing in objects(count, 0) if thing["kind"] == "Node"]


def items(things: Iterable[Json]) -> list[Item]:
    return [decode_item(thing["kind"], msgspec.json.encode(thing)) for thing in things]


def calls(things: list[Json]) -> int:
    given, work = items(things), Work()
    gc.collect()
    gc.disable()
    try:
        with work.counted():
            audit_cluster(given, now=NOW)
    finally:
        gc.enable()
    return work.calls


PODS_OF = {
    "groups": lambda pods: [thing for thing in objects(NODES, pods) if thing["kind"] == "Pod"],
    "terms of their own": own_terms,
    "one group": one_group,
    "host ports on one node": ports,
}


@pytest.mark.parametrize("kind", PODS_OF)
def test_twice_as_many_pods(kind: str) -> None:
    made = PODS_OF[kind]
    calls([*nodes(NODES), *made(10)])  # fills caches of the process
    once, twice = (calls([*nodes(NODES), *made(count)]) for count in (PODS, 2 * PODS))
    assert twice <= DOUBLE * once


@pytest.mark.parametrize("kind", PODS_OF)
def test_twice_as_many_nodes_and_pods(kind: str) -> None:
    made = PODS_OF[kind]
    calls([*nodes(NODES), *made(10)])
    once = calls([*nodes(NODES), *made(PODS)])
    assert calls([*nodes(2 * NODES), *made(2 * PODS)]) <= DOUBLE * once


def revisions(pods: list[Json]) -> list[Revision]:
    """Each pod is created and then bound, and the first half is deleted."""
    made: list[Revision] = []
    for thing in [*nodes(NODES), *pods]:
        meta, spec = thing["metadata"], dict(thing["spec"])
        namespace = meta.get("namespace", "")
        spec.pop("nodeName", None)
        for state in (
            {**thing, "spec": spec, "status": thing["status"] if namespace == "" else {}},
            thing,
        ):
            raw = msgspec.Raw(msgspec.json.encode(state))
            made.append(Revision(len(made), thing["kind"], namespace, meta["name"], raw))
    for thing in pods[: len(pods) // 2]:
        meta = thing["metadata"]
        made.append(Revision(len(made), "Pod", meta["namespace"], meta["name"], None))
    return made


def history_calls(pods: list[Json]) -> int:
    given, work = revisions(pods), Work()
    gc.collect()
    gc.disable()
    try:
        with work.counted():
            # Without looking ahead: that is for problems, and of those there are none.
            audit_history(given, options=Options(in_flight_s=0.0))
    finally:
        gc.enable()
    return work.calls


@pytest.mark.parametrize("kind", ["groups", "terms of their own", "one group"])
def test_history_of_twice_as_many_pods(kind: str) -> None:
    made = PODS_OF[kind]
    history_calls(made(10))
    assert history_calls(made(2 * PODS)) <= DOUBLE * history_calls(made(PODS))
