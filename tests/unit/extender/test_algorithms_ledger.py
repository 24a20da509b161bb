"""What algorithms keep between requests: the same answers as without, and no growth without end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.extender.algorithms import Fit, HierBAR, LeastUsedBAR, gauges
from stowplan.extender.data import AppName, Apps, NodeName, Resource, Resources
from stowplan.extender.metrics import Labels

from .memory_provider import MemoryProvider, asked, gauge

T = TypeVar("T")
FOUR = list(Resource)[:4]
NAMES = ("a", "b", "c")
Values = Mapping[str, Mapping[Labels, float]]
BY_NODE = ("node_capacity_resource", "node_used_resource", "node_free_resource")

_amounts = st.sampled_from([0.0, 0.25, 1.0, 3.0, 8.0, float("nan")])
_resources = st.dictionaries(st.sampled_from([r.value for r in FOUR]), _amounts)
_clusters = st.builds(
    MemoryProvider,
    nodes=st.dictionaries(st.sampled_from(NAMES), _resources),
    apps=st.dictionaries(st.sampled_from(["x", "y"]), _resources),
    pods=st.dictionaries(
        st.sampled_from(NAMES), st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(0, 3))
    ),
)


class Remembering(MemoryProvider):
    """Hands out the same dicts again as long as they are equal, as our own providers do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = MemoryProvider()
        self._handed_out: dict[str, Any] = {}

    def get_nodes_capacities(self, resources: Iterable[Resource]) -> dict[NodeName, Resources]:
        new = self.now.get_nodes_capacities(resources)
        return {name: self._same(f"capacity of {name}", value) for name, value in new.items()}

    def get_apps_counts(self) -> tuple[dict[NodeName, Apps], dict[AppName, int]]:
        new, _ = self.now.get_apps_counts()
        return {name: self._same(f"apps of {name}", value) for name, value in new.items()}, {}

    def get_apps_requested_resources(
        self, resources: Iterable[Resource]
    ) -> dict[AppName, Resources]:
        return self._same("needs", self.now.get_apps_requested_resources(resources))

    def _same(self, key: str, new: T) -> T:
        if self._handed_out.get(key) != new:
            self._handed_out[key] = new
        same: T = self._handed_out[key]
        return same


@given(st.lists(st.tuples(_clusters, st.sampled_from(["x", "y"])), max_size=6))
def test_what_is_kept_changes_no_answer(steps: list[tuple[MemoryProvider, str]]) -> None:
    remembering = Remembering()
    fresh_dicts = MemoryProvider()
    kept = [HierBAR(remembering, FOUR), HierBAR(fresh_dicts, FOUR)]
    for cluster, app in steps:
        remembering.now = cluster
        vars(fresh_dicts).update(vars(cluster))
        new = HierBAR(cluster, FOUR)
        request = asked(app, *NAMES)
        expected = new.filter(request), new.prioritize(request)
        for algorithm in kept:
            assert (algorithm.filter(request), algorithm.prioritize(request)) == expected
            assert_shown(new.metrics.as_dict(), algorithm.metrics.as_dict())


def assert_shown(expected: Values, found: Values) -> None:
    """Whatever a new algorithm would show, one with a past shows, too."""
    for name in (*BY_NODE, "bar_result", "fit_predicted_membw_flat_usage"):
        for labels, value in expected.get(name, {}).items():
            assert found[name][labels] == value, (name, labels)


CLUSTER = MemoryProvider(
    {"n": {"cpu": 8.0, "mem": 8.0}}, {"x": {"cpu": 1.0, "mem": 1.0}}, {"n": {"x": 2}}
)


def test_a_pod_more_is_seen() -> None:
    provider = replace(CLUSTER)
    algorithm = Fit(provider)
    algorithm.filter(asked("x", "n"))
    assert gauge(algorithm.metrics, "node_used_resource", node="n", resource="cpu") == 2.0
    provider.pods = {"n": {"x": 8}}
    assert algorithm.filter(asked("x", "n")).FailedNodes == {
        "n": "Could not fit node for dimensions: missing (cpu: 1.0),(mem: 1.0)."
    }
    assert gauge(algorithm.metrics, "node_used_resource", node="n", resource="cpu") == 8.0


def test_metrics_that_are_begun_anew_are_complete() -> None:
    algorithm = Fit(CLUSTER)
    algorithm.filter(asked("x", "n"))
    before = algorithm.metrics.as_dict()
    algorithm.reinit_metrics()
    assert algorithm.metrics.as_dict() == {}
    algorithm.filter(asked("x", "n"))
    assert algorithm.metrics.as_dict() == before


def nodes(*numbers: int) -> dict[str, dict[str, float]]:
    return {f"n{n}": {"cpu": 8.0, "mem": 8.0} for n in numbers}


def test_nodes_that_are_gone_are_forgotten() -> None:
    provider = MemoryProvider(apps=CLUSTER.apps)
    algorithm = LeastUsedBAR(provider)
    for generation in range(10):
        provider.nodes = nodes(*range(200 * generation, 200 * generation + 200))
        request = asked("x", *provider.nodes)
        assert algorithm.filter(request).NodeNames == list(provider.nodes)
        algorithm.prioritize(request)
    shown = algorithm.metrics.as_dict()
    assert len(shown["node_used_resource"]) <= 2 * (200 + 200)
    assert len(shown["bar_result"]) <= 200 + 200
    assert gauge(algorithm.metrics, "node_free_resource", node="n1999", resource="mem") == 8.0
    assert gauge(algorithm.metrics, "bar_score", app="x", node="n1999") == 1.0


def test_apps_are_shown_with_nodes_only_while_they_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gauges, "MOST_PAIRS", 100)
    apps = {f"x{n}": {"cpu": 1.0, "mem": 1.0} for n in range(10)}
    algorithm = LeastUsedBAR(MemoryProvider(nodes(*range(30)), apps))
    for app in [*apps, "x8"]:
        algorithm.prioritize(asked(app, *(f"n{n}" for n in range(30))))
    shown = {dict(labels)["app"] for labels in algorithm.metrics.as_dict()["bar_mean"]}
    # Of three apps with 30 nodes each there are 90 pairs, of four there would be 120.
    assert shown == {"x7", "x9", "x8"}
    # What an app needs is shown of all of them.
    assert len(algorithm.metrics.as_dict()["app_requested_resource"]) == 20
