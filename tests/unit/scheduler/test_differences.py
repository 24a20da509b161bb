"""Two decisions are compared in everything that users can see."""

from __future__ import annotations

from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.differences import differences, node_differences
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import defaults, profile_of


def _decided(asking: Pod, *nodes: Node, standing: tuple[Pod, ...] = ()) -> Decision:
    cache = ClusterCache()
    for each in nodes:
        cache.set_node(each)
    for other in standing:
        cache.add_pod(other)
    return decide(cache.table, compile_pod(asking), profile_of(*defaults(), DefaultPreemption()))


def _found(first: Decision, second: Decision) -> list[str]:
    found = [*differences(first, second), *node_differences(first, second)]
    return [str(each) for each in found]


def _nodes(**more: Any) -> tuple[Node, Node]:
    return node("n1", cpu=4, uid="1"), node("n2", cpu=4, uid="2", **more)


def test_equal_decisions_do_not_differ() -> None:
    asking = pod("p", cpu=1)
    assert not _found(_decided(asking, *_nodes()), _decided(asking, *_nodes()))
    large = pod("p", cpu=9)
    assert not _found(_decided(large, *_nodes()), _decided(large, *_nodes()))


def test_another_node_and_the_scores_that_led_to_it() -> None:
    asking, other = pod("p", cpu=1), pod("o", cpu=2, node="n1")
    found = _found(_decided(asking, *_nodes()), _decided(asking, *_nodes(), standing=(other,)))
    assert found[0] == "node: n1, should be n2"
    assert any(text.startswith("weighted score of plugin NodeResources") for text in found), found
    assert any("on node n1" in text for text in found), found
    assert any(text.startswith("total score of node n1: ") for text in found), found


def test_verdicts_name_the_node_and_the_plugin() -> None:
    asking = pod("p", cpu=9)
    decided = _decided(asking, *_nodes())
    rebuilt = _decided(asking, *_nodes(taints=["t=x:NoSchedule"]))
    found = _found(decided, rebuilt)
    assert (
        "verdict on node n2: UnschedulableAndUnresolvable, Insufficient cpu (NodeResourcesFit), "
        "should be UnschedulableAndUnresolvable, node(s) had untolerated taint(s) (TaintToleration)"
    ) in found
    assert any(text.startswith("message: 0/2 nodes are available: 2 Insuff") for text in found)
    assert any(text.startswith("plugins that rejected: NodeResourcesFit,") for text in found)


def test_a_node_that_is_feasible_in_one_of_them() -> None:
    asking = pod("p", cpu=1)
    decided = _decided(asking, *_nodes(), node("n3", cpu=4))
    rebuilt = _decided(asking, *_nodes(), node("n3", cpu=4, unschedulable=True))
    found = _found(decided, rebuilt)
    assert "feasible nodes: 3, should be 2" in found
    assert "node n3 feasible: yes, should be no" in found


def test_a_node_that_one_of_them_does_not_know() -> None:
    asking = pod("p", cpu=9)
    found = _found(_decided(asking, *_nodes()), _decided(asking, _nodes()[0]))
    assert any(text.endswith("should be no such node") for text in found), found


def test_the_plan_of_preemption() -> None:
    asking = pod("p", cpu=4, priority=9)
    low, lower = pod("low", cpu=4, node="n1", priority=1), pod("lower", cpu=4, node="n2")
    high = pod("high", cpu=4, node="n2", priority=5, uid=lower.uid)
    decided = _decided(asking, *_nodes(), standing=(low, lower))
    rebuilt = _decided(asking, *_nodes(), standing=(low, high))
    found = _found(decided, rebuilt)
    assert "node to evict from: n2, should be n1" in found
    assert "nomination: 'n2', should be 'n1'" in found
    assert any(text.startswith("victims: default/lower ") for text in found), found
