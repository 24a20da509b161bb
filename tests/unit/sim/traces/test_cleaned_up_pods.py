"""Replays of pods that were deleted after their end, and of pods that were deleted before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.recording.test_bad_recordings import SYNCED, Json
from tests.unit.recording.test_bad_recordings import Run as Stowplan
from tests.unit.sim.traces.test_recorded_pods import Played, deleted, node, pod, stowplan

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
