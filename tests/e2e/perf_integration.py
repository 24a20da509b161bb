"""Upstream's small scheduler_perf workloads on the real control plane: `make perf-integration`.

Not collected by a plain run of pytest: each starts a control plane of its own, minutes in all. The
small ones about devices alone: `make perf-integration PYTEST_ARGS="-k 'dra/ and not pods_'"`.
"""

from __future__ import annotations

import pytest

from stowplan.sim.scenarios.run import run_scenario
from stowplan.sim.scenarios.workload_cluster import workload_options, workload_scenario
from tests.integration.test_workloads_played import workloads


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("title", workloads())
def test_a_workload_is_played_on_the_real_control_plane(title: str) -> None:
    workload = workloads()[title]
    options = workload_options(workload)
    outcome = run_scenario(workload_scenario(workload), on="real", options=options)
    assert outcome.problem == ""
    assert outcome.counts["bound"] >= workload.measured > 0
