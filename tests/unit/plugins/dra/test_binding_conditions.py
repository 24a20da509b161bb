"""Devices that must be prepared before their pod is bound."""

from __future__ import annotations

import asyncio
from typing import Any

from stowplan.config.durations import Duration
from stowplan.config.plugin_args import DynamicResourcesArgs
from stowplan.framework.status import Status, error
from stowplan.testing import node
from tests.unit.plugins.dra.device_kit import DRIVER, Scene, claim, device_class, gpus, using

NODES = [node("a"), node("b")]
CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def attached(*types: str) -> list[dict[str, Any]]:
    conditions = [
        {"type": each, "status": "True", "reason": "R", "message": "it's"} for each in types
    ]
    return [{"driver": DRIVER, "pool": "a", "device": "gpu-0", "conditions": conditions}]


class Waiting:
    """A pod whose device must be prepared."""

    def __init__(self) -> None:
        device = {"name": "gpu-0", **CONDITIONS}
        args = DynamicResourcesArgs(binding_timeout=Duration(60))
        self.scene = Scene(NODES, device_class(), gpus("a", devices=[device]), claim(), args=args)
        self.pod = using("gpu")
        self.cycle = self.scene.reserve(self.pod, "a")
        self.task = asyncio.create_task(self.scene.plugin.pre_bind(self.cycle, self.pod, "a"))

    async def go_on(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def report(self, *types: str) -> None:
        await self.go_on()
        assert not self.task.done()
        wire = self.scene.server.claims["gpu"]
        wire["status"]["devices"] = attached(*types)
        self.scene.server.change("gpu")
        self.scene.put(self.scene.server.claim())
        await self.go_on()

    def outcomes(self) -> set[tuple[str, str]]:
        return {(name, labels[2]) for name, labels, _ in self.scene.observed}


def both(outcome: str) -> set[tuple[str, str]]:
    return {
        ("scheduler_dra_bindingconditions_wait_duration_seconds", outcome),
        ("scheduler_dra_bindingconditions_allocations_total", outcome),
    }


async def test_a_pod_waits_until_its_device_is_prepared() -> None:
    waiting = Waiting()
    await waiting.report()
    assert not waiting.task.done()
    await waiting.report("ready")
    assert waiting.task.result() is None
    assert waiting.scene.recorded == [
        "BindingConditionsPending: waiting for binding conditions for device on node a"
    ]
    assert waiting.outcomes() == both("success")


async def test_a_device_that_failed_ends_the_wait_and_is_given_back_later() -> None:
    waiting = Waiting()
    await waiting.report("broken")
    assert waiting.task.result() == error(
        'device binding failed: claim=gpu, reason=R, message="it\'s"'
    )
    assert waiting.outcomes() == both("failure")
    scene = waiting.scene
    refusal = "resourceclaim not available on the node"
    assert scene.filter(using("gpu")) == {"a": refusal, "b": refusal}
    cycle, _ = scene.filtered(using("gpu"))
    result = scene.post_filter(cycle)
    assert not isinstance(result, Status)
    assert result.status.message == "deallocation of ResourceClaim completed"


async def test_a_device_that_is_not_prepared_in_time() -> None:
    waiting = Waiting()
    await waiting.report()
    waiting.scene.clock.advance(61)
    await waiting.report()
    assert waiting.task.result() == error("device binding timeout: context deadline exceeded")
    assert waiting.outcomes() == both("timeout")
    assert waiting.scene.filter(using("gpu"))["a"] == "resourceclaim not available on the node"


async def test_a_claim_that_goes_while_its_pod_waits() -> None:
    waiting = Waiting()
    await waiting.go_on()
    waiting.scene.remove("gpu")
    await waiting.go_on()
    assert waiting.task.result() == error('could not find ResourceClaim "default/gpu"')
    assert waiting.outcomes() == both("error")
