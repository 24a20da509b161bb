"""Simulation: virtual time, scenarios, traces, results, sweeps and a Gymnasium environment.

`stowplan.scenarios`, `stowplan.traces` and `stowplan.gym` are the public import paths; `load` reads
results as DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.sim.frames import Results

__all__ = ["load"]


def load(
    paths: str | Path | Iterable[str | Path], *, prices: Mapping[str, float] | None = None
) -> Results:
    """Results, recordings and folders of sweeps, as DataFrames (docs/sweep.md).

    Needs pandas: `pip install 'stowplan[data]'`. Raises ConfigError.
    """
    from stowplan.sim.frames import load_results

    return load_results(paths, prices=prices)
