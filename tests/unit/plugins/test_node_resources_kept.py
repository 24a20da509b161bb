"""What plugins keep of nodes' resources from pod to pod, while the cluster changes.

Every score by columns equals the score node by node, which keeps nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.amounts import Amounts
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import ScoreStep
from stowplan.framework.plugin import Plugin
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import asking, in_place, made

GPU = "example.com/gpu"


def scores_of(plugin: Plugin, wanted: Pod, cache: ClusterCache) -> list[int]:
    """By columns, after a look that they are the same node by node."""
    table = cache.table
    cycle, step = Cycle(table, compile_pod(wanted)), ScoreStep(plugin, 1)
    column = np.zeros(table.capacity, np.int64)
    step.fill(cycle, table.used_slots, column)
    some = np.zeros(table.capacity, np.int64)
    step.fill(cycle, table.live_rows, some)
    assert some[table.live_rows].tolist() == column[table.live_rows].tolist()
    one_by_one = [step.score_of_row(cycle, row) for row in table.live_rows.tolist()]
    assert column[table.live_rows].tolist() == one_by_one
    return one_by_one


def fit(strategy: str, **weights: int) -> Plugin:
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return made("NodeResourcesFit", {"scoringStrategy": {"type": strategy, "resources": resources}})


def a_node(dice: Random, number: int) -> Node:
    cpu, memory = dice.choice(["1", "2500m", "64"]), dice.choice(["3Gi", "7G", "512Gi"])
    more: dict[str, Any] = {GPU: 4} if dice.random() < 0.3 else {}
    if dice.random() < 0.03:
        memory = str(2**60)
    if dice.random() < 0.03:
        cpu = "0"
    return node(f"n{number}", cpu=cpu, memory=memory, resources=more)


def a_pod(dice: Random, number: int, on: str = "") -> Pod:
    cpu = dice.choice([None, "1m", "333m", "2", "900"])
    memory = dice.choice([None, "1", "100Mi", "3G", str(2**55)])
    requests = {GPU: 1} if dice.random() < 0.1 else {}
    return pod(f"p{number}", cpu=cpu, memory=memory, requests=requests, node=on)


def change_something(dice: Random, cache: ClusterCache, number: int) -> None:
    names = sorted(cache.table.row_of)
    placed = sorted(cache.placements())
    match dice.choice(["pod", "pod", "pod", "gone", "node", "node gone"]):
        case "pod":
            cache.add_pod(a_pod(dice, number, dice.choice([*names, "n99"])))
        case "gone" if placed:
            cache.remove_pod(dice.choice(placed))
        case "node":
            cache.set_node(a_node(dice, dice.randint(0, 12)))
        case "node gone" if len(names) > 2:
            cache.remove_node(dice.choice(names))


@pytest.mark.parametrize("seed", range(20))
def test_kept_amounts_never_change_a_score(seed: int) -> None:
    dice = Random(seed)
    plugins = [
        fit("LeastAllocated", cpu=1, memory=1),
        fit("LeastAllocated", cpu=3, memory=97, **{"ephemeral-storage": 1}),
        fit("MostAllocated", cpu=1, memory=2),
        fit("MostAllocated", cpu=1, **{GPU: 5}),
        made("NodeResourcesBalancedAllocation"),
        made("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": GPU}]}),
    ]
    cache = in_place([a_node(dice, number) for number in range(3)])
    for number in range(120):
        change_something(dice, cache, number)
        for plugin in plugins:
            if dice.random() < 0.6:
                scores_of(plugin, a_pod(dice, 1000 + number), cache)


def test_a_slot_whose_node_is_gone_does_not_send_everybody_the_long_way() -> None:
    cache = in_place([node("a"), node("b"), node("c")])
    cache.remove_node("b")
    amounts = Amounts(cache.table, ["cpu", "memory"], as_scored=False)
    assert amounts.is_plain


@pytest.mark.parametrize("odd", [node("b", cpu="0"), node("b", memory=str(2**46))])
def test_what_floats_are_not_exact_for_is_not_plain(odd: Node) -> None:
    cache = in_place([node("a"), odd])
    assert not Amounts(cache.table, ["cpu", "memory"], as_scored=False).is_plain


def test_amounts_follow_pods_and_new_resources() -> None:
    cache = in_place([node(f"n{number}", cpu="4", memory="8Gi") for number in range(40)])
    amounts = Amounts(cache.table, ["cpu", "memory"], as_scored=False)
    cache.add_pod(asking("n7", cpu="1", memory="1Gi", **{GPU: 1}))
    row, everywhere = cache.table.row_of["n7"], cache.table.used_slots
    assert amounts.held_at(everywhere)[:, row].tolist() == [1000, 1 << 30]
    assert amounts.free_at(everywhere, amounts.offered)[:, row].tolist() == [3000, 7 << 30]
    cache.set_node(node("n3", cpu="16"))
    assert not amounts.has_same_nodes(cache.table)
