"""Evaluates a configuration at each binding that another scheduler made.

`Follower` applies changes one by one. When a pod gets a node, the profile scores the nodes for the
pending pod. A decision agrees if the recorded node has the highest score: schedulers choose among
equal nodes at random. The other scheduler decided some milliseconds before its binding was seen.
If the state at the binding does not explain the choice, states shortly before are tried
(`moments`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final

from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.errors import StatusError
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status
from stowplan.judge.configuration import Configuration
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Key, Thing
from stowplan.judge.refusal import QuestionRefused
from stowplan.recording.entries import EntryType
from stowplan.recording.reading import LONGEST_TEXT, MOST_GAPS
from stowplan.replay.moments import find_moment
from stowplan.replay.ordering import Change, Ordering
from stowplan.scheduler.decision import Decision

#: Number of changes that can be undone in the search for the state of a decision.
HISTORY: Final = 512
#: Number of best nodes that a comparison names.
_NAMED: Final = 3
_NO_NODE: Final = "no such node"


class Verdict(StrEnum):
    """How this configuration evaluates a recorded decision."""

    #: The recorded node has the highest score.
    SAME = "same"
    #: It has the highest score on a slightly earlier state of the cluster.
    SAME_BEFORE = "same before"
    #: Another node has a higher score.
    OTHER = "other"
    #: A filter rejects the recorded node.
    REJECTED = "rejected"
    #: No node fits.
    PENDING = "pending"
    #: A plugin of this configuration raised, or gave an answer that its contract forbids.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recorded decision, compared with this configuration's."""

    at: float
    pod: str
    node: str
    verdict: Verdict
    #: The first few best nodes, and the number of best nodes.
    best: tuple[str, ...] = ()
    best_count: int = 0
    #: Score of a best node minus that of the recorded node, for plugins where they differ.
    lead: Mapping[str, int] = field(default_factory=dict)
    #: Why the recorded node is rejected, or which state explains the decision.
    note: str = ""

    @property
    def agrees(self) -> bool:
        return self.verdict in (Verdict.SAME, Verdict.SAME_BEFORE)


