"""Evictions against a real API server: no pod is evicted needlessly, and none is held for ever."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.errors import NotFound
from stowplan.framework.status import unschedulable, wait
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.scheduler import eviction
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.outcome import Failure
from stowplan.testing import node, pod
from tests.unit.api.api_kit import until
from tests.unit.scheduler.live_bench import Live, live
from tests.unit.scheduler.scheduler_kit import plugin

SMALL = node("n1", cpu=4)
_READY = {"type": "Ready", "status": "True"}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "_PAUSES_S", (0.1, 0.1, 0.1, 0.1))


class Scene:
    """A full node, and an important pod that has decided who must go."""

    def __init__(self, it: Live) -> None:
        self.it = it
        self.evictor = Evictor(it.engine, it.client, it.recorder, it.store.get)
        vip = {"metadata": {"name": "vip"}, "value": 10}
        it.server.create("scheduling.k8s.io", "v1", "priorityclasses", vip)

    def stand(self, *names: str, cpu: int = 1) -> list[Pod]:
        return [self.it.post(pod(name, node="n1", cpu=cpu)) for name in names]

    def preempt(self, cpu: int) -> Failure:
        self.it.post(pod("vip", cpu=cpu, priority_class_name="vip"))
        failure = self.it.failed()
        assert failure.eviction is not None
        return failure

    async def hear(self, pod: Pod) -> None:
        """The watch delivers the pod as the API server has it."""
        old, new = self.it.store[pod.key], await self.it.get(pod)
        self.it.store[pod.key] = new
        self.it.handlers.update_pod(old, new)

    async def write(self, pod: Pod, **status: Any) -> None:
        """Another client changes the pod's status."""
        await self.it.client.patch(
            PODS, pod.metadata.name, {"status": status}, namespace="default", subresource="status"
        )

    async def end(self) -> None:
        await self.evictor.drain(10)

    async def left(self, *pods: Pod) -> list[str]:
        """Names of those that are on their way out or gone."""
        names = []
        for each in pods:
            try:
                current = await self.it.get(each)
            except NotFound:
                names.append(each.metadata.name)
                continue
            if current.is_terminating:
                names.append(each.metadata.name)
        return names


async def test_victims_leave_and_the_pod_is_held_until_they_do() -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        pods = scene.stand("a", "b", "c", "d")
        failure = scene.preempt(cpu=3)
        assert it.where(failure.pod) == "unschedulable"
        assert it.handle.preempting.holds(failure.pod)
        scene.evictor.start(failure)
        await scene.end()
        assert len(await scene.left(*pods)) == 3
        assert not it.handle.preempting.holds(failure.pod)
        reasons = [reason for _, reason, _ in await it.events()]
        assert reasons == ["Preempted"] * 3
        assert it.engine.metrics.preemptions.at("success").value == 1
        assert it.engine.metrics.preemption_victims.at().count == 1


async def test_the_condition_of_a_victim_comes_after_those_that_it_has() -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        (victim,) = scene.stand("a")
        await scene.write(victim, conditions=[_READY])
        await scene.hear(victim)
        scene.evictor.start(scene.preempt(cpu=4))
        await scene.end()
        conditions = (await it.get(victim)).status.conditions or ()
        assert [each.type for each in conditions] == ["Ready", "DisruptionTarget"]


@pytest.mark.parametrize("fate", ["deleted", "bound by another"])
async def test_nobody_dies_for_a_pod_that_waits_no_more(fate: str) -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        pods = scene.stand("a", "b", "c", "d")
        failure = scene.preempt(cpu=4)
        if fate == "deleted":
            it.delete(failure.pod)
        else:
            it.update(failure.pod, node_name="n2")
        scene.evictor.start(failure)
        await scene.end()
        assert await scene.left(*pods) == []


async def test_the_last_victim_is_spared_if_the_pod_goes_in_the_middle() -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        pods = scene.stand("a", "b")
        failure = scene.preempt(cpu=4)
        assert failure.eviction is not None
        first, last = failure.eviction.victims
        path = f"pods/{first.metadata.name}"
        it.fault(path, method="DELETE", action="delay", delay_s=0.3)
        scene.evictor.start(failure)
        await asyncio.sleep(0.1)
        it.delete(failure.pod)
        await scene.end()
        assert last.metadata.name not in await scene.left(*pods)


