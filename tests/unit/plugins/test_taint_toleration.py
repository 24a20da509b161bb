"""TaintToleration: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Toleration
from stowplan.cluster.pod_info import compile_pod
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, made, run_filter, run_scores

UNTOLERATED = "node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("tolerations", "taints", "fits"),
    [
        pytest.param([], ["dedicated=user1:NoSchedule"], False, id="no-toleration"),
        pytest.param(
            ["dedicated=user1:NoSchedule"], ["dedicated=user1:NoSchedule"], True, id="equal"
        ),
        pytest.param(
            ["dedicated=user2:NoSchedule"], ["dedicated=user1:NoSchedule"], False, id="other-value"
        ),
        pytest.param(["foo:NoSchedule"], ["foo=bar:NoSchedule"], True, id="exists"),
        pytest.param(
            ["dedicated=user2:NoSchedule", "foo:NoSchedule"],
            ["dedicated=user2:NoSchedule", "foo=bar:NoSchedule"],
            True,
            id="several",
        ),
        pytest.param(
            ["dedicated=user2:NoSchedule"],
            ["dedicated=user2:NoSchedule", "foo=bar:NoSchedule"],
            False,
            id="one-of-several",
        ),
        pytest.param(
            ["foo=bar:PreferNoSchedule"], ["foo=bar:NoSchedule"], False, id="other-effect"
        ),
        pytest.param(["foo=bar"], ["foo=bar:NoSchedule"], True, id="any-effect"),
        pytest.param(
            ["dedicated=user2:NoSchedule"],
            ["dedicated=user1:PreferNoSchedule"],
            True,
            id="soft-taint",
        ),
        pytest.param([], ["dedicated=user1:PreferNoSchedule"], True, id="soft-taint-untolerated"),
        pytest.param([], ["dedicated=user1:NoExecute"], False, id="no-execute"),
        pytest.param(
            [Toleration(operator="Exists")],
            ["a=b:NoSchedule", "c=d:NoExecute"],
            True,
            id="everything",
        ),
        pytest.param([Toleration(value="b")], ["a=b:NoSchedule"], True, id="any-key-same-value"),
        pytest.param([Toleration(value="x")], ["a=b:NoSchedule"], False, id="any-key-other-value"),
        pytest.param(
            [Toleration(key="sla", operator="Gt", value="1", effect="NoSchedule")],
            ["sla=5:NoSchedule"],
            False,
            id="comparison-is-off",
        ),
        pytest.param([], [], True, id="no-taints"),
    ],
)
def test_filter(tolerations: list[Any], taints: list[str], fits: bool) -> None:
    cache = in_place([node("n", taints=taints), node("free")])
    answers = run_filter(made("TaintToleration"), pod(tolerations=tolerations), cache)
    assert answers["free"].is_success
    assert answers["n"].is_success is fits
    if not fits:
        assert answers["n"].code.label == "UnschedulableAndUnresolvable"
        assert answers["n"].reasons == (UNTOLERATED,)


SOFT = "PreferNoSchedule"


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        pytest.param(
            [f"foo=bar:{SOFT}"],
            [[f"foo=bar:{SOFT}"], [f"foo=blah:{SOFT}"]],
            [100, 0],
            id="tolerated",
        ),
        pytest.param(
            [f"cpu=arm:{SOFT}", f"disk=ssd:{SOFT}"],
            [[], [f"cpu=arm:{SOFT}"], [f"cpu=arm:{SOFT}", f"disk=ssd:{SOFT}"]],
            [100, 100, 100],
            id="how-many-are-tolerated-does-not-matter",
        ),
        pytest.param(
            [f"foo=bar:{SOFT}"],
            [[], [f"cpu=arm:{SOFT}"], [f"cpu=arm:{SOFT}", f"disk=ssd:{SOFT}"]],
            [100, 50, 0],
            id="how-many-are-not-does",
        ),
        pytest.param(
            ["cpu=arm:NoSchedule", "disk=ssd:NoSchedule"],
            [[], ["cpu=arm:NoSchedule"], [f"cpu=arm:{SOFT}", f"disk=ssd:{SOFT}"]],
            [100, 100, 0],
            id="only-soft-ones-count",
        ),
        pytest.param(["cpu=arm"], [[f"cpu=arm:{SOFT}"], [f"x:{SOFT}"]], [100, 0], id="any-effect"),
        pytest.param([], [[], [f"cpu=arm:{SOFT}"]], [100, 0], id="none"),
        pytest.param([], [[], []], [100, 100], id="untainted-nodes-score-full"),
        pytest.param(
            [],
            [[f"t{i}:{SOFT}" for i in range(count)] for count in (1, 2, 3)],
            [67, 34, 0],
            id="division-truncates-before-it-is-turned-round",
        ),
    ],
)
def test_scores(tolerations: list[str], taints: list[list[str]], expected: list[int]) -> None:
    cache = in_place([node(f"n{i}", taints=each) for i, each in enumerate(taints)])
    assert run_scores(made("TaintToleration"), pod(tolerations=tolerations), cache) == expected


def test_pods_with_the_same_tolerations_share_columns() -> None:
    plugin = made("TaintToleration")
    signs = [
        plugin.sign(compile_pod(each))
        for each in (
            pod("a", tolerations=["k"], labels={"x": "1"}, cpu="1"),
            pod("b", tolerations=["k"]),
            pod("c", tolerations=["j"]),
        )
    ]
    assert signs[0] == signs[1] != signs[2]


TAINTED, FREE = node("n", taints=["a=b:NoSchedule"]), node("n")


@pytest.mark.parametrize(
    ("tolerations", "old", "new", "expected"),
    [
        ([], None, TAINTED, Hint.SKIP),
        (["a"], None, TAINTED, Hint.QUEUE),
        ([], None, FREE, Hint.QUEUE),
        ([], TAINTED, FREE, Hint.QUEUE),
        ([], TAINTED, TAINTED, Hint.SKIP),
        ([], FREE, FREE, Hint.SKIP),
        ([], FREE, TAINTED, Hint.SKIP),
        (["a"], TAINTED, node("n", taints=["a=c:NoSchedule"]), Hint.SKIP),
    ],
)
def test_hint_on_nodes(tolerations: list[str], old: Any, new: Any, expected: Hint) -> None:
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_TAINT
    mine = pod(tolerations=tolerations)
    assert hint(made("TaintToleration"), "Node", action, mine, old, new) is expected


def test_hint_on_tolerations() -> None:
    action, mine = ActionType.UPDATE_POD_TOLERATION, pod(uid="a")
    plugin = made("TaintToleration")
    assert hint(plugin, "Pod", action, mine, mine, pod(uid="a")) is Hint.QUEUE
    assert hint(plugin, "Pod", action, mine, mine, pod(uid="b")) is Hint.SKIP
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_LABEL, mine, FREE, FREE) is None
