"""A scenario as an HTML page: figures, expectations, the cluster over time, and the timeline.

`stowplan simulate --html` writes it. Pure text; its look is in `page_style`. Everything that comes
from a cluster must be escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final
from zlib import crc32

from stowplan.console import file_page, plots
from stowplan.console.plots import Mark, Series, json_text, lines
from stowplan.sim.scenarios.drawing import MOST_PODS
from stowplan.sim.scenarios.history import history, node_order
from stowplan.sim.scenarios.page_style import FAMILIES, SCRIPT, STYLE
from stowplan.sim.scenarios.picture import NodeBox, PodBox, take_picture
from stowplan.sim.scenarios.report import entry_text, figure_rows, is_worth_a_line, summary
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Outcome

#: Nodes beyond this are small tiles.
_MOST_CARDS: Final = 60
#: Pods of one node, or waiting, that are drawn.
_MOST_PODS: Final = 60
_MOST_ENTRIES: Final = 3_000
#: Points of a line in a chart, and faults that are marked there, one beside the other.
_POINTS: Final = 600
_MOST_MARKS: Final = 200
#: Heading, unit, and lines: column of the course, label, colour.
_CHARTS: Final = (
    ("Pods", "", (("placed", "with a node", "line-1"), ("waiting", "waiting", "line-2"))),
    (
        "Requested share of what nodes offer",
        "%",
        (("cpu", "CPU", "line-1"), ("memory", "memory", "line-2")),
    ),
    ("Nodes", "", (("nodes_in_use", "in use", "line-1"), ("nodes", "there", "faint"))),
)
_GIB: Final = 2**30


def page(outcome: Outcome, *, about: str = "") -> str:
    """The page of an outcome; one that was played with `draws` can be seen at any moment."""
    body = _body(outcome, about)
    return file_page.page(outcome.name, body, style=plots.STYLE + STYLE, script=SCRIPT)


def _body(outcome: Outcome, about: str) -> Iterator[str]:
    yield f"<h1>{escape(outcome.name)}</h1>"
    look, verdict = _verdict(outcome)
    figures = summary(outcome, with_real_time=False)[-1]  # pages of equal runs are equal
    yield (
        f'<p class="about"><span class="verdict {look}">{verdict}</span>; '
        f"on {escape(outcome.on)}, seed {outcome.seed}. {escape(figures)}.</p>"
    )
    if about:
        yield f"<p>{escape(about)}</p>"
    if outcome.problem:
        yield f'<p class="bad">{escape(outcome.problem)}</p>'
    if outcome.expectations:
        yield "<h2>Expectations</h2>"
        yield _expectations(outcome)
    if rows := figure_rows(outcome):
        yield "<h2>Figures</h2>"
        yield file_page.table([("figure", "value"), *rows])
    if outcome.nodes or outcome.pods:
        yield "<h2>The cluster over time</h2>"
        yield from _cluster(outcome)
    if outcome.cluster_s > 0:
        yield from _charts(outcome)
    yield "<h2>Timeline</h2>"
    yield _timeline(outcome.entries)


def _verdict(outcome: Outcome) -> tuple[str, str]:
    if not outcome.is_ok:
        return "bad", "Not as expected" if not outcome.problem else "Failed"
    return ("good", "All as expected") if outcome.expectations else ("", "Nothing was expected")


def _expectations(outcome: Outcome) -> str:
    items = []
    for each in outcome.expectations:
        mark = '<b class="good">ok</b>' if each.is_met else '<b class="bad">FAIL</b>'
        found = ""
        if each.found and not each.is_met:
            found = f' <span class="found">(found: {escape(each.found)})</span>'
        items.append(f"<li>{mark} {escape(each.text)}{found}</li>")
    return f'<ul class="expectations">{"".join(items)}</ul>'


# The cluster


def _cluster(outcome: Outcome) -> Iterator[str]:
    """The cluster at the end, and what the script needs to draw it at any other moment."""
    picture = take_picture(outcome.nodes, outcome.pods)
    drawing = outcome.drawing
    can_move = drawing is not None and not drawing.is_cut and outcome.cluster_s > 0
    if drawing is not None and drawing.is_cut:
        yield (
            f'<p class="about">More than {MOST_PODS:,} pods: the cluster is drawn as it was at the '
            "end.</p>"
        )
    if can_move:
        yield (
            '<div class="turn" hidden><span>'
            '<button id="back" aria-label="step back">&#9664;</button>'
            '<button id="on" aria-label="next step">&#9654;</button></span>'
            f'<input id="at" type="range" min="0" max="{outcome.cluster_s:.3f}" step="any" '
            f'value="{outcome.cluster_s:.3f}" aria-label="time in seconds"></div>'
        )
        if not any(node.pods for node in picture.nodes):
            yield from _peak(outcome)
    yield f'<div class="picture"><p class="caption">{outcome.cluster_s:.1f} s: the end</p>'
    known = {node.name: node for node in picture.nodes}
    names = node_order(drawing) if drawing is not None and can_move else list(known)
    yield _nodes([known.get(name) or NodeBox.gone(name) for name in names], set(known))
    yield _waiting(picture.waiting)
    yield "</div>"
    if drawing is not None and can_move:
        told = json_text(history(outcome.entries, drawing, outcome.cluster_s))
        yield f'<script type="application/json" id="history">{told}</script>'


def _peak(outcome: Outcome) -> Iterator[str]:
    """A hint where to look, for a cluster that is empty at the end."""
    course = outcome.figures.course
    placed = course.get("placed") or ()
    if most := max(placed, default=0):
        at = course["at"][list(placed).index(most)]
        yield (
            f'<p class="about">At the end no pod is left on a node. Most pods ({most:,.0f}) had a '
            f"node at {at:.1f} s: move the slider there.</p>"
        )


def _nodes(nodes: Sequence[NodeBox], there: set[str]) -> str:
    """All nodes that ever existed, numbered; those that are not there are hidden."""
    draw = _tile if len(nodes) > _MOST_CARDS else _card
    drawn = "".join(
        draw(node, f'data-n="{number}"{"" if node.name in there else " hidden"}')
        for number, node in enumerate(nodes)
    )
    if draw is _tile:
        return f'<div class="tiles" role="img" aria-label="nodes by CPU in use">{drawn}</div>'
    return f'<div class="nodes">{drawn}</div>'


def _card(node: NodeBox, attributes: str) -> str:
    notes = [*node.taints]
    if node.is_cordoned:
        notes.insert(0, "cordoned")
    if not node.is_ready:
        notes.insert(0, "not ready")
    taints = escape(", ".join(node.taints))
    noted = f'<div class="note" data-taints="{taints}">{escape(", ".join(notes))}</div>'
    zone = f"<small>{escape(node.zone)}</small>" if node.zone else ""
    return (
        f'<div class="node{_look(node)}" {attributes}><h3>{escape(node.name)}{zone}</h3>{noted}'
        f"{_meter('cpu', node.cpu_share)}{_meter('memory', node.memory_share)}"
        f"{_pods(node.pods)}</div>"
    )


def _look(node: NodeBox) -> str:
    return (" closed" if node.is_cordoned else "") + ("" if node.is_ready else " lost")


def _meter(what: str, share: float) -> str:
    look = "over" if share > 1 else "full" if share >= 0.9 else ""
    return (
        f'<div class="meter"><span>{what}</span><span class="bar"><span class="{look}" '
        f'style="width:{min(share, 1) * 100:.0f}%"></span></span><span>{share:.0%}</span></div>'
    )


def _tile(node: NodeBox, attributes: str) -> str:
    told = f"{node.name}: {len(node.pods)} pods, {node.cpu_share:.0%} CPU, {node.memory_share:.0%}"
    return (
        f'<div class="tile{_look(node)}" {attributes} title="{escape(told)} memory">'
        f'<span style="height:{min(node.cpu_share, 1) * 100:.0f}%"></span></div>'
    )


def _pods(pods: Sequence[PodBox]) -> str:
    chips = "".join(_chip(pod) for pod in pods[:_MOST_PODS])
    more = f"<span>and {len(pods) - _MOST_PODS} more</span>" if len(pods) > _MOST_PODS else ""
    return f'<div class="pods">{chips}{more}</div>'


def _chip(pod: PodBox) -> str:
    facts = [pod.key, pod.phase, f"{pod.milli_cpu}m CPU", f"{pod.memory / _GIB:.2g} GiB"]
    if pod.priority:
        facts.append(f"priority {pod.priority}")
    if pod.message:
        facts.append(pod.message)
    colour = crc32(pod.family.encode()) % FAMILIES
    name = pod.key.rpartition("/")[2]
    return (
        f'<span class="pod" style="background:var(--f{colour})" '
        f'title="{escape("; ".join(facts))}">{escape(name)}</span>'
    )


def _waiting(waiting: Sequence[PodBox]) -> str:
    return (
        f'<div class="waiting"{"" if waiting else " hidden"}>'
        f'<p class="count">{len(waiting):,} without a node</p>{_pods(waiting)}</div>'
    )


# Over time


def _charts(outcome: Outcome) -> Iterator[str]:
    course, until = outcome.figures.course, outcome.cluster_s
    if not course or not len(course["at"]):
        return
    faults = [entry for entry in outcome.entries if _is_fault(entry)]
    marks = _marks(faults, until)
    dashed = f"; dashed: {len(faults):,} fault{'s' if len(faults) != 1 else ''}" if faults else ""
    drawn = _drawn(course, until)
    at = [course["at"][each] for each in drawn] + [until]
    for heading, unit, names in _CHARTS:
        factor = 100 if unit == "%" else 1
        series = [
            Series(
                f"{label}, at most {max(course[name]) * factor:,.0f}{unit}",
                [round(course[name][each] * factor, 2) for each in [*drawn, drawn[-1]]],
                color,
            )
            for name, label, color in names
        ]
        caption = f"{heading}{dashed}"
        yield lines(heading, caption, at, series, until_s=until, marks=marks, unit=unit, steps=True)


def _drawn(course: Mapping[str, Sequence[float]], until: float) -> list[int]:
    """The points to draw: all, or of each span of time the extremes of every line and the last."""
    at = course["at"]
    if len(at) <= _POINTS:
        return list(range(len(at)))
    chosen: set[int] = set()
    for _, several in groupby(range(len(at)), lambda each: at[each] * _POINTS // until):
        span = list(several)
        chosen.add(span[-1])
        for _, _, names in _CHARTS:
            for name, _, _ in names:
                values = course[name]
                chosen |= {min(span, key=values.__getitem__), max(span, key=values.__getitem__)}
    return sorted(chosen)


def _is_fault(entry: Entry) -> bool:
    is_change = entry.kind is EntryKind.CHANGED and entry.text in ("cordoned", "uncordoned")
    return entry.kind is EntryKind.FAULT or is_change


def _marks(faults: Sequence[Entry], until: float) -> list[Mark]:
    """A mark for each moment with faults, as far as they can be told apart."""
    together: dict[int, list[Entry]] = {}
    for entry in faults:
        together.setdefault(round(entry.at / until * _MOST_MARKS), []).append(entry)
    marks = []
    for several in together.values():
        texts = [f"{entry.at:.1f} s: {entry_text(entry).strip()}" for entry in several[:5]]
        more = [f"and {len(several) - 5} more"] if len(several) > 5 else []
        marks.append(Mark(several[0].at, "; ".join([*texts, *more])))
    return marks


def _timeline(entries: Sequence[Entry]) -> str:
    shown = entries
    left_out = ""
    if len(entries) > _MOST_ENTRIES:
        shown = [entry for entry in entries if is_worth_a_line(entry)][:_MOST_ENTRIES]
        left_out = (
            f'<p class="about">{len(entries) - len(shown):,} entries are not shown; '
            "--decisions FILE writes every attempt, eviction and binding.</p>"
        )
    rows = "".join(
        f'<tr class="{_row_look(entry)}"><td class="at">{entry.at:.3f}</td>'
        f"<td>{escape(entry_text(entry).strip())}</td></tr>"
        for entry in shown
    )
    return f'{left_out}<div class="wide" tabindex="0"><table>{rows}</table></div>'


def _row_look(entry: Entry) -> str:
    match entry.kind:
        case EntryKind.STEP | EntryKind.SAID:
            return entry.kind.value
        case EntryKind.EXPECTATION:
            return "detail good" if entry.details.get("is_met") else "detail bad"
    return "detail"
