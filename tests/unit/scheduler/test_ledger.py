"""The ledger: what it keeps of attempts, within its budget, and in a file that others can read."""

from __future__ import annotations

import sqlite3
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path
from types import FrameType

import msgspec
import pytest

import stowplan
from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.errors import ConfigError
from stowplan.framework.status import error
from stowplan.queue.pod import Place, QueuedPod
from stowplan.scheduler import ledger_details
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.attempt_writer import MAX_WAITING
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.ledger import ENTRY_BYTES, Entry, Ledger, _undecided
from stowplan.scheduler.ledger_file import LedgerFile, read_attempts
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.server.library import profile_of
from stowplan.testing import node, pod
from tests.waiting import wait_for


def engine_with_nodes(count: int = 5, budget: int = 1024 * 1024) -> Engine:
    engine = build_engine(default_config(), clock=VirtualClock())
    engine.ledger = Ledger(engine.clock, budget)
    handlers = EventHandlers(engine)
    for number in range(count):
        handlers.add_node(node(f"worker-{number}", cpu=4))
    return engine


def attempt(engine: Engine, made: Pod) -> Placement | Failure:
    EventHandlers(engine).add_pod(made)
    outcome = engine.attempt()
    assert outcome is not None
    return outcome


def only(ledger: Ledger | None, key: str) -> Entry:
    assert ledger is not None
    (entry,) = ledger.of_pod(key)
    return entry


def test_a_placed_pod_has_its_scores_and_durations() -> None:
    engine = engine_with_nodes()
    outcome = attempt(engine, pod("web", cpu=1))
    assert isinstance(outcome, Placement)
    entry = only(engine.ledger, "default/web")
    assert (entry.result, entry.attempt) == ("binding", 1)
    engine.permitted(outcome)
    engine.bound(outcome)
    said = entry.read(is_whole=True)
    assert (said.result, said.node, said.uid) == ("scheduled", outcome.node, outcome.pod.uid)
    assert said.details is not None
    assert (said.details.evaluated_nodes, said.details.feasible_nodes) == (5, 5)
    points = ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"]
    assert list(said.details.durations) == points
    best = said.details.scores
    assert best[0].node == outcome.node
    assert len(best) == 4
    assert all(sum(each.by_plugin.values()) == each.total for each in best)
    assert best[0].by_plugin["NodeResourcesFit"] > 0


def test_tolerations_of_admission_are_no_constraint() -> None:
    engine = engine_with_nodes()
    admitted = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    EventHandlers(engine).add_pod(pod("web", tolerations=admitted))
    engine.attempt()
    assert only(engine.ledger, "default/web").details().constraints == []


def test_a_placed_pod_has_its_shape_its_wait_and_the_nodes_that_each_plugin_refused() -> None:
    engine = engine_with_nodes()
    handlers = EventHandlers(engine)
    handlers.add_node(node("gpu-1", cpu=8, taints=["gpu=yes:NoSchedule"]))
    handlers.add_node(node("small-1", cpu="500m"))
    handlers.add_node(node("small-2", cpu="500m"))
    tolerated = ["spot=yes:NoSchedule"]
    handlers.add_pod(pod("web", cpu="1500m", memory="2Gi", priority=7, tolerations=tolerated))
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(1.5)
    outcome = engine.attempt()
    assert isinstance(outcome, Placement)
    said = only(engine.ledger, "default/web").details()
    assert said.waited == 1.5
    assert said.requests == {"cpu": "1500m", "memory": "2Gi"}
    assert (said.priority, said.constraints) == (7, ["tolerations"])
    assert (said.evaluated_nodes, said.feasible_nodes) == (8, 5)
    assert said.refused == {"NodeResourcesFit": 2, "TaintToleration": 1}
    assert [(e.plugin, e.nodes, e.names) for e in said.reasons] == [
        ("NodeResourcesFit", 2, "small-[1-2]"),
        ("TaintToleration", 1, "gpu-1"),
    ]
    assert outcome.decision.search is None, "its columns must not outlive the attempt"


def test_refusals_are_those_of_the_nodes_that_the_search_passed() -> None:
    config = msgspec.structs.replace(default_config(), percentage_of_nodes_to_score=50)
    engine = build_engine(config, clock=VirtualClock())
    engine.ledger = Ledger(engine.clock)
    handlers = EventHandlers(engine)
    for number in range(300):
        handlers.add_node(node(f"worker-{number}", cpu="500m" if number % 3 == 0 else 4))
    assert isinstance(attempt(engine, pod("web", cpu=1)), Placement)
    said = only(engine.ledger, "default/web").details()
    assert said.evaluated_nodes < 300
    assert said.refused == {"NodeResourcesFit": said.evaluated_nodes - said.feasible_nodes}


