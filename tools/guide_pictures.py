"""Draw the pictures of docs/choosing-a-strategy.md and docs/tuning-weights.md.

python -m tools.guide_pictures strategy SVG LABEL=RESULT...
python -m tools.guide_pictures weights SVG SWEEP-RESULTS

The same results give the same file; tests/integration/test_guides.py compares.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from stowplan.sim.results import Run, load
from stowplan.sim.sweep.folder import read_results
from stowplan.sim.sweep.table import Table, groups_of

WIDE, HIGH, LEFT, PANEL = 560, 130, 46, 190
STYLE = """
text { font: 12px sans-serif; fill: #333; }
path { fill: none; stroke-width: 1.6; } .grid { stroke: #d5d9de; stroke-width: 1; }
.c0 { stroke: #3b6fb6; } .c1 { stroke: #c46a1b; }
text.c0, circle.c0 { fill: #3b6fb6; stroke: none; }
text.c1, circle.c1 { fill: #c46a1b; stroke: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd; } .grid { stroke: #3a3f46; }
  .c0 { stroke: #7fb0f0; } .c1 { stroke: #f0a860; }
  text.c0, circle.c0 { fill: #7fb0f0; } text.c1, circle.c1 { fill: #f0a860; }
}
"""


def picture(width: float, height: float, parts: list[str]) -> str:
    head = '<svg xmlns="http://www.w3.org/2000/svg" '
    head += f'viewBox="0 0 {width:g} {height:g}"><style>{STYLE}</style>'
    return "\n".join([head, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>'


def panel(title: str, name: str, top: float, runs: list[Run]) -> list[str]:
    """A sampled value over the hours."""
    until = max(run.seconds for run in runs)
    most = max(max(run.samples[name]) for run in runs)
    drawn = [text(LEFT, top + 16, title)]
    for share in (0.0, 0.5, 1.0):
        y = top + 30 + HIGH * (1 - share)
        drawn.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{WIDE}"/>')
        drawn.append(text(LEFT - 6, y + 4, f"{most * share:g}", ' text-anchor="end"'))
    for hour in range(int(until // 3600) + 1):
        x = LEFT + hour * 3600 / until * WIDE
        drawn.append(text(x, top + HIGH + 46, f"{hour}h", ' text-anchor="middle"'))
    for number, run in enumerate(runs):
        steps = [
            f"H{LEFT + at / until * WIDE:.1f}V{top + 30 + HIGH * (1 - value / most):.1f}"
            for at, value in zip(run.samples["at"], run.samples[name], strict=True)
        ]
        drawn.append(f'<path class="c{number}" d="M{LEFT} {top + 30 + HIGH}{"".join(steps)}"/>')
    return drawn


def strategy(labelled: list[str]) -> str:
    labels, files = zip(*(each.split("=", 1) for each in labelled), strict=True)
    runs = [load(file) for file in files]
    parts = panel("Nodes in use", "nodes_in_use", 0, runs)
    parts += panel("Pods that wait", "waiting", PANEL, runs)
    for number, label in enumerate(labels):
        parts.append(text(LEFT + WIDE - 230 + 120 * number, 16, label, f' class="c{number}"'))
    return picture(LEFT + WIDE + 20, 2 * PANEL, parts)


def weights(results: Path) -> str:
    """Cost over imbalance; a dot for each pair of weights, a colour for each of the first one."""
    table = Table("weights", ("fit", "spread"), read_results(results))
    groups = groups_of(table)
    points = [(group.mean("imbalance"), group.mean("cost_in_use")) for group in groups]
    (left, right), (low, high) = (
        (min(values), max(values)) for values in zip(*points, strict=True)
    )
    tall = 260
    parts = [
        text(LEFT, 14, "cost of nodes in use"),
        text(LEFT + WIDE, tall + 62, "imbalance of zones", ' text-anchor="end"'),
    ]
    for share in (0.0, 0.5, 1.0):
        y = 30 + tall * (1 - share)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{WIDE}"/>')
        amount = f"{low + share * (high - low):.1f}"
        parts.append(text(LEFT - 6, y + 4, amount, ' text-anchor="end"'))
        x = LEFT + share * WIDE
        part = f"{left + share * (right - left):.0%}"
        parts.append(text(x, tall + 46, part, ' text-anchor="middle"'))
    firsts = list(dict.fromkeys(group.parameters["fit"] for group in groups))
    for group, (across, up) in zip(groups, points, strict=True):
        x = LEFT + (across - left) / (right - left) * WIDE
        y = 30 + tall * (1 - (up - low) / (high - low))
        number = firsts.index(group.parameters["fit"])
        parts.append(f'<circle class="c{number}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        side = ("end", -9) if across > (left + right) / 2 else ("start", 9)
        label = f"fit {group.parameters['fit']}, spread {group.parameters['spread']}"
        more = f' class="c{number}" text-anchor="{side[0]}"'
        parts.append(text(x + side[1], y + 4, label, more))
    return picture(LEFT + WIDE + 30, tall + 72, parts)


def main() -> None:
    which, file, *inputs = sys.argv[1:]
    drawn = strategy(inputs) if which == "strategy" else weights(Path(inputs[0]))
    Path(file).write_text(drawn)


if __name__ == "__main__":
    main()
