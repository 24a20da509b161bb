"""VolumeZone: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Node
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.status import SKIP, unresolvable
from stowplan.plugins.volume_zone import VolumeZone
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place
from tests.unit.plugins.volume_kit import (
    AT_ONCE,
    claim,
    fits,
    judged,
    made_for,
    put,
    storage_class,
    using,
    volume,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = unresolvable("node(s) had no available volume zone").by("VolumeZone")


def labelled(**labels: str) -> dict[str, str]:
    names = {"zone": ZONE, "region": REGION, "beta_zone": BETA_ZONE, "beta_region": BETA_REGION}
    return {names[short]: value for short, value in labels.items()}


def in_zones(name: str = "n", **labels: str) -> Node:
    return node(name, labels=labelled(**labels))


@pytest.mark.parametrize(
    ("of_volume", "of_node", "is_right"),
    [
        pytest.param({"zone": "a"}, {}, True, id="node-without-labels"),
        pytest.param({"zone": "a"}, {"zone": "a"}, True, id="same-zone"),
        pytest.param({"zone": "a"}, {"zone": "b"}, False, id="other-zone"),
        pytest.param({"zone": "a__b"}, {"zone": "b"}, True, id="one-of-several"),
        pytest.param({"zone": "a__b"}, {"zone": "c"}, False, id="none-of-several"),
        pytest.param({"zone": "a____b"}, {"zone": "c"}, True, id="not-understood"),
        pytest.param({"region": "r"}, {"zone": "a"}, False, id="node-lacks-the-region"),
        pytest.param({"zone": "a", "region": "r"}, {"zone": "a", "region": "s"}, False, id="both"),
        pytest.param({"beta_zone": "a"}, {"zone": "a"}, True, id="beta-on-the-volume-only"),
        pytest.param({"beta_zone": "a"}, {"zone": "b"}, False, id="beta-on-the-volume-other"),
        pytest.param({"zone": "a"}, {"beta_zone": "a"}, False, id="beta-on-the-node-only"),
        pytest.param(
            {"beta_zone": "a"}, {"zone": "a", "beta_zone": "b"}, False, id="beta-comes-first"
        ),
        pytest.param(
            {"beta_region": "r", "beta_zone": "a"},
            {"region": "r", "zone": "a"},
            True,
            id="all-beta",
        ),
    ],
)
def test_filter(of_volume: dict[str, str], of_node: dict[str, str], is_right: bool) -> None:
    cache = put(
        in_place([in_zones(**of_node), in_zones("far", zone="far", region="far")]),
        claim("data", "pv"),
        volume("pv", labelled(**of_volume)),
    )
    assert fits(made_for(VolumeZone, cache), using("data"), cache)["n"] is is_right


def test_every_volume_must_be_reachable() -> None:
    cache = put(
        in_place([in_zones("a", zone="a"), in_zones("b", zone="b")]),
        *(claim("one", "pv1"), claim("two", "pv2")),
        *(volume("pv1", {ZONE: "a"}), volume("pv2", {ZONE: "b"})),
    )
    plugin = made_for(VolumeZone, cache)
    assert judged(plugin, using("one", "two"), cache) == {"a": ELSEWHERE, "b": ELSEWHERE}
    assert fits(plugin, using("one"), cache) == {"a": True, "b": False}


def test_nothing_to_compare_is_skipped() -> None:
    late = storage_class("late")
    objects = (claim("new", storage_class="late"), claim("data", "pv"), volume("pv"), late)
    cache = put(in_place([in_zones(zone="a")]), *objects)
    plugin = made_for(VolumeZone, cache)
    for mine in (pod(), using({"emptyDir": {}}), using({"ephemeral": {}}), using("new", "data")):
        assert judged(plugin, mine, cache) == SKIP


BETA_CLASS = {"volume.beta.kubernetes.io/storage-class": "late"}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", "pv")], 'persistentvolume "pv" not found'),
        ([claim("data")], "PersistentVolumeClaim had no pv name and storageClass name"),
        (
            [claim("data", storage_class="sc")],
            'storageclass.storage.k8s.io "sc" not found',
        ),
        (
            [claim("data", storage_class="sc"), storage_class("sc", mode=None)],
            'VolumeBindingMode not set for StorageClass "sc"',
        ),
        (
            [claim("data", storage_class="sc"), storage_class("sc", mode=AT_ONCE)],
            "PersistentVolume had no name",
        ),
        (
            [
                claim("data", storage_class="sc", annotations=BETA_CLASS),
                *(storage_class("sc"), storage_class("late", mode=AT_ONCE)),
            ],
            "PersistentVolume had no name",
        ),
    ],
)
def test_why_a_pod_must_wait(objects: list[Any], reason: str) -> None:
    cache = put(in_place([in_zones(zone="a")]), *objects)
    plugin, mine = made_for(VolumeZone, cache), using("data")
    assert judged(plugin, mine, cache) == unresolvable(reason)
    # Where PreFilter is disabled, Filter finds out the same.
    cycle, step = Cycle(cache.table, compile_pod(mine)), FilterStep(plugin)
    column = np.zeros(cache.table.capacity, np.int32)
    step.fill(cycle, slice(None), column)
    (row,) = cache.table.order.tolist()
    expected = unresolvable(reason).by("VolumeZone")
    assert step.status(cycle, int(column[row])) == expected
    assert step.status_of_row(cycle, row) == expected


def test_a_claim_without_a_name() -> None:
    cache = in_place([in_zones(zone="a")])
    answer = judged(made_for(VolumeZone, cache), using(""), cache)
    assert answer == unresolvable("PersistentVolumeClaim had no name")


def test_coming_back() -> None:
    plugin, mine = VolumeZone(), using("data", {"ephemeral": {}})
    add, update = ActionType.ADD, ActionType.UPDATE
    volumes, claims = "PersistentVolume", "PersistentVolumeClaim"
    classes = "storage.k8s.io/StorageClass"
    here, there = volume("pv", {ZONE: "a"}), volume("pv", {ZONE: "b"})
    both, swapped = volume("pv", {ZONE: "a__b"}), volume("pv", {ZONE: "b__a", "x": "y"})
    cases: list[tuple[str, ActionType, Any, Any, Hint | None]] = [
        (classes, add, None, storage_class("sc"), Hint.QUEUE),
        (classes, add, None, storage_class("sc", mode=AT_ONCE), Hint.SKIP),
        (classes, add, None, storage_class("sc", mode=None), Hint.SKIP),
        (classes, update, storage_class("sc"), storage_class("sc"), None),
        (claims, add, None, claim("data"), Hint.QUEUE),
        (claims, update, claim("data"), claim("data", "pv"), Hint.QUEUE),
        (claims, add, None, claim("other"), Hint.SKIP),
        (claims, add, None, claim("data", namespace="other"), Hint.SKIP),
        (volumes, add, None, here, Hint.QUEUE),
        (volumes, update, here, there, Hint.QUEUE),
        (volumes, update, here, here, Hint.SKIP),
        (volumes, update, both, swapped, Hint.SKIP),
        ("Node", add, None, node(), Hint.QUEUE),
        ("Node", ActionType.UPDATE_NODE_LABEL, node(), node(), Hint.QUEUE),
        ("Node", ActionType.UPDATE_NODE_TAINT, node(), node(), None),
        ("Pod", ActionType.DELETE, mine, None, None),
    ]
    for kind, action, old, new, expected in cases:
        assert hint(plugin, kind, action, mine, old, new) is expected, (kind, action, old, new)
