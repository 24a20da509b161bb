"""Live parity: mixtures of 500 pods, the same node or the same refusal from both schedulers.

One with PostFilter plugins off, and a more crowded one with the default profile, where also the
victims of each preemption are the same, and what is said of them.
Each scheduler has a fresh real control plane. Plugins that Stowplan does not have are disabled on
both sides, so the comparison grows with the registry.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane_fixtures import require_binaries
from tests.e2e.live_crowd import Crowd
from tests.e2e.live_mixture import Mixture
from tests.e2e.live_play import KUBE_SCHEDULER, SHARED, STOWPLAN, Play, play
from tests.e2e.live_report import (
    UNSEEN,
    differences,
    messages_of,
    preemptors_of,
    seen_plugins,
    table,
)
from tests.e2e.live_wakeups import epilogue

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]


async def test_every_pod_of_the_mixture_ends_as_with_kube_scheduler() -> None:
    theirs = await _the_same_play(Mixture(seed=1), preemption=False)
    _check_that_the_mixture_says_something(theirs)


async def test_every_pod_of_the_crowd_has_the_same_victims_as_with_kube_scheduler() -> None:
    theirs = await _the_same_play(Crowd(seed=1), preemption=True)
    _check_that_the_mixture_says_something(theirs)
    assert "DefaultPreemption" in seen_plugins(theirs)
    preemptors = preemptors_of(theirs)
    assert len(preemptors) >= 30
    assert sum(len(outcome.victims) > 1 for outcome in preemptors) >= 5
    for saying in (
        "No preemption victims found for incoming pod",
        "Preemption is not helpful for scheduling",
        "not eligible due to preemptionPolicy=Never",
    ):
        assert sum(saying in message for message in messages_of(theirs)) >= 3, saying


async def _the_same_play(mixture: Mixture, *, preemption: bool) -> Play:
    """As kube-scheduler played it."""
    require_binaries(
        "etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler"
    )
    # Both wait for their API servers most of the time.
    theirs, ours = await asyncio.gather(
        play(KUBE_SCHEDULER, mixture, preemption=preemption),
        play(STOWPLAN, mixture, preemption=preemption),
    )
    found = differences(theirs, ours)
    assert not found, table(found, theirs)
    assert len(theirs.pods) == 500
    return theirs


def _check_that_the_mixture_says_something(result: Play) -> None:
    """Equal is not enough if nothing was decided."""
    placed = [outcome for outcome in result.pods.values() if outcome.node]
    assert len(placed) >= 250
    assert len(result.pods) - len(placed) >= 100
    assert len(messages_of(result)) >= 20
    assert len({outcome.node for outcome in placed}) >= 40
    assert set(SHARED) - seen_plugins(result) <= set(UNSEEN)
    assert all(outcome.node for outcome in result.woken.values())
    for act in epilogue().acts:
        if act.plugin in SHARED:
            assert result.woken[act.pod["metadata"]["name"]].reason == "Unschedulable"
