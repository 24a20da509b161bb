"""Plots as inline SVG for the page: bars with their spread, and lines over time.

Pure text. What must stay true: nothing refers to anything outside the text, and every colour is a
CSS variable of the page, so that it can be read on a light and on a dark screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stowplan.bench.figures import Spread

_WIDTH = 720
_ROW = 26
_AXIS = 22


@dataclass(frozen=True)
class Bar:
    label: str
    #: None is drawn as a dash.
    value: Spread | None
    #: What is written beside it.
    text: str
    #: Of the page's colours.
    color: str


@dataclass(frozen=True)
class Line:
    label: str
    values: Sequence[float]
    color: str


def nice_steps(highest: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to at least `highest`, about `count` of them."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / count
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough)
    return [step * number for number in range(math.ceil(highest / step - 1e-9) + 1)]


def bars(
    title: str, rows: Sequence[Bar], *, label_width: int = 150, mark: float | None = None
) -> str:
    """Horizontal bars: the median, with a whisker from lowest to highest.

    `mark` is a value to reach, drawn as a dashed line.
    """
    highest = max([bar.value.high for bar in rows if bar.value] + [mark or 0.0])
    steps = nice_steps(highest)
    left, right = label_width, 130
    scale = (_WIDTH - left - right) / steps[-1]
    height = _ROW * len(rows) + _AXIS
    parts = [_open(title, height)]
    for step in steps:
        x = left + step * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - _AXIS}"/>')
        parts.append(
            f'<text class="axis" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{step:g}</text>'
        )
    for number, bar in enumerate(rows):
        y = number * _ROW
        middle = y + _ROW / 2
        parts.append(
            f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{escape(bar.label)}</text>'
        )
        end: float = left
        if bar.value is not None:
            width = bar.value.median * scale
            low, high = left + bar.value.low * scale, left + bar.value.high * scale
            end = max(high, left + width)
            parts.append(
                f'<rect x="{left}" y="{y + 5}" width="{width:.1f}" height="{_ROW - 10}" rx="2" '
                f'fill="var(--{bar.color})"><title>{escape(f"{bar.label}: {bar.text}")}</title>'
                "</rect>"
            )
            if high - low > 1:
                parts.append(
                    f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" '
                    f'y1="{middle}" y2="{middle}"/>'
                )
        parts.append(f'<text x="{end + 8:.1f}" y="{middle + 4}">{escape(bar.text)}</text>')
    if mark is not None:
        x = left + mark * scale
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - _AXIS}"/>')
    return "".join([*parts, "</svg>"])


def lines(title: str, series: Sequence[Line], *, step_s: float, unit: str) -> str:
    """Values over time, one line each, with a legend."""
    height, top, left = 200, 24, 60
    ups = nice_steps(max([value for line in series for value in line.values] + [0.0]), 4)
    seconds = nice_steps(max([len(line.values) for line in series] + [1]) * step_s)
    across = (_WIDTH - left - 20) / seconds[-1]
    up = (height - top - _AXIS) / ups[-1]
    bottom = height - _AXIS
    parts = [_open(title, height)]
    for value in ups:
        y = bottom - value * up
        parts.append(
            f'<line class="grid" x1="{left}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text class="axis" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    for value in seconds:
        x, y = left + value * across, height - 6
        parts.append(
            f'<text class="axis" x="{x:.1f}" y="{y}" text-anchor="middle">{value:g} s</text>'
        )
    parts.append(f'<text class="axis" x="{left}" y="12">{escape(unit)}</text>')
    for number, line in enumerate(series):
        points = " ".join(
            f"{left + (at + 0.5) * step_s * across:.1f},{bottom - value * up:.1f}"
            for at, value in enumerate(line.values)
        )
        parts.append(
            f'<polyline class="line" stroke="var(--{line.color})" points="{points}">'
            f"<title>{escape(line.label)}</title></polyline>"
        )
        x = left + 90 + number * 140
        parts.append(f'<rect x="{x}" y="4" width="10" height="10" fill="var(--{line.color})"/>')
        parts.append(f'<text x="{x + 15}" y="13">{escape(line.label)}</text>')
    return "".join([*parts, "</svg>"])


def _open(title: str, height: int) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height}" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>"
    )