def test_a_pod_without_refusals_reads_no_column_for_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_with_nodes()
    asked: list[object] = []
    monkeypatch.setattr(ledger_details, "complete", lambda *given: asked.append(given))
    assert isinstance(attempt(engine, pod("web", cpu=1)), Placement)
    assert asked == []


def test_a_pod_that_fits_nowhere_has_reasons_with_their_nodes_and_its_retry() -> None:
    engine = engine_with_nodes()
    EventHandlers(engine).add_node(node("gpu-1", cpu=8, taints=["gpu=yes:NoSchedule"]))
    outcome = attempt(engine, pod("big", cpu=6))
    assert isinstance(outcome, Failure)
    said = only(engine.ledger, "default/big").read(is_whole=True)
    assert said.result == "unschedulable"
    assert said.message.startswith("0/6 nodes are available: ")
    assert said.details is not None
    assert [(e.plugin, e.reason, e.nodes, e.names) for e in said.details.reasons] == [
        ("NodeResourcesFit", "Insufficient cpu", 5, "worker-[0-4]"),
        ("TaintToleration", "node(s) had untolerated taint(s)", 1, "gpu-1"),
    ]
    assert said.details.refused == {"NodeResourcesFit": 5, "TaintToleration": 1}
    assert said.retried_by == ("NodeResourcesFit", "TaintToleration")
    now = engine.clock.time()
    assert said.backoff_until is not None
    assert now < said.backoff_until <= now + 2
    assert said.retry_by == now + 300


def test_a_preemption_plan_is_kept() -> None:
    engine = engine_with_nodes(1)
    first = attempt(engine, pod("low", cpu=3))
    assert isinstance(first, Placement)
    engine.permitted(first)
    engine.bound(first)
    attempt(engine, pod("high", cpu=3, priority=10))
    said = only(engine.ledger, "default/high").read(is_whole=True)
    assert said.details is not None
    assert said.details.nominated_node == "worker-0"
    assert said.details.eviction is not None
    assert said.details.eviction.victims == ["default/low"]


def test_attempts_of_a_pod_are_numbered_and_a_broken_one_is_an_error() -> None:
    engine = engine_with_nodes()
    for _ in range(3):
        outcome = attempt(engine, pod("big", cpu=6)) if not engine.turn else engine.attempt()
        assert isinstance(outcome, Failure)
        where = engine.queue.whereabouts(outcome.pod)
        assert where is not None
        assert where.place is Place.UNSCHEDULABLE
        engine.queue.activate([outcome.pod])
    placement = attempt(engine, pod("web"))
    while placement.pod.key != "default/web":
        again = engine.attempt()
        assert again is not None
        placement = again
    assert isinstance(placement, Placement)
    engine.bind_failed(placement, error("no answer"))
    assert engine.ledger is not None
    numbers = [entry.attempt for entry in engine.ledger.of_pod("default/big")]
    assert numbers[:3] == [1, 2, 3]
    said = only(engine.ledger, "default/web").read(is_whole=False)
    assert (said.result, said.message, said.details) == ("error", "no answer", None)


def test_without_a_ledger_nothing_of_it_is_called() -> None:
    engine = engine_with_nodes()
    engine.ledger = None
    seen: list[str] = []

    def on_event(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "ledger" in Path(name).stem and not name.endswith("test_ledger.py"):
            seen.append(name)

    EventHandlers(engine).add_pod(pod("web"))
    sys.setprofile(on_event)
    try:
        outcome = engine.attempt()
        assert isinstance(outcome, Placement)
        engine.bound(outcome)
    finally:
        sys.setprofile(None)
    assert seen == []


def entry_for(queued: QueuedPod, decision: bytes) -> Entry:
    entry = _undecided(queued, 1.0)
    entry.node, entry.decision, entry.size = "node", decision, ENTRY_BYTES + len(decision)
    return entry


def test_the_budget_is_of_real_memory() -> None:
    """Attempts of as many pods take no more memory than they are counted with."""
    clock = VirtualClock()
    ledger = Ledger(clock, 2 * 1024 * 1024)
    details = b'{"evaluatedNodes":5}' * 10
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(8_000):
            queued = QueuedPod(pod(f"pod-{number}"), 0.0)
            entry = entry_for(queued, bytes(bytearray(details)))
            points = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "Bind")
            entry.durations = dict.fromkeys(points, number / 3)
            entry.evaluated_nodes = entry.feasible_nodes = 1_000 + number
            ledger._add(queued, entry)
            ledger.ended(
                queued, "unschedulable", 1.0, f"no node for {number}", retry_by=1.0 * number
            )
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert ledger.dropped > 4_000
    assert taken < 2 * 1024 * 1024


