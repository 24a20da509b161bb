"""Scenarios: what happens in a cluster, step by step, on a virtual, embedded or real one.

`run_scenario` plays an `async def scenario(cluster)` on a target and returns what came of it.
"""

from stowplan.scenarios.cluster import Cluster
from stowplan.scenarios.run import Options, run_scenario
from stowplan.scenarios.timeline import Entry, EntryKind, Expectation, Outcome

__all__ = ["Cluster", "Entry", "EntryKind", "Expectation", "Options", "Outcome", "run_scenario"]
