"""NodeResourcesFit's scoring strategies, with kube-scheduler's own figures."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Node, Pod
from stowplan.config.plugin_args import UtilizationShapePoint
from stowplan.plugins.node_resources_fit.strategies import RequestedToCapacityRatio
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place, made, run_scores

FOO, BAR = "intel.com/foo", "intel.com/bar"
EVEN = [("cpu", 1), ("memory", 1)]
FALLING = [(0, 10), (100, 0)]
RISING = [(0, 0), (100, 10)]


def offering(cpu: str | int, memory: str | int, **more: int) -> Node:
    return node(cpu=cpu, memory=memory, resources=more)


def wanting(cpu: str | int, memory: str | int, on: int | None = None, **more: int) -> Pod:
    """`on` is the number of the node that the pod stands on."""
    return pod(cpu=cpu, memory=memory, requests=more, node="" if on is None else f"n{on}")


NOTHING = pod(containers=[{}], cpu=None, memory=None)
NO_CONTAINERS = pod(containers=[])


def scores(
    strategy: str,
    wanted: Pod,
    nodes: list[Node],
    pods: list[Pod] | None = None,
    resources: list[tuple[str, int]] = EVEN,
    shape: list[tuple[int, int]] | None = None,
) -> list[int] | None:
    config: dict[str, Any] = {
        "type": strategy, "resources": [{"name": n, "weight": w} for n, w in resources],
    }  # fmt: skip
    if shape is not None:
        points = [{"utilization": x, "score": y} for x, y in shape]
        config["requestedToCapacityRatio"] = {"shape": points}
    named = [
        node(
            f"n{i}",
            cpu=(n.status.allocatable or {})["cpu"],
            memory=(n.status.allocatable or {})["memory"],
            resources={k: v for k, v in (n.status.allocatable or {}).items() if "/" in k},
        )
        for i, n in enumerate(nodes)
    ]
    plugin = made("NodeResourcesFit", {"scoringStrategy": config})
    return run_scores(plugin, wanted, in_place(named, pods or []))


@pytest.mark.parametrize(
    ("wanted", "nodes", "pods", "resources", "expected"),
    [
        pytest.param(NO_CONTAINERS, [offering(4000, 10000)] * 2, [], EVEN, [100, 100], id="empty"),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [],
            EVEN,
            [37, 50],
            id="sizes",
        ),
        pytest.param(
            NO_CONTAINERS,
            [offering(10000, 20000)] * 2,
            [wanting(6000, 0, on=0), wanting(6000, 5000, on=1)],
            EVEN,
            [70, 57],
            id="others-use-some",
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(10000, 20000), offering(10000, 50000)],
            [wanting(3000, 0, on=0), wanting(3000, 5000, on=1)],
            EVEN,
            [57, 60],
            id="both",
        ),
        pytest.param(
            wanting(3000, 0),
            [offering(4000, 10000)] * 2,
            [wanting(3000, 0, on=0), wanting(3000, 5000, on=1)],
            EVEN,
            [50, 25],
            id="beyond-capacity",
        ),
        pytest.param(
            NO_CONTAINERS,
            [offering(0, 0)] * 2,
            [wanting(3000, 0, on=0), wanting(3000, 5000, on=1)],
            EVEN,
            [0, 0],
            id="nodes-without-resources",
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [],
            [("memory", 2), ("cpu", 1)],
            [41, 50],
            id="weights",
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(6000, 10000), offering(6000, 10000, **{FOO: 4})],
            [],
            [*EVEN, (FOO, 1)],
            [50, 50],
            id="unasked-extended-resource-is-left-out",
        ),
        pytest.param(
            wanting(3000, 5000, **{FOO: 2}),
            [offering(6000, 10000, **{FOO: 4}), offering(6000, 10000, **{FOO: 10})],
            [],
            [*EVEN, (FOO, 1)],
            [50, 60],
            id="asked-extended-resource-counts",
        ),
        pytest.param(
            wanting(3000, 4000),
            [offering(6000, 10000), offering(6000, 10000, **{FOO: 4})],
            [],
            [(FOO, 2), *EVEN],
            [55, 55],
            id="not-offered",
        ),
        pytest.param(
            wanting(1000, 2000),
            [offering(4000, 10000), offering(6000, 10000)],
            [wanting(2000, 4000, on=0), wanting(1000, 2000, on=1)],
            EVEN,
            [32, 63],
            id="upstreams-fit-case",
        ),
    ],
)
def test_least_allocated(
    wanted: Pod,
    nodes: list[Node],
    pods: list[Pod],
    resources: list[tuple[str, int]],
    expected: list[int],
) -> None:
    assert scores("LeastAllocated", wanted, nodes, pods, resources) == expected


@pytest.mark.parametrize(
    ("wanted", "nodes", "pods", "resources", "expected"),
    [
        pytest.param(NO_CONTAINERS, [offering(4000, 10000)] * 2, [], EVEN, [0, 0], id="empty"),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [],
            EVEN,
            [62, 50],
            id="sizes",
        ),
        pytest.param(
            NO_CONTAINERS,
            [offering(10000, 20000)] * 2,
            [wanting(6000, 0, on=0), wanting(6000, 5000, on=1)],
            EVEN,
            [30, 42],
            id="others-use-some",
        ),
        pytest.param(
            wanting(5000, 9000),
            [offering(5000, 10000), offering(10000, 9000)],
            [],
            EVEN,
            [95, 75],
            id="exactly-full",
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [],
            [("memory", 2), ("cpu", 1)],
            [58, 50],
            id="weights",
        ),
        pytest.param(
            NOTHING,
            [offering("250m", "1000Mi")] * 2,
            [
                pod(cpu=None, memory=None, node="n0"),
                pod(cpu=None, memory=None, node="n0"),
            ],
            EVEN,
            [80, 30],
            id="containers-without-requests-count-a-little",
        ),
        pytest.param(
            wanting(3000, 5000, **{FOO: 2}),
            [offering(6000, 10000, **{FOO: 4}), offering(6000, 10000, **{FOO: 10})],
            [],
            [*EVEN, (FOO, 1)],
            [50, 40],
            id="asked-extended-resource-counts",
        ),
        pytest.param(
            wanting(1000, 2000),
            [offering(4000, 10000), offering(6000, 10000)],
            [wanting(2000, 4000, on=0), wanting(1000, 2000, on=1)],
            EVEN,
            [67, 36],
            id="upstreams-fit-case",
        ),
    ],
)
def test_most_allocated(
    wanted: Pod,
    nodes: list[Node],
    pods: list[Pod],
    resources: list[tuple[str, int]],
    expected: list[int],
) -> None:
    assert scores("MostAllocated", wanted, nodes, pods, resources) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"), [("MostAllocated", [67, 45]), ("LeastAllocated", [32, 55])]
)
def test_sidecars_of_pods_in_place_count(strategy: str, expected: list[int]) -> None:
    request = {"resources": {"requests": {"cpu": "1000", "memory": "2000"}}}
    there = pod(
        containers=[request], init_containers=[{**request, "restartPolicy": "Always"}], node="n0"
    )
    got = scores(
        strategy,
        wanting(1000, 2000),
        [offering(4000, 10000)] * 2,
        [there, wanting(1000, 2000, on=1)],
    )
    assert got == expected


def test_pod_level_resources_of_the_incoming_pod_are_not_scored() -> None:
    """Upstream's quirk: Filter sees them, and so do the sums on the node, Score does not."""
    wanted = pod(
        containers=[{"resources": {"requests": {"cpu": "1", "memory": "1000"}}}],
        resources={"requests": {"cpu": "4", "memory": "4000"}},
    )
    assert scores("MostAllocated", wanted, [offering(10, 10000)]) == [10]
    there = pod(
        containers=[{"resources": {"requests": {"cpu": "1", "memory": "1000"}}}],
        resources={"requests": {"cpu": "4", "memory": "4000"}},
        node="n0",
    )
    assert scores("MostAllocated", wanting(1, 1000), [offering(10, 10000)], [there]) == [50]


