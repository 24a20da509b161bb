"""The hot path does no more work than it did: counts against recorded ceilings, no clock."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.perf.counting import KINDS, decision_work, live_work
from tests.perf.record import CEILINGS

_ceilings: dict[str, dict[str, float]] = tomllib.loads(CEILINGS.read_text())
_ADVICE = "see tests/perf/ceilings.toml on how to record new ones"


def _excess(counted: dict[str, float], ceilings: dict[str, float]) -> dict[str, Any]:
    """What costs more than it may."""
    return {
        name: f"{count:.2f} a pod, at most {ceilings.get(name, 0)}"
        for name, count in counted.items()
        if count > ceilings.get(name, 0)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_decision_does_no_more_work_than_recorded(kind: str) -> None:
    assert _excess(decision_work(kind), _ceilings[kind]) == {}, _ADVICE


async def test_a_bound_pod_needs_no_more_requests_than_recorded() -> None:
    assert _excess(await live_work(), _ceilings["live"]) == {}, _ADVICE


def test_every_ceiling_is_of_something() -> None:
    assert set(_ceilings) == {*KINDS, "live"}
