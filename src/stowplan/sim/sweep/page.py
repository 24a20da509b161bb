"""The results of a sweep as a self-contained HTML page: means, and a plot of each figure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from statistics import median
from typing import Any, Final

from stowplan.console import file_page, plots
from stowplan.sim.results.comparing import FIGURES, shown
from stowplan.sim.sweep.table import Group, Table, groups_of, mean_rows
from stowplan.sim.sweep.tasks import text_of

#: Maximum number of bars in a plot.
_BARS: Final = 40
#: A parameter with more values than this is drawn as dots.
_VALUES: Final = 12
_WIDE, _HIGH, _LEFT, _BELOW = 640, 220, 64, 34
_STYLE: Final = """
.dots { max-width: 44rem; width: 100%; }
.dots text { fill: var(--faint); font-size: 12px; }
.dots line { stroke: var(--rule); }
.dots circle { fill: var(--line-1); fill-opacity: .65; }
"""


def page_of(table: Table) -> str:
    return file_page.page(f"Sweep: {table.name}", _body(table), style=plots.STYLE + _STYLE)


def _body(table: Table) -> Iterator[str]:
    groups = groups_of(table)
    yield f"<h1>{escape(table.name)}</h1>"
    yield f"<p>{len(table.rows):,} runs of {len(groups):,} combinations; means over seeds.</p>"
    if not table.rows:
        return
    problems = [row for row in table.rows if row["problem"]]
    if problems:
        yield f'<p class="bad">{len(problems):,} runs failed, the first: '
        yield f"{escape(problems[0]['workload'])}: {escape(problems[0]['problem'])}</p>"
    headers, rows = mean_rows(table)
    yield file_page.table([headers, *rows])
    for figure in table.figures():
        if len(groups) > 1 and len({round(group.mean(figure), 9) for group in groups}) == 1:
            continue  # equal everywhere; the table has it
        words = FIGURES[figure][1]
        yield f"<h2>{escape(words)} <small>{figure}</small></h2>"
        for workload in dict.fromkeys(group.workload for group in groups):
            chosen = [group for group in groups if group.workload == workload]
            yield f"<h3>{escape(workload)}</h3>"
            yield from _figure(table, figure, words, chosen)


def _figure(table: Table, figure: str, words: str, groups: list[Group]) -> Iterator[str]:
    if len(groups) <= _BARS:
        yield plots.bars(words, [_bar(group.label, figure, group.rows) for group in groups])
        if len(table.parameters) + any(group.configuration for group in groups) < 2:
            return
    for name in table.parameters:
        by_value: dict[str, list[dict[str, Any]]] = {}
        for group in groups:
            by_value.setdefault(text_of(group.parameters[name]), []).extend(group.rows)
        if len(by_value) < 2:
            continue
        yield f"<h3><small>by {escape(name)}</small></h3>"
        if len(by_value) <= _VALUES:
            bars = [_bar(value, figure, rows) for value, rows in by_value.items()]
            yield plots.bars(f"{words} by {name}", bars)
        elif all(isinstance(group.parameters[name], int | float) for group in groups):
            points = [(float(group.parameters[name]), group.mean(figure)) for group in groups]
            yield dots(f"{words} by {name}", figure, points)


def _bar(label: str, figure: str, rows: list[dict[str, Any]]) -> plots.Bar:
    numbers = [row.get(figure, 0.0) for row in rows]
    middle = median(numbers)
    return plots.Bar(label, middle, min(numbers), max(numbers), shown(figure, middle), "line-1")


def dots(title: str, figure: str, points: list[tuple[float, float]]) -> str:
    """A scatter plot of a figure over a parameter. Both axes span the values."""
    (left, right), (low, high) = (_ends(values) for values in zip(*points, strict=True))
    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = _HIGH - share * _HIGH + 8
        label = shown(figure, low + share * (high - low))
        drawn.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        x = _LEFT + share * _WIDE
        number = f"{left + share * (right - left):.4g}"
        drawn.append(
            f'<text x="{x:.1f}" y="{_HIGH + _BELOW - 4}" text-anchor="middle">{number}</text>'
        )
    for across, up in points:
        x = _LEFT + (across - left) / (right - left) * _WIDE
        y = _HIGH - (up - low) / (high - low) * _HIGH + 8
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    return (
        f'<svg class="dots" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {_LEFT + _WIDE + 20} {_HIGH + _BELOW}">{"".join(drawn)}</svg>'
    )


def _ends(values: tuple[float, ...]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)
