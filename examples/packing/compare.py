"""Plays one trace under two configurations and compares: python compare.py [FILE.svg]"""

import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from stowplan import load_config, milli_value
from stowplan.scenarios import Cluster, Entry, EntryKind, Options, play_trace, run_scenario
from stowplan.traces import Arrival, load_trace

FOLDER = Path(__file__).parent
RUNS = (("LeastAllocated", "spread.yaml"), ("MostAllocated", "pack.yaml"))
NODES, HOURS = 24, 9
#: Of a node, and of a large pod, in thousandths.
CPU, LARGE = 16_000, 12_000
#: Of the picture: a panel's width and height, and where the first begins.
WIDE, HIGH, LEFT, TOP, PANEL = 540, 130, 40, 30, 190
STYLE = """
text { font: 12px sans-serif; fill: #333; }
path { fill: none; stroke-width: 1.6; } .grid { stroke: #d5d9de; stroke-width: 1; }
.LeastAllocated { stroke: #3b6fb6; } .MostAllocated { stroke: #c46a1b; }
text.LeastAllocated { fill: #3b6fb6; stroke: none; }
text.MostAllocated { fill: #c46a1b; stroke: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd; } .grid { stroke: #3a3f46; }
  .LeastAllocated { stroke: #7fb0f0; } .MostAllocated { stroke: #f0a860; }
  text.LeastAllocated { fill: #7fb0f0; } text.MostAllocated { fill: #f0a860; }
}
"""


@dataclass
class Course:
    """A number over time: what it was from each moment on."""

    steps: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def change(self, at: float, by: int) -> None:
        if not by:
            return
        before, number = self.steps[-1]
        if before == at:  # of what happens at one moment, only what is left of it counts
            self.steps.pop()
        self.steps.append((at, number + by))

    def mean(self, until: float) -> float:
        seen = [step for step in self.steps if step[0] <= until]
        ends = pairwise([*seen, (until, 0)])
        total = sum(number * (after - at) for (at, number), (after, _) in ends)
        return total / until


@dataclass
class Findings:
    """What one run has shown."""

    used: Course = field(default_factory=Course)
    waiting: Course = field(default_factory=Course)
    waits: list[float] = field(default_factory=list)
    #: Free CPU, and as much of it as is on nodes with too little left for a large pod.
    free: Course = field(default_factory=lambda: Course([(0.0, NODES * CPU)]))
    scraps: Course = field(default_factory=Course)
    requests: dict[str, int] = field(default_factory=dict)
    free_on: dict[str, int] = field(default_factory=dict)
    created: dict[str, float] = field(default_factory=dict)

    def see(self, entry: Entry) -> None:
        """Of the timeline: large pods that wait, and nodes that hold somebody."""
        if entry.subject.startswith("pod default/large-"):
            if entry.kind is EntryKind.CREATED:
                self.created[entry.subject] = entry.at
                self.waiting.change(entry.at, +1)
            elif entry.kind is EntryKind.BOUND:
                self.waits.append(entry.at - self.created[entry.subject])
                self.waiting.change(entry.at, -1)
        if entry.kind is EntryKind.BOUND:
            self.count(entry, +1)
        elif entry.kind is EntryKind.FINISHED:
            self.count(entry, -1)

    def count(self, entry: Entry, by: int) -> None:
        node, cpu = entry.details["node"], self.requests[entry.subject]
        before = self.free_on.get(node, CPU)
        after = self.free_on[node] = before - by * cpu
        self.used.change(entry.at, (after < CPU) - (before < CPU))
        self.free.change(entry.at, after - before)
        self.scraps.change(entry.at, scrap(after) - scrap(before))


def scrap(free: int) -> int:
    return free if free < LARGE else 0


def play(config: str) -> Findings:
    findings = Findings()
    trace = load_trace(FOLDER / "trace.yaml")
    for event in trace.events():
        assert isinstance(event, Arrival)  # nothing fails in this trace
        pod = event.manifest
        cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        findings.requests[f"pod default/{pod['metadata']['name']}"] = milli_value(cpu)

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace)

    options = Options(config=load_config(FOLDER / config), on_entry=findings.see)
    outcome = run_scenario(scenario, options=options)
    assert not outcome.problem, outcome.problem
    return findings


def table(found: dict[str, Findings]) -> list[str]:
    lines = [f"{'':34}{''.join(f'{name:>16}' for name in found)}"]
    eight_hours = 8 * 3600.0

    def row(what: str, numbers: list[str]) -> None:
        lines.append(f"{what:34}{''.join(f'{number:>16}' for number in numbers)}")

    row(
        "nodes in use, mean of eight hours",
        [f"{f.used.mean(eight_hours):.1f}" for f in found.values()],
    )
    row(
        "free CPU in scraps under 12 cores",
        [f"{f.scraps.mean(eight_hours) / f.free.mean(eight_hours):.0%}" for f in found.values()],
    )
    row("large pods", [str(len(f.waits)) for f in found.values()])
    row("  that had to wait", [str(sum(w > 1 for w in f.waits)) for f in found.values()])
    row("  mean wait, s", [f"{sum(f.waits) / len(f.waits):.0f}" for f in found.values()])
    row("  longest wait, s", [f"{max(f.waits):.0f}" for f in found.values()])
    return lines


def panel(title: str, top: int, most: int, courses: dict[str, Course]) -> list[str]:
    """Steps over the hours; `most` is the highest line of the grid."""

    def across(at: float) -> float:
        return LEFT + min(at / 3600 / HOURS, 1.0) * WIDE

    def up(number: float) -> float:
        return top + TOP + HIGH - number / most * HIGH

    drawn = [f'<text x="{LEFT}" y="{top + 16}">{title}</text>']
    for number in (0, most // 2, most):
        line = f"M{LEFT} {up(number):.1f}h{WIDE}"
        drawn.append(f'<path class="grid" d="{line}"/>')
        drawn.append(f'<text x="8" y="{up(number) + 4:.1f}">{number}</text>')
    for hour in range(HOURS + 1):
        x, y = across(hour * 3600), top + TOP + HIGH + 16
        drawn.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{hour}h</text>')
    for name, course in courses.items():
        seen = [step for step in course.steps if step[0] <= HOURS * 3600]
        path = f"M{across(0):.1f} {up(0):.1f}"
        path += "".join(f"H{across(at):.1f}V{up(number):.1f}" for at, number in seen)
        path += f"H{across(HOURS * 3600):.1f}"
        drawn.append(f'<path class="{name}" d="{path}"/>')
    return drawn


def picture(found: dict[str, Findings]) -> str:
    used = {name: findings.used for name, findings in found.items()}
    waiting = {name: findings.waiting for name, findings in found.items()}
    highest = max(number for course in waiting.values() for _, number in course.steps)
    parts = panel(f"Nodes in use, of {NODES}", 0, NODES, used)
    parts += panel("Large pods that wait", PANEL, highest + highest % 2, waiting)
    for number, name in enumerate(found):
        x = LEFT + WIDE - 220 + 115 * number
        parts.append(f'<text class="{name}" x="{x}" y="16">{name}</text>')
    svg = '<svg xmlns="http://www.w3.org/2000/svg" '
    svg += f'viewBox="0 0 {LEFT + WIDE + 20} {2 * PANEL}"><style>{STYLE}</style>'
    return "\n".join([svg, *parts, "</svg>", ""])


def main() -> None:
    found = {name: play(config) for name, config in RUNS}
    print("\n".join(table(found)))
    for file in sys.argv[1:]:
        Path(file).write_text(picture(found))


if __name__ == "__main__":
    main()
