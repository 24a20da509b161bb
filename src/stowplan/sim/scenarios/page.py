"""A scenario as an HTML page: its expectations, drawings of the cluster, and the timeline.

`stowplan simulate --html` writes it. Pure text; its look is in `page_style`. Everything that comes
from a cluster must be escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final
from zlib import crc32

from stowplan.present import html, plots
from stowplan.present.plots import Series, lines
from stowplan.sim.scenarios.page_style import COLOURS, FAMILIES, SCRIPT, STYLE
from stowplan.sim.scenarios.picture import NodeBox, Picture, PodBox
from stowplan.sim.scenarios.report import entry_text, is_worth_a_line, summary
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Outcome

#: Nodes beyond this are small tiles.
_MOST_CARDS: Final = 60
#: Pods of one node, or waiting, that are drawn.
_MOST_PODS: Final = 60
_MOST_ENTRIES: Final = 3_000
_POINTS: Final = 600
_GIB: Final = 2**30


def page(outcome: Outcome, pictures: Sequence[Picture], *, about: str = "") -> str:
    """`pictures` in the order of time; the last is the end."""
    body = _body(outcome, pictures, about)
    style = plots.STYLE + STYLE
    return html.page(outcome.name, body, colours=COLOURS, style=style, script=SCRIPT)


def _body(outcome: Outcome, pictures: Sequence[Picture], about: str) -> Iterator[str]:
    yield f"<h1>{escape(outcome.name)}</h1>"
    verdict = ("good", "All as expected") if outcome.is_ok else ("bad", "Not as expected")
    yield (
        f'<p class="about"><span class="verdict {verdict[0]}">{verdict[1]}</span>; '
        f"on {escape(outcome.on)}, seed {outcome.seed}. {escape(summary(outcome)[-1])}.</p>"
    )
    if about:
        yield f"<p>{escape(about)}</p>"
    if outcome.problem:
        yield f'<p class="bad">{escape(outcome.problem)}</p>'
    if outcome.expectations:
        yield "<h2>Expectations</h2>"
        yield _expectations(outcome)
    if pictures:
        yield "<h2>The cluster</h2>"
        yield from _album(pictures)
    if outcome.cluster_s > 0 and outcome.entries:
        yield _chart(outcome.entries, outcome.cluster_s)
    yield "<h2>Timeline</h2>"
    yield _timeline(outcome.entries)


def _expectations(outcome: Outcome) -> str:
    items = []
    for each in outcome.expectations:
        mark = '<b class="good">ok</b>' if each.is_met else '<b class="bad">FAIL</b>'
        found = ""
        if each.found and not each.is_met:
            found = f' <span class="found">(found: {escape(each.found)})</span>'
        items.append(f"<li>{mark} {escape(each.text)}{found}</li>")
    return f'<ul class="expectations">{"".join(items)}</ul>'


# Pictures


def _album(pictures: Sequence[Picture]) -> Iterator[str]:
    last = len(pictures) - 1
    if last:
        yield (
            '<div class="turn" hidden><button id="back" aria-label="earlier">&#9664;</button>'
            f'<input id="at" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="moment of the picture"><button id="on" aria-label="later">&#9654;</button>'
            "</div>"
        )
    for number, picture in enumerate(pictures):
        hidden = "" if number == last else " hidden"
        yield (
            f'<div class="picture"{hidden}>'
            f'<p class="caption">{picture.at:.1f} s: {escape(picture.title)}</p>'
            f"{_nodes(picture)}{_waiting(picture)}</div>"
        )


def _nodes(picture: Picture) -> str:
    if len(picture.nodes) > _MOST_CARDS:
        tiles = "".join(_tile(node) for node in picture.nodes)
        return f'<div class="tiles" role="img" aria-label="nodes by CPU in use">{tiles}</div>'
    return f'<div class="nodes">{"".join(_card(node) for node in picture.nodes)}</div>'


def _card(node: NodeBox) -> str:
    notes = [*node.taints]
    if node.is_cordoned:
        notes.insert(0, "cordoned")
    if not node.is_ready:
        notes.insert(0, "not ready")
    noted = f'<div class="note">{escape(", ".join(notes))}</div>' if notes else ""
    zone = f"<small>{escape(node.zone)}</small>" if node.zone else ""
    return (
        f'<div class="node{_look(node)}"><h3>{escape(node.name)}{zone}</h3>{noted}'
        f"{_meter('cpu', node.cpu_share)}{_meter('memory', node.memory_share)}"
        f"{_pods(node.pods)}</div>"
    )


def _look(node: NodeBox) -> str:
    return (" closed" if node.is_cordoned else "") + ("" if node.is_ready else " lost")


def _meter(what: str, share: float) -> str:
    over = " over" if share > 1 else ""
    return (
        f'<div class="meter"><span>{what}</span><span class="track"><span class="fill{over}" '
        f'style="display:block;width:{min(share, 1) * 100:.0f}%"></span></span>'
        f"<span>{share:.0%}</span></div>"
    )


def _tile(node: NodeBox) -> str:
    told = f"{node.name}: {len(node.pods)} pods, {node.cpu_share:.0%} CPU, {node.memory_share:.0%}"
    return (
        f'<div class="tile{_look(node)}" title="{escape(told)} memory">'
        f'<span style="height:{min(node.cpu_share, 1) * 100:.0f}%"></span></div>'
    )


def _pods(pods: Sequence[PodBox]) -> str:
    if not pods:
        return ""
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


def _waiting(picture: Picture) -> str:
    if not picture.waiting:
        return ""
    return (
        f'<div class="waiting"><p class="caption">{len(picture.waiting):,} without a node</p>'
        f"{_pods(picture.waiting)}</div>"
    )


# Over time


def pods_over_time(entries: Sequence[Entry]) -> list[tuple[float, int, int]]:
    """Moments with how many pods had a node then, and how many waited."""
    waiting: set[str] = set()
    placed: set[str] = set()
    points: list[tuple[float, int, int]] = [(0.0, 0, 0)]
    for entry in entries:
        if not entry.subject.startswith("pod "):
            continue
        if entry.kind is EntryKind.CREATED:
            waiting.add(entry.subject)
        elif entry.kind is EntryKind.BOUND:
            waiting.discard(entry.subject)
            placed.add(entry.subject)
        elif entry.kind in (EntryKind.DELETED, EntryKind.FINISHED):
            waiting.discard(entry.subject)
            placed.discard(entry.subject)
        else:
            continue
        point = (entry.at, len(placed), len(waiting))
        if points[-1][0] == entry.at:
            points[-1] = point
        else:
            points.append(point)
    return points


def _chart(entries: Sequence[Entry], until: float) -> str:
    points = pods_over_time(entries)
    stride = max(len(points) // _POINTS, 1)
    points = [*points[::stride], points[-1]]
    if not any(placed or waiting for _, placed, waiting in points):
        return ""
    series = [
        Series(
            "pods with a node", _stairs([(at, placed) for at, placed, _ in points], until), "used"
        ),
        Series("pods that wait", _stairs([(at, wait) for at, _, wait in points], until), "waiting"),
    ]
    return f"<h2>Pods over time</h2>{lines('pods over time', '', series, until_s=until)}"


def _stairs(points: Sequence[tuple[float, int]], until: float) -> list[tuple[float, float]]:
    """A line that keeps each value until the next one."""
    stairs: list[tuple[float, float]] = []
    for at, value in points:
        stairs += [(at, stairs[-1][1] if stairs else 0.0), (at, float(value))]
    return [*stairs, (until, stairs[-1][1])]


def _timeline(entries: Sequence[Entry]) -> str:
    shown = entries
    left_out = ""
    if len(entries) > _MOST_ENTRIES:
        shown = [entry for entry in entries if is_worth_a_line(entry)][:_MOST_ENTRIES]
        left_out = f'<p class="about">{len(entries) - len(shown):,} entries are not shown.</p>'
    rows = "".join(
        f'<tr class="{_row_look(entry)}"><td class="at">{entry.at:.3f}</td>'
        f"<td>{escape(entry_text(entry).strip())}</td></tr>"
        for entry in shown
    )
    return f'{left_out}<div class="wide"><table>{rows}</table></div>'


def _row_look(entry: Entry) -> str:
    match entry.kind:
        case EntryKind.STEP | EntryKind.SAID:
            return entry.kind.value
        case EntryKind.EXPECTATION:
            return "detail good" if entry.details.get("is_met") else "detail bad"
    return "detail"
