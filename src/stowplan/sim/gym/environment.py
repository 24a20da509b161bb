"""The environment: Gymnasium's `reset` and `step` over a `Simulation`.

One step is one pod of the scheduler's queue and one choice among nodes; the real filters say which
are feasible. What must stay true: `reset(seed=...)` alone determines an episode, arrays that were
handed out are never written to again, and whatever the agent does no node is overfull.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from msgspec.structs import replace

from stowplan.config.defaults import default_config
from stowplan.config.load import load_config
from stowplan.config.types import KubeSchedulerConfiguration, PluginRef, PluginSet
from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import in_tree_registry
from stowplan.sim.gym.asking import Question
from stowplan.sim.gym.episodes import Source, episodes_of, nodes_of
from stowplan.sim.gym.observation import Observation, ObservationEncoder, check_resources
from stowplan.sim.gym.rewards import REWARDS, Reward, Step
from stowplan.sim.gym.simulation import Simulation

#: Without `max_steps`, an episode is cut after so many steps a pod of the trace: more than any
#: agent needs that now and then chooses a feasible node.
_STEPS_A_POD = 10
_FEWEST_STEPS = 1_000


class ClusterEnv(gymnasium.Env[Observation, np.int64]):
    """`stowplan/Cluster-v0`; docs/gym.md explains it."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        trace: Source = "small",
        *,
        max_nodes: int | None = None,
        resources: Iterable[str] = (),
        config: KubeSchedulerConfiguration | str | Path | None = None,
        registry: Registry | None = None,
        reward: str | Reward = "balance",
        penalty: float = 1.0,
        max_steps: int | None = None,
        with_scores: bool = False,
    ) -> None:
        """`max_nodes` and `resources` make room for more than the trace begins with.

        Of the `config` the profiles and the backoff count; `penalty` is what an infeasible action
        costs. `with_scores` has the profile score every node too, for `scheduler_choice`.
        """
        self._episode = episodes_of(trace)
        first = self._episode(0)
        count, offered = nodes_of(first)
        if max_nodes is not None and max_nodes < count:
            raise ConfigError(
                f"is {max_nodes}, but there are {count} nodes in the trace", where="max_nodes"
            )
        if max_steps is not None and max_steps < 1:
            raise ConfigError(f"is {max_steps}, but at least 1 is needed", where="max_steps")
        self._observer = ObservationEncoder(
            count if max_nodes is None else max_nodes,
            check_resources([*offered, *resources]),
        )
        if registry is None:
            registry = in_tree_registry()
            registry.load_entry_points()
        self._registry = registry
        if not isinstance(config, KubeSchedulerConfiguration):
            config = default_config() if config is None else load_config(config)
        self._config = config if with_scores else _without_scores(config)
        self._with_scores = with_scores
        if config.extenders:
            raise ConfigError("are not asked by the environment", where="extenders")
        self._reward = _reward(reward)
        self._penalty = penalty
        self._max_steps = max_steps or max(_STEPS_A_POD * first.pods, _FEWEST_STEPS)
        # Gymnasium's own types take an observation for a dict of spaces.
        self.observation_space = cast("spaces.Space[Observation]", self._observer.space)
        self.action_space: spaces.Discrete = spaces.Discrete(self._observer.max_nodes)
        self._simulation: Simulation | None = None
        self._question: Question | None = None
        self._steps = 0

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources of the columns of `allocatable`, `requested` and `pod_requests`."""
        return self._observer.resources

    @property
    def simulation(self) -> Simulation:
        """The cluster of this episode, for inspection. Callers must not change it."""
        if self._simulation is None:
            raise gymnasium.error.ResetNeeded("call reset() first")
        return self._simulation

    @property
    def question(self) -> Question | None:
        """The pod to place and its feasible rows; None once the episode has ended."""
        return self._question

    def action_masks(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The feasible actions, under the name that sb3-contrib's MaskablePPO asks for."""
        return self._observer.mask(self._question).astype(np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        simulation = Simulation(
            self._episode(drawn),
            self._config,
            self._registry,
            max_nodes=self._observer.max_nodes,
            seed=drawn,
        )
        self._simulation, self._steps = simulation, 0
        self._question = simulation.next_question()
        if self._question is None:
            raise StowplanError(
                "there is nothing to decide: no pod of the trace ever fits on one of its nodes"
            )
        return self._observer.observe(simulation, self._question), self._info(has_placed=False)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        simulation, question = self.simulation, self._question
        if question is None:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset()")
        row = self._row(action)
        is_feasible = bool((question.feasible == row).any())
        started, waited_s = simulation.clock.monotonic(), simulation.waited_s
        has_placed = simulation.answer(row if is_feasible else None)
        node = simulation.table.names[row] if has_placed else ""
        self._question = simulation.next_question()
        self._steps += 1
        step = Step(
            table=simulation.table,
            pod=question.info.pod,
            node=node,
            elapsed_s=simulation.clock.monotonic() - started,
            waited_s=simulation.waited_s - waited_s,
            waiting=simulation.waiting,
        )
        reward = float(self._reward(step)) - (0.0 if is_feasible else self._penalty)
        terminated = self._question is None
        truncated = not terminated and self._steps >= self._max_steps
        observation = self._observer.observe(simulation, self._question)
        info = self._info(has_placed=has_placed)
        if truncated:
            self._question = None
        return observation, reward, terminated, truncated, info

    def _row(self, action: np.int64 | int) -> int:
        if not self.action_space.contains(action):
            raise gymnasium.error.InvalidAction(
                f"{action!r} is not the index of a node: 0 to {self._observer.max_nodes - 1}"
            )
        return int(action)

    def _info(self, *, has_placed: bool) -> dict[str, Any]:
        simulation, question = self.simulation, self._question
        return {
            "action_mask": self._observer.mask(question),
            "pod": "" if question is None else question.info.pod.key,
            "scheduler_choice": question.scheduler_choice
            if question is not None and self._with_scores
            else -1,
            "has_placed": has_placed,
            "time": simulation.clock.monotonic(),
            "waiting": simulation.waiting,
            "waited_s": simulation.waited_s,
            "placed": simulation.placed,
            "finished": simulation.finished,
            "lost": simulation.lost,
        }


def _without_scores(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The same filters. All nodes are searched because one of them is to be drawn, by a seed that
    does not matter: the agent chooses.
    """
    nothing = PluginSet(disabled=(PluginRef("*"),))
    profiles = tuple(
        replace(
            profile,
            plugins=replace(profile.plugins, pre_score=nothing, score=nothing),
            tie_break="random",
            tie_break_seed=0,
        )
        for profile in config.profiles
    )
    return replace(config, profiles=profiles)


def _reward(chosen: str | Reward) -> Reward:
    if not isinstance(chosen, str):
        if not callable(chosen):
            raise ConfigError(f"expected a name or a function, got {chosen!r}", where="reward")
        return chosen
    known = REWARDS.get(chosen)
    if known is None:
        raise ConfigError(
            f"there is no `{chosen}`; there are {', '.join(REWARDS)}, or give a function",
            where="reward",
        )
    return known
