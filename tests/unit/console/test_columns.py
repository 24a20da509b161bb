"""Columns of nodes: their size, and that a layout with changes equals a new snapshot."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.api.objects import Condition
from stowplan.api.resources import NODES, PODS
from stowplan.config.defaults import default_config
from stowplan.console.columns import CORDONED, NOT_READY, TAINTED, NodeColumns, node_details
from stowplan.console.history import KEPT_S, NodeHistory
from stowplan.console.mirror import ClusterMirror, mirror_of
from stowplan.testing import node, pod
from tests.console_stage import busy_stage

UNREADY = Condition(type="Ready", status="False")


def mirror_with(nodes: int) -> ClusterMirror:
    mirror = mirror_of(default_config())
    for number in range(nodes):
        mirror.put(NODES, node(f"n{number}", cpu=8, zone=f"z{number % 3}"))
    return mirror


def test_5000_nodes_take_less_than_300_kilobytes() -> None:
    stage = busy_stage(nodes=5000)
    shown = NodeColumns(stage.mirror.table, "boot").snapshot()
    assert len(shown["names"]) == 5000
    assert len(msgspec.json.encode(shown)) < 300_000


def test_changes_bring_a_snapshot_up_to_date() -> None:
    mirror = mirror_with(20)
    columns = NodeColumns(mirror.table, "boot")
    known: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(columns.snapshot()))
    rng = Random(1)
    for number in range(60):
        placed = pod(f"p{number % 15}", uid=f"u{number % 15}", cpu=1, node=f"n{rng.randrange(20)}")
        mirror.remove(PODS, placed)
        if number % 3:
            mirror.put(PODS, placed)
        assert not columns.refresh()
        change = columns.changes()
        if change is not None:
            assert change["layout"] == known["layout"]
            for place, row in enumerate(change["rows"]):
                known["pods"][row] = change["pods"][place]
                for at, column in enumerate(known["used"]):
                    column[row] = change["used"][at][place]
        assert known == columns.snapshot()
    assert columns.changes() is None


def test_the_layout_changes_with_labels_and_nodes_but_not_with_heartbeats() -> None:
    mirror = mirror_with(3)
    columns = NodeColumns(mirror.table, "boot")
    assert columns.refresh()
    first = columns.layout
    old = mirror.table.node(0)
    beat = replace(old.status.conditions[0], message="again") if old.status.conditions else None
    assert beat is not None
    mirror.put(NODES, replace(old, status=replace(old.status, conditions=(beat,))))
    assert not columns.refresh()
    mirror.put(NODES, node("n0", cpu=8, zone="elsewhere"))
    assert columns.refresh()
    assert columns.layout != first
    mirror.remove(NODES, node("n1"))
    assert columns.snapshot()["names"] == ["n0", "n2"]


def test_the_past_is_shown_on_the_nodes_of_today() -> None:
    mirror = mirror_with(3)
    columns = NodeColumns(mirror.table, "boot")
    history = NodeHistory(columns)
    assert history.at(100.0) is None
    columns.refresh()
    placed = [pod(f"p{number}", cpu=1, memory="1Gi", node="n1") for number in range(3)]
    for second, each in zip((100.0, 110.0, 112.0), placed, strict=True):
        mirror.put(PODS, each)
        history.record(second)
    mirror.remove(NODES, node("n0"))
    mirror.put(NODES, node("n9", resources={"example.com/gpu": 2}))
    columns.refresh()
    assert columns.names == ["n1", "n2", "n9"]
    for asked, kept, pods in ((0.0, 100.0, 1), (109.0, 100.0, 1), (110.0, 110.0, 2), (1e9, 110, 2)):
        shown = history.at(asked)
        assert shown is not None
        assert (shown["time"], shown["pods"]) == (kept, [pods, 0, 0])
        assert shown["layout"] == columns.layout
        used = dict(zip(columns.resources, shown["used"], strict=True))
        assert used["memory"] == [1024 * pods, 0, 0]
        assert used["example.com/gpu"] == [0, 0, 0]
    history.record(100.0 + KEPT_S + 60)
    shown = history.at(0.0)
    assert shown is not None
    assert shown["time"] == 100.0 + KEPT_S + 60


def test_flags_groups_and_one_node() -> None:
    mirror = mirror_of(default_config())
    mirror.put(NODES, node("a", cpu=4, zone="z1", unschedulable=True))
    mirror.put(NODES, node("b", cpu=4, taints=["k=v:NoSchedule"], conditions=[]))
    mirror.put(NODES, node("c", cpu=4, labels={"rack": "7"}, conditions=[UNREADY]))
    mirror.put(PODS, pod("web", cpu="1500m", memory="2Gi", node="a"))
    columns = NodeColumns(mirror.table, "boot")
    shown = columns.snapshot("rack")
    assert shown["flags"] == [CORDONED, TAINTED, NOT_READY]
    assert shown["group"] == {"key": "rack", "values": ["", "7"], "of": [0, 0, 1]}
    assert dict(zip(shown["resources"], shown["used"], strict=True))["memory"] == [2048, 0, 0]
    details = node_details(mirror.table, "a")
    assert details is not None
    assert details["usage"][0] == {"resource": "cpu", "used": "1500m", "of": "4", "share": 0.375}
    assert details["pods"][0]["requests"] == {"cpu": "1500m", "memory": "2Gi"}
    assert node_details(mirror.table, "nowhere") is None
