"""From measurements of extenders to medians, ratios and tables. Pure; `extender` measures.

What must stay true: a ratio is taken between contestants of the same round, each with its own best
number of workers out of the same choice.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from stowplan.lab.bench.extender_bodies import Mode
from stowplan.lab.bench.figures import QUIET_CORES, Spread, percentile
from stowplan.present.tables import format_figures

OURS: Final = "stowplan"
THEIRS: Final = "flask"
#: The target: our throughput as a multiple of Flask's.
TARGETS: Final = {Mode.NAMES: 5.0, Mode.NODES: 3.0}
#: Above this share of a core the client may be what limits the rate.
_BUSY_CLIENT_CORES: Final = 0.85


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant with one number of workers, asked one question in one round."""

    contestant: str
    workers: int
    mode: Mode
    nodes: int
    round: int
    requests: int
    errors: int
    seconds: float
    p50_s: float
    p99_s: float
    #: Of all its processes.
    server_cpu_s: float
    client_cpu_s: float
    #: Cores that other processes kept busy meanwhile.
    others_cores: float
    connections_made: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU time of the extender for a request."""
        return self.server_cpu_s * 1000 / self.requests

    @property
    def client_cores(self) -> float:
        return self.client_cpu_s / self.seconds


def p50_and_p99(latencies_s: Sequence[float]) -> tuple[float, float]:
    return percentile(latencies_s, 0.5), percentile(latencies_s, 0.99)


class ExtenderMeasured:
    """All cells of one run."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.cells = list(cells)

    @property
    def questions(self) -> list[tuple[Mode, int]]:
        return list(dict.fromkeys((cell.mode, cell.nodes) for cell in self.cells))

    @property
    def contestants(self) -> list[str]:
        present = {cell.contestant for cell in self.cells}
        return [name for name in (OURS, THEIRS) if name in present]

    def of(
        self, contestant: str, question: tuple[Mode, int], workers: int | None = None
    ) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if cell.contestant == contestant
            and (cell.mode, cell.nodes) == question
            and workers in (None, cell.workers)
        ]

    def median(self, cells: Sequence[Cell], figure: Callable[[Cell], float]) -> float:
        return statistics.median(map(figure, cells))

    def best_workers(self, contestant: str, question: tuple[Mode, int]) -> int:
        """The number of workers with the highest median rate."""
        choice = {cell.workers for cell in self.of(contestant, question)}
        return max(
            sorted(choice),
            key=lambda workers: self.median(
                self.of(contestant, question, workers), lambda cell: cell.rate
            ),
        )

    def ratio(self, question: tuple[Mode, int], workers: int | None = None) -> Spread | None:
        """Of the rates, round by round: the best of all numbers of workers, or with one number."""
        best: dict[str, dict[int, float]] = {OURS: {}, THEIRS: {}}
        for name, by_round in best.items():
            for cell in self.of(name, question, workers):
                by_round[cell.round] = max(by_round.get(cell.round, 0.0), cell.rate)
        rounds = best[OURS].keys() & best[THEIRS].keys()
        return Spread.of(best[OURS][each] / best[THEIRS][each] for each in sorted(rounds))

    @property
    def errors(self) -> int:
        return sum(cell.errors for cell in self.cells)

    @property
    def missed(self) -> list[tuple[Mode, int]]:
        """Questions at which the target is not reached."""
        ratios = {question: self.ratio(question) for question in self.questions}
        return [
            question
            for question, ratio in ratios.items()
            if ratio is not None and ratio.median < TARGETS[question[0]]
        ]


def summary(measured: ExtenderMeasured) -> str:
    """Each contestant at its best, and the ratio beside the target."""
    names = measured.contestants
    head = ["filter + prioritize"]
    for name in names:
        head += [f"{name} req/s", "workers", "p99 ms"]
    lines = [[*head, "ratio", "target", ""]]
    for question in measured.questions:
        line = [_title(question)]
        for name in names:
            workers = measured.best_workers(name, question)
            cells = measured.of(name, question, workers)
            line += [
                _rate(measured.median(cells, lambda cell: cell.rate)),
                str(workers),
                _ms(measured.median(cells, lambda cell: cell.p99_s)),
            ]
        ratio = measured.ratio(question)
        target = TARGETS[question[0]]
        verdict = "" if ratio is None else "met" if ratio.median >= target else "MISSED"
        lines.append([*line, _ratio(ratio), f"{target:g}x", verdict])
    return format_figures(lines)


def by_workers(measured: ExtenderMeasured) -> str:
    """A table with a row for each question and number of workers."""
    names = measured.contestants
    head = ["", "workers"]
    for name in names:
        head += [f"{name} req/s", "p50 ms", "p99 ms", "CPU ms/req"]
    lines = [[*head, "ratio", "client's cores"]]
    for question in measured.questions:
        choice = sorted({cell.workers for cell in measured.cells})
        for workers in choice:
            line = [_title(question) if workers == choice[0] else "", str(workers)]
            busiest = 0.0
            for name in names:
                cells = measured.of(name, question, workers)
                line += [
                    _rate(measured.median(cells, lambda cell: cell.rate)),
                    _ms(measured.median(cells, lambda cell: cell.p50_s)),
                    _ms(measured.median(cells, lambda cell: cell.p99_s)),
                    f"{measured.median(cells, lambda cell: cell.cpu_ms):.2f}",
                ]
                busiest = max(busiest, measured.median(cells, lambda cell: cell.client_cores))
            lines.append([*line, _ratio(measured.ratio(question, workers)), f"{busiest:.2f}"])
    return format_figures(lines)


def notes(measured: ExtenderMeasured) -> list[str]:
    """Notes that a reader needs with these figures."""
    found = []
    for mode, nodes in measured.missed:
        ratio = measured.ratio((mode, nodes))
        assert ratio is not None
        found.append(
            f"Target missed: {_title((mode, nodes))}: {ratio.median:.2f}x instead of "
            f"{TARGETS[mode]:g}x."
        )
    if measured.errors:
        found.append(f"{measured.errors} requests FAILED; they are not among the figures.")
    if any(cell.requests < 100 for cell in measured.cells):
        found.append("Where there were fewer than 100 requests in a round, p99 is the slowest one.")
    disturbed = max((cell.others_cores for cell in measured.cells), default=0.0)
    if disturbed > QUIET_CORES:
        found.append(
            f"The machine was not quiet: others kept up to {disturbed:.1f} cores busy. Rates and "
            "latencies are a guess; CPU time a request is less of one."
        )
    busy = {
        f"{cell.contestant} ({_title((cell.mode, cell.nodes))})"
        for cell in measured.cells
        if cell.client_cores > _BUSY_CLIENT_CORES
    }
    if busy:
        found.append(f"The client may have been the limit of: {', '.join(sorted(busy))}.")
    return found


def _title(question: tuple[Mode, int]) -> str:
    mode, nodes = question
    return f"{nodes:,} {mode}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _ratio(ratio: Spread | None) -> str:
    if ratio is None:
        return "-"
    text = f"{ratio.median:.1f}x"
    low, high = f"{ratio.low:.1f}", f"{ratio.high:.1f}"
    return text if low == high else f"{text} ({low}..{high})"
