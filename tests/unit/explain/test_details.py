"""What is behind a plugin's objection is data, too: other pods, domains, labels, volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.explain import reasoning
from stowplan.explain.pending import group_pending
from stowplan.explain.sources import find_pod, pending_pods
from tests.unit.explain.cases import CASES, explainer_of
from tests.unit.explain.manifests import (
    AWAY,
    GPU,
    WITH_GPUS,
    ZONE,
    Json,
    a_node,
    a_pod,
    device_class,
    gpu_claim,
    gpus,
)


def nearest(name: str) -> dict[str, Any]:
    """The only obstacle of the nearest node, as `-o json` prints it."""
    explainer = explainer_of(CASES[name])
    said = explainer.explain(find_pod(explainer.cluster, "shop", "web"))
    (obstacle,) = msgspec.to_builtins(said)["nearest"][0]["obstacles"]
    assert isinstance(obstacle, dict)
    return obstacle


@pytest.mark.parametrize(
    ("case", "field", "data"),
    [
        (
            "cpu",
            "shortages",
            {"resource": "cpu", "requested": "2", "free": "1", "offered": "4", "short": "1"},
        ),
        ("taint", "taints", "dedicated=gpu:NoSchedule"),
        (
            "node-affinity",
            "labels",
            {
                "requirement": "cpu-generation>4",
                "key": "cpu-generation",
                "value": "3",
                "others": ("4", "3"),
            },
        ),
        ("host-port", "ports", {"port": 8080, "protocol": "TCP", "pod": "shop/ingress"}),
        (
            "anti-affinity",
            "affinity",
            {
                "kind": "podAntiAffinity",
                "selector": "app=web",
                "topologyKey": "kubernetes.io/hostname",
                "domain": "worker-1",
                "pods": ({"pod": "shop/web-1", "node": "worker-1"},),
                "podCount": 1,
            },
        ),
        (
            "anti-affinity-of-others",
            "affinity",
            {
                "kind": "podAntiAffinity",
                "selector": "app=web",
                "topologyKey": ZONE,
                "domain": "a",
                "isOfOthers": True,
                "pods": ({"pod": "shop/db-0", "node": "worker-2"},),
                "podCount": 1,
            },
        ),
        (
            "affinity-elsewhere",
            "affinity",
            {
                "kind": "podAffinity",
                "selector": "app=cache",
                "topologyKey": ZONE,
                "domain": "a",
                "pods": ({"pod": "shop/cache-0", "node": "worker-3"},),
                "podCount": 1,
            },
        ),
        (
            "topology-spread",
            "spread",
            {
                "topologyKey": ZONE,
                "selector": "app=web",
                "maxSkew": 1,
                "domain": "a",
                "counts": {"c": 0, "a": 1, "b": 1},
                "domainCount": 3,
                "skew": 2,
            },
        ),
        (
            "volume-in-another-zone",
            "volumes",
            {
                "claim": "data",
                "volume": "disk-1",
                "storageClass": "zonal",
                "onlyWhere": "in zone c",
                "nodes": 0,
            },
        ),
        (
            "volume-zone-label",
            "volumes",
            {"claim": "data", "volume": "disk-1", "onlyWhere": "in zone c", "nodes": 0},
        ),
        (
            "volume-limit",
            "volumes",
            {"driver": "disk.example", "attached": 1, "limit": 1, "needed": 1},
        ),
        (
            "claim-in-use",
            "volumes",
            {"claim": "data", "usedBy": {"pod": "shop/db-0", "node": "worker-2"}},
        ),
    ],
)
def test_an_obstacle_as_data(case: str, field: str, data: object) -> None:
    obstacle = nearest(case)
    assert obstacle[field][0] == data
    assert obstacle["detail"]


def test_many_conflicting_pods_are_counted_and_not_listed() -> None:
    small: Json = {"cpu": "1m", "memory": "1Mi", "affinity": AWAY}
    many = [
        a_pod(f"web-{number}", labels={"app": "web"}, nodeName="worker-1", **small)
        for number in range(50)
    ]
    explainer = explainer_of([a_node("worker-1"), *many, a_pod(**small)])
    said = explainer.explain(find_pod(explainer.cluster, "shop", "web"))
    own, _ = said.nearest[0].obstacles[0].affinity
    assert (own.pod_count, len(own.pods)) == (50, 3)
    assert "(and 49 more)" in said.nearest[0].obstacles[0].detail


def test_a_selector_that_fails_is_named_though_all_devices_are_taken() -> None:
    """The scheduler skips devices that are taken, so its reason does not have the error."""
    claim = gpu_claim(selector=f'device.attributes["{GPU}"].memory == "80"')
    taken = [gpu_claim("job", given="worker-1/gpu-0"), a_pod("job", nodeName="worker-1")]
    node, slices = a_node("worker-1"), gpus("worker-1", "A100")
    explainer = explainer_of([node, device_class(), slices, *taken, claim, a_pod(**WITH_GPUS)])
    said = explainer.explain(find_pod(explainer.cluster, "shop", "web"))
    (obstacle,) = said.nearest[0].obstacles
    assert obstacle.detail == "claim shop/gpus: selector #0: CEL runtime error: no such key: memory"
    assert said.advice.startswith("The selector reads memory, which a device lacks.")


def test_the_overview_of_pending_pods_searches_no_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning, "foretell", lambda *_: pytest.fail("it may take a second each"))
    explainer = explainer_of(CASES["preemption"])
    (group,) = group_pending(explainer, pending_pods(explainer.cluster), lambda _: None)
    assert (group.pods, group.plugin) == (1, "NodeResourcesFit")
