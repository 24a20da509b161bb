"""Live parity: one mixture of 500 pods, the same node or the same refusal from both schedulers.

Each scheduler has a fresh real control plane. Plugins that Stowplan does not have are disabled on
both sides, so the comparison grows with the registry.
"""

from __future__ import annotations

import pytest

from tests.controlplane_fixtures import require_binaries
from tests.e2e.live_mixture import Mixture
from tests.e2e.live_play import KUBE_SCHEDULER, SHARED, STOWPLAN, Play, play
from tests.e2e.live_report import UNSEEN, differences, messages_of, seen_plugins, table
from tests.e2e.live_wakeups import epilogue

pytestmark = pytest.mark.e2e


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_pod_of_the_mixture_ends_as_with_kube_scheduler() -> None:
    require_binaries(
        "etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler"
    )
    mixture = Mixture(seed=1)
    theirs = await play(KUBE_SCHEDULER, mixture)
    ours = await play(STOWPLAN, mixture)
    found = differences(theirs, ours)
    assert not found, table(found, theirs)
    assert len(theirs.pods) == 500
    _check_that_the_mixture_says_something(theirs)


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
