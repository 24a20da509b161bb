"""Replays of pods that are changed, replaced under their names, or deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from stowplan.sim.results.files import load
from stowplan.sim.results.run import PodLife, Run
from tests.unit.recording.test_bad_recordings import HEADER, SYNCED, Json, packed, stowplan
from tests.unit.recording.test_bad_recordings import Run as Stowplan

__all__ = ["stowplan"]

END: Final = {"at": 30.0, "type": "END", "note": "stopped"}
SECOND: Final = {**HEADER, "startedAt": "2026-01-02T03:05:05Z", "session": "second"}


def entry(at: float, kind: str, obj: Json, what: str) -> Json:
    return {"at": at, "type": what, "kind": kind, "object": obj}


def node(name: str, at: float = 0.0, *, what: str = "ADDED", cpu: str = "4", **meta: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    metadata = {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}, **meta}
    return entry(at, "Node", {"metadata": metadata, "status": {"allocatable": amounts}}, what)


def pod(
    name: str,
    at: float,
    on: str = "",
    *,
    uid: str = "1",
    cpu: str = "1",
    phase: str = "",
    labels: Json | None = None,
    what: str = "",
    **spec: Any,
) -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "default-scheduler", **spec}
    if on:
        spec["nodeName"] = on
    meta = {"name": name, "namespace": "default", "uid": uid, "labels": labels or {}}
    obj: Json = {"metadata": meta, "spec": spec, "status": {"phase": phase} if phase else {}}
    return entry(at, "Pod", obj, what or ("MODIFIED" if on or phase else "ADDED"))


def deleted(kind: str, name: str, at: float) -> Json:
    meta = {"name": name} | ({} if kind == "Node" else {"namespace": "default"})
    return entry(at, kind, {"metadata": meta}, "DELETED")


class Played:
    """A replay."""

    def __init__(
        self, stowplan: Stowplan, folder: Path, *lines: Json, options: Sequence[str | Path] = ()
    ) -> None:
        self.recording = folder / "r.jsonl.gz"
        self.recording.write_bytes(packed(HEADER, *lines))
        result, log = folder / "result.json", folder / "log.jsonl"
        code, self.out, self.err = stowplan(
            "replay", self.recording, "--result", result, "--decisions", log, *options
        )
        assert code == 0, self.out
        self.run: Run = load(result)
        self.log = [json.loads(line) for line in log.read_text().splitlines()]

    def life(self, name: str) -> PodLife:
        return self.run.pods[f"default/{name}"]

    def bound(self) -> list[tuple[float, str]]:
        return [(each["at"], each["subject"]) for each in self.log if each["kind"] == "bound"]


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.1, 0.6])
@pytest.mark.parametrize("was_bound", [True, False])
def test_a_pod_replaced_under_its_name(
    stowplan: Stowplan, tmp_path: Path, *, was_bound: bool, pause: float
) -> None:
    cpu = "1" if was_bound else "9"
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("web-0", 5.0, cpu=cpu),
        deleted("Pod", "web-0", 10.0),
        pod("web-0", 10.0 + pause, uid="2"),
        END,
    )
    first = [(5.0, "pod default/web-0")] if was_bound else []
    assert played.bound() == [*first, (10.0 + pause, "pod default/web-0")]
    assert played.life("web-0").ended == 10.0
    assert list(played.run.pods) == ["default/web-0"]
    assert played.run.seconds == 30.0


def test_a_pod_replaced_under_its_name_in_real_time(stowplan: Stowplan, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    lives = (pod("web-0", 0.1), deleted("Pod", "web-0", 0.4), pod("web-0", 0.4, uid="2"))
    end = {"at": 0.8, "type": "END", "note": "stopped"}
    path.write_bytes(packed(HEADER, node("a"), SYNCED, *lives, end))
    code, out, err = stowplan("replay", path, "--speed", "1x")
    assert (code, "2 of 2 pods bound, 1 deleted;" in out) == (0, True), (out, err)


def test_room_is_free_when_the_deletion_was_recorded(stowplan: Stowplan, tmp_path: Path) -> None:
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("old", 1.0, cpu="4"),
        pod("new", 2.0, cpu="4"),
        deleted("Pod", "old", 5.0),
        END,
    )
    assert played.life("old").ended == played.life("new").bound == 5.0


def test_a_finished_pod_replaced_under_its_name(stowplan: Stowplan, tmp_path: Path) -> None:
    lives = []
    for number, at in enumerate((1.0, 11.0), 1):
        uid = str(number)
        lives += [
            pod("job", at, uid=uid),
            pod("job", at, "a", uid=uid, phase="Running"),
            pod("job", at + 4, "a", uid=uid, phase="Succeeded"),
            deleted("Pod", "job", at + 6),
        ]
    played = Played(stowplan, tmp_path, node("a"), SYNCED, *lives, END)
    assert played.bound() == [(1.0, "pod default/job"), (11.0, "pod default/job")]
    assert "2 of 2 pods bound, 2 finished;" in played.out


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_replaced_while_nothing_was_recorded(
    stowplan: Stowplan, tmp_path: Path, phase: str
) -> None:
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("web-0", 5.0),
        pod("web-0", 6.0, "a", phase="Running"),
        pod("web-0", 9.0, "a", phase=phase),
        END,
        SECOND,
        node("a"),
        pod("web-0", 0.0, uid="2", cpu="3"),
        SYNCED,
        END,
    )
    assert [at for at, _ in played.bound()] == [5.0, 60.0]
    last = dict(
        zip(played.run.samples, zip(*played.run.samples.values(), strict=True), strict=False)
    )
    assert played.run.samples["cpu"][-1] == 0.75, last


def test_scheduling_gates_are_removed(stowplan: Stowplan, tmp_path: Path) -> None:
    """With the node selector that was set at the same time, as Kueue does it."""
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        node("b"),
        SYNCED,
        pod("p", 5.0, schedulingGates=[{"name": "x.y/z"}]),
        pod("p", 10.0, what="MODIFIED", nodeSelector={"kubernetes.io/hostname": "b"}),
        END,
    )
    life = played.life("p")
    assert (life.bound, life.node) == (10.0, "b")


def affinity(**labels: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_labels_change(stowplan: Stowplan, tmp_path: Path) -> None:
    on_b: Json = {"nodeSelector": {"kubernetes.io/hostname": "b"}}
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        node("b"),
        SYNCED,
        pod("web", 1.0, **on_b),
        pod("db", 2.0, affinity=affinity(role="web")),
        pod("web", 8.0, what="MODIFIED", labels={"role": "web"}, **on_b),
        END,
    )
    life = played.life("db")
    assert (life.bound, life.node) == (8.0, "b")


@pytest.mark.parametrize(("label", "bound"), [("topology.kubernetes.io/zone", None), ("x", 2.0)])
def test_labels_of_the_recorded_node_are_not_copied(
    stowplan: Stowplan, tmp_path: Path, label: str, bound: float | None
) -> None:
    """The API server adds them to pods that are bound."""
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("web", 1.0),
        pod("web", 1.1, "a", labels={label: "recorded"}),
        pod("other", 2.0, affinity=affinity(**{label: "recorded"})),
        END,
    )
    assert played.life("other").bound == bound


def test_resized_pods(stowplan: Stowplan, tmp_path: Path) -> None:
    """Figures of the recording and of the replay follow; so does the room that is left."""
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("p", 0.0),
        pod("p", 0.0, "a"),
        pod("p", 10.0, "a", cpu="3"),
        pod("next", 20.0, cpu="2"),
        END,
    )
    recorded = load(played.recording)
    for run in (recorded, played.run):
        at, cpu = run.samples["at"], run.samples["cpu"]
        assert [cpu[at.index(moment)] for moment in (5.0, 15.0)] == [0.25, 0.75]
    assert played.life("next").bound is None


def test_changes_of_a_lost_pod_hold_for_its_replacement(stowplan: Stowplan, tmp_path: Path) -> None:
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("p", 1.0),
        deleted("Node", "a", 5.0),
        pod("p", 6.0, "a", cpu="3"),
        node("small", 8.0, cpu="2"),
        node("large", 15.0, cpu="3"),
        deleted("Pod", "p", 20.0),
        END,
    )
    again = played.life("p-r1")
    assert (again.bound, again.node, again.ended) == (15.0, "large", 20.0)


def test_replacements_do_not_take_names_of_the_recording(
    stowplan: Stowplan, tmp_path: Path
) -> None:
    """Long names stay valid."""
    long = "p" * 253
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        node("other", cpu="1"),
        pod("p-r1", 0.0, "other", uid="2", what="ADDED"),
        SYNCED,
        pod("p", 1.0),
        pod(long, 1.0, uid="3"),
        deleted("Node", "a", 5.0),
        node("b", 8.0),
        deleted("Pod", "p", 20.0),
        END,
    )
    ended = {name.split("/")[1]: life.ended for name, life in played.run.pods.items()}
    assert ended == {
        "p": 5.5,
        "p-r1": None,
        "p-r2": 20.0,
        long: 5.5,
        f"{long[:240]}-r1": None,
    }


def test_a_pod_with_the_name_of_a_replacement_is_left_out(
    stowplan: Stowplan, tmp_path: Path
) -> None:
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        SYNCED,
        pod("p", 1.0),
        deleted("Node", "a", 5.0),
        node("b", 8.0),
        pod("p-r1", 10.0, uid="2"),
        pod("p-r1", 11.0, uid="2", what="MODIFIED", labels={"role": "web"}),
        deleted("Pod", "p-r1", 12.0),
        deleted("Pod", "p", 20.0),
        END,
    )
    assert played.err == 'Warning: Pod p-r1 is left out: pods "p-r1" already exists\n'
    assert played.life("p-r1").ended == 20.0


def test_objects_that_cannot_be_created_are_left_out(stowplan: Stowplan, tmp_path: Path) -> None:
    drivers = {"metadata": {"name": "a"}, "spec": {"drivers": []}, "status": {"x": 1}}
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        entry(0.0, "CSINode", drivers, "ADDED"),
        SYNCED,
        node("b", 1.0, namespace="x"),
        node("b", 2.0),
        pod("p", 3.0),
        END,
    )
    assert played.life("p").bound == 3.0
    assert played.err.splitlines() == [
        "Warning: CSINode a is left out: the server could not find the requested resource",
        'Warning: Node b is left out: nodes "b" already exists',
    ]


def test_a_pod_is_not_replaced_in_a_namespace_that_is_gone(
    stowplan: Stowplan, tmp_path: Path
) -> None:
    """A refused change has no effect on another pod's replacement."""
    team = {"metadata": {"name": "team"}}
    homeless = pod("q", 1.0, uid="2")
    homeless["object"]["metadata"]["namespace"] = "team"
    bad = [{"key": "", "operator": "Equal"}]
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        entry(0.0, "Namespace", team, "ADDED"),
        SYNCED,
        pod("p", 1.0),
        homeless,
        pod("p", 2.0, what="MODIFIED", tolerations=bad),
        entry(3.0, "Namespace", team, "DELETED"),
        deleted("Node", "a", 5.0),
        node("b", 8.0),
        END,
    )
    assert played.err == ""
    assert played.life("p-r1").node == "b"
    assert "team/q-r1" not in played.run.pods


