"""Public import path of `stowplan.sim.gym`."""

from stowplan.sim import gym as _package
from stowplan.sim.gym import ENV_ID, REWARDS, ClusterEnv, Reward, Step

__all__ = ["ENV_ID", "REWARDS", "ClusterEnv", "Reward", "Step"]
__path__ = _package.__path__
