"""What the pure cycle asks of extenders about nodes. It yields a request, and is sent the answer.

`extender_client` performs the requests; `extender_victims` asks about preemption in the same way.
What must stay true: extenders are asked in the order of their list, each about what those before it
have left, and one that is ignorable and fails counts as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray
from stowplan.errors import ExtenderError
from stowplan.framework.candidates import Victims
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.score_sheet import ScoreSheet
from stowplan.framework.status import Status, unresolvable, unschedulable
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

#: The plugin name in the diagnosis for rejections by extenders.
EXTENDER = "Extender"


class Extender(Protocol):
    """The part of a configured extender that the cycle uses."""

    @property
    def name(self) -> str: ...
    @property
    def filters(self) -> bool: ...
    @property
    def prioritizes(self) -> bool: ...
    @property
    def preempts(self) -> bool: ...
    @property
    def is_ignorable(self) -> bool: ...
    def is_interested(self, pod: Pod) -> bool: ...


@dataclass(frozen=True, slots=True)
class FilterRequest:
    extender: Extender
    pod: Pod
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The names of feasible nodes, in the extender's order, and reasons against others.

    A node in none of the three is rejected without a reason.
    """

    nodes: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrioritizeRequest:
    """A request to several extenders, sent concurrently."""

    extenders: Sequence[Extender]
    pod: Pod
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class PrioritizeAnswer:
    """The score that each extender adds to nodes, on the scale of node scores times its weight.

    None: the extender failed and adds nothing.
    """

    scores: Sequence[Mapping[str, int] | None]


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    """The candidate nodes, with the victims on each."""

    extender: Extender
    pod: Pod
    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class PreemptAnswer:
    """The remaining nodes, each with its victims' UIDs and the number of budget violations."""

    victims: Mapping[str, tuple[Sequence[str], int]]


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that failed; the text says why."""

    message: str


Request: TypeAlias = FilterRequest | PrioritizeRequest | PreemptRequest
Answer: TypeAlias = FilterAnswer | PrioritizeAnswer | PreemptAnswer | Failed


def ask_to_filter(
    extenders: Sequence[Extender], feasible: Rows, cycle: Cycle, diagnosis: Diagnosis
) -> Generator[Request, Answer, Rows]:
    """The rows that remain. ExtenderError if an extender fails that is not ignorable."""
    for extender in extenders:
        if not extender.filters or not len(feasible):
            continue
        rows = {cycle.table.names[row]: row for row in feasible.tolist()}
        answer = yield FilterRequest(extender, cycle.pod, list(rows))
        if isinstance(answer, Failed):
            if not extender.is_ignorable:
                raise ExtenderError(answer.message)
            log.info(
                "Skipping extender as it returned error and has ignorable flag set",
                extra=kv(extender=extender.name, err=answer.message),
            )
            continue
        assert isinstance(answer, FilterAnswer)
        kept = dict.fromkeys(answer.nodes)
        for name in kept:
            if name not in rows:
                # DIVERGES: a stranger is refused also where whole nodes are sent. Upstream would
                # go on to score it, and bind to it.
                raise ExtenderError(
                    f'extender "{extender.name}" claims a filtered node "{name}"'
                    " which is not found in the input node list"
                )
        _note(answer.failed, unschedulable, cycle, diagnosis)
        _note(answer.unresolvable, unresolvable, cycle, diagnosis)
        for name in rows.keys() - kept.keys():
            # An extender that omits a node has not said that eviction would help there.
            diagnosis.overrides.setdefault(rows[name], diagnosis.absent.by(EXTENDER))
            diagnosis.unschedulable_plugins.add(EXTENDER)
        # DIVERGES: nodes are scored with the pods that are on them. Upstream takes a whole node
        # that an extender sends back for an empty one, and scores it so.
        feasible = np.array([rows[name] for name in kept], np.intp)
    return feasible


def _note(
    said: Mapping[str, str],
    status: Callable[[str], Status],
    cycle: Cycle,
    diagnosis: Diagnosis,
) -> None:
    """Whatever an extender says of a node counts, even of one that it was not asked about."""
    for name, reason in said.items():
        row = cycle.table.live_row(name)
        if row is not None:
            diagnosis.overrides[row] = status(reason).by(EXTENDER)


def ask_to_prioritize(
    extenders: Sequence[Extender], sheet: ScoreSheet, cycle: Cycle
) -> Generator[Request, Answer, None]:
    """Add what extenders think of the rows. One that fails has no say, ignorable or not."""
    asked = [extender for extender in extenders if extender.prioritizes]
    # As upstream has it: ties among nodes that an extender scored are drawn, and one that does not
    # prioritize has scored every node with nothing.
    drawn: BoolArray = np.full(len(sheet.rows), len(asked) < len(extenders), np.bool_)
    if asked:
        names = [cycle.table.names[row] for row in sheet.rows.tolist()]
        answer = yield PrioritizeRequest(asked, cycle.pod, names)
        assert isinstance(answer, PrioritizeAnswer)
        for extender, given in zip(asked, answer.scores, strict=True):
            if given is None:
                continue
            drawn |= np.array([name in given for name in names], np.bool_)
            scores = np.array([_as_int64(given.get(name, 0)) for name in names], np.int64)
            sheet.by_plugin.append((extender.name, scores))
            sheet.totals += scores
    if extenders:
        sheet.drawn = drawn


def _as_int64(score: int) -> int:
    """An absurd weight times an absurd score wraps around, as in Go."""
    return (score + (1 << 63)) % (1 << 64) - (1 << 63)
