"""Scenarios: what happens in a cluster, step by step, on a virtual, embedded or real one.

`run_scenario` plays an `async def scenario(cluster)` on a target and returns what came of it.
"""

from stowplan.sim.scenarios.cluster import Cluster
from stowplan.sim.scenarios.run import Options, run_scenario
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Expectation, Outcome
from stowplan.sim.scenarios.trace_play import play_trace

__all__ = [
    "Cluster",
    "Entry",
    "EntryKind",
    "Expectation",
    "Options",
    "Outcome",
    "play_trace",
    "run_scenario",
]
