"""DramHitRatioProvision, StaticAssigner and Score: which nodes stay, and which pods move."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import pytest

from stowplan.extender.algorithms import DramHitRatioProvision, Score, StaticAssigner
from stowplan.extender.data import NodeType, Resource
from stowplan.logs import V4

from .memory_provider import MemoryProvider, asked, gauge

VIOLATION = "Could not fit node because of dram hit ratio violation."


# DramHitRatioProvision


def test_dram_hit_ratio() -> None:
    # The threshold is 0.97: below it is a violation, and to reach it is enough.
    provider = MemoryProvider(dram_hit_ratio={"low": 0.96, "at": 0.97, "high": 1.0})
    algorithm = DramHitRatioProvision(provider)
    result = algorithm.filter(asked("whatever", "high", "low", "at"))
    assert result.NodeNames == ["high", "at"]
    assert result.FailedNodes == {"low": VIOLATION}
    assert gauge(algorithm.metrics, "node_dram_hit_ratio_can_schedule", node="low") == 0
    assert gauge(algorithm.metrics, "node_dram_hit_ratio_can_schedule", node="at") == 1
    assert str(algorithm.prioritize(asked("whatever", "low", "high"))) == "[high=0, low=0]"


def test_dram_hit_ratio_with_another_threshold_and_without_an_app() -> None:
    provider = MemoryProvider(dram_hit_ratio={"n": 0.5})
    assert DramHitRatioProvision(provider, threshold=0.5).filter(asked(None, "n")).NodeNames == [
        "n"
    ]
    assert DramHitRatioProvision(provider).filter(asked(None, "n")).FailedNodes == {"n": VIOLATION}


def test_an_unknown_dram_hit_ratio_is_not_judged() -> None:
    algorithm = DramHitRatioProvision(MemoryProvider(dram_hit_ratio={"nan": math.nan}))
    assert algorithm.filter(asked("a", "nan", "stranger")).NodeNames == ["nan", "stranger"]
    assert gauge(algorithm.metrics, "nodes_not_judged", reason="unknown_dram_hit_ratio") == 2


# StaticAssigner


@pytest.mark.parametrize(
    ("node", "app", "reason"),
    [
        # The table: one: {a: 2, b: 1, c: 0}; on it are one a, one b and three d.
        ("one", "a", None),
        ("one", "b", "app b count on node one already matching self.targeted_assigned_apps_counts"),
        ("one", "c", "app c count on node one already matching self.targeted_assigned_apps_counts"),
        # More of them than there should be is no reason for another.
        ("one", "d", "app d count on node one already matching self.targeted_assigned_apps_counts"),
        ("one", "e", "app e not specified in self.targeted_assigned_apps_counts"),
        ("one", None, "app None not specified in self.targeted_assigned_apps_counts"),
        ("two", "a", "node two not specified in self.targeted_assigned_apps_counts"),
        # Nothing is known to be on it.
        ("new", "a", None),
    ],
)
def test_static_assigner(node: str, app: str | None, reason: str | None) -> None:
    provider = MemoryProvider(pods={"one": {"a": 1, "b": 1, "d": 3}})
    algorithm = StaticAssigner(provider, {"one": {"a": 2, "b": 1, "c": 0, "d": 2}, "new": {"a": 1}})
    result = algorithm.filter(asked(app, node))
    assert result.FailedNodes == ({} if reason is None else {node: reason})
    assert result.NodeNames == ([node] if reason is None else [])
    assert str(algorithm.prioritize(asked(app, node))) == f"[{node}=0]"


# Score

NODES = {"pmem": {"cpu": 10.0, "mem": 100.0}, "dram": {"cpu": 10.0, "mem": 10.0}}
SMALL = {"cpu": 1.0, "mem": 1.0}
CLUSTER = MemoryProvider(
    NODES,
    {"cold": SMALL, "warm": SMALL, "hot": SMALL, "new": SMALL},
    dram_hit_ratio={"pmem": 0.99},
    profiles={"cold": 0.5, "warm": 1.5, "hot": 4.0},
    types={"pmem": "pmem", "dram": NodeType.DRAM},
)


@pytest.mark.parametrize(
    ("app", "target", "kept"),
    [
        # Without a target the app with the lowest profile is for persistent memory.
        ("cold", None, ["pmem"]),
        ("warm", None, ["dram"]),
        ("hot", None, ["dram"]),
        # With one all at or below it.
        ("cold", 1.5, ["pmem"]),
        ("warm", 1.5, ["pmem"]),
        ("hot", 1.5, ["dram"]),
        # An app without a profile is not.
        ("new", 9.0, ["dram"]),
    ],
)
def test_score_keeps_nodes_of_the_kind_that_suits_the_app(
    app: str, target: float | None, kept: list[str]
) -> None:
    result = Score(CLUSTER, score_target=target).filter(asked(app, "dram", "pmem"))
    assert result.NodeNames == kept
    # The others are left out without a reason.
    assert result.FailedNodes == {}


def test_what_does_not_suit_an_app_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(V4, logger="stowplan.extender"):
        Score(CLUSTER).filter(asked("hot", "dram", "pmem"))
        Score(CLUSTER).filter(asked("cold", "dram", "pmem"))
    reasons = [(kv["node"], kv["reason"]) for kv in told(caplog, "Left out a node")]
    assert reasons == [
        ("pmem", "'hot' not preferred for pmem type of node"),
        ("dram", "'cold' not preferred for dram type of node"),
    ]


def told(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [record.__dict__["kv"] for record in caplog.records if record.message == message]


def test_score_counts_cpus_of_persistent_memory_by_the_factor() -> None:
    # 10 * 0.05 = 0.5 CPUs: 0.5 - 1 = -0.5.
    result = Score(replace(CLUSTER, pmem_nodes=("pmem",)), cpu_scale_factor=0.05).filter(
        asked("cold", "dram", "pmem")
    )
    # Nothing of the right kind is left, so the other is good enough.
    assert result.NodeNames == ["dram"]
    assert result.FailedNodes == {"pmem": "Could not fit node for dimensions: missing (cpu: 0.5)."}


def test_two_profiles_are_too_few() -> None:
    cluster = replace(CLUSTER, profiles={"cold": 0.5, "hot": 4.0})
    assert Score(cluster).filter(asked("cold", "dram", "pmem")).NodeNames == ["dram"]
    assert Score(cluster, score_target=1.0).filter(asked("cold", "dram", "pmem")).NodeNames == [
        "dram"
    ]


def test_no_node_of_the_right_kind() -> None:
    lenient = Score(CLUSTER).filter(asked("hot", "pmem"))
    assert (lenient.NodeNames, lenient.FailedNodes) == (["pmem"], {})
    strict = Score(CLUSTER, strict_mode_placement=True).filter(asked("hot", "pmem"))
    assert (strict.NodeNames, strict.FailedNodes) == ([], {})


def test_nodes_of_unknown_kind_suit_nobody() -> None:
    cluster = replace(CLUSTER, types={"pmem": "tape", "dram": "unknown"})
    strict = Score(cluster, strict_mode_placement=True)
    assert strict.filter(asked("hot", "pmem", "dram", "stranger")).NodeNames == []
    lenient = Score(cluster)
    assert lenient.filter(asked("hot", "pmem", "dram")).NodeNames == ["pmem", "dram"]


def test_room_and_dram_hit_ratio_of_score() -> None:
    cluster = replace(
        CLUSTER,
        apps={"cold": {"cpu": 11.0, "mem": 1.0}, "warm": SMALL, "hot": SMALL},
        dram_hit_ratio={"pmem": 0.9, "dram": 0.0},
    )
    no_room = "Could not fit node for dimensions: missing (cpu: 1.0)."
    # The ratio of a node without persistent memory plays no part.
    assert Score(cluster).filter(asked("cold", "pmem", "dram")).FailedNodes == {
        "pmem": f"{no_room} {VIOLATION}",
        "dram": no_room,
    }
    assert Score(cluster).filter(asked("hot", "pmem", "dram")).FailedNodes == {"pmem": VIOLATION}
    assert Score(cluster, threshold=0.9).filter(asked("hot", "pmem", "dram")).FailedNodes == {}


def test_score_rates_all_nodes_0() -> None:
    assert str(Score(CLUSTER).prioritize(asked("cold", "pmem", "dram"))) == "[dram=0, pmem=0]"


def rescheduled(cluster: MemoryProvider, **more: Any) -> list[str]:
    return Score(cluster, **more).reschedule()


def test_pods_that_change_places() -> None:
    # hot does not suit persistent memory, cold does; warm is where it belongs.
    pods = {"pmem": {"hot": 2}, "dram": {"cold": 1, "warm": 1}}
    assert rescheduled(replace(CLUSTER, pods=pods)) == [
        "hot-pmem-0",
        "hot-pmem-1",
        "cold-dram-0",
    ]


def test_nobody_leaves_for_nobody() -> None:
    # There is nobody who could use the room on the node with persistent memory.
    assert rescheduled(replace(CLUSTER, pods={"pmem": {"hot": 2}, "dram": {"warm": 1}})) == []


def test_as_many_move_as_there_is_room_for(caplog: pytest.LogCaptureFixture) -> None:
    # 10 CPUs: 6 of cold stay, 3 of hot leave, so there is room for 10 - 6 = 4 pods of one CPU
    # each. cold suits better than warm: both of its pods move, and two of the three of warm.
    pods = {"pmem": {"cold": 6, "hot": 3}, "dram": {"warm": 3, "cold": 2}}
    with caplog.at_level(logging.WARNING, logger="stowplan.extender"):
        moved = rescheduled(replace(CLUSTER, pods=pods), score_target=1.5)
    assert moved == [
        "hot-pmem-0",
        "hot-pmem-1",
        "hot-pmem-2",
        "cold-dram-0",
        "cold-dram-1",
        "warm-dram-0",
        "warm-dram-1",
    ]
    [left] = caplog.records
    assert left.__dict__["kv"] == {"count": 1, "pods": ["warm-dram-2"]}


def test_room_is_reckoned_with_the_coupled_bandwidth_and_scaled_cpus() -> None:
    # The node reads 40 and writes 10. One pod that reads 10 and writes 2 leaves
    # 40 - (10 + 8) = 22 and 10 - (2 + 2.5) = 5.5, two leave 4 and 1, three do not fit.
    loud = {"cpu": 1.0, "mem": 1.0, "membw_read": 10.0, "membw_write": 2.0}
    node = {"cpu": 100.0, "mem": 100.0, "membw_read": 40.0, "membw_write": 10.0}
    cluster = replace(
        CLUSTER,
        nodes={"pmem": node, "dram": node},
        apps={"cold": loud},
        pods={"dram": {"cold": 3}},
        pmem_nodes=("pmem",),
    )
    dimensions = list(Resource)[:4]
    assert rescheduled(cluster, dimensions=dimensions) == ["cold-dram-0", "cold-dram-1"]
    # 1 CPU of 100 is all that counts: one pod.
    moved = rescheduled(cluster, dimensions=dimensions, cpu_scale_factor=0.01)
    assert moved == ["cold-dram-0"]


def test_a_pod_moves_once_though_two_nodes_have_room() -> None:
    cluster = replace(
        CLUSTER,
        nodes=NODES | {"pmem-2": NODES["pmem"]},
        types={"pmem": "pmem", "pmem-2": "pmem", "dram": "dram"},
        pods={"dram": {"cold": 1}},
    )
    assert rescheduled(cluster) == ["cold-dram-0"]


def test_apps_of_unknown_needs_stay() -> None:
    pods = {"pmem": {"ghost": 1}, "dram": {"cold": 1}, "elsewhere": {"hot": 1}}
    assert rescheduled(replace(CLUSTER, pods=pods)) == ["cold-dram-0"]


def test_without_nodes_of_either_kind_nobody_moves() -> None:
    pods = {"pmem": {"hot": 2}, "dram": {"cold": 1}}
    assert rescheduled(replace(CLUSTER, pods=pods, types={})) == []
    assert rescheduled(replace(CLUSTER, pods=pods, types={"dram": "dram"})) == []
