"""Fit and BaseAlgorithm, with the sums worked out by hand beside each case."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stowplan.extender import Algorithm, ExtenderArgs, ExtenderFilterResult, HostPriority
from stowplan.extender.algorithms import BaseAlgorithm, Fit, NOPAlgorithm, QueriedData
from stowplan.extender.data import Resource

from .memory_provider import MemoryProvider, asked, gauge

CPU, MEM = Resource.CPU, Resource.MEM
READ, WRITE = Resource.MEMBW_READ, Resource.MEMBW_WRITE

WEB = {"cpu": 3.0, "mem": 4.0}
DB = {"cpu": 1.0, "mem": 10.0}


def fit(nodes: Any, apps: Any, pods: Any, dimensions: Any = (CPU, MEM), **more: Any) -> Fit:
    return Fit(MemoryProvider(nodes, apps, pods), dimensions, **more)


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        # 10 - 3 = 7 CPUs and 20 - 4 = 16 GB are left.
        ({}, None),
        # Two web: 10 - 2*3 - 3 = 1 and 20 - 2*4 - 4 = 8.
        ({"web": 2}, None),
        # Two web and one db: 10 - 6 - 1 - 3 = 0, which is not below 0; 20 - 8 - 10 - 4 = -2.
        (
            {"web": 2, "db": 1},
            "Could not fit node for dimensions: missing (mem: 2.0).",
        ),
        # Three web: 10 - 9 - 3 = -2; 20 - 12 - 4 = 4.
        ({"web": 3}, "Could not fit node for dimensions: missing (cpu: 2.0)."),
        # Two web and three db: 10 - 6 - 3 - 3 = -2; 20 - 8 - 30 - 4 = -22.
        (
            {"web": 2, "db": 3},
            "Could not fit node for dimensions: missing (cpu: 2.0),(mem: 22.0).",
        ),
    ],
)
def test_fit_by_cpu_and_memory(pods: dict[str, int], reason: str | None) -> None:
    algorithm = fit({"n": {"cpu": 10.0, "mem": 20.0}}, {"web": WEB, "db": DB}, {"n": pods})
    result = algorithm.filter(asked("web", "n"))
    if reason is None:
        assert result == ExtenderFilterResult(NodeNames=["n"])
    else:
        assert result == ExtenderFilterResult(NodeNames=[], FailedNodes={"n": reason})


@pytest.mark.parametrize(
    ("already", "reason"),
    [
        # The node reads 40 and writes 10, so r = 4; the app reads 10 and writes 2.
        # One pod: 40 - (10 + 2*4) = 22 and 10 - (2 + 10/4) = 5.5.
        (0, None),
        # Two: 40 - (20 + 4*4) = 4 and 10 - (4 + 20/4) = 1.
        (1, None),
        # Three: 40 - (30 + 6*4) = -14 and 10 - (6 + 30/4) = -3.5. Without the coupling
        # 40 - 30 and 10 - 6 would have been enough.
        (
            2,
            "Could not fit node for dimensions: missing (membw_read: 14.0),(membw_write: 3.5).",
        ),
    ],
)
def test_reads_and_writes_share_the_bandwidth(already: int, reason: str | None) -> None:
    node = {"cpu": 100.0, "mem": 100.0, "membw_read": 40.0, "membw_write": 10.0}
    app = {"cpu": 1.0, "mem": 1.0, "membw_read": 10.0, "membw_write": 2.0}
    algorithm = fit({"n": node}, {"a": app}, {"n": {"a": already}}, (CPU, MEM, READ, WRITE))
    assert algorithm.filter(asked("a", "n")).FailedNodes == (
        {} if reason is None else {"n": reason}
    )


def test_cpus_of_nodes_with_persistent_memory_are_scaled() -> None:
    # Half of 10 CPUs is 5: 5 - 6 = -1 on the node with persistent memory, 10 - 6 = 4 elsewhere.
    provider = MemoryProvider(
        {"pmem": {"cpu": 10.0, "mem": 10.0}, "dram": {"cpu": 10.0, "mem": 10.0}},
        {"a": {"cpu": 6.0, "mem": 1.0}},
        pmem_nodes=("pmem",),
    )
    result = Fit(provider, cpu_scale_factor=0.5).filter(asked("a", "pmem", "dram"))
    assert result.NodeNames == ["dram"]
    assert result.FailedNodes == {"pmem": "Could not fit node for dimensions: missing (cpu: 1.0)."}
    # The provider's own numbers stay as they were.
    assert provider.nodes["pmem"]["cpu"] == 10.0


def test_fit_rates_all_nodes_0_by_name() -> None:
    algorithm = fit({"b": {"cpu": 1.0, "mem": 1.0}}, {"a": {"cpu": 0.5, "mem": 0.5}}, {})
    assert algorithm.prioritize(asked("a", "b", "a")) == [
        HostPriority("a", 0),
        HostPriority("b", 0),
    ]


def test_gauges_of_fit() -> None:
    node = {"cpu": 100.0, "mem": 50.0, "membw_read": 40.0, "membw_write": 10.0}
    app = {"cpu": 1.0, "mem": 2.0, "membw_read": 10.0, "membw_write": 2.0}
    algorithm = fit({"n": node}, {"a": app}, {"n": {"a": 1}}, (CPU, MEM, READ, WRITE))
    algorithm.filter(asked("a", "n"))
    shown = algorithm.get_metrics_registry()
    assert gauge(shown, "app_requested_resource", app="a", resource="mem") == 2.0
    assert gauge(shown, "node_capacity_resource", node="n", resource="cpu") == 100.0
    assert gauge(shown, "node_used_resource", node="n", resource="membw_write") == 2.0
    # 40 - (10 + 2*4) = 22; 10 - (2 + 10/4) = 5.5; as one number 22 + 4*5.5 = 44.
    assert gauge(shown, "node_free_resource", node="n", resource="membw_read") == 22.0
    assert gauge(shown, "node_free_resource", node="n", resource="membw_write") == 5.5
    assert gauge(shown, "fit_predicted_membw_flat_usage", app="a", node="n") == 44.0
    assert set(algorithm.get_metrics_names()) == {
        "app_requested_resource",
        "node_capacity_resource",
        "node_used_resource",
        "node_free_resource",
        "fit_predicted_membw_flat_usage",
    }
    algorithm.reinit_metrics()
    assert algorithm.get_metrics_names() == []


# What is not known is not judged


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"metadata": {"labels": {"app": "nobody"}}}, "unknown_app"),
        ({"metadata": {"labels": {"app": "hollow"}}}, "unknown_app"),
        ({"metadata": {"labels": {"app": ""}}}, "no_app_label"),
        ({"metadata": {"labels": {"app": 7}}}, "no_app_label"),
        ({"metadata": {"labels": {}}}, "no_app_label"),
        ({"metadata": {"labels": None}}, "no_app_label"),
        ({"metadata": {"labels": ["app"]}}, "no_app_label"),
        ({"metadata": []}, "no_app_label"),
        ({}, "no_app_label"),
        (None, "no_app_label"),
        ("pod", "no_app_label"),
    ],
)
def test_pods_of_which_nothing_is_known_are_left_alone(pod: Any, reason: str) -> None:
    algorithm = fit({"n": {"cpu": 0.0, "mem": 0.0}}, {"hollow": {}}, {})
    args = ExtenderArgs(None, pod, ["n", "m"])
    assert algorithm.filter(args) == ExtenderFilterResult(NodeNames=["n", "m"])
    assert algorithm.prioritize(args) == [HostPriority("m", 0), HostPriority("n", 0)]
    # Both requests are counted, and nothing else is shown: strangers leave no labels behind.
    assert algorithm.metrics.as_dict() == {"pods_not_judged": {(("reason", reason),): 2.0}}


def test_an_unknown_node_is_accepted_and_counted() -> None:
    algorithm = fit({"n": {"cpu": 1.0, "mem": 1.0}}, {"a": {"cpu": 2.0, "mem": 0.0}}, {})
    result = algorithm.filter(asked("a", "master", "n"))
    assert result.NodeNames == ["master"]
    assert list(result.FailedNodes) == ["n"]
    assert gauge(algorithm.metrics, "nodes_not_judged", reason="unknown_node") == 1


@pytest.mark.parametrize(
    ("node", "app", "fits"),
    [
        # Memory of the node is unknown: CPU alone decides.
        ({"cpu": 2.0}, {"cpu": 2.0, "mem": 9.0}, True),
        ({"cpu": 1.0}, {"cpu": 2.0, "mem": 9.0}, False),
        # Memory that the app needs is unknown.
        ({"cpu": 2.0, "mem": 1.0}, {"cpu": 2.0}, True),
        # What is no number is unknown.
        ({"cpu": 2.0, "mem": math.nan}, {"cpu": 2.0, "mem": 9.0}, True),
        ({"cpu": 2.0, "mem": 1.0}, {"cpu": 2.0, "mem": math.inf}, True),
    ],
)
def test_an_unknown_dimension_is_left_out(node: Any, app: Any, fits: bool) -> None:
    algorithm = fit({"n": node}, {"a": app}, {"n": {"a": 0}})
    assert (algorithm.filter(asked("a", "n")).NodeNames == ["n"]) is fits
    assert gauge(algorithm.metrics, "nodes_not_judged", reason="unknown_dimension") == 1


def test_half_of_a_bandwidth_is_not_judged() -> None:
    node = {"cpu": 1.0, "mem": 1.0, "membw_read": 1.0}
    app = {"cpu": 1.0, "mem": 1.0, "membw_read": 5.0, "membw_write": 5.0}
    algorithm = fit({"n": node}, {"a": app}, {}, (CPU, MEM, READ, WRITE))
    assert algorithm.filter(asked("a", "n")).NodeNames == ["n"]


def test_a_node_without_bandwidth_takes_who_needs_none() -> None:
    node = {"cpu": 1.0, "mem": 1.0, "membw_read": 0.0, "membw_write": 0.0}
    quiet = {"cpu": 1.0, "mem": 1.0, "membw_read": 0.0, "membw_write": 0.0}
    loud = quiet | {"membw_write": 2.0}
    algorithm = fit({"n": node}, {"quiet": quiet, "loud": loud}, {}, (CPU, MEM, READ, WRITE))
    assert algorithm.filter(asked("quiet", "n")).NodeNames == ["n"]
    assert algorithm.filter(asked("loud", "n")).FailedNodes == {
        "n": "Could not fit node for dimensions: missing (membw_write: 2.0)."
    }


def test_unknown_apps_on_a_node_use_nothing_and_are_counted() -> None:
    algorithm = fit(
        {"n": {"cpu": 1.0, "mem": 1.0}}, {"a": {"cpu": 1.0, "mem": 1.0}}, {"n": {"x": 9}}
    )
    assert algorithm.filter(asked("a", "n")).NodeNames == ["n"]
    assert gauge(algorithm.metrics, "nodes_not_judged", reason="unknown_app_on_node") == 1


def test_whole_nodes_are_known_by_their_names() -> None:
    algorithm = fit({"n": {"cpu": 1.0, "mem": 1.0}}, {"a": {"cpu": 2.0, "mem": 1.0}}, {})
    nodes: list[Any] = [
        {"metadata": {"name": "n"}},
        {"metadata": {"name": "m"}},
        {},
        {"metadata": 1},
    ]
    args = ExtenderArgs(nodes, {"metadata": {"labels": {"app": "a"}}}, [])
    assert algorithm.filter(args).NodeNames == ["m"]
    assert [score.Host for score in algorithm.prioritize(args)] == ["m", "n"]


# BaseAlgorithm


class Picky(BaseAlgorithm):
    """An algorithm as one would have been written for the WCA scheduler."""

    def app_fit_node(self, node_name, app_name, data_provider_queried):  # type: ignore[no-untyped-def]  # untyped, as such algorithms are
        nodes_capacities, _assigned_apps, apps_spec, _ = data_provider_queried
        fits = apps_spec[app_name][CPU] <= nodes_capacities[node_name][CPU]
        return fits, "" if fits else "too small"

    def app_fit_nodes(self, node_names, app_name, data_provider_queried):  # type: ignore[no-untyped-def]  # untyped, as such algorithms are
        return node_names[:1], dict.fromkeys(node_names[1:], "one is enough")

    def priority_for_node(self, node_name, app_name, data_provider_queried):  # type: ignore[no-untyped-def]  # untyped, as such algorithms are
        return {"a": 0.79, "b": 1.6, "c": -0.25, "d": math.nan, "e": math.inf}[node_name]


PICKY = MemoryProvider(
    {"a": {"cpu": 1.0}, "b": {"cpu": 2.0}, "c": {"cpu": 4.0}}, {"x": {"cpu": 2.0}}, {}
)


def test_an_algorithm_of_old_runs_as_it_is() -> None:
    result = Picky(PICKY).filter(asked("x", "c", "a", "b"))
    assert result.NodeNames == ["c"]
    assert result.FailedNodes == {"a": "too small", "b": "one is enough"}


def test_scores_are_cut_to_whole_numbers_but_not_to_a_range() -> None:
    algorithm = Picky(PICKY)
    # 7.9 becomes 7, 16 stays, -2.5 becomes -2; what is no number becomes 0.
    assert str(algorithm.prioritize(asked("x", "e", "d", "c", "b", "a"))) == (
        "[a=7, b=16, c=-2, d=0, e=0]"
    )
    assert gauge(algorithm.metrics, "nodes_not_judged", reason="no_score") == 2
    # 0.79 * 100 = 79.0 (79.00000000000001 in binary).
    assert Picky(PICKY, max_node_score=100).prioritize(asked("x", "a"))[0].Score == 79


def test_the_second_pass_is_not_asked_about_nothing() -> None:
    class Strict(Picky):
        def app_fit_nodes(self, node_names, app_name, data_provider_queried):  # type: ignore[no-untyped-def]  # untyped, as such algorithms are
            raise AssertionError("nobody is left")

    assert Strict(PICKY).filter(asked("x", "a")).FailedNodes == {"a": "too small"}


def test_names_of_algorithms() -> None:
    assert str(Fit(PICKY)) == "Fit(2)"
    assert str(Fit(PICKY, [CPU])) == "Fit(1)"
    assert str(Fit(PICKY, alias="mine")) == "mine"
    assert str(NOPAlgorithm()) == "NOP"


def test_nothing_is_rescheduled_unless_an_algorithm_says_so() -> None:
    assert Fit(PICKY).reschedule() == []

    class Restless(Picky):
        def reschedule_with_metrics(self, data_provider_queried: QueriedData) -> Any:
            return [f"on-{node}" for node in data_provider_queried.nodes_capacities], []

    assert Restless(PICKY).reschedule() == ["on-a", "on-b", "on-c"]


@pytest.mark.parametrize("algorithm", [NOPAlgorithm(), NOPAlgorithm(data_provider=PICKY)])
def test_nop(algorithm: Algorithm) -> None:
    assert algorithm.filter(asked(None, "b", "a")) == ExtenderFilterResult(NodeNames=["b", "a"])
    assert algorithm.prioritize(asked(None, "b", "a")) == [
        HostPriority("b", 0),
        HostPriority("a", 0),
    ]
