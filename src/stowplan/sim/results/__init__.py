"""Results of runs, to be compared: recordings as they were, replays and scenarios.

`observing` follows pods and nodes and makes a `Run`, `files` writes and reads it, `comparing` sets
runs side by side, `conditions` evaluates `--fail-on`, and `page` draws it all.
"""

from stowplan.sim.results.files import load
from stowplan.sim.results.run import Run

__all__ = ["Run", "load"]
