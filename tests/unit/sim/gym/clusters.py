"""Traces made by hand for the environment, and agents to play them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stowplan.sim.gym import ClusterEnv
from stowplan.sim.gym.observation import Observation
from stowplan.sim.traces import Arrival, Event, Trace
from stowplan.sim.traces.manifests import arrival, container, node, requests
from stowplan.sim.traces.model import Json

Policy = Callable[[Observation], int]

#: A little of everything that the generator knows: taints, GPUs, selectors, spreading, priorities,
#: failures and drains.
MIXED = {"preset": "mixed", "nodeCount": 16, "podCount": 150}


def some_node(name: str, cpu: int = 4, **fields: Any) -> Json:
    return node(name, {"cpu": str(cpu), "memory": "16Gi", "pods": "110"}, **fields)


def some_pod(
    at: float, name: str, *, cpu_milli: int = 1000, run_s: float | None = None, **spec: Any
) -> Arrival:
    made = container(requests(cpu_milli, 1 << 30, 0))
    return arrival(at, name, "default", {"app": name}, {"containers": [made], **spec}, run_s)


def trace_of(objects: Sequence[Json], events: Sequence[Event]) -> Trace:
    return Trace(
        sources=("test",),
        make_objects=lambda: iter(objects),
        make_events=lambda: iter(events),
        pods=sum(isinstance(event, Arrival) for event in events),
        nodes=sum(each["kind"] == "Node" for each in objects),
    )


def at_random(seed: int, *, masked: bool = True) -> Policy:
    """Any node, or any that is feasible."""
    rng = np.random.default_rng(seed)

    def choose(observation: Observation) -> int:
        mask = observation["action_mask"]
        return int(rng.choice(np.flatnonzero(mask) if masked else len(mask)))

    return choose


def first(observation: Observation) -> int:
    return int(observation["action_mask"].argmax())


def play(env: ClusterEnv, policy: Policy, seed: int = 0) -> list[tuple[Any, ...]]:
    """Every step as (pod, action, reward, info after it, observation after it)."""
    observation, info = env.reset(seed=seed)
    steps: list[tuple[Any, ...]] = []
    while True:
        action = policy(observation)
        pod = info["pod"]
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append((pod, action, reward, info, observation))
        if terminated or truncated:
            return steps


def standing(env: ClusterEnv) -> dict[str, str]:
    """Every pod that stands on a node, by name, and the node."""
    table = env.simulation.table
    return {
        info.pod.metadata.name: name
        for name, row in table.row_of.items()
        for info in table.pods[row].values()
    }
