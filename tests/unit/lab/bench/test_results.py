"""Results on disk: complete or not there, found again, and never taken for something else."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from stowplan.errors import ConfigError, StowplanError
from stowplan.lab.bench import run as run_module
from stowplan.lab.bench import session as session_module
from stowplan.lab.bench.contestants import KUBE, RAW, STOWPLAN, Contestant
from stowplan.lab.bench.figures import Run
from stowplan.lab.bench.plan import Item
from stowplan.lab.bench.progress import BenchProgress
from stowplan.lab.bench.results import Measured, Results, about
from stowplan.lab.bench.run import Conditions
from stowplan.lab.bench.session import Session, SessionSettings
from stowplan.workloads.model import Workload
from tests.replacing import replace
from tests.unit.lab.bench.runs import result, run, setup


def test_what_is_stored_is_found_again(tmp_path: Path) -> None:
    results = Results("mine", tmp_path)
    one = result(run("raw + events", 900, 2))
    results.store(one)
    assert results.find(setup(), 2, "raw + events") == one
    assert results.find(setup(), 1, "raw + events") is None
    assert results.of(setup()) == [one]
    assert results.measured(setup()).outcome.all_runs == [one.run]
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [Path("mine/SchedulingBasic/5Nodes/round-2.raw-events.json")]


def test_conditions_have_folders_of_their_own() -> None:
    folders = {
        setup().folder,
        setup(mode="backlog").folder,
        setup(scale=0.5).folder,
        setup(name="5kNodes/1kPods").folder,
    }
    assert {str(folder) for folder in folders} == {
        "SchedulingBasic/5Nodes",
        "SchedulingBasic/5Nodes@backlog",
        "SchedulingBasic/5Nodes@x0.5",
        "SchedulingBasic/5kNodes-1kPods",
    }


def test_forgetting_leaves_other_contestants_alone(tmp_path: Path) -> None:
    results = Results("mine", tmp_path)
    for contestant in ("stowplan", "raw", "raw + events"):
        results.store(result(run(contestant, 100)))
    results.forget(setup(), ["stowplan", "raw"])
    assert [one.run.contestant for one in results.of(setup())] == ["raw + events"]


def test_what_cannot_be_read_can_be_forgotten(tmp_path: Path) -> None:
    results = Results("mine", tmp_path)
    path = results.path(setup(), 1, "raw")
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    results.forget(setup(), ["raw"])
    assert results.of(setup()) == []


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    results = Results("mine", tmp_path)
    path = results.path(setup(), 1, "raw")
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"round-1\.raw\.json: is not a result.*--fresh"):
        results.of(setup())


def test_mixtures_are_told() -> None:
    ours, raw = run("stowplan", 900), run("raw", 1000)
    mixed = Measured(setup(), [result(ours, commit="new", fingerprint="f2"), result(raw)])
    assert mixed.mixture == (
        "not measured with the same version of everything: raw at abc, stowplan at new"
    )
    assert Measured(setup(), [result(ours), result(raw)]).mixture == ""


def test_about_tells_machine_versions_and_command() -> None:
    said = about(["stowplan", "bench", "misc"])
    assert said.command == ("stowplan", "bench", "misc")
    assert said.kubernetes.startswith("v1.")
    assert said.machine.startswith(f"{said.cpus} cores")
    assert said.fingerprint == about([]).fingerprint


# -- going on where it was cut --------------------------------------------------------------------


class Played:
    """Stands in for real runs: what was run, in order, and what came of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: list[tuple[int, str]] = []
        self.fails: set[str] = set()
        self.interrupt_after = 99
        self.beats_raw_in: set[int] = set()
        played = self

        class Trial(run_module.Trial):
            def __init__(
                self,
                contestant: Contestant,
                conditions: Conditions,
                round_number: int,
                say: Callable[[str], None],
            ) -> None:
                self.key, self.number = contestant.label, round_number

            def measure(self) -> Run:
                if len(played.runs) == played.interrupt_after:
                    raise KeyboardInterrupt
                played.runs.append((self.number, self.key))
                if self.key in played.fails:
                    raise StowplanError("it broke")
                is_too_fast = self.key == "stowplan" and self.number in played.beats_raw_in
                return run(self.key, 101 if is_too_fast else 100, self.number)

        replace(monkeypatch, session_module, run_module.Trial)(Trial)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


