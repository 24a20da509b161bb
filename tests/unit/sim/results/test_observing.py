"""What an observer derives from the changes of a run."""

from __future__ import annotations

import random

import msgspec
import pytest

from stowplan.api.objects import Node, Pod
from stowplan.sim.results.observing import PRICE, RunObserver


class Stage:
    """An observer, and the same cluster without any shortcut."""

    def __init__(self) -> None:
        self.at = 0.0
        self.observer = RunObserver("test", lambda: self.at)
        self.prices: dict[str, float] = {}
        self.places: dict[str, str] = {}
        self.cost = self.cost_in_use = 0.0

    def wait(self, seconds: float) -> None:
        held = set(self.places.values())
        in_use = [price for name, price in self.prices.items() if name in held]
        self.cost += sum(self.prices.values()) * seconds / 3600
        self.cost_in_use += sum(in_use) * seconds / 3600
        self.at += seconds

    def node(self, name: str, price: float) -> None:
        self.prices[name] = price
        self.observer.node_seen(
            msgspec.convert({"metadata": {"name": name, "labels": {PRICE: str(price)}}}, Node)
        )

    def node_gone(self, name: str) -> None:
        del self.prices[name]
        self.observer.node_gone(name)

    def pod(self, name: str, node: str = "") -> None:
        self.observer.pod_created(pod_of(name))
        if node:
            self.places[name] = node
            self.observer.pod_bound(pod_of(name, node))

    def pod_gone(self, name: str) -> None:
        self.places.pop(name, None)
        self.observer.pod_gone(f"default/{name}")


def pod_of(name: str, node: str = "") -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}}, Pod)


@pytest.mark.parametrize("seed", range(20))
def test_costs_are_those_of_a_recount_at_each_moment(seed: int) -> None:
    chance, stage = random.Random(seed), Stage()
    nodes, pods = [f"n{number}" for number in range(6)], [f"p{number}" for number in range(8)]
    for _ in range(300):
        stage.wait(chance.choice([0.0, 0.3, 7.0, 90.0]))
        name = chance.choice(nodes)
        match chance.randrange(4):
            case 0:
                stage.node(name, chance.choice([0.0, 0.096, 0.192, 1.5]))
            case 1 if name in stage.prices:
                stage.node_gone(name)
            case 2:
                pod = chance.choice(pods)
                if pod not in stage.places:
                    stage.pod(pod, name)
            case 3:
                stage.pod_gone(chance.choice(pods))
    run = stage.observer.finish()
    assert stage.cost > stage.cost_in_use > 0
    assert run.cost == pytest.approx(stage.cost, abs=2e-6)
    assert run.cost_in_use == pytest.approx(stage.cost_in_use, abs=2e-6)


@pytest.mark.parametrize("is_there_at_the_end", [True, False])
def test_a_name_that_is_used_again_keeps_its_first_life(is_there_at_the_end: bool) -> None:
    stage = Stage()
    stage.node("n1", 1.0)
    stage.node("n2", 1.0)
    stage.pod("p", "n1")
    stage.wait(10)
    stage.pod_gone("p")
    stage.pod("p")
    stage.wait(60)
    stage.observer.pod_bound(pod_of("p", "n2"))
    if not is_there_at_the_end:
        stage.pod_gone("p")
    life = stage.observer.finish().pods["default/p"]
    assert (life.node, life.bound, life.ended) == ("n1", 0.0, 10.0)
