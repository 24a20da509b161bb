"""Contestants in turn, round by round, workload by workload, with what is there already left out.

Called by the command. What must stay true: each round begins with another contestant, so that
neither a warm machine nor a noisy neighbour favours one of them; a result is stored before the next
run begins; and one run that fails neither ends the others nor is passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from stowplan.errors import StowplanError
from stowplan.lab.bench.contestants import STOWPLAN, Contestant
from stowplan.lab.bench.figures import FEW_PODS, RAW, Run
from stowplan.lab.bench.plan import Item
from stowplan.lab.bench.profiles import digest
from stowplan.lab.bench.progress import BenchProgress
from stowplan.lab.bench.results import About, Measured, Results, RunResult, Setup
from stowplan.lab.bench.run import Conditions, Trial
from stowplan.lab.bench.targets import BACKLOG
from stowplan.lab.controlplane.processes import ControlPlaneError

#: How often a disturbed run is repeated at most.
NOISY_REPEATS = 3
#: Discarded rounds are repeated, up to so many times the requested rounds in all.
MOST_ROUNDS = 2
BUSY_LOAD = 0.5


@dataclass(frozen=True)
class SessionSettings:
    contestants: Sequence[Contestant]
    rounds: int
    about: About
    #: Keep results of an older scheduler or another machine.
    keep_old: bool = False
    #: Repeat a run while other processes kept more cores than this busy.
    max_noise: float = float("inf")


def rotated(contestants: Sequence[Contestant], round_number: int) -> list[Contestant]:
    """The order of a round: each begins with another contestant."""
    shift = (round_number - 1) % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]


def least_disturbed(measure: Callable[[], Run], max_noise: float) -> Run:
    """Measure again where others were busy; what decides is their noise, never our result."""
    best = measure()
    for _ in range(NOISY_REPEATS):
        if best.others_cores <= max_noise:
            break
        best = min(best, measure(), key=lambda run: run.others_cores)
    return best


@dataclass
class Session:
    results: Results
    settings: SessionSettings
    progress: BenchProgress
    #: Messages about runs that failed.
    failures: list[str] = field(default_factory=list)

    def announce(self, items: Sequence[Item]) -> None:
        """Print the plan, with a warning if the machine is busy."""
        runs = left = 0
        for item in items:
            for contestant in self._contestants(item.setup):
                for round_number in range(1, self.settings.rounds + 1):
                    runs += 1
                    found = self.results.find(item.setup, round_number, contestant.label)
                    left += found is None or self._is_outdated(found)
        names = ", ".join(one.key for one in self.settings.contestants)
        rounds = _count(self.settings.rounds, "round")
        self.progress.say(
            f"{_count(len(items), 'workload')}, {rounds} of {names}: "
            f"{_count(left, 'run')} to do, {runs - left} stored"
        )
        load = os.getloadavg()[0]
        if left and load > BUSY_LOAD:
            self.progress.say(
                f"the machine is busy already (load average {load:.1f}): trust ratios, not figures"
            )

    def _contestants(self, setup: Setup) -> list[Contestant]:
        return [
            one for one in self.settings.contestants if one.is_scheduler or not setup.without_raw
        ]

    def _is_outdated(self, result: RunResult) -> bool:
        return (
            not self.settings.keep_old
            and result.about.fingerprint != self.settings.about.fingerprint
        )

    def measure(self, item: Item) -> Measured:
        """Measure the rounds of a workload that have no stored result."""
        setup, contestants = item.setup, self._contestants(item.setup)
        if setup.without_raw and len(contestants) < len(self.settings.contestants):
            self.progress.say(f"{setup.title}: not raw, as {setup.without_raw}")
        self._drop_outdated(setup, contestants)
        for round_number in range(1, self.settings.rounds * MOST_ROUNDS + 1):
            if round_number > self.settings.rounds:
                if not self._lacks_rounds(setup, contestants):
                    break
                self.progress.say(f"{setup.title}: one round more, as one does not count")
            for contestant in rotated(contestants, round_number) if contestants else ():
                if self.results.find(setup, round_number, contestant.label) is None:
                    self._run(item, round_number, contestant)
        return self.results.measured(setup)

    def _lacks_rounds(self, setup: Setup, contestants: Sequence[Contestant]) -> bool:
        """True if fewer rounds than wanted are valid, in a workload where that is checked."""
        if setup.measured < FEW_PODS or RAW not in {one.label for one in contestants}:
            return False
        measured = self.results.measured(setup)
        return measured.rounds - len(measured.outcome.invalid) < self.settings.rounds

    def _drop_outdated(self, setup: Setup, contestants: Sequence[Contestant]) -> None:
        labels = {contestant.label for contestant in contestants}
        outdated = [
            result
            for result in self.results.of(setup)
            if result.run.contestant in labels and self._is_outdated(result)
        ]
        if outdated:
            about = outdated[0].about
            self.progress.say(
                f"{setup.title}: measuring again, as the stored results are of another version or "
                f"machine ({about.commit}, {about.when}); --keep-old would continue them"
            )
        for result in outdated:
            self.results.remove(result)

    def _run(self, item: Item, round_number: int, contestant: Contestant) -> None:
        settings, setup = self.settings, item.setup
        rounds = max(round_number, settings.rounds)
        what = f"{setup.title}, round {round_number}/{rounds}, {contestant.label}"
        conditions = Conditions(item.workload, setup.mode == BACKLOG)

        def measure() -> Run:
            self.progress.begin(what)
            return Trial(contestant, conditions, round_number, self.progress.update).measure()

        try:
            run = least_disturbed(measure, settings.max_noise)
        except (StowplanError, ControlPlaneError) as problem:
            self.failures.append(f"{what}: {problem}")
            self.progress.say(f"{what}: failed: {problem}")
            return
        when = datetime.now(UTC).isoformat(timespec="seconds")
        about = msgspec.structs.replace(settings.about, when=when)
        self.results.store(RunResult(setup=setup, about=about, run=run))
        self.progress.say(f"{what}: {_in_short(run)}")

    def profile(self, item: Item) -> str:
        """Where Stowplan's time goes. Only the profile is kept: a profiler slows the run down."""
        self.progress.begin(f"{item.setup.title}, {STOWPLAN.label} under a profiler")
        path = self.results.profile(item.setup).with_suffix(".prof").resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        conditions = Conditions(item.workload, item.setup.mode == BACKLOG, path)
        Trial(STOWPLAN, conditions, 1, self.progress.update).measure()
        text = digest(path)
        self.results.profile(item.setup).write_text(text)
        return text


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _in_short(run: Run) -> str:
    text = f"{run.pods_per_s:.0f} pods/s, CPU {run.cpu_per_1000:.2f} s per 1,000 pods"
    if run.first_bind_s is not None:
        text += f", first bind after {run.first_bind_s:.1f} s"
    text += f", {run.peak_rss_mib:.0f} MiB, others' cores {run.others_cores:.1f}"
    return f"{text} (and nice ones {run.nice_cores:.1f})" if run.nice_cores else text
