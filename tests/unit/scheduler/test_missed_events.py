"""Events that a killed predecessor did not write are written by its successor, and no others."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Condition, OwnerReference, Pod, PodStatus
from stowplan.api.recorder import EventRecorder
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.clock import VirtualClock, rfc3339
from stowplan.errors import ServerError
from stowplan.scheduler import missed_events
from stowplan.scheduler.missed_events import write_missed_events
from stowplan.scheduler.reporter import scheduled
from stowplan.testing.builders import pod as make_pod

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
START = 1_700_000_000


class Counting(InProcess):
    """Counts requests: dry runs and others."""

    requests: Counter[str]
    refuses_probes = False

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        kind = "probe" if (options.get("params") or {}).get("dryRun") else method
        self.requests[kind] += 1
        if kind == "probe" and self.refuses_probes:
            raise ServerError("no", status=503)
        return await super().request(method, path, **options)


class Stage:
    def __init__(self) -> None:
        self.cluster = EmbeddedCluster()
        self.network = Counting(self.cluster)
        self.requests = self.network.requests = Counter()
        self.client = ApiClient(ClusterConfig(server=SERVER), transport=self.network)
        self.pods: list[Pod] = []

    def bind(self, *, at: float) -> Pod:
        """A pod that the API server says was bound then."""
        name = f"p{len(self.pods)}"
        bound = make_pod(name, node="n1", status=_scheduled_at(rfc3339(at)))
        self.pods.append(bound)
        return bound

    async def write(self, *pods: Pod) -> None:
        async with self.recorder() as recorder:
            for pod in pods:
                recorder.event(pod, **scheduled(pod, "n1"))

    async def recover(self) -> Counter[str]:
        """What the next scheduler does first; the requests it took."""
        before = self.requests.copy()
        async with self.recorder() as recorder:
            await write_missed_events(self.pods, recorder, serves=lambda _: True)
        return self.requests - before

    def recorder(self) -> _Running:
        return _Running(EventRecorder(self.client, clock=VirtualClock(), retry_initial_s=0.001))

    async def events(self) -> dict[str, list[str]]:
        """UIDs of pods with the times of their events."""
        body = await self.client.request("GET", EVENTS)
        found: dict[str, list[str]] = {}
        for event in msgspec.json.decode(body)["items"]:
            found.setdefault(event["regarding"]["uid"], []).append(event["eventTime"])
        return found

    async def missing(self) -> list[str]:
        events = await self.events()
        assert all(len(times) == 1 for times in events.values()), "none is there twice"
        return [pod.metadata.name for pod in self.pods if pod.uid not in events]


def _scheduled_at(at: str | None) -> PodStatus:
    condition = Condition(type="PodScheduled", status="True", last_transition_time=at)
    return PodStatus(conditions=(condition,))


class _Running:
    def __init__(self, recorder: EventRecorder) -> None:
        self.recorder = recorder
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EventRecorder:
        self.task = asyncio.create_task(self.recorder.run())
        return self.recorder

    async def __aexit__(self, *_: object) -> None:
        assert self.task is not None
        assert await self.recorder.drain(10)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_after_an_orderly_end_one_question_is_asked_and_only_the_newest_are_tried() -> None:
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    await stage.write(*stage.pods)
    took = await stage.recover()
    assert took["probe"] == 1
    assert 64 <= took["POST"] <= 64 + 310
    assert await stage.missing() == []


@pytest.mark.parametrize("seed", range(10))
async def test_binds_of_one_second_have_no_order(seed: int) -> None:
    stage, dice = Stage(), Random(seed)
    for _ in range(300):
        stage.bind(at=START)
    lost = set(dice.sample(range(300), dice.randint(1, 20)))
    await stage.write(*(pod for number, pod in enumerate(stage.pods) if number not in lost))
    await stage.recover()
    assert await stage.missing() == []


async def test_missed_events_that_were_being_written_when_the_next_one_was_killed_too() -> None:
    """Several are written at a time: the last missed ones together with the first new ones."""
    stage = Stage()
    missed = [stage.bind(at=START) for _ in range(20)]
    new = [stage.bind(at=START + 60) for _ in range(200)]
    await stage.write(*missed[:15], *new[:5], *missed[16:18])
    await stage.recover()
    assert await stage.missing() == []


async def test_what_the_killed_one_did_not_write_is_written_with_its_time() -> None:
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    await stage.write(*stage.pods[:700])
    took = await stage.recover()
    assert await stage.missing() == []
    assert took["probe"] <= 1 + 10, "a binary search"
    assert 300 <= took["POST"] <= 300 + 2 * (64 + 310), "and few are tried that are there"
    last = (await stage.events())[stage.pods[-1].uid]
    assert last == [f"{rfc3339(START + 99)[:-1]}.000000Z"]


@pytest.mark.parametrize("seed", range(10))
async def test_several_killed_one_after_the_other(seed: int) -> None:
    """Each makes up for the last before it writes its own, and gets so far and no further."""
    stage, dice = Stage(), Random(seed)
    now = float(START)
    for _ in range(dice.randint(2, 6)):
        written: list[Pod] = []
        missing = set(await stage.missing())
        written += [pod for pod in stage.pods if pod.metadata.name in missing]
        for _ in range(dice.randint(0, 60)):
            now += dice.choice([0, 0.02, 0.5])
            written.append(stage.bind(at=now))
        await stage.write(*written[: dice.randint(0, len(written))])
        now += dice.uniform(1, 60)
    if stage.pods:
        await stage.recover()
    assert await stage.missing() == []


@pytest.mark.parametrize("late_s", [1, 7, 25])
@pytest.mark.parametrize("is_more_missing", [False, True])
async def test_a_bind_whose_answer_got_lost(late_s: int, is_more_missing: bool) -> None:
    """Its event comes after those of pods bound later, and the leader is killed in between."""
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    last = 700 if is_more_missing else 1000
    doubted = stage.pods[last - 1 - 10 * late_s]
    await stage.write(*(pod for pod in stage.pods[:last] if pod is not doubted))
    await stage.recover()
    assert await stage.missing() == []


async def test_in_a_rush_few_are_tried_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_events, "_DISORDERED", 120)
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    await stage.write(*stage.pods)
    assert (await stage.recover())["POST"] == 121


async def test_what_is_long_past_stays_so() -> None:
    stage = Stage()
    old = [stage.bind(at=START + number) for number in range(10)]
    stage.bind(at=START + 1000)
    assert (await stage.recover())["POST"] == 1
    assert await stage.missing() == [pod.metadata.name for pod in old]


async def test_pods_that_no_scheduler_bound_are_left_out() -> None:
    stage = Stage()
    node = OwnerReference(kind="Node", name="n1", uid="u", api_version="v1")
    stage.pods += [
        make_pod(node="n1"),
        make_pod(status=_scheduled_at(rfc3339(START))),
        make_pod(node="n1", owner=node, status=_scheduled_at(rfc3339(START))),
    ]
    assert await stage.recover() == {}


async def test_a_refusal_is_no_trouble() -> None:
    stage = Stage()
    for number in range(100):
        stage.bind(at=START + number)
    stage.cluster.faults.append(Fault("/events", status=403, times=None))
    assert (await stage.recover())["POST"] == 0


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_api_server_in_trouble_is_asked_again(status: int) -> None:
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    await stage.write(*stage.pods[:700])
    stage.cluster.faults.append(Fault("/events", status=status, times=3))
    took = await stage.recover()
    assert await stage.missing() == []
    assert took["probe"] <= 3 + 1 + 10


async def test_where_nothing_can_be_learnt_the_newest_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missed_events, "_TIMEOUT_S", 0.1)
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    await stage.write(*stage.pods[:700])
    stage.network.refuses_probes = True
    await stage.recover()
    assert await stage.missing() == []


async def test_a_namespace_that_is_being_deleted_says_nothing_about_other_events() -> None:
    stage = Stage()
    for number in range(1000):
        stage.bind(at=START + number // 10)
    await stage.write(*stage.pods[:700])
    stage.cluster.faults.append(
        Fault("/events", status=403, message="forbidden: default is being terminated", times=1)
    )
    await stage.recover()
    assert await stage.missing() == []
