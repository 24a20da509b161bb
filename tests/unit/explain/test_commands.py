"""Commands of fixes: against the owner of the pod, and quoted, because names are untrusted."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
import pytest

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.cluster.catalog import Catalog
from stowplan.explain.commands import Owner, delete_pods, kubectl, owner_of
from stowplan.explain.explanation import Fix
from stowplan.explain.fixes import find_fixes
from stowplan.explain.sources import find_pod
from stowplan.explain.text import explanation_text
from tests.unit.explain.cases import explainer_of
from tests.unit.explain.manifests import (
    AWAY,
    GPU_TAINT,
    IN_ZONES,
    Json,
    a_node,
    a_pod,
    full,
    three,
    zones,
)


def owned(pod: Json, kind: str, name: str, *, version: str = "apps/v1") -> Json:
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": "1", "controller": True}
    pod["metadata"] |= {"ownerReferences": [reference]}
    return pod


def replica_set(name: str, deployment: str) -> Json:
    made: Json = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "a"}]},
            },
        },
    }
    return owned(made, "Deployment", deployment)


def fixes_of(*objects: Json) -> dict[str, Fix]:
    """The first fix of each kind."""
    explainer = explainer_of(objects)
    found = find_fixes(explainer, find_pod(explainer.cluster, "shop", "web"), VirtualClock())
    return {fix.kind: fix for fix in reversed(found)}


DEPLOYED = replica_set("web-5d9", "web")


def test_a_request_is_set_in_the_deployment_behind_the_replica_set() -> None:
    pod = owned(a_pod(cpu="2"), "ReplicaSet", "web-5d9")
    fix = fixes_of(*three(), *full(), DEPLOYED, pod)["Request"]
    assert fix.text == "lower the cpu request of the container main from 2 to 1"
    assert fix.command == ("kubectl set resources deployment/web -n shop -c main --requests=cpu=1")


def test_a_request_of_an_extended_resource_needs_its_limit_too() -> None:
    node = a_node("worker-1")
    node["status"]["allocatable"] |= {"example.com/gpu": "1"}
    pod = owned(a_pod(), "StatefulSet", "web")
    amounts = {"example.com/gpu": "3"}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    assert fixes_of(node, pod)["Request"].command == (
        "kubectl set resources statefulset/web -n shop -c main"
        " --requests=example.com/gpu=1 --limits=example.com/gpu=1"
    )


def patch_of(command: str) -> tuple[list[str], Any]:
    *words, patch = shlex.split(command)
    return words, msgspec.json.decode(patch)


def test_a_toleration_is_added_to_those_of_the_template() -> None:
    own = {"key": "spot", "operator": "Exists"}
    added = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    tolerations = [own, {**added, "tolerationSeconds": 300}]
    pod = owned(a_pod(tolerations=tolerations), "ReplicaSet", "web-5d9")
    fix = fixes_of(*three(taints=[GPU_TAINT]), DEPLOYED, pod)["Toleration"]
    words, patch = patch_of(fix.command)
    assert words == ["kubectl", "patch", "deployment/web", "-n", "shop", "--type=merge", "-p"]
    new = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    assert patch == {"spec": {"template": {"spec": {"tolerations": [own, new]}}}}


def test_spreading_and_affinity_are_patched_whole() -> None:
    pod = owned(a_pod(topologySpreadConstraints=[IN_ZONES]), "ReplicaSet", "web-5d9")
    nodes = [*zones("a"), a_node("worker-2", labels={"topology.kubernetes.io/zone": "b"}, cpu=0)]
    standing = a_pod("web-1", labels={"app": "web"}, nodeName="worker-1")
    _, patch = patch_of(fixes_of(*nodes, standing, DEPLOYED, pod)["TopologySpread"].command)
    (constraint,) = patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert constraint == {**IN_ZONES, "whenUnsatisfiable": "ScheduleAnyway"}
    pod = owned(a_pod(affinity=AWAY), "ReplicaSet", "web-5d9")
    _, patch = patch_of(fixes_of(*zones("a"), standing, DEPLOYED, pod)["PodAffinity"].command)
    apart = patch["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    (term,) = AWAY["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == {
        "requiredDuringSchedulingIgnoredDuringExecution": None,
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ],
    }


@pytest.mark.parametrize(
    ("kind", "name", "version", "owner"),
    [
        ("ReplicaSet", "web-5d9", "apps/v1", Owner("Deployment", "web", "shop")),
        ("ReplicaSet", "lone", "apps/v1", Owner("ReplicaSet", "lone", "shop")),
        ("StatefulSet", "web", "apps/v1", Owner("StatefulSet", "web", "shop")),
        ("Job", "web", "batch/v1", Owner("Job", "web", "shop")),
        ("Deployment", "x", "example.com/v1", Owner("Deployment.example.com", "x", "shop")),
    ],
)
def test_the_owner_where_no_replica_set_was_read(
    kind: str, name: str, version: str, owner: Owner
) -> None:
    made = owned(a_pod(labels={"pod-template-hash": "5d9"}), kind, name, version=version)
    assert owner_of(msgspec.convert(made, Pod), Catalog()) == owner


@pytest.mark.parametrize(
    ("kind", "closing"),
    [
        ("Job", "The pods of job/web cannot be changed: create the Job again with the change."),
        ("Rollout", "It comes from rollout/web: make the change there"),
    ],
)
def test_without_a_command_the_text_says_where_to_edit(kind: str, closing: str) -> None:
    explainer = explainer_of([*three(), *full(), owned(a_pod(cpu="2"), kind, "web")])
    thing = find_pod(explainer.cluster, "shop", "web")
    fixes = find_fixes(explainer, thing, VirtualClock())
    said = msgspec.structs.replace(explainer.explain(thing), fixes=fixes)
    assert {fix.command for fix in fixes if fix.kind == "Request"} == {""}
    assert closing in explanation_text(said)


def test_words_are_quoted_and_names_are_no_options() -> None:
    evil = "a$(reboot); 'b' \"c\" `d`"
    assert shlex.split(kubectl(["label"], ["nodes", evil]))[-1] == evil
    assert kubectl(["uncordon"], ["--all"]) == "kubectl uncordon -- --all"
    assert kubectl(["uncordon"], ["a\nreboot"]) == ""
    assert kubectl(["uncordon"], ["a\x1b[2J"]) == ""


def test_pods_of_several_namespaces_are_deleted_by_a_command_each() -> None:
    one, other = msgspec.convert(a_pod("a"), Pod), msgspec.convert(a_pod("b"), Pod)
    other = msgspec.structs.replace(
        other, metadata=msgspec.structs.replace(other.metadata, namespace="-x")
    )
    assert delete_pods([one, other]) == "kubectl delete pod -n shop a && kubectl delete pod -n -x b"
    assert delete_pods([one] * 21) == ""
