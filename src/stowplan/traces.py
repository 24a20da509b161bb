"""Public import path of `stowplan.sim.traces`."""

from stowplan.sim import traces as _package
from stowplan.sim.traces import (
    Arrival,
    Disruption,
    Event,
    Removal,
    Revision,
    Trace,
    combined,
    generate,
    load_trace,
)

__all__ = [
    "Arrival",
    "Disruption",
    "Event",
    "Removal",
    "Revision",
    "Trace",
    "combined",
    "generate",
    "load_trace",
]
__path__ = _package.__path__
