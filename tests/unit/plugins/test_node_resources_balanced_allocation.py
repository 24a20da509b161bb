"""NodeResourcesBalancedAllocation, with kube-scheduler's own figures."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Node, Pod
from stowplan.errors import ConfigError
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import asking, in_place, made, run_scores

GPU = "nvidia.com/gpu"
WITH_GPU = {"resources": [{"name": name} for name in ("cpu", "memory", GPU)]}


def offering(name: str, milli: int, memory: int, gpu: int = 0) -> Node:
    return node(name, cpu=f"{milli}m", memory=memory, resources={GPU: gpu} if gpu else {})


def balance(
    wanted: Pod, nodes: list[Node], pods: list[Pod], args: dict[str, Any] | None = None
) -> list[int] | None:
    plugin = made("NodeResourcesBalancedAllocation", args)
    return run_scores(plugin, wanted, in_place(nodes, pods))


CPU_THREE: dict[str, str | int] = {"cpu": "3000m"}
BOTH: dict[str, str | int] = {"cpu": "3000m", "memory": 5000}


@pytest.mark.parametrize(
    ("wanted", "nodes", "pods", "args", "expected"),
    [
        pytest.param(
            asking(**BOTH),
            [offering("a", 10000, 20000), offering("b", 10000, 20000)],
            [asking("a", **CPU_THREE), asking("b", **BOTH)],
            None,
            [73, 74],
            id="same-size",
        ),
        pytest.param(
            asking(**BOTH),
            [offering("a", 10000, 20000), offering("b", 10000, 50000)],
            [asking("a", **CPU_THREE), asking("b", **BOTH)],
            None,
            [73, 70],
            id="different-size",
        ),
        pytest.param(
            asking(memory=5000),
            [offering("a", 3000, 5000), offering("b", 3000, 5000)],
            [asking("a", **CPU_THREE)],
            None,
            [100, 50],
            id="best-and-worst",
        ),
        pytest.param(
            asking(**CPU_THREE),
            [offering("a", 6000, 10000), offering("b", 6000, 10000)],
            [asking("a", **CPU_THREE), asking("b", **BOTH)],
            None,
            [62, 62],
            id="at-capacity",
        ),
        pytest.param(
            asking(cpu="0", memory="0", **{GPU: 1}),
            [offering("a", 3500, 40000, gpu=8), offering("b", 3500, 40000, gpu=8)],
            [asking("a", **BOTH, **{GPU: 3}), asking("b", **BOTH)],
            WITH_GPU,
            [75, 76],
            id="asked-scalar-counts",
        ),
        pytest.param(
            asking(**BOTH),
            [offering("a", 3500, 40000, gpu=8), offering("b", 3500, 40000)],
            [],
            WITH_GPU,
            [56, 56],
            id="unasked-scalar-does-not",
        ),
        pytest.param(
            asking(**{GPU: 1}),
            [offering("a", 3500, 40000, gpu=8), offering("b", 3500, 40000)],
            [asking("a", **CPU_THREE), asking("b", **BOTH)],
            WITH_GPU,
            [76, 75],
            id="a-node-without-the-scalar",
        ),
        pytest.param(
            asking(**BOTH), [offering("a", 0, 0), offering("b", 6000, 0)], [], None, [75, 75],
            id="fewer-than-two-resources-are-balanced",
        ),
    ],
)  # fmt: skip
def test_scores(
    wanted: Pod,
    nodes: list[Node],
    pods: list[Pod],
    args: dict[str, Any] | None,
    expected: list[int],
) -> None:
    assert balance(wanted, nodes, pods, args) == expected


def test_huge_amounts_become_floats_before_they_are_divided() -> None:
    """Exact division would score 68 here; Go turns both numbers into floats first."""
    wanted = asking(cpu="144760408851939056m", memory=84413218345669037)
    nodes = [offering("a", 238705454406624141, 258587660321485539)]
    assert balance(wanted, nodes, []) == [67]


@pytest.mark.parametrize(
    ("wanted", "args"),
    [
        (pod(cpu=None, memory=None), None),
        (pod(cpu="0", memory="0"), None),
        (asking(**{"ephemeral-storage": 5, GPU: 1}), None),
        (asking(cpu="1"), {"resources": [{"name": GPU}]}),
    ],
)
def test_pods_that_ask_for_nothing_configured_are_skipped(
    wanted: Pod, args: dict[str, Any] | None
) -> None:
    assert balance(wanted, [offering("a", 1000, 1000)], [], args) is None


def test_pod_level_resources_count() -> None:
    wanted = pod(containers=[{}], resources={"requests": {"cpu": "3", "memory": 5000}})
    nodes = [offering("a", 10000, 20000), offering("b", 10000, 20000)]
    standing = [asking("a", **CPU_THREE), asking("b", **BOTH)]
    assert balance(wanted, nodes, standing) == [73, 74]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([{"name": "cpu", "weight": 2}], "args.resources[0].weight: Invalid value: 2: must be 1"),
        ([{"name": "cpu"}, {"name": "cpu"}], 'args.resources[1].name: Duplicate value: "cpu"'),
    ],
)
def test_wrong_arguments(resources: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made("NodeResourcesBalancedAllocation", {"resources": resources})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "args", [{"resources": []}, {"resources": None}, {"resources": [{"name": "cpu", "weight": 0}]}]
)
def test_defaults_of_arguments(args: dict[str, Any]) -> None:
    assert balance(asking(cpu="1"), [offering("a", 1000, 1000)], [], args) is not None
