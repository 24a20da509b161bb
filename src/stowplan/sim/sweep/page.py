"""The results of a sweep as a self-contained HTML page: means, and plots of figures that differ.

Its size is bounded for any number of tasks, workloads and parameters; what is left out is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import islice
from statistics import fmean
from typing import Any, Final

from stowplan.console import file_page, plots
from stowplan.sim.results.comparing import FIGURES, shown
from stowplan.sim.sweep.table import Group, Table, groups_of, known_figures, mean_rows
from stowplan.sim.sweep.tasks import text_of

#: Maximum number of bars in a plot.
_BARS: Final = 40
#: A parameter with more values than this is drawn as dots.
_VALUES: Final = 12
#: Maximum numbers of dots in a plot, of headings and plots, of cells in the table, and of
#: characters in a label.
_DOTS: Final = 500
_PARTS: Final = 1000
_CELLS: Final = 20_000
_LABEL: Final = 200
_LEGEND: Final = (
    "Bars: mean over seeds; lines: lowest and highest. By parameter: over all runs with that value."
)
_WIDE, _HIGH, _LEFT, _BELOW = 640, 220, 64, 34
_STYLE: Final = """
.dots { max-width: 44rem; width: 100%; }
.dots text { fill: var(--faint); font-size: 12px; }
.dots line { stroke: var(--rule); }
.dots circle { fill: var(--line-1); fill-opacity: .65; }
"""


def page_of(table: Table, *, sort: str = "") -> str:
    """The page; combinations are in the order of tasks, or sorted as `groups_of` sorts them."""
    return file_page.page(f"Sweep: {table.name}", _body(table, sort), style=plots.STYLE + _STYLE)


def _body(table: Table, sort: str) -> Iterator[str]:
    groups = groups_of(table)
    yield f"<h1>{escape(table.name)}</h1>"
    yield f"<p>{len(table.rows):,} runs of {len(groups):,} combinations; means over seeds.</p>"
    if not table.rows:
        return
    problems = [row for row in table.rows if row["problem"]]
    if problems:
        yield f'<p class="bad">{len(problems):,} runs failed, the first: '
        yield f"{escape(problems[0]['workload'])}: {escape(problems[0]['problem'])}</p>"
    headers, rows = mean_rows(table, sort=sort)
    listed = rows[: max(1, _CELLS // len(headers))]
    yield file_page.table([*map(_short, row)] for row in (headers, *listed))
    if len(listed) < len(rows):
        yield f"<p>and {len(rows) - len(listed):,} more combinations in results.csv</p>"
    means = {
        figure: list(dict.fromkeys(shown(figure, group.mean(figure)) for group in groups))
        for figure in known_figures()
        if figure in table.columns
    }
    plotted = [figure for figure, texts in means.items() if len(texts) > 1]
    if len(groups) == 1:
        plotted = table.figures()
    elif equal := [f"{figure} {means[figure][0]}" for figure in means if figure not in plotted]:
        yield f"<p>Equal in all combinations, as rounded here: {escape(', '.join(equal))}.</p>"
    if plotted:
        yield f"<p>{_LEGEND}</p>"
    parts = _plots(table, plotted, _by_workload(groups), _by_workload(groups_of(table, sort=sort)))
    yield from islice(parts, _PARTS)
    if next(parts, None) is not None:
        yield "<p>More plots would make this page too large. All figures are in results.csv.</p>"


def _plots(
    table: Table,
    figures: list[str],
    groups: dict[str, list[Group]],
    ordered: dict[str, list[Group]],
) -> Iterator[str]:
    for figure in figures:
        words = FIGURES[figure][1]
        yield f"<h2>{escape(words)} <small>{figure}</small></h2>"
        for workload in groups:
            yield f"<h3>{escape(_short(workload))}</h3>"
            yield from _figure(table, figure, words, groups[workload], ordered[workload])


def _figure(
    table: Table, figure: str, words: str, groups: list[Group], ordered: list[Group]
) -> Iterator[str]:
    texts = {shown(figure, group.mean(figure)) for group in groups}
    if len(groups) > 1 and len(texts) == 1:
        yield f"<p>{escape(texts.pop())} in all combinations</p>"
        return
    if len(groups) <= _BARS:
        yield plots.bars(words, [_bar(group.label, figure, group.rows) for group in ordered])
        if len(table.parameters) + any(group.configuration for group in groups) < 2:
            return
    for name in table.parameters:
        by_value: dict[str, list[dict[str, Any]]] = {}
        for group in groups:
            by_value.setdefault(text_of(group.parameters[name]), []).extend(group.rows)
        if len(by_value) < 2:
            continue
        heading = f"by {_short(name)}"
        if len(by_value) <= _VALUES:
            yield f"<h3><small>{escape(heading)}</small></h3>"
            bars = [_bar(value, figure, rows) for value, rows in by_value.items()]
            yield plots.bars(f"{words} {heading}", bars)
        elif all(isinstance(group.parameters[name], int | float) for group in groups):
            points = [(float(group.parameters[name]), group.mean(figure)) for group in groups]
            # Sorted, so that a grid does not leave out some of its values.
            drawn = sorted(points)[:: -(-len(points) // _DOTS)]
            if len(drawn) < len(points):
                heading += f" ({len(drawn):,} of {len(points):,} combinations)"
            yield f"<h3><small>{escape(heading)}</small></h3>"
            yield dots(f"{words} {heading}", figure, drawn)


def _by_workload(groups: list[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.workload, []).append(group)
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}\N{HORIZONTAL ELLIPSIS}"


def _bar(label: str, figure: str, rows: list[dict[str, Any]]) -> plots.Bar:
    numbers = [row.get(figure, 0.0) for row in rows]
    mean = fmean(numbers)
    return plots.Bar(_short(label), mean, min(numbers), max(numbers), shown(figure, mean), "line-1")


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
