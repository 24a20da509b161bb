"""What a trace is: the objects a cluster begins with, and events in the order of time.

Every reader and generator of this package ends in a `Trace`, every player begins with one. What
must stay true: walking a trace twice gives the same events, times never go back, and an event
costs little memory however many there are (manifests share their parts: encode them, copy them,
never change them).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]

#: Annotation of a pod: seconds after which it succeeds, counted from its start. The pretend
#: kubelets of the embedded API server obey it.
RUN_SECONDS = "stowplan.io/run-seconds"

DisruptionKind: TypeAlias = Literal["fail", "recover", "drain", "cordon", "uncordon"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """An object is created: mostly a pod. `run_s` is the duration that its annotation tells."""

    at: float
    manifest: Json
    run_s: float | None = None


@dataclass(frozen=True, slots=True)
class Disruption:
    """Something happens to a node; a drain cordons it first."""

    at: float
    kind: DisruptionKind
    node: str


@dataclass(frozen=True, slots=True)
class Removal:
    """The owner of an object deletes it."""

    at: float
    api_version: str
    kind: str
    namespace: str
    name: str
    #: A pod that had finished was cleaned up: until it has finished here, it stays.
    is_clean_up: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """An object is replaced by a new manifest."""

    at: float
    manifest: Json


Event: TypeAlias = Arrival | Disruption | Removal | Revision


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row or line that could not be used."""

    where: str
    reason: str


_TOLD_GAPS = 5


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """Counts of a file's rows; `examples` are the first few of the broken ones."""

    read: int = 0
    #: Rows that the layout's `where`, the window or the limit leaves out.
    left_out: int = 0
    broken: int = 0
    examples: tuple[BrokenRow, ...] = ()
    #: Of a recording: times, and why changes before them may be missing.
    gaps: tuple[tuple[float, str], ...] = ()
    #: What a row is: "pod", "node", or "" where a file has several kinds.
    of: str = field(default="", compare=False)
    #: The counts of each file, where this is the sum of several.
    parts: tuple[ReadCounts, ...] = field(default=(), compare=False)

    def __add__(self, other: ReadCounts) -> ReadCounts:
        return ReadCounts(
            self.read + other.read,
            self.left_out + other.left_out,
            self.broken + other.broken,
            self.examples + other.examples,
            self.gaps + other.gaps,
            parts=(*self._files(), *other._files()),
        )

    def summary(self) -> str:
        """A summary in one line, with a line for each example."""
        files = self._files() if len({each.of for each in self.parts}) > 1 else ()
        text = "; ".join(each._counted(f"{each.of} rows".lstrip()) for each in files)
        text = text or self._counted("rows")
        lines = [text, *(f"  {row.where}: {row.reason}" for row in self.examples)]
        lines += [f"  gap at {at:,.1f} s: {note}" for at, note in self.gaps[:_TOLD_GAPS]]
        return "\n".join(lines)

    def _files(self) -> tuple[ReadCounts, ...]:
        if self.parts:
            return self.parts
        return (self,) if self.read or self.left_out or self.broken else ()

    def _counted(self, rows: str) -> str:
        text = f"{self.read} {rows} used"
        if self.left_out:
            text += f", {self.left_out} left out"
        if self.broken:
            text += f", {self.broken} broken and skipped"
        if self.gaps:
            text += f", {len(self.gaps)} gaps"
        return text


def _nothing() -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True)
class Trace:
    """A trace: its initial objects and its events. Each call of a maker starts over."""

    sources: tuple[str, ...]
    make_objects: Callable[[], Iterator[Json]] = _nothing
    make_events: Callable[[], Iterator[Event]] = _nothing
    #: Pods among the arrivals, for a progress bar.
    pods: int = 0
    nodes: int = 0
    reading: ReadCounts = field(default_factory=ReadCounts)
    #: A KubeSchedulerConfiguration that came with the trace.
    config: Json | None = None
    #: Disruptions that a description lists, each with its place there: their nodes must exist
    #: when the trace begins.
    listed: tuple[tuple[Disruption, str], ...] = ()
    #: When recording was stopped: what happened later is not known. None: when all pods have ended.
    ends_at: float | None = None
    #: Leave out objects that the API server refuses, and count them.
    skips_refused: bool = False
    #: Another seed would have given other objects or events.
    is_seeded: bool = False

    def objects(self) -> Iterator[Json]:
        """What the cluster begins with, in the order in which it can be created."""
        return self.make_objects()

    def events(self) -> Iterator[Event]:
        """What happens, `at` seconds after the beginning, never earlier than the one before."""
        return self.make_events()

    def arrivals(self) -> Iterator[Arrival]:
        return (event for event in self.events() if isinstance(event, Arrival))


def combined(*traces: Trace) -> Trace:
    """All of them at once: the nodes of one file under the pods of another.

    Events of the same moment come in the order of the traces; a configuration is the last one's.
    """

    def objects() -> Iterator[Json]:
        for trace in traces:
            yield from trace.objects()

    def events() -> Iterator[Event]:
        return heapq.merge(*(trace.events() for trace in traces), key=lambda event: event.at)

    reading = ReadCounts()
    for trace in traces:
        reading += trace.reading
    ends = [trace.ends_at for trace in traces if trace.ends_at is not None]
    configs = [trace.config for trace in traces if trace.config is not None]
    return Trace(
        sources=tuple(source for trace in traces for source in trace.sources),
        make_objects=objects,
        make_events=events,
        pods=sum(trace.pods for trace in traces),
        nodes=sum(trace.nodes for trace in traces),
        skips_refused=any(trace.skips_refused for trace in traces),
        reading=reading,
        config=configs[-1] if configs else None,
        listed=tuple(each for trace in traces for each in trace.listed),
        ends_at=max(ends, default=None),
        is_seeded=any(trace.is_seeded for trace in traces),
    )
