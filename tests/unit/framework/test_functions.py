"""Plain functions as plugins."""

from __future__ import annotations

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.functions import filter_function, score_function
from stowplan.framework.plugin import Plugin, points_of
from stowplan.framework.registry import Registry
from stowplan.testing import node, pod


@filter_function
def has_ssd(pod: Pod, node: NodeView) -> bool:
    """Only nodes with a fast disk."""
    return node.labels.get("disk") == "ssd"


@filter_function(name="NeedsZone")
def _needs_zone(pod: Pod, node: NodeView) -> str | None:
    return None if "zone" in node.labels else "node(s) had no zone"


@score_function
def short_name(pod: Pod, node: NodeView) -> int:
    return 100 - len(node.name)


@score_function(name="Flat")
def _flat(pod: Pod, node: NodeView) -> int:
    return 7


def cycle() -> Cycle:
    table = NodeTable()
    table.set_node(node("a", labels={"disk": "ssd"}))
    table.set_node(node("bb", labels={"zone": "z"}))
    return Cycle(table, compile_pod(pod("p")))


def test_filter_function_is_a_plugin_class() -> None:
    assert issubclass(has_ssd, Plugin)
    assert (has_ssd.name, has_ssd.__name__) == ("has_ssd", "has_ssd")
    assert has_ssd.__doc__ == "Only nodes with a fast disk."
    assert has_ssd.__module__ == __name__
    assert points_of(has_ssd) == {"filter"}
    step, run = FilterStep(has_ssd()), cycle()
    assert step.status_of_row(run, 0).is_success
    refused = step.status_of_row(run, 1)
    assert (refused.plugin, refused.reasons) == (
        "has_ssd", ("node(s) didn't satisfy plugin has_ssd",),
    )  # fmt: skip


def test_named_filter_function_with_a_reason() -> None:
    assert _needs_zone.name == "NeedsZone"
    step, run = FilterStep(_needs_zone()), cycle()
    assert step.status_of_row(run, 0).message == "node(s) had no zone"
    assert step.status_of_row(run, 1).is_success


def test_score_functions() -> None:
    assert (short_name.name, _flat.name) == ("short_name", "Flat")
    assert points_of(short_name) == {"score"}
    run = cycle()
    out = run.table.allowed_pods.copy()
    ScoreStep(short_name(), 1).fill(run, slice(None), out)
    assert out[:2].tolist() == [99, 98]
    ScoreStep(_flat(), 1).fill(run, run.table.live_rows, out)
    assert out[:2].tolist() == [7, 7]


def test_functions_can_be_registered() -> None:
    assert set(Registry([has_ssd, _flat]).names) == {"has_ssd", "Flat"}
