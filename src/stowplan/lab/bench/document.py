"""Everything that was measured, as plain data for `-o json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any

import msgspec

from stowplan.lab.bench.figures import KUBE, RAW, RAW_EVENTS, Run, WorkloadRuns
from stowplan.lab.bench.results import Measured

#: Fields of a run that are no figures.
_NO_FIGURES = ("contestant", "round", "binds_over_time")


def document(all_measured: Sequence[Measured]) -> dict[str, Any]:
    return {"workloads": [_workload(one) for one in all_measured]}


def _workload(measured: Measured) -> dict[str, Any]:
    outcome = measured.outcome
    ratios = {below: outcome.ratio(below) for below in (KUBE, RAW, RAW_EVENTS)}
    return {
        "setup": msgspec.to_builtins(measured.setup) | {"title": measured.setup.title},
        "valid": outcome.is_valid,
        "invalid_rounds": {str(number): why for number, why in outcome.invalid.items()},
        "disturbed_runs": len(outcome.disturbed),
        "mixture": measured.mixture,
        "contestants": {name: _figures(outcome, name) for name in outcome.contestants},
        "ratios": {below: asdict(ratio) for below, ratio in ratios.items() if ratio is not None},
        "runs": [
            {
                "about": msgspec.to_builtins(result.about),
                "run": msgspec.to_builtins(result.run),
            }
            for result in measured.results
        ],
    }


def _figures(outcome: WorkloadRuns, contestant: str) -> dict[str, Any]:
    figures = {}
    for field in Run.__struct_fields__:
        if field in _NO_FIGURES:
            continue
        spread = outcome.spread(contestant, attrgetter(field))
        if spread is not None:
            figures[field] = asdict(spread)
    return figures
