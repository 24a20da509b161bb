"""Two agents that need not learn: the emptiest feasible node, or with --most the fullest.

python examples/gym/least_allocated.py --trace batch --nodes 100 --pods 2000
python examples/gym/least_allocated.py --most --trace batch --nodes 100 --pods 2000
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from random_agent import Observation, Policy, main


def least_allocated(seed: int) -> Policy:
    """What kube-scheduler does by default, as far as an observation tells."""
    return lambda observation: int(np.nanargmin(_fullness(observation)))


def most_allocated(seed: int) -> Policy:
    return lambda observation: int(np.nanargmax(_fullness(observation)))


def _fullness(observation: Observation) -> NDArray[np.float64]:
    """Requested of allocatable CPU and memory, on average, with the pod there; NaN: infeasible."""
    full = np.full(len(observation["action_mask"]), np.nan)
    feasible = observation["action_mask"] == 1
    requested = observation["requested"][feasible, :2] + observation["pod_requests"][:2]
    full[feasible] = (requested / observation["allocatable"][feasible, :2]).mean(axis=1)
    return full


if __name__ == "__main__":
    if "--most" in sys.argv:
        sys.argv.remove("--most")
        main(most_allocated, "The fullest feasible node.")
    else:
        main(least_allocated, "The emptiest feasible node.")
