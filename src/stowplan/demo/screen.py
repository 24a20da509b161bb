"""The live table as text: a `DemoView` in, lines of at most `width` columns and `height` rows out.

Pure; `terminal` puts the lines on a terminal. Whatever comes from the cluster is printed as plain
ASCII: a name must neither move the cursor nor be wider than it is long.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from stowplan.demo.chronicle import NewsKind
from stowplan.demo.view import DemoView, NodePanel, PodPanel

# SGR parameters.
BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
NEWS: Final = "1;32"
_ZONE_STYLES: Final = ("36", "35", "34")
_KIND_STYLES: Final = {
    NewsKind.PLACED: GREEN,
    NewsKind.PENDING: YELLOW,
    NewsKind.FINISHED: DIM,
    NewsKind.OTHER: "",
}

#: From this height on there is room for empty lines between the parts.
_ROOMY: Final = 30
#: The nodes leave at least so many rows to what is pending and what happened.
_LOWER_ROWS: Final = 5
_MAX_REASON_ROWS: Final = 3


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters outside ASCII, for terminals that have them."""

    full: str = "█"
    empty: str = "░"
    more: str = "…"
    dot: str = "·"


UNICODE: Final = Glyphs()
ASCII: Final = Glyphs(full="#", empty=".", more="~", dot="|")


@dataclass(frozen=True, slots=True)
class Paper:
    """The size and abilities of the terminal."""

    width: int = 80
    height: int = 24
    has_color: bool = True
    glyphs: Glyphs = UNICODE


class Line:
    """A line that never grows wider than the paper."""

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self._room = paper.width
        self._parts: list[str] = []

    def add(self, text: str, style: str = "") -> Self:
        if len(text) > self._room:
            text = text[: max(self._room - 1, 0)] + self._paper.glyphs.more if self._room else ""
        self._room -= len(text)
        if text:
            painted = style and self._paper.has_color
            self._parts.append(f"\x1b[{style}m{text}\x1b[m" if painted else text)
        return self

    @property
    def room(self) -> int:
        """Columns that are still free."""
        return self._room

    def __str__(self) -> str:
        return "".join(self._parts)


def frame(view: DemoView, paper: Paper) -> list[str]:
    """The whole screen, one string a row."""
    gap = [Line(paper)] if paper.height >= _ROOMY else []
    head = [*_title(view, paper), *gap]
    foot = [*gap, _footer(view, paper)]
    room = paper.height - len(head) - len(foot)
    nodes = _nodes(view, paper, max(room - _LOWER_ROWS, 0))
    if nodes:
        nodes += gap
    lower = _lower(view, paper, room - len(nodes), gap)
    body = [*nodes, *lower]
    # The footer stays at the bottom, whatever is above it.
    body += [Line(paper)] * (room - len(body))
    rows = [*head, *body[: max(room, 0)], *foot]
    return [str(line) for line in rows[: paper.height]]


def _title(view: DemoView, paper: Paper) -> list[Line]:
    minutes, seconds = divmod(int(view.elapsed_s), 60)
    dot = f" {paper.glyphs.dot} "
    facts = (f"{len(view.nodes)} nodes", f"seed {view.seed}", f"{minutes}:{seconds:02}")
    title = Line(paper).add(" Stowplan", BOLD).add(" demo" + dot).add(dot.join(facts))
    look = f" try: {view.kubectl}" if view.kubectl else f" API server: {view.url}"
    if view.console:
        look = f" console: {view.console}"
    return [title, Line(paper).add(look, DIM)]


def _footer(view: DemoView, paper: Paper) -> Line:
    queue = view.queue
    dot = f" {paper.glyphs.dot} "
    return (
        Line(paper)
        .add(" Ctrl-C", BOLD)
        .add(f" ends{dot}{view.placed_total} placed, {view.rate:.1f}/s{dot}")
        .add(f"{queue.active} active, {queue.backoff} backoff, ")
        .add(f"{queue.unschedulable} unschedulable, {queue.gated} gated")
    )


# Nodes


def _nodes(view: DemoView, paper: Paper, room: int) -> list[Line]:
    """A heading and a row a node, as many as there is room for."""
    if room < 2 or not view.nodes:
        return []
    shown = view.nodes
    if len(shown) > room - 1:
        shown = shown[: room - 2]
    columns = _Columns.fitting(view.nodes, paper.width)
    zones = sorted({node.zone for node in view.nodes})
    styles = {zone: _ZONE_STYLES[i % len(_ZONE_STYLES)] for i, zone in enumerate(zones)}
    lines = [_heading(columns, paper)]
    lines += [_node(node, columns, styles[node.zone], paper) for node in shown]
    left = len(view.nodes) - len(shown)
    if left:
        lines.append(Line(paper).add(f" {paper.glyphs.more} and {left} more nodes", DIM))
    return lines


@dataclass(frozen=True, slots=True)
class _Columns:
    name: int
    zone: int
    bar: int

    @classmethod
    def fitting(cls, nodes: Iterable[NodePanel], width: int) -> Self:
        bar = 8 if width < 100 else 12 if width < 140 else 20
        return cls(
            name=max(4, *(len(_plain(node.name)) for node in nodes)),
            zone=max(4, *(len(_plain(node.zone)) for node in nodes)),
            bar=bar,
        )


