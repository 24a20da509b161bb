"""Decisions by a plugin that reads annotations or status of pods on the node (`Reads.PODS`).

Its cached columns must follow updates that change nothing else of a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.views import NodeView
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import unschedulable
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, profile_of

NODES = [f"n{number}" for number in range(8)]


class Quiet(Plugin):
    """Refuses nodes that hold an unwanted pod; prefers those with the lowest number."""

    name = "Quiet"
    reads = Reads.PODS
    verdicts = (unschedulable("node(s) held an unwanted pod"),)

    def __init__(self, is_unwanted: Callable[[Pod], bool]) -> None:
        super().__init__()
        self._is_unwanted = is_unwanted
        self.asked = 0

    def sign(self, info: PodInfo) -> Hashable:
        return ()

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        table = cycle.table
        for row in np.arange(table.capacity)[rows].tolist():
            pods = table.pods[row].values() if row < len(table.pods) else ()
            out[row] = any(self._is_unwanted(info.pod) for info in pods)


class QuietBothForms(Quiet):
    """With the per-node form too, by which few changed rows are refreshed."""

    def filter(self, pod: Pod, node: NodeView) -> Any:
        self.asked += 1
        return not any(map(self._is_unwanted, node.pods)) or self.verdicts[0]


class QuietScore(Plugin):
    """The same as a score."""

    name = "QuietScore"
    reads = Reads.PODS

    def __init__(self, is_unwanted: Callable[[Pod], bool]) -> None:
        super().__init__()
        self._is_unwanted = is_unwanted

    def sign(self, info: PodInfo) -> Hashable:
        return ()

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        table = cycle.table
        for row in np.arange(table.capacity)[rows].tolist():
            pods = table.pods[row].values() if row < len(table.pods) else ()
            out[row] = 0 if any(self._is_unwanted(info.pod) for info in pods) else 100


def _is_annotated(each: Pod) -> bool:
    return (each.metadata.annotations or {}).get("noisy") == "yes"


def _is_running(each: Pod) -> bool:
    return each.status.phase == "Running"


ANNOTATED = pytest.param(_is_annotated, {"annotations": {"noisy": "yes"}}, id="annotation")
RUNNING = pytest.param(_is_running, {"phase": "Running"}, id="phase")


def _standing(name: str, **changes: Any) -> Pod:
    return pod(f"on-{name}", uid=f"on-{name}", node=name, cpu="1", **changes)


def _cluster() -> ClusterCache:
    """One node is free, the next best hold a pod each."""
    return cluster([node(name, cpu="8") for name in NODES], [_standing(name) for name in NODES[1:]])


@pytest.mark.parametrize("plugin", [Quiet, QuietBothForms, QuietScore])
@pytest.mark.parametrize(("is_unwanted", "change"), [ANNOTATED, RUNNING])
@pytest.mark.parametrize("limit_bytes", [1 << 22, 0])
def test_an_update_of_a_standing_pod_changes_where_the_next_pod_goes(
    plugin: Callable[[Callable[[Pod], bool]], Plugin],
    is_unwanted: Callable[[Pod], bool],
    change: dict[str, Any],
    limit_bytes: int,
) -> None:
    cache = _cluster()
    judging = plugin(is_unwanted)
    columns = ColumnCache(limit_bytes)
    profile = profile_of(judging, *defaults(), weights={judging.name: 100}, columns=columns)

    def choose() -> str | None:
        return decide(cache.table, compile_pod(pod("new", cpu="1")), profile).node

    # Three times the same: by then everything that is cached has been used.
    assert {choose() for _ in range(3)} == {"n0"}
    cache.add_pod(_standing("n0"))
    assert choose() is not None
    for name in NODES[:-1]:
        cache.update_pod(_standing(name, **change))
        assert choose() not in NODES[: NODES.index(name) + 1], name
    assert choose() == NODES[-1]


def test_updates_of_annotations_and_status_refresh_no_rows_of_in_tree_plugins() -> None:
    cache = _cluster()
    profile = profile_of(*defaults(), columns=ColumnCache())
    for _ in range(3):
        decide(cache.table, compile_pod(pod("new", cpu="1")), profile)
    asked: list[str] = []
    steps: list[FilterStep | ScoreStep] = [*profile.filters, *profile.scores]
    for step in steps:
        for method in ("fill", "status_of_row", "score_of_row"):
            if hasattr(step, method):
                setattr(step, method, lambda *_, name=step.name: asked.append(name))
    for name in NODES[1:]:
        cache.update_pod(_standing(name, annotations={"noisy": "yes"}))
        cache.update_pod(_standing(name, annotations={"noisy": "yes"}, phase="Running"))
    assert decide(cache.table, compile_pod(pod("new", cpu="1")), profile).node == "n0"
    assert asked == []


def test_only_the_rows_of_updated_pods_are_asked_again() -> None:
    cache = _cluster()
    quiet = QuietBothForms(_is_annotated)
    profile = profile_of(quiet, *defaults(), columns=ColumnCache())
    for _ in range(3):
        decide(cache.table, compile_pod(pod("new", cpu="1")), profile)
    quiet.asked = 0
    cache.update_pod(_standing("n3", phase="Running"))
    decide(cache.table, compile_pod(pod("new", cpu="1")), profile)
    assert quiet.asked == 1
