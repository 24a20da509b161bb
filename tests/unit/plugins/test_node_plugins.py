"""NodeName and NodeUnschedulable: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Toleration
from stowplan.framework.status import unresolvable
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, made, run_filter

CORDON = "node.kubernetes.io/unschedulable"


# NodeName


@pytest.mark.parametrize(
    ("wanted", "fitting"), [("", {"a", "b"}), ("a", {"a"}), ("c", set()), ("ghost", set())]
)
def test_node_name(wanted: str, fitting: set[str]) -> None:
    cache = in_place([node("a"), node("b")], [pod(node="ghost")])
    answers = run_filter(made("NodeName"), pod(node=wanted), cache)
    assert {name for name, status in answers.items() if status.is_success} == fitting
    refused = {status for status in answers.values() if not status.is_success}
    reason = unresolvable("node(s) didn't match the requested node name").by("NodeName")
    assert refused <= {reason}


def test_node_name_comes_back_with_any_new_node() -> None:
    plugin, mine = made("NodeName"), pod(node="a")
    assert hint(plugin, "Node", ActionType.ADD, mine, None, node("b")) is Hint.QUEUE
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_LABEL, mine, node("b"), node("b")) is None


# NodeUnschedulable


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([], False),
        ([f"{CORDON}:NoSchedule"], True),
        ([CORDON], True),
        ([f"{CORDON}=:NoSchedule"], True),
        ([Toleration(operator="Exists")], True),
        ([f"{CORDON}:NoExecute"], False),
        (["other:NoSchedule"], False),
    ],
)
def test_node_unschedulable(tolerations: list[Any], fits: bool) -> None:
    cache = in_place([node("open"), node("cordoned", unschedulable=True)])
    answers = run_filter(made("NodeUnschedulable"), pod(tolerations=tolerations), cache)
    assert answers["open"].is_success
    assert answers["cordoned"].is_success is fits
    if not fits:
        expected = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")
        assert answers["cordoned"] == expected


OPEN, CLOSED = node("n"), node("n", unschedulable=True)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, CLOSED, Hint.SKIP),
        (None, OPEN, Hint.QUEUE),
        (CLOSED, CLOSED, Hint.SKIP),
        (OPEN, OPEN, Hint.SKIP),
        (CLOSED, OPEN, Hint.QUEUE),
        (OPEN, CLOSED, Hint.SKIP),
    ],
)
def test_node_unschedulable_hint_on_nodes(old: Any, new: Any, expected: Hint) -> None:
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_TAINT
    assert hint(made("NodeUnschedulable"), "Node", action, pod(), old, new) is expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (pod(uid="a", tolerations=[CORDON]), Hint.QUEUE),
        (pod(uid="a", tolerations=["other"]), Hint.SKIP),
        (pod(uid="b", tolerations=[CORDON]), Hint.SKIP),
    ],
)
def test_node_unschedulable_hint_on_tolerations(changed: Any, expected: Hint) -> None:
    mine = pod(uid="a")
    action = ActionType.UPDATE_POD_TOLERATION
    assert hint(made("NodeUnschedulable"), "Pod", action, mine, mine, changed) is expected
