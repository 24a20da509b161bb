"""An agent that chooses any feasible node, and what that is worth.

python examples/gym/random_agent.py --trace small --episodes 3
python examples/gym/random_agent.py --trace batch --nodes 1000 --pods 2000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.gym import REWARDS, ClusterEnv

Observation = dict[str, NDArray[Any]]
Policy = Callable[[Observation], int]


def main(make_policy: Callable[[int], Policy], title: str) -> None:
    """Play episodes as the command line asks; also for the other examples."""
    options = _arguments(title)
    description: dict[str, Any] = {"preset": options.trace}
    if options.nodes:
        description["nodeCount"] = options.nodes
    if options.pods:
        description["podCount"] = options.pods
    env = ClusterEnv(description, reward=options.reward)
    for episode in range(options.episodes):
        seed = options.seed + episode
        play(env, make_policy(seed), seed)


def play(env: ClusterEnv, policy: Policy, seed: int) -> None:
    observation, info = env.reset(seed=seed)
    total, steps = 0.0, 0
    began = time.process_time()  # CPU time: other programs do not count
    ended = False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        total += reward
        steps += 1
        ended = terminated or truncated
    took_s = time.process_time() - began
    print(
        f"seed {seed}: return {total:.2f}, {steps} steps, {info['placed']} pods placed, "
        f"waited {info['waited_s'] / max(info['placed'], 1):.1f} s each, "
        f"{steps / took_s:.0f} steps/s"
    )


def random_policy(seed: int) -> Policy:
    rng = np.random.default_rng(seed)

    def choose(observation: Observation) -> int:
        return int(rng.choice(np.flatnonzero(observation["action_mask"])))

    return choose


def _arguments(title: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--trace", default="small", help="a preset (docs/traces.md)")
    parser.add_argument("--nodes", type=int, help="instead of the preset's number")
    parser.add_argument("--pods", type=int, help="instead of the preset's number")
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument("--reward", choices=REWARDS, default="balance")
    return parser.parse_args()


if __name__ == "__main__":
    main(random_policy, "An agent that chooses any feasible node.")
