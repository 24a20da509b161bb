"""NodeDeclaredFeatures: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import SKIP, unresolvable
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, made, run_filter

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
MISSING = unresolvable("node(s) didn't match Pod's required features").by("NodeDeclaredFeatures")

_restarting: dict[str, Any] = {
    "name": "r",
    "restartPolicyRules": [{"action": "RestartAllContainers"}],
}
_user_namespace: dict[str, Any] = {"host_network": True, "host_users": False}


@pytest.mark.parametrize(
    ("spec", "fitting"),
    [
        pytest.param({"containers": [_restarting]}, {"restart", "both"}, id="container"),
        pytest.param({"init_containers": [_restarting]}, {"restart", "both"}, id="init-container"),
        pytest.param(_user_namespace, {"users", "both"}, id="user-namespace-on-host-network"),
        pytest.param({"containers": [_restarting], **_user_namespace}, {"both"}, id="two"),
    ],
)
def test_filter(spec: dict[str, Any], fitting: set[str]) -> None:
    cache = in_place(
        [
            node("none"),
            node("other", declared_features=["Another"]),
            node("restart", declared_features=["Another", RESTART]),
            node("users", declared_features=[USERS]),
            node("both", declared_features=[RESTART, USERS]),
        ]
    )
    answers = run_filter(made("NodeDeclaredFeatures"), pod(**spec), cache)
    assert {name for name, status in answers.items() if status.is_success} == fitting
    assert {status for status in answers.values() if not status.is_success} == {MISSING}
    assert _skips(pod(**spec)) is False


def _skips(asking: Pod) -> bool:
    cache = in_place([node()])
    plugin: Any = made("NodeDeclaredFeatures")
    return bool(plugin.pre_filter(Cycle(cache.table, compile_pod(asking))) == SKIP)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"host_network": True},
        {"host_users": False},
        {"host_network": True, "host_users": True},
        {"containers": [{"name": "r", "restartPolicyRules": [{"action": "Restart"}]}]},
    ],
)
def test_most_pods_need_nothing(spec: dict[str, Any]) -> None:
    assert _skips(pod(**spec))


def test_a_node_may_learn_and_forget_features() -> None:
    cache, asking = in_place([node("n")]), pod(containers=[_restarting])
    for features, fits in (([RESTART], True), ([], False), ([RESTART, USERS], True)):
        cache.set_node(node("n", declared_features=features))
        answers = run_filter(made("NodeDeclaredFeatures"), asking, cache)
        assert answers["n"].is_success is fits


def test_comes_back_when_a_node_declares_something_else() -> None:
    plugin, mine = made("NodeDeclaredFeatures"), pod(containers=[_restarting])
    plain, able = node("n"), node("n", declared_features=[RESTART])
    update = ActionType.UPDATE_NODE_DECLARED_FEATURE
    assert hint(plugin, "Node", ActionType.ADD, mine, None, plain) is Hint.QUEUE
    assert hint(plugin, "Node", update, mine, plain, able) is Hint.QUEUE
    assert hint(plugin, "Node", update, mine, able, able) is Hint.SKIP
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_LABEL, mine, plain, able) is None


def test_comes_back_when_it_needs_something_else() -> None:
    plugin = made("NodeDeclaredFeatures")
    before, after = pod(uid="mine", **_user_namespace), pod(uid="mine")
    update = ActionType.UPDATE_POD_LABEL
    assert hint(plugin, "Pod", update, before, before, after) is Hint.QUEUE
    assert hint(plugin, "Pod", update, before, before, before) is Hint.SKIP
    other = pod(uid="other", **_user_namespace)
    assert hint(plugin, "Pod", update, before, other, pod(uid="other")) is Hint.SKIP
