"""Plots for an HTML page: bars with their spread, and lines over time.

Pure text; `STYLE` belongs into the stylesheet of the page. Invariants: a plot loads nothing; every
colour is a CSS variable of the page (see `html`); words are HTML, never part of a drawing that is
scaled, so that they can be read on a narrow screen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

#: Size of the drawing of lines, in units of its own: it is stretched to the space there is.
_WIDTH: Final = 1000
_HEIGHT: Final = 300

#: Seconds of the units of a time axis.
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
#: In Unschedulable/5kNodes_QueueingHintsEnabled.
_WORD_ENDS: Final = re.compile(r"(?<=[/_])|(?<=[a-z])(?=[A-Z])")

STYLE: Final = """
figure { margin: 1rem 0; }
.bars { display: grid; grid-template-columns: fit-content(24rem) 1fr max-content;
  gap: .3rem .7rem; align-items: center; font-size: .85rem; }
.bars .row { display: contents; }
.bars .label { text-align: right; overflow-wrap: anywhere; }
.bars .label a { color: inherit; text-decoration-color: var(--rule); }
.bars .text { font-variant-numeric: tabular-nums; }
.bars .track { position: relative; align-self: stretch; min-height: 1.1rem; }
.bars .track * { position: absolute; top: 50%; translate: 0 -50%; }
.bars .bar { left: 0; height: .9rem; border-radius: 2px; }
.bars .whisker { height: 2px; background: var(--ink); }
.bars .mark { height: calc(100% + .3rem); border-left: 1px dashed var(--ink); }
.lines figcaption { display: flex; flex-wrap: wrap; gap: 0 1.2rem; font-size: .85rem; }
.lines .key { display: inline-block; width: 1.4rem; margin-right: .4rem; vertical-align: .25em;
  border-top: 2px solid; }
.lines .frame { display: grid; grid-template: 11rem 1.6rem / 3.2rem minmax(0, 1fr); gap: .4rem;
  margin: .7rem 1.5rem 0 0; color: var(--faint); font-size: .75rem; }
.lines svg { width: 100%; height: 100%; overflow: visible; }
.lines svg * { fill: none; vector-effect: non-scaling-stroke; }
.lines .grid { stroke: var(--rule); }
.lines polyline { stroke-width: 2; }
.lines .mark { stroke: var(--bad); stroke-dasharray: 2 3; pointer-events: stroke; }
.lines .ups { display: flex; justify-content: space-between; flex-direction: column;
  text-align: right; }
.lines .ups span { height: 0; line-height: 0; }
.lines .plot { position: relative; }
.lines .now { position: absolute; inset: 0 auto 0 0; border-left: 1px solid var(--ink); }
.lines .times { grid-column: 2; position: relative; }
.lines .times span { position: absolute; width: 0; display: flex; justify-content: center;
  white-space: nowrap; }