def test_an_answer_that_cannot_be_encoded_does_not_fail_the_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @stowplan.filter
    def odd(pod: Pod, node: stowplan.NodeView) -> str:
        return "no \ud800"

    config, registry = profile_of([odd], scheduler_name="default-scheduler")
    engine = build_engine(config, registry=registry, clock=VirtualClock())
    engine.ledger = Ledger(engine.clock)
    EventHandlers(engine).add_node(node("worker-0"))
    outcome = attempt(engine, pod("web"))
    assert isinstance(outcome, Failure)
    assert outcome.status.is_rejected
    assert only(engine.ledger, "default/web").read(is_whole=True).result == "unschedulable"
    assert "Cannot record a decision" in caplog.text


# The file


def entry_of(name: str, number: int = 1, text: str = "no node") -> Entry:
    ledger = Ledger(VirtualClock())
    queued = QueuedPod(pod(name), 0.0, attempts=number)
    queued.unschedulable_plugins = {"NodeResourcesFit"}
    ledger.ended(queued, "unschedulable", 0.5, text, backoff_until=3.0)
    (entry,) = ledger
    return entry


def test_a_file_is_read_while_it_is_written_and_afterwards(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    file = LedgerFile(path)
    file.put(entry_of("web", 1))
    wait_for("a row", lambda: len(read_attempts(path, "default/web")) == 1)
    file.put(entry_of("web", 2))
    file.put(entry_of("other"))
    file.close()
    first, second = read_attempts(path, "default/web")
    assert (first.attempt, second.attempt, second.retried_by) == (1, 2, ("NodeResourcesFit",))
    assert read_attempts(path, "default/none") == []
    again = LedgerFile(path)
    again.put(entry_of("web", 3))
    again.close()
    assert len(read_attempts(path, "default/web")) == 3


def test_a_file_stays_within_its_size_and_loses_the_oldest_first(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    file = LedgerFile(str(path), 4 * 1024 * 1024)
    for number in range(4_000):
        file.put(entry_of("web", number, "x" * 3_000))
        if not number % 500:
            wait_for("the thread", lambda: not file._waiting)
    file.close()
    left = [each.attempt for each in read_attempts(str(path), "default/web")]
    assert left[-1] == 3_999
    assert left == list(range(left[0], 4_000))
    assert left[0] > 1_000
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 4 * 1024 * 1024
    assert file.dropped == 0


def test_a_locked_file_delays_the_ledger_but_not_its_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "ledger.db")
    file, one = LedgerFile(path), entry_of("web")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for _ in range(MAX_WAITING + 10):
            file.put(one)
        wait_for("a warning", lambda: "Cannot write the ledger" in caplog.text)
        other.execute("ROLLBACK")
    file.close()
    written = len(read_attempts(path, "default/web"))
    assert written + file.dropped == MAX_WAITING + 10
    assert file.dropped >= 1
    assert caplog.text.count("Cannot write the ledger's file") == 1


def test_a_full_disk_stops_the_file_alone_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "ledger.db")
    file = LedgerFile(path)
    # SQLite reports its own limit as it reports a full disk.
    file._connection.execute("PRAGMA max_page_count = 1")
    for number in range(20):
        file.put(entry_of("web", number, "x" * 1_000))
    wait_for("a warning", lambda: "Cannot write the ledger" in caplog.text)
    assert "database or disk is full" in str(caplog.records[-1].__dict__)
    file._connection.execute("PRAGMA max_page_count = 1073741823")
    file.close()
    assert len(read_attempts(path, "default/web")) == 20
    assert file.dropped == 0


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (id)")
    text = tmp_path / "notes.txt"
    text.write_text("notes" * 1000)
    for path, problem in (
        (other, "not a ledger of Stowplan"),
        (text, "file is not a database"),
        (tmp_path / "none" / "ledger.db", "unable to open database file"),
    ):
        with pytest.raises(ConfigError, match=problem):
            LedgerFile(str(path))
        if path.exists():
            with pytest.raises(ConfigError, match=problem):
                read_attempts(str(path), "default/web")
    with pytest.raises(ConfigError, match="at least 4Mi"):
        LedgerFile(str(tmp_path / "small.db"), 1024)
    with pytest.raises(ConfigError, match="no such file"):
        read_attempts(str(tmp_path / "none.db"), "default/web")
