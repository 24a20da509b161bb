"""Scenarios in tests: the plugins under test in a scheduler on any target, virtual by default."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.framework.plugin import Plugin
from stowplan.sim.scenarios import Cluster, Options, Outcome, run_scenario
from stowplan.testing.cluster import configured
from stowplan.testing.faults import Faults


def play(
    scenario: Callable[[Cluster], Awaitable[None]],
    plugins: Iterable[type[Plugin]] = (),
    *,
    on: str = "virtual",
    args: Mapping[str, Mapping[str, Any]] | None = None,
    config: KubeSchedulerConfiguration | str | Path | None = None,
    defaults: bool = True,
    seed: int = 0,
) -> Outcome:
    """Play it, and raise AssertionError if it failed or an expectation was not met."""
    made, registry = configured(tuple(plugins), args, config, defaults, Faults())
    options = Options(config=made, registry=registry, seed=seed)
    outcome = run_scenario(scenario, on=on, options=options)
    wrong = [outcome.problem] if outcome.problem else []
    wrong += [
        f"{each.where}{': ' if each.where else ''}expected: {each.text}; found: {each.found}"
        for each in outcome.expectations
        if not each.is_met
    ]
    if wrong:
        raise AssertionError("\n".join(wrong))
    return outcome