@pytest.mark.parametrize("request_kind", [{"method": "DELETE"}, {"method": "PATCH"}])
async def test_a_request_that_fails_brings_the_pod_back_at_once(
    request_kind: dict[str, Any],
) -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        scene.stand("a")
        failure = scene.preempt(cpu=4)
        it.fault("pods/a", status=403, **request_kind)
        scene.evictor.start(failure)
        await scene.end()
        assert it.where(failure.pod) == "active"
        assert it.engine.metrics.preemptions.at("error").value == 1
        assert not it.handle.preempting.holds(failure.pod)


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    "fault",
    [
        {"action": "drop"},
        {"action": "lose-answer"},
        {"action": "arrive-late", "delay_s": 0.0},
        {"status": 409},
        {"status": 503},
    ],
    ids=str,
)
async def test_a_request_without_a_definite_answer_is_sent_again(
    method: str, fault: dict[str, Any]
) -> None:
    """Or else the preemptor would choose another victim, and both would go."""
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        (victim,) = scene.stand("a")
        failure = scene.preempt(cpu=4)
        wrong = it.fault("pods/a", method=method, **fault)
        scene.evictor.start(failure)
        await until(lambda: wrong.hits == 1)
        await asyncio.sleep(0.02)
        await scene.hear(victim)
        await scene.end()
        assert await scene.left(victim) == ["a"]
        assert it.engine.metrics.preemptions.at("success").value == 1
        assert [reason for _, reason, _ in await it.events()] == ["Preempted"]


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_late_request_does_nothing_to_a_pod_that_has_changed(method: str) -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        (victim,) = scene.stand("a")
        failure = scene.preempt(cpu=4)
        late = it.fault("pods/a", method=method, action="arrive-late", delay_s=0.3)
        scene.evictor.start(failure)
        await until(lambda: late.hits == 1)
        it.delete(failure.pod)
        await scene.write(victim, conditions=[_READY])
        await scene.end()
        await asyncio.sleep(0.4)
        assert await scene.left(victim) == []
        conditions = (await it.get(victim)).status.conditions or ()
        assert ("DisruptionTarget" in [each.type for each in conditions]) == (method == "DELETE")


async def test_a_late_end_of_a_nomination_leaves_the_next_one_alone() -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        scene.stand("a", cpu=4)
        lesser = it.post(pod("lesser", cpu=8))
        it.failed()
        await scene.write(lesser, nominatedNodeName="n1")
        await scene.hear(lesser)
        failure = scene.preempt(cpu=4)
        late = it.fault("pods/lesser", method="PATCH", action="arrive-late", delay_s=0.3)
        scene.evictor.start(failure)
        await until(lambda: late.hits == 1)
        await scene.write(lesser, nominatedNodeName="n2")
        await scene.hear(lesser)
        await scene.end()
        await asyncio.sleep(0.4)
        assert (await it.get(lesser)).status.nominated_node_name == "n2"
        assert it.engine.metrics.preemptions.at("success").value == 1


async def test_a_victim_that_is_gone_already_is_no_failure() -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        (victim,) = scene.stand("a")
        failure = scene.preempt(cpu=4)
        await it.client.request(
            "DELETE", "/api/v1/namespaces/default/pods/a", params={"gracePeriodSeconds": 0}
        )
        scene.evictor.start(failure)
        await scene.end()
        assert it.engine.metrics.preemptions.at("success").value == 1
        assert victim.uid


async def test_a_held_victim_that_is_refused_meanwhile_does_not_die() -> None:
    async with live(DefaultPreemption(), plugin("Hold", permit=wait()), nodes=[SMALL]) as it:
        scene = Scene(it)
        victim = it.post(pod("a", cpu=4))
        placement = it.placed()
        failure = scene.preempt(cpu=4)
        assert placement.waiting is not None
        it.handle.waiting.remove(victim.uid)
        it.engine.bind_failed(placement, unschedulable("not now").by("Hold"))
        scene.evictor.start(failure)
        await scene.end()
        assert await scene.left(victim) == []
        assert it.where(failure.pod) == "active"


async def test_victims_that_leave_already_are_not_told_again() -> None:
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        Scene(it).stand("a", cpu=4)
        it.update(it.store["default/a"], deletion_timestamp="2026-01-01T00:00:00Z")
        it.post(pod("vip", cpu=4, priority_class_name="vip"))
        failure = it.failed()
        assert failure.eviction is None
        assert failure.nominated_node == "n1"
        assert not it.handle.preempting.holds(failure.pod)


@pytest.mark.parametrize("early", range(4))
@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_the_pod_comes_back_in_whatever_order_its_victims_go(
    order: tuple[int, ...], early: int
) -> None:
    """So many of them are gone before the eviction's requests are answered."""
    async with live(DefaultPreemption(), nodes=[SMALL]) as it:
        scene = Scene(it)
        scene.stand("a", "b", "c", cpu=1)
        failure = scene.preempt(cpu=4)
        assert failure.eviction is not None
        victims = failure.eviction.victims
        it.fault(f"pods/{victims[0].metadata.name}", method="DELETE", action="delay", delay_s=0.1)
        scene.evictor.start(failure)
        await asyncio.sleep(0.05)
        assert it.handle.preempting.holds(failure.pod)
        for index in order[:early]:
            it.delete(victims[index])
        await scene.end()
        for index in order[early:]:
            it.delete(victims[index])
        assert it.where(failure.pod) in ("active", "backoff")