@pytest.mark.parametrize(
    ("wanted", "nodes", "pods", "shape", "expected"),
    [
        pytest.param(
            NO_CONTAINERS, [offering(4000, 10000)] * 2, [], FALLING, [100, 100], id="empty"
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [],
            FALLING,
            [38, 50],
            id="half-is-rounded-up",
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [wanting(2000, 4000, on=0), wanting(1000, 2000, on=1)],
            FALLING,
            [10, 32],
            id="a-resource-that-scores-nothing-loses-its-weight",
        ),
        pytest.param(
            wanting(3000, 5000),
            [offering(4000, 10000), offering(6000, 10000)],
            [wanting(2000, 4000, on=0), wanting(1000, 2000, on=1)],
            RISING,
            [95, 68],
            id="rising",
        ),
    ],
)
def test_requested_to_capacity_ratio(
    wanted: Pod,
    nodes: list[Node],
    pods: list[Pod],
    shape: list[tuple[int, int]],
    expected: list[int],
) -> None:
    assert scores("RequestedToCapacityRatio", wanted, nodes, pods, shape=shape) == expected


@pytest.mark.parametrize(
    ("foo", "used", "expected"),
    [(0, 0, [0, 0]), (2, 0, [2, 5]), (2, 2, [2, 10]), (4, 0, [5, 10])],
)
def test_packing_one_extended_resource(foo: int, used: int, expected: list[int]) -> None:
    there = [pod(requests={FOO: used}, node="n1")] if used else []
    got = scores(
        "RequestedToCapacityRatio",
        pod(requests={FOO: foo} if foo else {}),
        [offering(4000, "10000Mi", **{FOO: 8}), offering(4000, "10000Mi", **{FOO: 4})],
        there,
        [(FOO, 1)],
        [(0, 0), (100, 1)],
    )
    assert got == expected


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        ({}, {}, [0, 0]),
        ({FOO: 2, BAR: 2}, {}, [4, 3]),
        ({FOO: 2, BAR: 2}, {FOO: 4, BAR: 2}, [4, 7]),
        ({FOO: 4, BAR: 2}, {}, [5, 5]),
    ],
)
def test_packing_two_extended_resources(
    wanted: dict[str, int], used: dict[str, int], expected: list[int]
) -> None:
    got = scores(
        "RequestedToCapacityRatio",
        pod(requests=wanted),
        [
            offering(4000, "10000Mi", **{FOO: 8, BAR: 4}),
            offering(4000, "10000Mi", **{FOO: 4, BAR: 8}),
        ],
        [pod(requests=used, node="n1")] if used else [],
        [(FOO, 3), (BAR, 5)],
        [(0, 0), (100, 1)],
    )
    assert got == expected


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        ([(10, 1), (90, 9)], {0: 10, 9: 10, 10: 10, 15: 15, 20: 20, 89: 89, 90: 90, 100: 90}),
        ([(0, 2), (40, 10), (100, 0)], {0: 20, 20: 60, 30: 80, 40: 100, 70: 50, 100: 0}),
        ([(0, 2), (40, 2), (100, 2)], {0: 20, 20: 20, 100: 20}),
        # On a falling slope Go truncates towards zero: 100 - 33/7, not 100 - ceil(33/7).
        ([(0, 10), (70, 7)], {11: 96, 12: 95, 13: 95}),
        ([(50, 5)], {0: 50, 50: 50, 100: 50}),
    ],
)
def test_broken_lines(shape: list[tuple[int, int]], line: dict[int, int]) -> None:
    points = tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in shape)
    strategy = RequestedToCapacityRatio((), points)
    assert {u: int(strategy._by_utilization[u]) for u in line} == line