def test_a_replay_without_a_valid_node_fails(stowplan: Stowplan, tmp_path: Path) -> None:
    nodes, path = tmp_path / "nodes.yaml", tmp_path / "r.jsonl.gz"
    nodes.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: only}, status: {capacity: {cpu: lots}}}\n"
    )
    path.write_bytes(packed(HEADER, node("a"), SYNCED, pod("p", 1.0), END))
    code, out, err = stowplan("replay", path, "--nodes", nodes)
    assert code == 1, err
    assert "FAIL" in out
    assert "the API server rejects every node, such as only; the warnings say why. Fix: " in out
    assert "Warning: Node only is left out: " in err


def test_odd_objects_of_hand_made_recordings(stowplan: Stowplan, tmp_path: Path) -> None:
    """A volume whose claim has no name; an amount that is a number beyond 64 bits."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": {}}
    huge = pod("huge", 1.0)
    huge["object"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 10**400
    played = Played(
        stowplan,
        tmp_path,
        node("a"),
        entry(0.0, "PersistentVolume", {"metadata": {"name": "pv"}, "spec": spec}, "ADDED"),
        SYNCED,
        huge,
        pod("p", 3.0),
        END,
    )
    assert played.life("p").bound == 3.0
    assert load(played.recording).pods["default/huge"].bound is None


def test_a_node_with_a_refused_change_is_removed(stowplan: Stowplan, tmp_path: Path) -> None:
    bad = node("b", 5.0, what="MODIFIED")
    bad["object"]["status"]["allocatable"]["pods"] = "-1"
    played = Played(
        stowplan,
        tmp_path,
        node("a", cpu="1"),
        node("b"),
        SYNCED,
        bad,
        deleted("Node", "b", 10.0),
        pod("p", 12.0, cpu="2"),
        END,
    )
    assert played.life("p").bound is None


def test_a_replacement_that_is_refused_is_left_out(stowplan: Stowplan, tmp_path: Path) -> None:
    """In a recording of kube-scheduler-simulator, a pod's class is deleted before its node."""

    def line(second: int, event: str, version: str, kind: str, name: str, **more: Any) -> str:
        resource = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}
        time = f"2024-05-01T10:00:{second:02}Z"
        return json.dumps({"time": time, "event": event, "resource": resource})

    offers = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    spec = {"priorityClassName": "high", "containers": [{"name": "c", "image": "web"}]}
    classes = ("scheduling.k8s.io/v1", "PriorityClass", "high")
    path = tmp_path / "r.jsonl"
    path.write_text(
        "\n".join(
            (
                line(0, "Add", "v1", "Node", "a", status=offers),
                line(0, "Add", *classes, value=1000),
                line(1, "Add", "v1", "Pod", "p", spec=spec),
                line(2, "Delete", *classes),
                line(3, "Delete", "v1", "Node", "a"),
                line(9, "Add", "v1", "Node", "b", status=offers),
            )
        )
    )
    code, out, err = stowplan("replay", path)
    assert code == 0, out
    assert "Warning: Pod p-r1 is left out: " in err
    assert "no PriorityClass with name high was found" in err
