"""Plots for a page in one file (`file_page`): bars with their spread, and lines over time.

Pure text; `STYLE` belongs into the stylesheet of the page. Every colour is a CSS variable of the
page. Bars are HTML; lines are drawn by the console's `chart.js` from the JSON beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

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
.bars .bar { left: 0; height: .9rem; border-radius: 2px; min-width: 0; }
.bars .whisker { height: 2px; background: var(--ink); }
.bars .mark { height: calc(100% + .3rem); border-left: 1px dashed var(--ink); }
.chart figcaption { font-weight: 600; }
.u-over .mark { position: absolute; inset: 0 auto 0 0; border-left: 1px dashed var(--bad);
  padding-right: 4px; }
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
    #: The median or mean: the length of the bar.
    value: float
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
    """A line; its values belong to the times of the chart, None where there is none."""

    label: str
    values: Sequence[float | None]
    color: str
    dashed: bool = False


def breakable(name: str) -> str:
    """A long name as HTML that can be wrapped where a word of it ends."""
    return _WORD_ENDS.sub("<wbr>", escape(name))


def bars(title: str, rows: Sequence[Bar], *, mark: float | None = None) -> str:
    """Horizontal bars: a median or mean, with a whisker from lowest to highest.

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
        f'<span class="bar" style="width: {bar.value * scale:.1f}%; '
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
    at: Sequence[float],
    series: Sequence[Series],
    *,
    until_s: float,
    marks: Sequence[Mark] = (),
    unit: str = "",
    steps: bool = False,
) -> str:
    """Values from 0 to `until_s` seconds, one line each, with a legend and axes.

    The caption says what the upward axis counts; `unit` follows its numbers. With `steps` a value
    lasts until the next.
    """
    legend = "".join(
        f'<li><i style="background: var(--{line.color})"></i>{escape(line.label)}</li>'
        for line in series
    )
    data = {
        "at": [round(each, 3) for each in at],
        "lines": [
            {"values": line.values, "colour": f"--{line.color}", "isDashed": line.dashed}
            for line in series
        ],
        "until": until_s,
        "unit": unit,
        "steps": steps,
        "marks": [(mark.at, mark.text) for mark in marks],
    }
    labels = "; ".join(line.label for line in series)
    return (
        f'<figure class="chart"><figcaption>{escape(caption)}</figcaption>'
        f'<ul class="now">{legend}</ul><div class="plot" role="img" '
        f'aria-label="{escape(title)}: {escape(labels)}"></div>'
        f'<script type="application/json">{json_text(data)}</script></figure>'
    )


def json_text(data: object) -> str:
    """JSON that cannot end the script element around it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")
