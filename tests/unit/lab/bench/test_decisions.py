"""The decision benchmark on tiny clusters: what it plays, not how fast."""

from __future__ import annotations

import json

import pytest

from stowplan.lab.bench.decisions import (
    DecisionCase,
    DecisionCost,
    LoadedEngine,
    document,
    main,
    measure,
    measure_plugins,
    plugin_table,
    scenarios,
    table,
)
from stowplan.lab.bench.synthetic import HOPELESS, KINDS, as_informed, existing_pods


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_every_kind_are_placed_and_confirmed_or_wait(kind: str) -> None:
    stage = LoadedEngine(DecisionCase("test", kind, nodes=30, existing=60))
    stage.play(12)
    cache, counts = stage.engine.cache, stage.engine.queue.counts
    is_hopeless = kind in HOPELESS
    assert cache.pod_count == (60 if is_hopeless else 72)
    assert counts.unschedulable == (12 if is_hopeless else 0)
    assert cache.assumed_count == 0
    assert counts.in_flight == 0
    stage.clear()
    assert cache.pod_count == 60


def test_a_measurement_has_every_figure() -> None:
    result = measure(DecisionCase("test", nodes=10, existing=10, pods=5), rounds=2)
    assert len(result.rounds_us) == 2
    assert result.decision_us == min(result.rounds_us) > 0
    assert result.pods_per_s == pytest.approx(1e6 / result.decision_us)
    assert min(result.afterwards_us, result.first_us) > 0
    assert result.ledger_us is None
    with_ledger = measure(DecisionCase("test", nodes=10, existing=10, pods=5), 1, ledger=True)
    assert with_ledger.ledger_us is not None
    assert "ledger us" in table([with_ledger])
    assert "ledger us" not in table([result])


def test_plugins_are_told_apart() -> None:
    costs = measure_plugins(DecisionCase("test", "soft spreading", nodes=10, existing=50, pods=5))
    assert costs["PodTopologySpread"] > costs["NodeName"] > 0
    assert "PodTopologySpread" in plugin_table({"soft spreading": costs})


def test_tables_and_json() -> None:
    results = [
        DecisionCost(each, 100.0, [100.0, 120.0], 20.0, 3e3) for each in scenarios(quick=True)
    ]
    lines = table(results).splitlines()
    assert sum("10,000" in line for line in lines) == len(results)
    told = json.loads(json.dumps(document(results, {})))
    assert told["results"][0]["scenario"]["kind"] == "one shape"


def test_a_name_that_nothing_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_standing_pods_are_dealt_out_evenly_and_informed_pods_are_equal() -> None:
    standing = list(existing_pods(6, 3))
    assert [pod.spec.node_name for pod in standing[:4]] == [
        "node-00000",
        "node-00001",
        "node-00002",
        "node-00000",
    ]
    again = as_informed(standing[0])
    assert again == standing[0]
    assert again.spec is not standing[0].spec
