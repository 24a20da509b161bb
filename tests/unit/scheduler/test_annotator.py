"""Annotations of attempts: their limits, and that they never stand in the way of scheduling."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.errors import ApiUnavailable, Conflict, Forbidden, StowplanError
from stowplan.framework.status import error, unschedulable
from stowplan.scheduler.annotator import MOST_WAITING, Annotator
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.simulator_results import (
    HISTORY,
    LEFT_OUT,
    MOST_IN_ALL,
    MOST_OURS,
    PREFIX,
    Results,
    annotated,
)
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import changed

Json = dict[str, Any]


def size(texts: Mapping[str, str]) -> int:
    return sum(len(key) + len(text) for key, text in texts.items())


def results(length: int = 10) -> Results:
    names = ("filter-result", "score-result", "selected-node")
    return Results({f"{PREFIX}{name}": "x" * length for name in names})


def test_the_oldest_history_goes_first_and_all_of_it_stays_within_the_limit() -> None:
    current: dict[str, str] = {"own": "mine"}
    for number in range(100):
        made = results(1_000)
        made.values[f"{PREFIX}selected-node"] = f"n{number}"
        current |= annotated(made, current)
        assert size(current) <= MOST_OURS + size({"own": "mine"})
    history = [each[f"{PREFIX}selected-node"] for each in json.loads(current[HISTORY])]
    assert history == [f"n{number}" for number in range(100 - len(history), 100)]
    assert 5 < len(history) < 100


def test_a_pod_that_is_full_of_its_own_annotations_is_not_made_too_large() -> None:
    for own in (MOST_IN_ALL - 5_000, MOST_IN_ALL - 50, MOST_IN_ALL):
        current = {"own": "x" * (own - 3)}
        made = annotated(results(1_500), current)
        assert size({**current, **made}) <= MOST_IN_ALL


def test_a_history_that_something_else_has_written_is_replaced() -> None:
    for text in ("no json", '{"a": 1}', "[1, 2]"):
        made = annotated(results(), {HISTORY: text})
        assert len(json.loads(made[HISTORY])) == 1
    assert LEFT_OUT not in annotated(results(), {})


class Client:
    """Takes patches, or fails."""

    def __init__(self, problem: StowplanError | None = None, times: int = 1_000) -> None:
        self.problem = problem
        self.times = times
        self.patches: list[Json] = []

    async def patch(self, _: object, name: str, patch: Json, **more: Any) -> bytes:
        if self.problem is not None and self.times:
            self.times -= 1
            raise self.problem
        self.patches.append({"name": name, **patch, **more})
        return b""


class Stage:
    """An engine, its annotator, and a way to run it until all is written."""

    def __init__(self, runner: asyncio.Runner, client: Client, nodes: int = 2) -> None:
        self._runner = runner
        self.engine: Engine = build_engine(default_config(), clock=VirtualClock())
        self.pods: dict[str, Pod] = {}
        self.is_busy = False
        self.annotator = Annotator(
            self.engine,
            client,  # type: ignore[arg-type]  # it only patches
            self.pods.get,
            lambda: self.is_busy,
        )
        self.handlers = EventHandlers(self.engine)
        for number in range(nodes):
            self.handlers.add_node(node(f"n{number}", cpu=4))

    def attempt(self, made: Pod) -> Placement | Failure:
        self.pods[made.key] = made
        self.handlers.add_pod(made)
        outcome = self.engine.attempt()
        assert outcome is not None
        return outcome

    def bind(self, made: Pod) -> None:
        outcome = self.attempt(made)
        assert isinstance(outcome, Placement)
        self.engine.permitted(outcome)
        self.engine.bound(outcome)
        self.annotator.ended(outcome)

    def write(self, timeout_s: float = 5.0) -> None:
        async def until_written() -> None:
            running = asyncio.create_task(self.annotator.run())
            await self.annotator.drain(timeout_s)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        self._runner.run(until_written())


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


def said(patch: Json, name: str) -> Any:
    return json.loads(patch["metadata"]["annotations"][f"{PREFIX}{name}"])


def test_a_permit_plugin_that_refuses_is_named_and_bind_did_not_run(runner: asyncio.Runner) -> None:
    client = Client()
    stage = Stage(runner, client)
    outcome = stage.attempt(pod("web"))
    assert isinstance(outcome, Placement)
    status = unschedulable("no room for its disk").by("VolumeBinding")
    stage.annotator.ended(stage.engine.bind_failed(outcome, status))
    stage.write()
    (patch,) = client.patches
    assert patch["metadata"]["uid"] == outcome.pod.uid
    assert said(patch, "reserve-result")["VolumeBinding"] == "no room for its disk"
    assert said(patch, "bind-result") == {}
    other = stage.attempt(pod("other"))
    assert isinstance(other, Placement)
    text = 'running Bind plugin "DefaultBinder": no answer'
    stage.annotator.ended(stage.engine.bind_failed(other, error(text)))
    stage.write()
    assert said(client.patches[-1], "reserve-result")["VolumeBinding"] == "success"
    assert said(client.patches[-1], "bind-result") == {"DefaultBinder": text}


@pytest.mark.parametrize("problem", [Forbidden("no"), ApiUnavailable("away")])
def test_a_pod_that_cannot_be_annotated_is_scheduled_all_the_same(
    runner: asyncio.Runner,
    problem: StowplanError,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stowplan.scheduler.annotator._TRIES", 1)
    stage = Stage(runner, Client(problem))
    for number in range(3):
        stage.bind(pod(f"web-{number}"))
    stage.write()
    assert stage.annotator.dropped == 3
    assert stage.engine.queue.counts.in_flight == 0
    assert caplog.text.count("Cannot annotate some pods") == 1


def test_a_conflict_is_tried_again(runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet writes to a pod that was just bound."""
    monkeypatch.setattr("stowplan.scheduler.annotator._PAUSE_S", 0.001)
    client = Client(Conflict("the object has been modified"), times=2)
    stage = Stage(runner, client)
    stage.bind(changed(pod("web"), resource_version="7"))
    stage.write()
    (patch,) = client.patches
    assert patch["metadata"]["resourceVersion"] == "7"
    assert (stage.annotator.written, stage.annotator.dropped) == (1, 0)


def test_annotations_wait_while_pods_are_bound_and_only_so_many_of_them(
    runner: asyncio.Runner,
) -> None:
    client = Client()
    stage = Stage(runner, client, nodes=8)
    stage.is_busy = True
    for number in range(MOST_WAITING + 5):
        stage.bind(pod(f"web-{number}", cpu="1m"))
    stage.write(timeout_s=0.3)
    assert client.patches == []
    assert stage.annotator.dropped == 5
    stage.is_busy = False
    stage.write()
    assert len(client.patches) == stage.annotator.written == MOST_WAITING
    assert stage.annotator._under_way == {}


def test_a_pod_that_was_made_again_is_left_alone(runner: asyncio.Runner) -> None:
    client = Client()
    stage = Stage(runner, client)
    stage.bind(pod("web"))
    stage.pods["default/web"] = pod("web")
    stage.write()
    assert client.patches == []
