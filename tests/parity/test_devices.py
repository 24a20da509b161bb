"""A fixed sample of questions about devices: DynamicResources and its allocator beside upstream's.

`make parity` asks 10,000 and 200 histories, with any seed; see tests/parity/__main__.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane_fixtures import require_binaries
from tests.parity.fuzz import Batch, missing_of_devices, run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SEED = 1
CASES = 400
HISTORIES = 10
#: So few questions do not show everything that `make parity` must.
RARE = {
    "error: unsupported ResourceSlice.NodeSelector",
    "reason: resource claim ..., request ...: unknown request type",
}


def test_every_answer_about_devices_is_the_oracles() -> None:
    """One test, because the run takes a while: all that it has to say is said at once."""
    oracle: Path = require_binaries("oracle")["oracle"]
    done = Batch()
    for batch in run(oracle, seed=SEED, device_cases=CASES, device_histories=HISTORIES):
        done.add(batch)
    assert (done.device_cases, done.device_histories) == (CASES, HISTORIES)
    problems = [f"{finding.origin}: {finding.difference}" for finding in done.findings[:5]]
    absent = set(missing_of_devices(done, least=CASES)) - RARE
    problems += [f"no hit: {what}" for what in sorted(absent)]
    assert not problems, "\n".join(problems)
