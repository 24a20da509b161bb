"""The attack on the engine: valid pods, whole lives, limits that stop a trial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stowplan.lab.bench.attack import AttackCase, forked, line, main, misses, run_case
from stowplan.lab.bench.attack_search import fitted
from stowplan.lab.bench.attack_trial import AttackedCluster, Report, time_trial
from stowplan.lab.bench.hostile import ATTACKS, Attack, decoded, pod_manifest, stored_size
from stowplan.lab.bench.hostile_sizes import POD_SIZES, sized_pod


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_hostile_pod_is_valid_at_four_times_its_size(attack: Attack) -> None:
    pod, larger = decoded(attack.manifest(1)), attack.manifest(4)
    assert decoded(larger).uid == pod.uid
    assert stored_size(larger) > 3 * stored_size(attack.manifest(1))


def test_a_pod_that_etcd_would_refuse_is_refused() -> None:
    labels = {f"key-{index}": "v" * 60 for index in range(25_000)}
    with pytest.raises(ValueError, match="etcd takes 1572864"):
        decoded(pod_manifest(0, nodeSelector=labels))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_hostile_pod_lives_from_creation_to_deletion(attack: Attack) -> None:
    cluster = AttackedCluster(20, 40, 4)
    pods = cluster.engine.cache.pod_count
    for is_standing in (False, True):
        report = Report()
        time_trial(cluster, lambda n: attack.manifest(0.005, n), report, is_standing=is_standing)
        assert not report.problem
        assert {"informer add", "informer delete"} <= report.pieces.keys()
        assert ("decision" in report.pieces) is not is_standing
        assert report.wait_s >= report.longest_s > 0
        assert report.outcome
        # Neither the hostile pod nor a plain one is left.
        assert cluster.engine.cache.pod_count == pods
        assert not cluster.engine.queue.counts.active


def test_both_trials_of_a_case_are_in_its_line() -> None:
    case = AttackCase(ATTACKS[1], 0.005, 4, is_standing=False)
    report = run_case(AttackedCluster(20, 40, 4), case, 60, memory=True)
    assert report.rise_mib is not None
    assert report.rise_mib > 0
    assert not misses(report)
    assert line(case, report).endswith("none")


def test_a_trial_that_takes_too_long_is_stopped_and_keeps_what_it_found() -> None:
    def endless(report: Report) -> None:
        report.wait_s = 7.0
        while True:
            report.cpu_s += 1

    report = forked(endless, 0.05)
    assert report.wait_s == 7.0
    assert misses(report) == ["stopped after 0 s", "wait"]


def test_the_command_writes_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "attack.json"
    small = ["--nodes", "20", "--pods", "40", "--label-sets", "4", "--factors", "0.005"]
    assert main([*small, "--only", "node selector", "--json", str(file)]) == 0
    assert "2 cases, 0 miss a target" in capsys.readouterr().out
    cases = json.loads(file.read_text())["cases"]
    assert [each["is_standing"] for each in cases] == [False, True]
    assert main(["--only", "nothing of this name"]) == 2


def test_the_search_begins_with_each_size_alone_and_reports_the_worst(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--nodes", "10", "--pods", "20", "--label-sets", "4"]
    assert main([*small, "--search", "2", "--limit", "1"]) in (0, 1)
    shown = capsys.readouterr()
    assert "pods were tried" in shown.err
    assert "pending wait" in shown.out
    assert "standing wait" in shown.out


@pytest.mark.parametrize("size", POD_SIZES)
def test_sizes_are_cut_to_what_the_api_server_takes(size: str) -> None:
    sizes = fitted({"containers": 15_000, size: 5_000})
    decoded(sized_pod(sizes))
    assert sizes["containers"] > 3_000
