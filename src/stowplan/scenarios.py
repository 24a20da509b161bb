"""Public import path of `stowplan.sim.scenarios`."""

from stowplan.sim import scenarios as _package
from stowplan.sim.scenarios import (
    Cluster,
    Entry,
    EntryKind,
    Expectation,
    Options,
    Outcome,
    play_trace,
    run_scenario,
)

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
__path__ = _package.__path__
