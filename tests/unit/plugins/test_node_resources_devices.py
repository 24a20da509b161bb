"""NodeResourcesFit leaves resources that devices stand for to DynamicResources."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.device_objects import DeviceClass, DeviceClassSpec
from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.resources import DEVICE_CLASSES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.plugin_args import NodeResourcesFitArgs
from stowplan.framework.handle import Handle
from stowplan.framework.status import SUCCESS, Status, unresolvable, unschedulable
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.queue.events import ActionType, EventResource, Hint
from stowplan.testing import node as make_node
from tests.unit.plugins.plugin_kit import asking, hint, in_place, run_filter

GPU = "example.com/gpu"
OTHER = "example.com/other"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpuclass"


def _class(name: str = "gpuclass", resource: str | None = GPU) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource)
    )


def _fit(*classes: DeviceClass, args: NodeResourcesFitArgs | None = None) -> NodeResourcesFit:
    catalog = Catalog()
    for one in classes:
        catalog[DEVICE_CLASSES].set(one)
    return NodeResourcesFit(args or NodeResourcesFitArgs(), Handle(catalog=catalog))


def _wants(**requests: Any) -> Pod:
    return asking(**requests)


def _never(name: str) -> Status:
    return unresolvable(f"Insufficient {name}").by("NodeResourcesFit")


def _short(name: str) -> Status:
    return unschedulable(f"Insufficient {name}").by("NodeResourcesFit")


@pytest.mark.parametrize("many", [0, 30], ids=["short request", "long request"])
@pytest.mark.parametrize(
    ("offers", "wanted", "expected"),
    [
        ({}, {GPU: 1}, SUCCESS),
        ({}, {IMPLICIT: 1}, SUCCESS),
        ({GPU: "0"}, {GPU: 1}, SUCCESS),
        ({GPU: "2"}, {GPU: 2}, SUCCESS),
        ({GPU: "2"}, {GPU: 3}, _never(GPU)),
        ({}, {GPU: 1, OTHER: 1}, _never(OTHER)),
        ({OTHER: "1"}, {GPU: 1, OTHER: 1}, SUCCESS),
    ],
)
def test_filter(
    offers: dict[str, str], wanted: dict[str, int], expected: Status, many: int
) -> None:
    more = {f"example.com/many-{number}": 1 for number in range(many)}
    nodes = [
        make_node("here", resources={**offers, **dict.fromkeys(more, "9")}),
        make_node("elsewhere", resources={GPU: "4", OTHER: "4", **dict.fromkeys(more, "9")}),
    ]
    answers = run_filter(_fit(_class()), _wants(**wanted, **more), in_place(nodes))
    assert answers == {"here": expected, "elsewhere": SUCCESS}


def test_pods_that_hold_the_resource_use_up_what_a_device_plugin_offers() -> None:
    cache = in_place(
        [make_node("plugin", resources={GPU: "1"}), make_node("devices")],
        [asking("plugin", **{GPU: 1}), asking("devices", **{GPU: 1})],
    )
    answers = run_filter(_fit(_class()), _wants(**{GPU: 1}), cache)
    assert answers == {"plugin": _short(GPU), "devices": SUCCESS}


def test_without_a_class_the_resource_is_missing() -> None:
    cache = in_place([make_node("n")])
    answers = run_filter(_fit(), _wants(**{GPU: 1}), cache)
    assert answers == {"n": _never(GPU)}


def test_columns_are_shared_only_while_the_same_classes_answer() -> None:
    fit = _fit()
    info = compile_pod(_wants(**{GPU: 1}))
    before = fit.sign(info)
    fit.handle.catalog[DEVICE_CLASSES].set(_class())
    assert fit.sign(info) != before
    fit.handle.catalog[DEVICE_CLASSES].remove("gpuclass")
    assert fit.sign(info) == before


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {}, Hint.QUEUE),
        (None, {GPU: "0"}, Hint.QUEUE),
        (None, {GPU: "1"}, Hint.SKIP),
        ({}, {}, Hint.QUEUE),
        ({GPU: "0"}, {GPU: "0"}, Hint.QUEUE),
        ({GPU: "4"}, {GPU: "4"}, Hint.SKIP),
        ({GPU: "1"}, {GPU: "4"}, Hint.QUEUE),
    ],
)
def test_hint_when_nodes_come_or_change(
    old: dict[str, str] | None, new: dict[str, str], expected: Hint
) -> None:
    before = None if old is None else make_node("n", resources=old)
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_ALLOCATABLE
    mine = _wants(**{GPU: 2})
    after = make_node("n", resources=new)
    assert hint(_fit(_class()), "Node", action, mine, before, after) is expected


@pytest.mark.parametrize(
    ("wanted", "old", "new", "expected"),
    [
        ({"memory": 2}, _class(resource=None), _class(resource=None), Hint.SKIP),
        ({"memory": 2}, _class(), _class(), Hint.SKIP),
        ({IMPLICIT: 1}, None, _class(), Hint.QUEUE),
        ({IMPLICIT: 1}, None, _class("myclass"), Hint.SKIP),
        ({OTHER: 1}, None, _class("myclass"), Hint.SKIP),
        ({IMPLICIT: 1}, _class(resource=None), _class(), Hint.SKIP),
        ({GPU: 1}, None, _class(), Hint.QUEUE),
        ({GPU: 1}, _class(resource="example.com/gpu1"), _class(), Hint.QUEUE),
    ],
)
def test_hint_when_classes_come_or_change(
    wanted: dict[str, int], old: DeviceClass | None, new: DeviceClass, expected: Hint
) -> None:
    action = ActionType.ADD if old is None else ActionType.UPDATE
    found = hint(_fit(), EventResource.DEVICE_CLASS, action, _wants(**wanted), old, new)
    assert found is expected
