"""What hostile pods leave behind goes when they are gone, and is within budgets before that."""

from __future__ import annotations

import pytest

from stowplan.cluster import bytes_lru, compiled
from stowplan.cluster.table import NodeTable
from stowplan.lab.bench.attack_trial import AttackedCluster, AttackTrial, Report
from stowplan.lab.bench.hostile import ATTACKS, Attack, decoded

_MIB = 1 << 20
#: As much smaller than in the benchmark as the cluster is.
_NODES, _PODS, _FACTOR = 100, 200, 0.2
_PLAIN_PODS = 400


def _kept_bytes(table: NodeTable) -> int:
    return (
        table.labels.nbytes
        + table.pod_classes.nbytes
        + table.counters.nbytes
        + table.class_weights.nbytes
        + table.domains.nbytes
        + table.affinity_terms.nbytes
        + compiled.kept_bytes()
    )


@pytest.fixture(autouse=True)
def caches_forget_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for some thousand events need not be waited for here."""
    monkeypatch.setattr(bytes_lru, "IDLE_TICKS", 256)
    monkeypatch.setattr(compiled, "_small", bytes_lru.BytesLru(16 << 20, ticks_by_use=True))
    monkeypatch.setattr(compiled, "_large", bytes_lru.BytesLru(24 << 20, idle_ticks=256))
    monkeypatch.setattr(compiled, "_spelled", bytes_lru.BytesLru(24 << 20, idle_ticks=256))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize("is_standing", [False, True], ids=["pending", "standing"])
def test_caches_are_as_large_as_before(attack: Attack, is_standing: bool) -> None:
    cluster = AttackedCluster(_NODES, _PODS, 50)
    table = cluster.engine.cache.table
    trial = AttackTrial(cluster, Report())
    for _ in range(_PLAIN_PODS):
        trial.plain_pod()
    before = _kept_bytes(table), len(table.pod_classes), table.requested.nbytes
    for serial in range(3):
        trial.create(
            decoded(attack.manifest(_FACTOR, serial), node="node-00007" if is_standing else "")
        )
        assert _kept_bytes(table) < 64 * _MIB
        trial.delete()
    for _ in range(_PLAIN_PODS):
        trial.plain_pod()
    after = _kept_bytes(table), len(table.pod_classes), table.requested.nbytes
    assert after[1:] == before[1:]
    assert after[0] <= before[0] + 4096
    assert not len(table.affinity_terms.required)
    assert not len(table.affinity_terms.required_anti)
    assert not len(table.affinity_terms.preferred)
