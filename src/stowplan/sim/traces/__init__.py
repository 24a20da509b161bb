"""Traces: a cluster and what happens to it over time, made up from a seed or read from files.

`generate` makes synthetic ones; `csv_trace`, `recorder` and `simulator_export` read those of
others; `load_trace` picks the reader. A `Trace` is data that can be walked again and again, in the
order of time; `scenarios.trace_play` plays it. Nothing here opens a socket or reads a clock.
"""

from stowplan.sim.traces.generate import generate
from stowplan.sim.traces.load import load_trace
from stowplan.sim.traces.model import Arrival, Disruption, Event, Removal, Revision, Trace, combined

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