def a_session(folder: Path, *, fingerprint: str = "f1", keep_old: bool = False) -> Session:
    told = msgspec.structs.replace(result(run("x", 1)).about, fingerprint=fingerprint)
    settings = SessionSettings((STOWPLAN, KUBE, RAW), 2, told, keep_old)
    return Session(Results("mine", folder), settings, BenchProgress(StringIO()))


def an_item(without_raw: str = "", measured: int = 10) -> Item:
    return Item(
        setup(without_raw=without_raw, measured=measured),
        Workload(Path("f"), "SchedulingBasic", "5Nodes", ()),
    )


def test_contestants_take_turns_and_nothing_is_run_twice(tmp_path: Path, played: Played) -> None:
    outcome = a_session(tmp_path).measure(an_item()).outcome
    in_order = [
        (1, "stowplan"),
        (1, "kube-scheduler"),
        (1, "raw"),
        (2, "kube-scheduler"),
        (2, "raw"),
        (2, "stowplan"),
    ]
    assert played.runs == in_order
    assert len(outcome.runs) == 6
    a_session(tmp_path).measure(an_item())
    assert played.runs == in_order


@pytest.mark.parametrize(
    ("beats_raw_in", "measured", "rounds"),
    [
        ({1}, 1_000, 3),
        ({1, 3}, 1_000, 4),
        ({1, 2, 3, 4}, 1_000, 4),
        ({1}, 10, 2),
        (set(), 1_000, 2),
    ],
)
def test_rounds_that_do_not_count_are_made_up_for(
    tmp_path: Path, played: Played, beats_raw_in: set[int], measured: int, rounds: int
) -> None:
    played.beats_raw_in = beats_raw_in
    a_session(tmp_path).measure(an_item(measured=measured))
    assert {number for number, _ in played.runs} == set(range(1, rounds + 1))
    done = len(played.runs)
    assert done == rounds * 3
    a_session(tmp_path).measure(an_item(measured=measured))
    assert len(played.runs) == done, "nothing is run twice"


def test_an_interrupted_session_goes_on_where_it_was(tmp_path: Path, played: Played) -> None:
    played.interrupt_after = 4
    with pytest.raises(KeyboardInterrupt):
        a_session(tmp_path).measure(an_item())
    played.interrupt_after = 99
    assert len(a_session(tmp_path).measure(an_item()).outcome.runs) == 6
    assert len(played.runs) == 6
    assert len(set(played.runs)) == 6


def test_what_is_to_be_done_is_told_first(tmp_path: Path, played: Played) -> None:
    played.interrupt_after = 4
    with pytest.raises(KeyboardInterrupt):
        a_session(tmp_path).measure(an_item())
    stream = StringIO()
    session = a_session(tmp_path)
    session.progress = BenchProgress(stream)
    session.announce([an_item(), an_item()])
    told = stream.getvalue().splitlines()[0]
    expected = "2 workloads, 2 rounds of stowplan, kube-scheduler, raw: 4 runs to do, 8 stored"
    assert told == f"[0s] {expected}"


def test_results_of_another_version_are_measured_anew(tmp_path: Path, played: Played) -> None:
    a_session(tmp_path).measure(an_item())
    a_session(tmp_path, fingerprint="f2", keep_old=True).measure(an_item())
    assert len(played.runs) == 6
    Results("mine", tmp_path).store(result(run("stowplan", 5, 3)))
    outcome = a_session(tmp_path, fingerprint="f2").measure(an_item()).outcome
    assert len(played.runs) == 12
    assert {each.round for each in outcome.runs} == {1, 2}, "no old round is left"


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path: Path, played: Played) -> None:
    played.fails = {"kube-scheduler"}
    session = a_session(tmp_path)
    outcome = session.measure(an_item()).outcome
    assert outcome.contestants == ["stowplan", "raw"]
    assert len(session.failures) == 2
    assert session.failures[0].endswith("round 1/2, kube-scheduler: it broke")
    played.fails = set()
    assert len(a_session(tmp_path).measure(an_item()).outcome.runs) == 6


def test_raw_is_left_out_where_it_makes_no_sense(tmp_path: Path, played: Played) -> None:
    a_session(tmp_path).measure(an_item(without_raw="its pods have to be preempted"))
    assert {contestant for _, contestant in played.runs} == {"stowplan", "kube-scheduler"}
