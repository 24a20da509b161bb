"""The soak's arithmetic and its objects; the soak itself is in tests/e2e/test_soak.py."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stowplan.lab.bench import soak
from stowplan.lab.bench.churn_objects import (
    ARRIVALS_PER_NEW_GROUP,
    CROWD_KEY,
    GROUPS,
    NODE_CPUS,
    SHARES,
    NodeLayout,
    PodKind,
    PodMaker,
    kind_of,
    node_name,
)
from stowplan.lab.bench.soak_figures import (
    GROWTH_MIB,
    Sample,
    SoakOutcome,
    allowed_growth,
    count_log_lines,
    document,
    faults,
    fit,
    memory_line,
    p99,
    table,
)
from stowplan.lab.bench.soak_sampler import chosen_series


def sample(at_s: float, rss_mib: float = 100.0) -> Sample:
    return Sample(
        at_s=at_s,
        rss_mib=rss_mib,
        cpu_cores=0.25,
        created_per_s=50.0,
        bound_per_s=48.0,
        deleted_per_s=47.0,
        waiting=7,
        bind_p99_s=0.02,
        event_lag_p99_s=None,
        health_s=0.003,
    )


def outcome(**fields: Any) -> SoakOutcome:
    good = SoakOutcome(
        samples=[sample(at) for at in range(0, 100, 5)],
        warm_up_s=30.0,
        raw_per_s=2500.0,
        rate=500.0,
        created=1000,
        bound=1000,
        deleted=900,
        preempted=10,
        never_bound=1,
        unbound=(),
        overfull=(),
        agrees=True,
        log_lines={"W": {}, "E": {}},
        events_dropped=0,
    )
    return replace(good, **fields)


def test_a_line_through_points() -> None:
    line = fit([(10.0, 7.0), (20.0, 9.0), (30.0, 11.0)])
    assert line.slope == pytest.approx(0.2)
    assert line.mean == pytest.approx(9.0)
    assert line.growth == pytest.approx(4.0)


def test_noise_around_a_level_is_no_growth() -> None:
    line = fit([(float(x), 100.0 + (-1) ** x) for x in range(101)])
    assert abs(line.growth) < 0.1


def test_memory_counts_after_the_warm_up_only() -> None:
    rising_then_flat = [sample(at, 50.0 + min(at, 30.0)) for at in range(0, 100, 5)]
    line = memory_line(rising_then_flat, 30.0)
    assert line is not None
    assert line.growth == pytest.approx(0.0)
    assert memory_line(rising_then_flat, 90.0) is None, "two samples make no line"


def test_a_quiet_run_has_no_faults() -> None:
    assert faults(outcome()) == []


def test_memory_that_grows_is_a_fault() -> None:
    allowed = [sample(at, 100.0 + at * GROWTH_MIB / 100) for at in range(0, 100, 5)]
    assert faults(outcome(samples=allowed)) == []
    leaking = [sample(at, 100.0 + at * GROWTH_MIB / 50) for at in range(0, 100, 5)]
    (fault,) = faults(outcome(samples=leaking))
    assert fault.startswith("memory grew by 10.4 MiB in 1.1 minutes")


def test_a_large_process_may_grow_by_more() -> None:
    line = memory_line([sample(at, 1000.0) for at in range(0, 100, 5)], 0.0)
    assert line is not None
    assert allowed_growth(line) == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"samples": []}, "too few samples after the warm-up to say anything about memory"),
        ({"bound": 0}, "nothing to see: 0 binds, 10 preempted"),
        ({"preempted": 0}, "nothing to see: 1000 binds, 0 preempted"),
        ({"unbound": ["a", "b"]}, "2 pods were not bound: a, b"),
        ({"overfull": list("abcdefg")}, "7 nodes are overfull: a, b, c, d, e, ..."),
        ({"agrees": None}, "the scheduler did not compare its cache when asked"),
        ({"agrees": False}, "the scheduler's cache and the API server differ; see its log"),
        ({"events_dropped": 3}, "3 events were dropped"),
        (
            {"log_lines": {"W": {}, "E": {"oh": 2}}},
            "error in the log, 2 times: oh",
        ),
    ],
)
def test_each_fault_by_itself(fields: dict[str, object], fault: str) -> None:
    assert faults(outcome(**fields)) == [fault]


def test_log_lines_by_severity() -> None:
    lines = [
        'I1115 10:32:48.448123   26849 process.py:244] "Stopping" binds=0\n',
        'W1115 10:32:48.448123   26849 watch.py:24] "Slow" err="oh"\n',
        'W1115 10:32:48.448123   26849 watch.py:24] "Slow" err="ah"\n',
        'E1115 10:32:48.448123   26849 loop.py:1] "A \\"bad\\" day" stacktrace=<\n',
        "\tTraceback (most recent call last):\n",
        "Traceback (most recent call last):\n",
    ]
    found = count_log_lines(lines)
    assert found["W"] == {"Slow": 2}
    assert found["E"] == {'A \\"bad\\" day': 1, "(a traceback outside the log)": 1}


def test_the_table_tells_what_was_seen() -> None:
    warnings = {"W": {"Slow": 2}, "E": {}}
    text = table(outcome(log_lines=warnings, agrees=False))
    assert "1,000, 1,000, 900" in text
    assert "100.0 MiB" in text
    assert "50 (500)" in text
    assert "48 (2500)" in text
    assert "20 ms" in text
    assert "DIFFER" in text
    assert "warning, 2 times" in text
    assert "no answer" in table(outcome(samples=[], agrees=None))


def test_everything_is_in_the_json() -> None:
    text = document(outcome(log_lines={"W": {"Slow": 2}, "E": {"oh": 1}}), {"nodes": 20})
    read = json.loads(text)
    assert (read["nodes"], read["bound"], read["log_lines"]["W"]) == (20, 1000, {"Slow": 2})
    assert read["faults"] == ["error in the log, 1 times: oh"]
    assert read["memory"]["mean"] == 100.0
    assert len(read["samples"]) == 20


def test_the_value_that_99_percent_do_not_exceed() -> None:
    assert p99([]) is None
    assert p99([3.0]) == 3.0
    assert p99([float(n) for n in range(1, 201)]) == 198.0


def test_series_that_are_kept() -> None:
    text = (
        "# TYPE scheduler_pending_pods gauge\n"
        'scheduler_pending_pods{queue="active"} 3\n'
        "# TYPE stowplan_events_dropped_total counter\n"
        "stowplan_events_dropped_total 2\n"
        "# TYPE other gauge\n"
        "other 1\n"
    )
    assert chosen_series(text) == {
        "scheduler_pending_pods,active": 3.0,
        "stowplan_events_dropped_total": 2.0,
    }


def test_pods_that_wait_and_nodes_that_hold_too_much() -> None:
    def pod(name: str, cpu: str, node: str = "") -> dict[str, object]:
        container = {"resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container]} | ({"nodeName": node} if node else {})
        return {"metadata": {"name": name}, "spec": spec}

    pods = [pod("a", "4", "full"), pod("b", "4", "over"), pod("c", "1m", "over"), pod("d", "1")]
    assert soak.judge_pods(pods) == (["d"], ["over"])


def test_every_kind_of_pod_is_made_with_a_name_of_its_own() -> None:
    maker = PodMaker(NodeLayout(40), seed=1)
    pods = [maker.arrival() for _ in range(2000)] + [
        maker.make(PodKind.LOW),
        maker.make(PodKind.HIGH),
    ]
    names = [pod["metadata"]["name"] for pod in pods]
    assert len(set(names)) == len(names)
    assert {kind_of(name) for name in names} == set(PodKind)
    assert sum(SHARES.values()) == 100


def test_same_seed_same_pods() -> None:
    one, other = PodMaker(NodeLayout(40), seed=7), PodMaker(NodeLayout(40), seed=7)
    assert [one.arrival() for _ in range(50)] == [other.arrival() for _ in range(50)]


def test_the_crowd_has_nodes_of_its_own_and_just_fits() -> None:
    layout = NodeLayout(250)
    nodes = [layout.node(number) for number in range(layout.nodes)]
    crowded = [node for node in nodes if CROWD_KEY in node["metadata"]["labels"]]
    assert len(crowded) == layout.crowded == 2
    assert all(node["spec"]["taints"][0]["key"] == CROWD_KEY for node in crowded)
    assert layout.crowd_places == 2 * NODE_CPUS
    assert node_name(min(layout.ordinary())) not in {node["metadata"]["name"] for node in crowded}


def test_groups_come_back_and_slowly_change() -> None:
    maker = PodMaker(NodeLayout(40), seed=1)

    def groups(arrivals: int) -> set[str]:
        pods = [maker.arrival() for _ in range(arrivals)]
        labels = [pod["metadata"]["labels"].get("group", "") for pod in pods]
        return {label for label in labels if label.startswith(PodKind.SPREAD)}

    first = groups(ARRIVALS_PER_NEW_GROUP)
    second = groups(ARRIVALS_PER_NEW_GROUP)
    assert len(first) == len(second) == GROUPS
    assert len(first - second) == len(second - first) == 1


@pytest.mark.parametrize(
    "arguments",
    [["--nodes", "9"], ["--minutes", "0"], ["--rate", "-1"], ["--minutes", "0.1"]],
)
def test_the_command_line_refuses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        soak.main(arguments)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err