def _heading(columns: _Columns, paper: Paper) -> Line:
    meter = columns.bar + 5
    text = (
        f" {'NODE':<{columns.name}}  {'ZONE':<{columns.zone}}  {'CPU':<{meter}}  "
        f"{'MEMORY':<{meter}}  PODS  LATEST ARRIVALS"
    )
    return Line(paper).add(text, BOLD)


def _node(node: NodePanel, columns: _Columns, zone_style: str, paper: Paper) -> Line:
    line = Line(paper)
    line.add(f" {_plain(node.name):<{columns.name}}  ", DIM if node.is_cordoned else "")
    line.add(f"{_plain(node.zone):<{columns.zone}}  ", zone_style)
    _meter(line, node.cpu_used, node.cpu_total, columns.bar, paper.glyphs)
    _meter(line, node.memory_used, node.memory_total, columns.bar, paper.glyphs)
    line.add(f"{node.pods:>4}  ")
    if node.is_cordoned:
        line.add("cordoned ", YELLOW)
    for taint in node.taints:
        line.add(f"{_plain(taint)} ", YELLOW)
    for extra in node.extras:
        line.add(f"{_plain(extra)} ", "36")
    for arrival in node.arrivals:
        name = _plain(arrival.pod)
        if len(name) > line.room:  # half a name says nothing
            break
        line.add(name, NEWS if arrival.is_news else DIM)
        if line.room:
            line.add(" ")
    return line


def _meter(line: Line, used: int, total: int, width: int, glyphs: Glyphs) -> None:
    share = used / total if total else 0.0
    filled = min(width, round(share * width))
    if used and not filled:
        filled = 1
    style = GREEN if share < 0.7 else YELLOW if share < 0.9 else RED
    line.add(glyphs.full * filled, style).add(glyphs.empty * (width - filled), DIM)
    line.add(f" {share:>4.0%}  ")


# What is pending and what happened


def _lower(view: DemoView, paper: Paper, room: int, gap: list[Line]) -> list[Line]:
    """Pending pods first; happenings get the rows that are left."""
    pending = _pending(view, paper, room)
    left = room - len(pending) - len(gap)
    if left < 2 or not view.happenings:
        return pending
    latest = [Line(paper).add(" LATEST", BOLD)]
    for happening in view.happenings[1 - left :]:
        line = Line(paper).add(f" {happening.at:>6.1f}s  ", DIM)
        latest.append(line.add(_plain(happening.text), _KIND_STYLES[happening.kind]))
    return [*pending, *gap, *latest]


def _pending(view: DemoView, paper: Paper, room: int) -> list[Line]:
    if room < 1:
        return []
    if not view.pending:
        return [Line(paper).add(" PENDING", BOLD).add(" nothing", DIM)]
    lines = [Line(paper).add(f" PENDING {len(view.pending)}", BOLD)]
    told = 0
    for group in _same_reason(view.pending):
        block = _group(group, paper)
        if len(lines) + len(block) > room and told:
            break
        lines += block
        told += len(group)
    lines = lines[:room]
    if told < len(view.pending):
        more = f" {paper.glyphs.more} and {len(view.pending) - told} more pending"
        lines[-1] = Line(paper).add(more, DIM) if len(lines) == room else lines[-1]
        if len(lines) < room:
            lines.append(Line(paper).add(more, DIM))
    return lines


def _same_reason(pods: Iterable[PodPanel]) -> Iterator[list[PodPanel]]:
    """Pending pods grouped by reason."""
    groups: dict[tuple[str, str], list[PodPanel]] = {}
    for pod in pods:
        groups.setdefault((pod.why, pod.stays_pending), []).append(pod)
    yield from groups.values()


def _group(pods: list[PodPanel], paper: Paper) -> list[Line]:
    first = pods[0]
    attempts = f"{first.attempts} attempt" + ("" if first.attempts == 1 else "s")
    line = Line(paper).add(f" {_plain(first.name)}", f"{BOLD};{YELLOW}")
    line.add(f"  {first.age_s:.0f}s  {attempts}")
    if first.is_critical:
        line.add("  critical", RED)
    if first.stays_pending:
        line.add(f"  expected to stay pending: {_plain(first.stays_pending)}", DIM)
    if len(pods) > 1:
        names = ", ".join(_plain(pod.name).rpartition("/")[2] for pod in pods[1:])
        line.add(f"  and {len(pods) - 1} like it: {names}", DIM)
    why = _plain(first.why) or "not tried yet"
    wrapped = textwrap.wrap(
        why,
        width=max(paper.width - 4, 20),
        max_lines=_MAX_REASON_ROWS,
        placeholder=f" {paper.glyphs.more}",
    )
    return [line, *(Line(paper).add(f"   {text}") for text in wrapped)]


def _plain(text: str) -> str:
    """Printable ASCII, whatever a plugin or a user wrote."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if " " <= char <= "~" else "?" for char in text)
