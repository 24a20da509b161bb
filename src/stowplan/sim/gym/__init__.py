"""A Gymnasium environment: an agent chooses the node of every pod of a trace (docs/gym.md).

`import stowplan.gym` registers `stowplan/Cluster-v0`. Gymnasium is an optional extra; nothing else
of Stowplan imports this package.
"""

try:
    import gymnasium
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "stowplan.gym needs Gymnasium, which is not installed: pip install 'stowplan[gym]'",
        name=missing.name,
    ) from None

from stowplan.sim.gym.environment import ClusterEnv
from stowplan.sim.gym.rewards import REWARDS, Reward, Step

__all__ = ["ENV_ID", "REWARDS", "ClusterEnv", "Reward", "Step"]

ENV_ID = "stowplan/Cluster-v0"

if ENV_ID not in gymnasium.registry:
    gymnasium.register(ENV_ID, entry_point="stowplan.sim.gym.environment:ClusterEnv")
