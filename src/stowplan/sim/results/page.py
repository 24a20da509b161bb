"""A comparison as an HTML page in one file: a table of figures, and the runs over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from stowplan.console import file_page, plots
from stowplan.present.tables import counted
from stowplan.sim.results.comparing import FIGURES, Comparison, shared_gaps, shown
from stowplan.sim.results.run import Run

#: Points of a line: as many as a run has samples at most, so that the longest run loses none.
_POINTS: Final = 401
_LISTED: Final = 200
#: A sample, the caption of its plot, the factor for its unit, and the unit.
_PLOTTED: Final = (
    ("cpu", "CPU requested, share of what all nodes offer", 100.0, "%"),
    ("memory", "memory requested, share of what all nodes offer", 100.0, "%"),
    ("waiting", "waiting pods", 1.0, ""),
    ("nodes_in_use", "nodes in use", 1.0, ""),
    ("fragmentation", "unusable free CPU (too small for the most common pod)", 100.0, "%"),
    ("imbalance", "zone imbalance (fullest minus emptiest, share of pods)", 100.0, "%"),
)
_COLOURS: Final = ("line-1", "line-2", "line-3", "good", "faint", "ink")
#: Runs that plots can tell apart: each colour twice, the second time with dashes.
_DRAWN: Final = 2 * len(_COLOURS)


def page_of(comparison: Comparison) -> str:
    names = [run.name for run in comparison.runs]
    return file_page.page(f"Comparison: {', '.join(names)}", _body(comparison), style=plots.STYLE)


def _body(comparison: Comparison) -> Iterator[str]:
    names = [run.name for run in comparison.runs]
    yield f"<h1>{escape(' / '.join(names))}</h1>"
    rows = [["", *names]]
    for name, (_, words) in FIGURES.items():
        if any(figures[name] for figures in comparison.figures):
            rows.append([words, *(shown(name, each[name]) for each in comparison.figures)])
    yield file_page.table(rows)
    for holders, gaps in shared_gaps(comparison.runs).items():
        yield f"<h2>{counted(len(gaps), 'gap')} in {escape(' / '.join(holders))}</h2>"
        shown_gaps = [(f"{each.at:,.1f} s", each.note) for each in gaps[:_LISTED]]
        yield file_page.table([("at", "changes may be missing"), *shown_gaps])
    until_s = max(run.seconds for run in comparison.runs)
    at = [until_s * number / (_POINTS - 1) for number in range(_POINTS)]
    drawn = comparison.runs[:_DRAWN]
    if len(drawn) < len(names):
        yield f"<p>The plots show the first {_DRAWN} of {len(names):,} runs.</p>"
    for name, caption, scale, unit in _PLOTTED:
        if not any(any(run.samples.get(name, ())) for run in drawn):
            continue
        series = [
            _series(run, number, _resampled(run, name, at, scale))
            for number, run in enumerate(drawn)
        ]
        yield plots.lines(caption, caption, at, series, until_s=until_s, unit=unit, steps=True)
    for run, moves in zip(comparison.runs[1:], comparison.moves[1:], strict=True):
        if not moves.moved:
            continue
        yield f"<h2>{len(moves.moved):,} pods on other nodes in {escape(run.name)}</h2>"
        yield file_page.table(
            [("pod", names[0], run.name), *(tuple(row) for row in moves.moved[:_LISTED])]
        )
        if len(moves.moved) > _LISTED:
            yield f"<p>and {len(moves.moved) - _LISTED:,} more</p>"


def _series(run: Run, number: int, values: list[float | None]) -> plots.Series:
    is_dashed = number >= len(_COLOURS)
    label = f"{run.name} (dashed)" if is_dashed else run.name
    return plots.Series(label, values, _COLOURS[number % len(_COLOURS)], is_dashed)


def _resampled(run: Run, name: str, at: Sequence[float], scale: float) -> list[float | None]:
    """The latest sample at each time; None after the end of the run, or if it has no samples."""
    values = run.samples.get(name, [])
    times = run.samples.get("at", []) if values else []
    found: list[float | None] = []
    place = -1
    for moment in at:
        while place + 1 < len(times) and times[place + 1] <= moment:
            place += 1
        is_over = moment > run.seconds + 1e-6
        found.append(None if place < 0 or is_over else round(values[place] * scale, 3))
    return found
