"""What is told of attempts: the original's lines, and once what a pod waits for."""

from __future__ import annotations

import logging

import pytest

from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.static.narrator import Narrator
from stowplan.static.settings import StaticSettings, make_engine
from stowplan.testing import node, pod

WAITS = (
    "Pod web-0 stays pending: no node is labelled for it; type: kubectl label node NODE "
    "rf.scheduler.test.default/web-0="
)


class Stage:
    """An engine whose attempts are narrated."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *, respect: bool = False) -> None:
        self._caplog = caplog
        caplog.set_level(logging.DEBUG, "__main__")
        settings = StaticSettings(name="test", respect_node_state=respect)
        self.engine, _ = make_engine(settings)
        self.handlers = EventHandlers(self.engine)
        self._narrator = Narrator(self.engine, settings.labels)
        self.web = pod("web-0", scheduler_name="test")

    def attempt(self) -> Placement | Failure:
        self.engine.queue.activate([self.web])
        outcome = self.engine.attempt()
        assert outcome is not None
        self._narrator(outcome)
        return outcome

    def told(self) -> list[str]:
        lines = [
            f"{record.levelname} {record.getMessage()}"
            for record in self._caplog.records
            if record.name == "__main__"
        ]
        self._caplog.clear()
        return lines


def test_a_pod_that_waits_is_told_once_and_placed(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(caplog)
    old = node("n1")
    stage.handlers.add_node(old)
    stage.handlers.add_node(node("n2"))
    stage.handlers.add_pod(stage.web)
    stage.attempt()
    assert stage.told() == [
        "DEBUG Scheduling pod web-0",
        "DEBUG Checking node n1",
        "DEBUG Pod web-0 is not schedulable on n1",
        "DEBUG Checking node n2",
        "DEBUG Pod web-0 is not schedulable on n2",
        f"WARNING {WAITS}",
    ]
    stage.handlers.add_node(node("n3"))
    stage.attempt()
    assert stage.told() == ["DEBUG Scheduling pod web-0"], "nothing new"
    stage.handlers.add_node(node("n4", labels={"rf.scheduler.test.default/web-0": ""}))
    assert isinstance(stage.attempt(), Placement)
    assert stage.told() == ["DEBUG Scheduling pod web-0", "DEBUG Checking node n4"]


def test_with_respect_the_reasons_are_told_when_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(caplog, respect=True)
    stage.handlers.add_node(node("n1"))
    stage.handlers.add_pod(stage.web)
    stage.attempt()
    assert stage.told()[-1] == f"WARNING {WAITS}"
    pinned = {"rf.scheduler.test.default/web-0": ""}
    stage.handlers.add_node(node("n2", labels=pinned, unschedulable=True))
    stage.attempt()
    (_, reasons) = stage.told()
    assert reasons.startswith("WARNING Pod web-0 stays pending: 0/2 nodes are available: 1 node(s)")
    stage.attempt()
    assert stage.told() == ["DEBUG Scheduling pod web-0"]


def test_only_so_much_is_remembered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stowplan.static.narrator._MOST_TOLD", 1)
    stage = Stage(caplog)
    stage.handlers.add_node(node("n1"))
    stage.handlers.add_pod(stage.web)
    first = stage.web
    stage.attempt()
    stage.web = pod("web-1", scheduler_name="test")
    stage.handlers.add_pod(stage.web)
    stage.attempt()
    stage.told()
    stage.web = first
    stage.attempt()
    assert f"WARNING {WAITS}" in stage.told(), "it was forgotten for the other"
