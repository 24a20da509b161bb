"""A comparison in words, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stowplan.present.tables import counted, format_table, printable
from stowplan.sim.results.comparing import FIGURES, Comparison, Moves, shared_gaps, shown
from stowplan.sim.results.run import Gap

_LISTED: Final = 10
_GAPS: Final = 5


def text_of(comparison: Comparison) -> str:
    """Tables for people."""
    names = [printable(run.name) for run in comparison.runs]
    rows = [
        (words, *(shown(name, figures[name]) for figures in comparison.figures))
        for name, (_, words) in FIGURES.items()
        if any(figures[name] for figures in comparison.figures)
    ]
    text = format_table(("", *names), rows, upper=False)
    for holders, gaps in shared_gaps(comparison.runs).items():
        text += _gaps_text(" / ".join(holders), gaps)
    for run, moves in zip(comparison.runs[1:], comparison.moves[1:], strict=True):
        text += _moves_text(printable(run.name), moves)
    return text


def _gaps_text(names: str, gaps: Sequence[Gap]) -> str:
    listed = "".join(f"  {each.at:,.1f} s: {printable(each.note)}\n" for each in gaps[:_GAPS])
    more = f"  and {len(gaps) - _GAPS:,} more\n" if len(gaps) > _GAPS else ""
    return f"\n{printable(names)}: {counted(len(gaps), 'gap')} in the recording\n{listed}{more}"


def _moves_text(name: str, moves: Moves) -> str:
    text = ""
    for pods, what in (
        (moves.fit_now, "got a node that had none"),
        (moves.fit_no_longer, "got no node that had one"),
    ):
        if pods:
            listed = ", ".join(printable(pod) for pod in pods[:_LISTED])
            more = f" and {len(pods) - _LISTED:,} more" if len(pods) > _LISTED else ""
            text += f"\n{name}: {counted(len(pods), 'pod')} {what}: {listed}{more}\n"
    if moves.moved:
        text += f"\n{name}: {counted(len(moves.moved), 'pod')} moved\n"
        rows = [tuple(map(printable, row)) for row in moves.moved[:_LISTED]]
        text += format_table(("pod", "from", "to"), rows)
        if len(moves.moved) > _LISTED:
            text += f"and {len(moves.moved) - _LISTED:,} more (-o json)\n"
    return text


def data_of(comparison: Comparison) -> dict[str, Any]:
    """Everything but the samples."""
    return {
        "runs": [
            {
                "name": run.name,
                "seconds": run.seconds,
                "figures": {name: round(number, 6) for name, number in figures.items()},
                "moved": [
                    {"pod": pod, "from": before, "to": after} for pod, before, after in moves.moved
                ],
                "gaps": [{"at": each.at, "note": each.note} for each in run.gaps],
                "fitNow": list(moves.fit_now),
                "fitNoLonger": list(moves.fit_no_longer),
            }
            for run, figures, moves in zip(
                comparison.runs, comparison.figures, comparison.moves, strict=True
            )
        ]
    }