class Follower:
    """Applies changes and yields a comparison for every binding."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._profiles: dict[str, Profile] = {}
        self._cluster = GivenCluster()
        self._undo: deque[tuple[float, Key, Thing | None]] = deque(maxlen=HISTORY)
        self._is_complete = False
        self.gaps: list[tuple[float, str]] = []
        #: Objects that no API server would accept, such as two with one UID, by the reason.
        self.refused: Counter[str] = Counter()
        #: Bindings of pods whose schedulerName no profile has, by that name.
        self.unserved: Counter[str] = Counter()
        #: Attempts that schedulers reported, by result and source.
        self.told: Counter[tuple[str, str]] = Counter()

    def follow(self, ordering: Ordering, now: float = inf) -> Iterator[Comparison]:
        """Apply the changes that are due by `now`, and yield a comparison for each binding."""
        for change in ordering.take(now):
            if change.type is EntryType.SYNCED:
                self._is_complete = True
                self._undo.clear()  # the objects of the snapshot existed before
            elif change.type is EntryType.GAP:
                if len(self.gaps) < MOST_GAPS:
                    self.gaps.append((change.at, change.note))
                self._undo.clear()  # missed changes cannot be undone
            elif change.decision is not None:
                self.told[change.decision.result, change.decision.source] += 1
            elif change.thing is not None and not self._is_ignored(change.thing):
                comparison = self._compare(change, ordering)
                self._apply(change, change.thing)
                if comparison is not None:
                    yield comparison

    def _is_ignored(self, thing: Thing) -> bool:
        return thing.resource is not None and self._configuration.ignores(thing.resource)

    def _compare(self, change: Change, ordering: Ordering) -> Comparison | None:
        thing = change.thing
        assert thing is not None
        if thing.resource is not PODS or not self._is_complete:
            return None
        pod: Pod = thing.struct
        known = self._cluster.things.get(thing.key)
        if known is None or not pod.spec.node_name or change.type is EntryType.DELETED:
            return None
        was: Pod = known.struct
        if was.spec.node_name or was.uid != pod.uid:
            return None
        if not self._configuration.serves(pod):
            self.unserved[pod.spec.scheduler_name] += 1
            return None
        return self._judged(change.at, known, pod.spec.node_name, ordering)

    def _judged(self, at: float, pending: Thing, node: str, ordering: Ordering) -> Comparison:
        first = self._ask(at, pending, node)
        if first.agrees or first.verdict is Verdict.FAILED:  # a broken plugin fails on all states
            return first
        found = find_moment(
            self._cluster,
            self._undo,
            pending.key,
            at,
            ordering.coming(),
            lambda: self._ask(at, pending, node).agrees,
        )
        if found is None:
            return first
        return Comparison(at, first.pod, node, Verdict.SAME_BEFORE, note=found)

    def _ask(self, at: float, pending: Thing, node: str) -> Comparison:
        pod: Pod = pending.struct
        try:
            profile = self._profile(pod)
            decision = self._cluster.judge(pending, profile, self._configuration.serves)
        except QuestionRefused as problem:
            return Comparison(at, pod.key, node, Verdict.PENDING, note=str(problem))
        return _comparison(at, pod, node, decision)

    def _profile(self, pod: Pod) -> Profile:
        pattern = self._configuration.profile_for(pod)
        profile = self._profiles.get(pattern.name)
        if profile is None:
            profile = self._profiles[pattern.name] = self._cluster.settle(pattern)
        return profile

    def _apply(self, change: Change, thing: Thing) -> None:
        old = self._cluster.things.get(thing.key)
        if change.type is EntryType.DELETED:
            if old is None:
                return
            self._cluster.remove(thing.key)
        else:
            try:
                self._cluster.put(thing)
            except QuestionRefused as problem:
                why = str(problem)[:LONGEST_TEXT]
                known = why in self.refused or len(self.refused) < MOST_GAPS
                self.refused[why if known else "other reasons"] += 1
                return
        self._undo.append((change.at, thing.key, old))


def _comparison(at: float, pod: Pod, node: str, decision: Decision) -> Comparison:
    """Must be called before the table changes."""
    table, diagnosis, sheet = decision.cycle.table, decision.diagnosis, decision.scores
    if sheet is None or diagnosis is None:
        if diagnosis is not None and decision.feasible_nodes:  # a profile without scores
            return _unscored(at, pod, node, decision)
        is_broken = any(not isinstance(each, StatusError) for each in decision.cycle.failures)
        verdict = Verdict.FAILED if is_broken else Verdict.PENDING
        message = decision.message or ("" if diagnosis is None else diagnosis.message())
        return Comparison(at, pod.key, node, verdict, note=message)
    best_rows = sheet.rows[sheet.totals == sheet.totals.max()].tolist()
    best = tuple(sorted(table.names[each] for each in best_rows)[:_NAMED])
    row = table.live_row(node)
    if row is None or row not in sheet.rows:
        note = _NO_NODE if row is None else _reasons(diagnosis.status_of(row))
        return Comparison(at, pod.key, node, Verdict.REJECTED, best, len(best_rows), note=note)
    # The nominated node is taken without scoring the others.
    if row in best_rows or pod.status.nominated_node_name == node:
        return Comparison(at, pod.key, node, Verdict.SAME, best, len(best_rows))
    ours, theirs = sheet.of(best_rows[0]).by_plugin, sheet.of(row).by_plugin
    lead = {name: ours[name] - theirs[name] for name in ours if ours[name] != theirs[name]}
    return Comparison(at, pod.key, node, Verdict.OTHER, best, len(best_rows), lead)


def _unscored(at: float, pod: Pod, node: str, decision: Decision) -> Comparison:
    assert decision.diagnosis is not None
    row = decision.cycle.table.live_row(node)
    status = None if row is None else decision.diagnosis.status_of(row)
    if status is not None and status.code is Code.SUCCESS:
        return Comparison(at, pod.key, node, Verdict.SAME, (), decision.feasible_nodes)
    note = _NO_NODE if status is None else _reasons(status)
    return Comparison(at, pod.key, node, Verdict.REJECTED, note=note)


def _reasons(status: Status) -> str:
    return f"{status.plugin}: {', '.join(status.reasons)}" if status.reasons else status.code.label