@media (max-width: 44rem) {
  .bars { display: block; }
  .bars .row { display: grid; grid-template: "label text" "track track" / 1fr max-content;
    gap: 0 .7rem; margin-bottom: .4rem; }
  .bars .label { grid-area: label; text-align: left; }
  .bars .text { grid-area: text; align-self: end; }
  .bars .track { grid-area: track; }
}
"""


@dataclass(frozen=True)
class Bar:
    label: str
    median: float
    low: float
    high: float
    #: Written beside the bar.
    text: str
    #: The name of a colour of the page.
    color: str
    #: The id of the element that the label links to.
    leads_to: str = ""


@dataclass(frozen=True)
class Mark:
    """A moment, drawn as a dashed line; its text is shown on hover."""

    at: float
    text: str


@dataclass(frozen=True)
class Series:
    label: str
    #: Seconds and values, in the order of time.
    points: Sequence[tuple[float, float]]
    color: str
    dashed: bool = False


def breakable(name: str) -> str:
    """A long name as HTML that can be wrapped where a word of it ends."""
    return _WORD_ENDS.sub("<wbr>", escape(name))


def nice_steps(highest: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to at least `highest`, about `count` of them."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / count
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough)
    return [step * number for number in range(math.ceil(highest / step - 1e-9) + 1)]


def bars(title: str, rows: Sequence[Bar], *, mark: float | None = None) -> str:
    """Horizontal bars: the median, with a whisker from lowest to highest.

    `mark` is a value to reach, drawn as a dashed line.
    """
    highest = max([bar.high for bar in rows] + [mark or 0.0]) or 1.0
    drawn = "".join(_bar(bar, 100 / highest, mark) for bar in rows)
    return f'<figure class="bars" aria-label="{escape(title)}">{drawn}</figure>'


def _bar(bar: Bar, scale: float, mark: float | None) -> str:
    label = breakable(bar.label)
    if bar.leads_to:
        label = f'<a href="#{escape(bar.leads_to)}">{label}</a>'
    track = (
        f'<span class="bar" style="width: {bar.median * scale:.1f}%; '
        f'background: var(--{bar.color})"></span>'
    )
    if bar.high > bar.low:
        width = (bar.high - bar.low) * scale
        track += (
            f'<span class="whisker" style="left: {bar.low * scale:.1f}%; '
            f'width: {width:.1f}%"></span>'
        )
    if mark is not None:
        track += f'<span class="mark" style="left: {mark * scale:.1f}%"></span>'
    return (
        f'<div class="row"><span class="label">{label}</span><span class="track">{track}</span>'
        f'<span class="text">{escape(bar.text)}</span></div>'
    )


def lines(
    title: str,
    caption: str,
    series: Sequence[Series],
    *,
    until_s: float,
    marks: Sequence[Mark] = (),
    unit: str = "",
) -> str:
    """Values from 0 to `until_s` seconds, one line each, with a legend and axes.

    The caption says what the upward axis counts; `unit` follows its numbers.
    """
    values = [value for line in series for _, value in line.points]
    ups = nice_steps(max([*values, 0.0]), 4)
    if not any(value % 1 for value in values):
        ups = [step for step in ups if not step % 1]  # there is no half of a pod
    legend = "".join(
        f'<span><span class="key" style="{_key_look(line)}"></span>{escape(line.label)}</span>'
        for line in series
    )
    drawn = "".join(_drawing(series, marks, ups, until_s))
    up_labels = "".join(f"<span>{_number(value)}{escape(unit)}</span>" for value in reversed(ups))
    across_labels = "".join(
        f'<span style="left: {at / until_s * 100:.2f}%">{text}</span>'
        for at, text in time_steps(until_s)
    )
    return (
        f'<figure class="lines" aria-label="{escape(title)}">'
        f"<figcaption><span>{escape(caption)}</span>{legend}</figcaption>"
        f'<div class="frame"><div class="ups">{up_labels}</div>'
        f'<div class="plot"><svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none" aria-label="{escape(title)}">{drawn}</svg></div>'
        f'<div class="times">{across_labels}</div></div></figure>'
    )


def time_steps(until_s: float) -> list[tuple[float, str]]:
    """Round times from 0 up to `until_s`, about six of them, with their texts."""
    unit, name = next((unit for unit in _UNITS if until_s >= 2 * unit[0]), _UNITS[-1])
    rough = until_s / unit / 6
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    count = math.floor(until_s / unit / step + 1e-9)
    return [(step * each * unit, f"{step * each:g} {name}") for each in range(count + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _drawing(
    series: Sequence[Series], marks: Sequence[Mark], ups: Sequence[float], until_s: float
) -> Iterator[str]:
    up, across = _HEIGHT / ups[-1], _WIDTH / until_s
    for value in ups:
        y = _HEIGHT - value * up
        yield f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
    for mark in marks:
        x = f"{mark.at * across:.1f}"
        yield (
            f'<line class="mark" x1="{x}" x2="{x}" y1="0" y2="{_HEIGHT}">'
            f"<title>{escape(mark.text)}</title></line>"
        )
    for line in series:
        points = " ".join(
            f"{at * across:.1f},{_HEIGHT - value * up:.1f}" for at, value in line.points
        )
        yield (
            f'<polyline style="{_line_look(line)}" points="{points}">'
            f"<title>{escape(line.label)}</title></polyline>"
        )


def _line_look(line: Series) -> str:
    return f"stroke: var(--{line.color})" + ("; stroke-dasharray: 5 4" if line.dashed else "")


def _key_look(line: Series) -> str:
    """The same in the legend."""
    return f"border-color: var(--{line.color})" + ("; border-top-style: dashed" * line.dashed)
