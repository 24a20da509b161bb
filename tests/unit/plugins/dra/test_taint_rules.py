"""DeviceTaintRules: which devices they taint, and that the index of slices follows every change."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.api.device_objects import DeviceTaintRule
from stowplan.api.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES
from stowplan.config.feature_gates import FeatureGates
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.registry import in_tree_registry
from stowplan.testing import node
from tests.unit.plugins.dra.device_kit import (
    DRIVER,
    Scene,
    claim,
    device_class,
    gpus,
    request,
    using,
)

NODES = [node("a"), node("b")]
REFUSED = "cannot allocate all claims"


def rule(name: str = "rule", effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": {"key": "broken", "effect": effect}}
    if selector:
        spec["deviceSelector"] = selector
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


def scene(*rules: DeviceTaintRule, **asked: Any) -> Scene:
    wanted = claim("gpu", request(**asked))
    made = Scene(NODES, device_class(), gpus("a", "gpu-0"), gpus("b", "gpu-0", "gpu-1"), wanted)
    for each in rules:
        made.cache.catalog[DEVICE_TAINT_RULES].set(each)
    return made


@pytest.mark.parametrize(
    ("selector", "refused"),
    [
        ({}, "ab"),
        ({"driver": DRIVER}, "ab"),
        ({"driver": "other.example.com"}, ""),
        ({"pool": "a"}, "a"),
        ({"device": "gpu-0"}, "a"),
        ({"pool": "b", "device": "gpu-0"}, ""),
    ],
)
def test_devices_that_a_rule_selects_are_not_for_pods(
    selector: dict[str, str], refused: str
) -> None:
    """A node is refused once all of its devices are tainted; one that is left is enough."""
    answers = scene(rule(**selector)).filter(using("gpu"))
    assert answers == {name: REFUSED if name in refused else "" for name in "ab"}


def test_a_claim_can_tolerate_the_taint_and_no_effect_is_none() -> None:
    tolerant = scene(rule(), tolerations=[{"key": "broken", "operator": "Exists"}])
    assert tolerant.filter(using("gpu")) == {"a": "", "b": ""}
    assert scene(rule(effect="None")).filter(using("gpu")) == {"a": "", "b": ""}


def test_a_rule_that_changes_or_goes_gives_the_devices_back() -> None:
    made = scene(rule(pool="a"))
    shelf = made.cache.catalog[DEVICE_TAINT_RULES]
    shelf.set(rule(pool="b"))
    assert made.filter(using("gpu")) == {"a": "", "b": REFUSED}
    made.put(gpus("b", "gpu-0", "gpu-1", generation=2))
    assert made.filter(using("gpu")) == {"a": "", "b": REFUSED}
    shelf.remove("rule")
    assert made.filter(using("gpu")) == {"a": "", "b": ""}


def test_the_index_is_what_a_new_one_would_be_after_any_changes() -> None:
    rng = Random(1)
    made = scene()
    rules, slices = made.cache.catalog[DEVICE_TAINT_RULES], made.cache.catalog[RESOURCE_SLICES]
    for _ in range(200):
        name, pool = rng.choice("xyz"), rng.choice("ab")
        match rng.randrange(4):
            case 0:
                rules.set(rule(name, pool=pool))
            case 1:
                rules.set(rule(name, device=f"gpu-{rng.randrange(2)}"))
            case 2:
                rules.remove(name)
            case 3 if slices.remove(f"{pool}-gpus") is None:
                slices.set(gpus(pool, "gpu-0", "gpu-1"))
        fresh = DeviceFacts(made.cache.catalog)
        for each in NODES:
            assert made.facts.slices.pools(each) == fresh.slices.pools(each)


def test_the_kind_is_watched_only_with_its_gate() -> None:
    def watched(**gates: bool) -> bool:
        plugin = in_tree_registry(FeatureGates(gates)).get("DynamicResources")
        return DEVICE_TAINT_RULES in plugin.looks_up

    assert not watched()
    assert watched(DRADeviceTaintRules=True)
    assert watched(AllBeta=True)
    assert not watched(DRADeviceTaintRules=False, AllBeta=True)
