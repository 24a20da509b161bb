"""Replays of pods that were deleted after their end, and of pods that were deleted before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.sim.scenarios import Cluster, run_scenario
from stowplan.sim.scenarios.trace_play import play_trace
from stowplan.sim.traces import Arrival, Disruption, Event
from tests.unit.recording.test_bad_recordings import SYNCED, Json
from tests.unit.recording.test_bad_recordings import Run as Stowplan
from tests.unit.sim.gym.clusters import some_node, some_pod, trace_of
from tests.unit.sim.traces.test_recorded_pods import Played, deleted, entry, node, pod, stowplan

__all__ = ["stowplan"]

END: Json = {"at": 60.0, "type": "END", "note": "stopped"}


def job(
    name: str, at: float, *, runs_s: float, on: str = "a", uid: str = "", **more: Any
) -> list[Json]:
    """A pod that runs at once, succeeds, and is deleted a second later."""
    uid = uid or name
    return [
        pod(name, at, uid=uid, **more),
        pod(name, at, on, uid=uid, phase="Running", **more),
        pod(name, at + runs_s, on, uid=uid, phase="Succeeded", **more),
        deleted("Pod", name, at + runs_s + 1),
    ]


def sorted_by_time(*lines: Json) -> list[Json]:
    return sorted(lines, key=lambda line: line["at"])


def test_a_pod_that_starts_later_runs_to_its_end(stowplan: Stowplan, tmp_path: Path) -> None:
    """Two jobs ran at once on two nodes; with the nodes of the replay they run in turn."""
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: only}, status: {allocatable:"
        " {cpu: '4', memory: 8Gi, pods: '10'}}}\n"
    )
    lines = sorted_by_time(
        *job("first", 1.0, runs_s=20.0, cpu="3"), *job("second", 2.0, runs_s=20.0, on="b", cpu="3")
    )
    played = Played(
        stowplan, tmp_path, node("a"), node("b"), SYNCED, *lines, END, options=("--nodes", nodes)
    )
    first, second = played.life("first"), played.life("second")
    assert second.bound == first.ended
    assert (first.bound, first.ended, second.ended) == (1.0, 21.5, 42.0)
    assert "default/second" not in played.out, "it is deleted when it has finished"


def test_a_cleaned_up_pod_makes_way_for_the_next_one_of_its_name(
    stowplan: Stowplan, tmp_path: Path
) -> None:
    lines = sorted_by_time(
        pod("large", 0.5, cpu="3", uid="large"),
        *job("daily", 1.0, runs_s=5.0, cpu="3"),
        *job("daily", 10.0, runs_s=5.0, uid="2", cpu="1"),
    )
    played = Played(stowplan, tmp_path, node("a"), SYNCED, *lines, END)
    assert played.bound() == [(0.5, "pod default/large"), (10.0, "pod default/daily")]
    assert "2 of 3 pods bound, 1 finished, 1 deleted;" in played.out


def test_a_pod_that_was_deleted_while_it_ran_is_deleted_then(
    stowplan: Stowplan, tmp_path: Path
) -> None:
    """kubelets report a final phase of such pods, too."""
    stopped = pod("web", 9.0, "a", phase="Succeeded")
    stopped["object"]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:13Z"
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("web", 1.0),
        pod("web", 1.0, "a", phase="Running"),
        stopped,
        deleted("Pod", "web", 10.0),
        END,
    )
    assert played.life("web").ended == 10.0


def test_the_finished_replacement_of_a_pod_is_deleted(stowplan: Stowplan, tmp_path: Path) -> None:
    lines = sorted_by_time(*job("p", 1.0, runs_s=8.0), deleted("Node", "a", 5.0), node("b", 6.0))
    played = Played(stowplan, tmp_path, node("a"), SYNCED, *lines, END)
    assert played.life("p-r1").bound == 7.0
    assert "default/p-r1" not in played.out


def test_a_cleaned_up_pod_goes_with_its_namespace(stowplan: Stowplan, tmp_path: Path) -> None:
    team = {"metadata": {"name": "team"}}
    lines = job("job", 1.0, runs_s=5.0, cpu="3")
    for line in lines:
        line["object"]["metadata"]["namespace"] = "team"
    story = [
        node("a"),
        entry(0.0, "Namespace", team, "ADDED"),
        pod("large", 0.0, "a", cpu="3", what="ADDED"),
        SYNCED,
        *lines,
        entry(20.0, "Namespace", team, "DELETED"),
        END,
    ]
    played = Played(stowplan, tmp_path, *story)
    assert (played.err, list(played.run.pods)) == ("", ["default/large", "team/job"])
    (tmp_path / "scenario.yaml").write_text("steps:\n- workload: {trace: r.jsonl.gz}\n")
    code, _, err = stowplan("simulate", tmp_path / "scenario.yaml")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("placed_at", [1.0, None])
def test_a_cleaned_up_pod_that_waits_goes_with_its_claim(
    stowplan: Stowplan, tmp_path: Path, placed_at: float | None
) -> None:
    """One that runs needs the claim no more."""
    volume = {
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data"},
            "hostPath": {"path": "/data"},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv",
            "storageClassName": "",
        },
        "status": {"phase": "Bound"},
    }
    cpu = "3" if placed_at is None else "1"
    uses = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        entry(0.0, "PersistentVolume", volume, "ADDED"),
        entry(0.0, "PersistentVolumeClaim", claim, "ADDED"),
        pod("large", 0.0, "a", cpu="3", uid="large", what="ADDED"),
        SYNCED,
        *job("job", 1.0, runs_s=5.0, cpu=cpu, volumes=uses),
        deleted("PersistentVolumeClaim", "data", 10.0),
        deleted("Pod", "large", 30.0),
        END,
    )
    life = played.life("job")
    assert (life.bound, life.ended) == (placed_at, 6.5 if placed_at else 10.0)


def test_a_pod_that_is_lost_after_the_last_end_comes_again() -> None:
    events: list[Event] = [
        some_pod(0, "job", run_s=5.0),
        some_pod(0, "web"),
        Arrival(100, some_node("b")),
        Disruption(200, "drain", "a"),
    ]
    trace = trace_of([some_node("a")], events)

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace)

    outcome = run_scenario(scenario)
    assert outcome.placements.get("default/web-r1") == "b", outcome.placements
