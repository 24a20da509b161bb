"""What the script of a page replays to draw the cluster at any moment: events in order of time.

Made from the timeline and from the facts that `drawing` kept. Plain data for JSON; `page_style` has
the script that reads it. Its size grows with the events of at most `drawing.MOST_PODS` pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

from stowplan.sim.scenarios.drawing import Drawing
from stowplan.sim.scenarios.page_style import FAMILIES
from stowplan.sim.scenarios.timeline import Entry, EntryKind

_MIB: Final = 2**20
#: Kinds of events, as the script knows them.
CREATED, BOUND, GONE, WAITS, NODE_ADDED, NODE_GONE, CORDONED, UNCORDONED, FAILED, RECOVERED = range(
    10
)
_OF_PODS: Final = {
    EntryKind.CREATED: CREATED,
    EntryKind.BOUND: BOUND,
    EntryKind.UNSCHEDULABLE: WAITS,
    EntryKind.FINISHED: GONE,
    EntryKind.DELETED: GONE,
}
_OF_NODES: Final = {
    "created": NODE_ADDED,
    "deleted": NODE_GONE,
    "cordoned": CORDONED,
    "uncordoned": UNCORDONED,
    "fails": FAILED,
    "recovers": RECOVERED,
}


@dataclass(slots=True)
class _Numbering:
    """Numbers for texts, in the order in which they come."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def node_order(drawing: Drawing) -> list[str]:
    """All nodes that ever existed, by zone, as they are drawn."""
    return sorted(drawing.nodes, key=lambda name: drawing.nodes[name].zone)


def history(entries: Sequence[Entry], drawing: Drawing, until: float) -> dict[str, Any]:
    """Everything that happened, as numbers and texts."""
    nodes = node_order(drawing)
    node_numbers = {name: number for number, name in enumerate(nodes)}
    pods = {key: number for number, key in enumerate(drawing.pods)}
    messages = _Numbering()
    said: dict[str, int] = {}
    events: list[list[float | int]] = []
    steps: list[list[Any]] = []
    for entry in entries:
        kind, _, name = entry.subject.partition(" ")
        at = round(entry.at, 3)
        if entry.kind is EntryKind.STEP:
            steps.append([len(events), at, f"{entry.subject}: {entry.text}".removeprefix(": ")])
        elif kind == "pod" and entry.kind in _OF_PODS and name in pods:
            event = [at, _OF_PODS[entry.kind], pods[name]]
            if entry.kind is EntryKind.BOUND:
                event.append(node_numbers.get(entry.details["node"], -1))
            elif entry.kind is EntryKind.UNSCHEDULABLE:
                message = messages.of(entry.text)
                if said.get(name) == message:
                    continue  # a pod may be told the same hundreds of times
                said[name] = message
                event.append(message)
            events.append(event)
        elif kind == "node" and entry.text in _OF_NODES and name in node_numbers:
            events.append([at, _OF_NODES[entry.text], node_numbers[name]])
    return {
        "until": until,
        "nodes": [
            [name, facts.milli_cpu, facts.memory // _MIB, int(facts.is_cordoned)]
            for name, facts in ((name, drawing.nodes[name]) for name in nodes)
        ],
        "pods": [
            [
                key,
                crc32(facts.family.encode()) % FAMILIES,
                facts.milli_cpu,
                facts.memory // _MIB,
                facts.priority,
                drawing.scores.get(key, ""),
            ]
            for key, facts in drawing.pods.items()
        ],
        "messages": list(messages.numbers),
        "events": events,
        # A step's state is complete when the next one begins.
        "steps": [
            [following[0], following[1], step[2]]
            for step, following in pairwise([*steps, [len(events), until, ""]])
        ],
    }
