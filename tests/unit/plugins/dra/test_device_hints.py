"""Which changes bring a pod back that DynamicResources refused, as upstream's table has it."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.queue.events import ActionType, EventResource, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.dra.device_kit import (
    Scene,
    allocation,
    claim,
    device_class,
    gpus,
    made_for,
    using,
)
from tests.unit.plugins.plugin_kit import hint

CLAIM, POD = EventResource.RESOURCE_CLAIM, EventResource.POD
GENERATED = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
GOT = allocation("a", "gpu-0")


def asked(scene: Scene, action: ActionType, old: Any, new: Any, *, of: Any = None) -> Hint | None:
    scene.put(new)
    return hint(scene.plugin, CLAIM, action, of or using("gpu"), old, new)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, claim(), Hint.QUEUE, id="the claim was made"),
        pytest.param(None, claim("other"), Hint.SKIP, id="another claim was made"),
        pytest.param(claim(), claim(version="2"), Hint.SKIP, id="its status is the same"),
        pytest.param(claim(), claim(allocation=GOT), Hint.QUEUE, id="it was allocated"),
        pytest.param(claim(allocation=GOT), claim(), Hint.QUEUE, id="it was deallocated"),
        pytest.param(
            claim("other", allocation=GOT), claim("other"), Hint.QUEUE, id="devices became free"
        ),
        pytest.param(
            claim("other"), claim("other", allocation=GOT), Hint.SKIP, id="another got devices"
        ),
        pytest.param(
            claim(allocation=GOT, reserved_for=[using(name="q")]),
            claim(allocation=GOT),
            Hint.QUEUE,
            id="a consumer left",
        ),
    ],
)
def test_changes_of_claims(old: Any, new: Any, expected: Hint) -> None:
    scene = Scene([node("a")], claim())
    action = ActionType.ADD if old is None else ActionType.UPDATE
    assert asked(scene, action, old, new) is expected


def test_a_pod_that_lacks_another_claim_waits_on() -> None:
    scene = Scene([node("a")])
    both = using("gpu", "missing")
    assert asked(scene, ActionType.ADD, None, claim(), of=both) is Hint.SKIP
    freed = claim("other", allocation=GOT)
    assert asked(scene, ActionType.UPDATE, freed, claim("other"), of=both) is Hint.SKIP


def test_the_claims_of_a_template_were_made() -> None:
    waiting = using(templates=["t"])
    ready = using(templates=["t"], status=made_for(("t", "made")))
    scene = Scene([node("a")], claim("made", owner=ready))
    assert hint(scene.plugin, POD, GENERATED, waiting, waiting, ready) is Hint.QUEUE
    assert hint(scene.plugin, POD, GENERATED, waiting, waiting, waiting) is Hint.SKIP
    assert hint(scene.plugin, POD, GENERATED, waiting, pod("q"), pod("q")) is Hint.SKIP


def test_other_events() -> None:
    plugin = Scene([node("a")]).plugin
    for resource, thing in (
        (EventResource.DEVICE_CLASS, device_class()),
        (EventResource.RESOURCE_SLICE, gpus("a", "gpu-0")),
        (EventResource.NODE, node("b")),
    ):
        assert hint(plugin, resource, ActionType.ADD, using("gpu"), None, thing) is Hint.QUEUE
        assert hint(plugin, resource, ActionType.DELETE, using("gpu"), thing, None) is None
    assert hint(plugin, CLAIM, ActionType.DELETE, using("gpu"), claim(), None) is None
    taint = ActionType.UPDATE_NODE_TAINT
    assert hint(plugin, EventResource.NODE, taint, using("gpu"), node("a"), node("a")) is None
