"""Scores by devices: the cases of upstream's resource_allocation_test.go, and both forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.device_objects import ResourceClaim, ResourceSlice
from stowplan.cluster.extended_resources import DeviceClassByResource
from stowplan.config.plugin_args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from stowplan.framework.forms import ScoreStep
from stowplan.framework.plugin import Plugin
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.unit.plugins.dra.device_kit import Scene, allocation, claim, device_class, gpus

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
LARGE = (
    'device.driver == "gpu.example.com" && '
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("8Gi")) >= 0 && '
    'device.attributes["gpu.example.com"].model.startsWith("SOME-")'
)


def _holds(device: str, pool: str = "a", **more: Any) -> ResourceClaim:
    return claim(f"holds-{device}", allocation=allocation(pool, device, **more))


def _per_device() -> ResourceSlice:
    zone = [{"key": "zone", "operator": "In", "values": ["x"]}]
    places: list[dict[str, Any]] = [
        {"nodeName": "a"},
        {"nodeName": "other"},
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": zone}]}},
    ]
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": "SOME-X"}},
            "capacity": {"memory": {"value": "16Gi"}},
            **place,
        }
        for number, place in enumerate(places)
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return gpus("", devices=devices, name="s", pool=pool, perDeviceNodeSelection=True)


@pytest.mark.parametrize(
    ("resource", "selectors", "things", "expected"),
    [
        (GPU, (), [gpus("a", "gpu-0")], (1, 0)),
        (IMPLICIT, (), [gpus("a", "gpu-0")], (1, 0)),
        (GPU, (), [], (0, 0)),
        (GPU, (), [gpus("a", "gpu-0", "gpu-1"), _holds("gpu-0")], (2, 1)),
        (GPU, (), [gpus("a", "gpu-0", "gpu-1"), _holds("gpu-0", shareID="one")], (2, 1)),
        (
            GPU,
            (),
            [
                gpus("a", "gpu-0", "gpu-1", "gpu-2"),
                _holds("gpu-0"),
                _holds("gpu-1", shareID="one"),
            ],
            (3, 2),
        ),
        (GPU, (LARGE,), [_per_device(), _holds("gpu-0", "p")], (2, 1)),
        # Not in upstream's table: elsewhere, everywhere, two generations, a selector that fails.
        (GPU, (), [gpus("b", "gpu-0")], (0, 0)),
        (GPU, (), [gpus("", "gpu-0", name="n", allNodes=True)], (1, 0)),
        (
            GPU,
            (),
            [gpus("a", "gpu-0"), gpus("a", "gpu-0", name="n", generation=2), _holds("gpu-0")],
            (2, 2),
        ),
        (GPU, ("device.driver == 1 / 0 + ''",), [gpus("a", "gpu-0")], (0, 0)),
        (GPU, ('device.attributes["d"].x == 1',), [gpus("a", "gpu-0")], (0, 0)),
    ],
)
def test_devices_of_a_class(
    resource: str, selectors: tuple[str, ...], things: list[Any], expected: tuple[int, int]
) -> None:
    scene = Scene(
        [make_node("a", labels={"zone": "x"}), make_node("b")],
        device_class("gpu", *selectors, extendedResourceName=GPU),
        *things,
    )
    classes = scene.cache.catalog.shared(DeviceClassByResource)
    totals = classes.totals(scene.cache.table, resource)
    assert totals is not None
    row = scene.cache.table.row_of["a"]
    assert totals.of_row(row, 0, 0) == expected


def test_numbers_follow_slices_claims_and_nodes() -> None:
    scene = Scene([make_node("a")], device_class(extendedResourceName=GPU))
    table, classes = scene.cache.table, scene.cache.catalog.shared(DeviceClassByResource)

    def numbers(node: str) -> tuple[int, int]:
        totals = classes.totals(table, GPU)
        assert totals is not None
        return totals.of_row(table.row_of[node], 0, 0)

    assert numbers("a") == (0, 0)
    scene.put(gpus("a", "gpu-0", "gpu-1"), gpus("b", "gpu-0"))
    assert numbers("a") == (2, 0)
    scene.put(_holds("gpu-1"))
    assert numbers("a") == (2, 1)
    scene.cache.set_node(make_node("b"))
    assert (numbers("a"), numbers("b")) == ((2, 1), (1, 0))
    scene.put(gpus("a", "gpu-0"))
    assert numbers("a") == (1, 0)
    scene.put(gpus("a", "gpu-0", "gpu-1"))
    scene.remove("holds-gpu-1")
    assert numbers("a") == (2, 0)
    scene.put(device_class("gpu", "false", extendedResourceName=GPU))
    assert numbers("a") == (0, 0)


def _scores(plugin: Plugin, scene: Scene, requests: dict[str, Any]) -> dict[str, int]:
    """By node, the same from columns and one by one."""
    table = scene.cache.table
    cycle = scene.cycle(make_pod(cpu=None, memory=None, requests=requests))
    step = ScoreStep(plugin, 1)
    assert plugin.sign(cycle.info) is None
    columns = np.zeros(table.capacity, np.int64)
    step.fill(cycle, slice(None), columns)
    rows = table.order.tolist()
    assert [int(columns[row]) for row in rows] == [step.score_of_row(cycle, row) for row in rows]
    return {table.names[row]: int(columns[row]) for row in rows}


def _shared(*things: Any) -> Scene:
    nodes = [make_node("a"), make_node("b"), make_node("plugin", resources={GPU: "4"})]
    return Scene(
        nodes,
        device_class(extendedResourceName=GPU),
        gpus("a", "gpu-0", "gpu-1", "gpu-2", "gpu-3"),
        gpus("b", "gpu-0", "gpu-1"),
        _holds("gpu-0"),
        *things,
    )


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("LeastAllocated", {"a": 50, "b": 50, "plugin": 75}),
        ("MostAllocated", {"a": 50, "b": 50, "plugin": 25}),
    ],
)
def test_fit_scores_devices(strategy: str, expected: dict[str, int]) -> None:
    scene = _shared()
    chosen = ScoringStrategy(type=strategy, resources=(ResourceSpec(GPU, 1),))
    plugin = NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=chosen), scene.handle)
    assert _scores(plugin, scene, {GPU: 1}) == expected


def test_balanced_allocation_scores_devices() -> None:
    scene = _shared()
    args = NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec("cpu"), ResourceSpec(GPU)))
    plugin = NodeResourcesBalancedAllocation(args, scene.handle)
    # a: gpu 1/4 -> 2/4, cpu 0 -> 2/4: balanced with the pod. b: 0 -> 1/2 and 0 -> 2/4.
    assert _scores(plugin, scene, {GPU: 1, "cpu": 2}) == {"a": 81, "b": 75, "plugin": 68}
