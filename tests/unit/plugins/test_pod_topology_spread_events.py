"""PodTopologySpread: which changes make a refused pod worth another try."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint
from tests.unit.plugins.spread_kit import SOFT, ZONE, plugin_of, service, spread, with_services

QUEUE, SKIP = Hint.QUEUE, Hint.SKIP


def refused(*constraints: dict[str, Any], **more: Any) -> Pod:
    chosen = constraints or (spread("zone"), spread("rack"))
    return pod("refused", uid="refused", topology_spread_constraints=list(chosen), **more)


def say(asking: Pod, old: object, new: object, cache: ClusterCache | None = None) -> Hint | None:
    resource = "Node" if isinstance(old, Node) or isinstance(new, Node) else "Pod"
    if old is None:
        action = ActionType.ADD
    elif new is None:
        action = ActionType.DELETE
    else:
        action = ActionType.UPDATE_NODE_LABEL if resource == "Node" else ActionType.UPDATE_POD_LABEL
    return hint(plugin_of(cache or ClusterCache()), resource, action, asking, old, new)


def placed(labels: dict[str, str] | None, **more: Any) -> Pod:
    return pod("other", uid="other", **{"labels": labels, "node": "n", **more})


FOO, BAR = {"foo": ""}, {"bar": ""}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(placed(FOO), QUEUE, id="its like"),
        pytest.param(placed(BAR), SKIP, id="another kind"),
        pytest.param(placed(None), SKIP, id="no labels"),
        pytest.param(placed(FOO, namespace="other"), SKIP, id="other namespace"),
        pytest.param(placed(FOO, node=""), SKIP, id="nowhere yet"),
        pytest.param(placed(FOO, node="", nominated_node="n"), QUEUE, id="nominated"),
    ],
)
@pytest.mark.parametrize("way", ["comes", "goes"])
def test_a_pod_comes_or_goes(way: str, other: Pod, expected: Hint) -> None:
    pair = (None, other) if way == "comes" else (other, None)
    assert say(refused(), *pair) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(BAR, FOO, QUEUE, id="begins to match"),
        pytest.param(FOO, BAR, QUEUE, id="matches no more"),
        pytest.param(FOO, {**FOO, **BAR}, SKIP, id="still matches"),
        pytest.param(BAR, {"baz": ""}, SKIP, id="still does not"),
        pytest.param(FOO, FOO, SKIP, id="same labels"),
    ],
)
def test_a_pod_changes_its_labels(
    before: dict[str, str], after: dict[str, str], expected: Hint
) -> None:
    assert say(refused(), placed(before), placed(after)) is expected


def test_one_of_several_constraints_is_enough() -> None:
    other = {"matchLabels": BAR}
    asking = refused(spread("zone"), spread("rack", labelSelector=other))
    assert say(asking, None, placed(BAR)) is QUEUE
    assert say(asking, placed(FOO), placed({**FOO, **BAR})) is QUEUE
    assert say(asking, None, placed({"baz": ""})) is SKIP


@pytest.mark.parametrize(("policy", "expected"), [("Honor", QUEUE), ("Ignore", SKIP), (None, SKIP)])
def test_the_pod_gets_a_toleration(policy: str | None, expected: Hint) -> None:
    asking = refused(spread("zone", nodeTaintsPolicy=policy))
    tolerant = pod("refused", uid="refused", tolerations=["k:NoSchedule"])
    plugin = plugin_of(ClusterCache())
    action = ActionType.UPDATE_POD_TOLERATION
    assert hint(plugin, "Pod", action, asking, asking, tolerant) is expected
    elsewhere = placed(None), placed(None, tolerations=["k:NoSchedule"])
    assert hint(plugin, "Pod", action, asking, *elsewhere) is SKIP


def test_the_pod_gets_a_label() -> None:
    asking = refused()
    assert say(asking, asking, replace(asking, metadata=replace(asking.metadata, labels=FOO))) is (
        QUEUE
    )
    assert say(asking, asking, replace(asking, metadata=replace(asking.metadata, labels=BAR))) is (
        SKIP
    )


def test_default_constraints_count_too() -> None:
    cache = with_services(ClusterCache(), service("s", FOO))
    hard = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    plugin = plugin_of(cache, defaultingType="List", defaultConstraints=[hard])
    asking = pod(labels=FOO)
    assert hint(plugin, "Pod", ActionType.ADD, asking, None, placed(FOO)) is QUEUE
    assert hint(plugin, "Pod", ActionType.ADD, asking, None, placed(BAR)) is SKIP


# Nodes


def labelled(*taints: str, **labels: str) -> Node:
    return node("n", labels=labels, taints=taints)


BOTH = {"zone": "1", "rack": "1"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, labelled(**BOTH), QUEUE, id="comes"),
        pytest.param(None, labelled(zone="1"), SKIP, id="comes without a label"),
        pytest.param(labelled(**BOTH), None, QUEUE, id="goes"),
        pytest.param(labelled(zone="1"), None, SKIP, id="goes without a label"),
        pytest.param(labelled(zone="1"), labelled(**BOTH), QUEUE, id="gets a label"),
        pytest.param(labelled(**BOTH), labelled(rack="1"), QUEUE, id="loses a label"),
        pytest.param(labelled(**BOTH), labelled(zone="2", rack="1"), QUEUE, id="moves"),
        pytest.param(labelled(**BOTH), labelled(**BOTH, x="y"), SKIP, id="another label"),
        pytest.param(labelled(zone="1"), labelled(zone="2"), SKIP, id="moves, lacking one"),
        pytest.param(labelled(**BOTH), labelled("k:NoSchedule", **BOTH), QUEUE, id="taint"),
        pytest.param(
            labelled(zone="1"), labelled("k:NoSchedule", zone="1"), SKIP, id="taint, lacking one"
        ),
    ],
)
def test_nodes(old: Node | None, new: Node | None, expected: Hint) -> None:
    assert say(refused(), old, new) is expected


def test_a_pod_without_hard_constraints_is_not_kept_waiting_by_new_nodes() -> None:
    """It was refused while it had some: every node takes part in no constraint at all."""
    assert say(refused(spread(action=SOFT)), None, node()) is QUEUE


def test_what_cannot_be_told_is_tried() -> None:
    wrong = {"matchExpressions": [{"key": "foo", "operator": "Like"}]}
    asking = refused(spread("zone", labelSelector=wrong))
    assert say(asking, None, placed(BAR)) is QUEUE
    assert say(asking, None, labelled(x="y")) is QUEUE


def test_other_events_are_not_registered() -> None:
    plugin = plugin_of(ClusterCache())
    asking = refused()
    for action in (ActionType.UPDATE_NODE_ALLOCATABLE, ActionType.UPDATE_NODE_CONDITION):
        assert hint(plugin, "Node", action, asking, node("n"), node("n")) is None
    scaled = ActionType.UPDATE_POD_SCALE_DOWN
    assert hint(plugin, "Pod", scaled, asking, placed(FOO), placed(FOO)) is None
    assert hint(plugin, "Service", ActionType.ADD, asking, None, service("s", FOO)) is None
