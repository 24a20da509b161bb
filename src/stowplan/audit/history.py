"""Audit of everything that happened, revision by revision, from etcd's history.

Every binding is judged against the cluster at its revision. What breaks a rule there is judged
again, with what its scheduler may have seen instead: schedulers decide some moments before etcd
stores the binding. Changes by others in that time (`Options.in_flight_s`) are excused. Bindings of
the same scheduler are not: its cache has them.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from stowplan.audit.audit_log import Request
from stowplan.audit.claim_findings import claim_finding, stale_reservations
from stowplan.audit.etcd import Revision
from stowplan.audit.facts import NodeFacts, PodFacts, node_facts, pod_facts
from stowplan.audit.findings import DEFAULTS, Finding, Options, Report, Unread, shown_time
from stowplan.audit.items import Event, Item, decode_item
from stowplan.audit.neighbours import neighbour_problems
from stowplan.audit.pending import PendingPods
from stowplan.audit.rules import Moment, Problem, problems
from stowplan.audit.world import World

#: Revisions to look ahead at most, whatever their times say.
_MOST_AHEAD: Final = 20_000
_PROGRESS_EVERY: Final = 1000


def audit_history(
    history: Iterable[Revision],
    *,
    requests: Iterable[Request] = (),
    options: Options = DEFAULTS,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Audit all revisions of a cluster's objects, oldest first (`etcd.etcd_history`).

    `requests` are those of the API server's audit log (`audit_log.read_audit_log`). They tell of
    bindings that were refused or carried out twice, which etcd's history does not.
    """
    replay = _Replay(requests, options)
    for revision in history:
        if replay.revisions % _PROGRESS_EVERY == 0:
            progress(f"{replay.revisions} revisions, {replay.binds} bindings")
        replay.read(revision)
    return replay.report(progress)


class _Bound(NamedTuple):
    """A binding that took effect. Small: there is one for each pod of the history."""

    key: str
    uid: str
    node: str
    scheduler: str
    at: float
    revision: int

    def finding(self, kind: str, message: str) -> tuple[float, Finding]:
        return self.at, Finding(
            kind=kind,
            pod=self.key,
            uid=self.uid,
            node=self.node,
            scheduler=self.scheduler,
            message=message,
            time=shown_time(self.at),
            revision=self.revision,
        )


class _Ahead(NamedTuple):
    """A revision that was read, and is not yet applied."""

    number: int
    time: float
    item: Item
    pod: PodFacts | None
    node: NodeFacts | None
    is_initial: bool


class _Replay:
    def __init__(self, requests: Iterable[Request], options: Options) -> None:
        self._options = options
        self._bindings = _Bindings(requests)
        self._world = World()
        self._ahead: deque[_Ahead] = deque()
        self._clock = 0.0
        self._found: list[tuple[float, Finding]] = []
        #: Pods that a binding placed, by UID.
        self._bound: dict[str, _Bound] = {}
        self._announced: set[str] = set()
        self._has_events = False
        self._is_partial = False
        self._unread = Unread()
        self._schedulers: set[str] = set()
        self.revisions = 0
        self.binds = 0

    def read(self, revision: Revision) -> None:
        self.revisions += 1
        try:
            item = _item(revision)
            pod = pod_facts(item) if item.kind == "Pod" and item.object is not None else None
            node = node_facts(item) if item.kind == "Node" and item.object is not None else None
        except (msgspec.MsgspecError, ValueError) as problem:
            self._unread.add(f"{revision.kind} {revision.namespace}/{revision.name}", problem)
            return
        if isinstance(item.object, Event):
            self._has_events = True
            if item.object.reason == "Scheduled":
                self._announced.add(item.object.uid)
            return
        if item.kind == "Event":
            return
        if pod is not None:
            self._schedulers.add(pod.scheduler)
        self._clock = max(self._clock, item.written_at)
        ahead = _Ahead(revision.number, self._clock, item, pod, node, revision.is_initial)
        self._ahead.append(ahead)
        while self._ahead and (
            self._ahead[0].time < self._clock - self._options.in_flight_s
            or len(self._ahead) > _MOST_AHEAD
        ):
            self._apply(self._ahead.popleft())

    def report(self, progress: Callable[[str], None]) -> Report:
        while self._ahead:
            self._apply(self._ahead.popleft())
        options, world = self._options, self._world
        world.now = self._clock
        self._found += self._bindings.faults(self._bound, self._is_partial)
        notes = [*options.unknown_schedulers(self._schedulers), *self._unread.notes()]
        if options.wants("no-event"):
            if self._has_events or not self._bound:
                self._find_unannounced()
            else:
                notes.append("Scheduled events not checked: the history holds no events")
        if self._is_partial:
            notes.append("the history was compacted: what happened before is unknown")
        self._found += [(world.now, each) for each in stale_reservations(world, options)]
        if options.wants("pending"):
            pending = PendingPods(world, options, progress)
            self._found += [(world.now, each) for each in pending.findings()]
            notes += pending.notes()
        oldest = self._clock - options.since_s if options.since_s else 0.0
        return Report(
            findings=options.chosen(each for time, each in self._found if time >= oldest),
            nodes=len(world.nodes),
            pods=len(world.pods),
            judged=self.binds,
            revisions=self.revisions,
            notes=notes,
        )

    # One revision

    def _apply(self, ahead: _Ahead) -> None:
        self._world.now = ahead.time
        self._is_partial = self._is_partial or ahead.is_initial
        item = ahead.item
        if item.kind == "Pod":
            self._apply_pod(ahead)
        elif item.kind == "Node":
            self._world.set_node(item.name, ahead.node)
        else:
            self._world.set_other(item)
        if item.kind == "ResourceClaim":
            self._judge_claim((item.namespace, item.name), ahead)

    def _judge_claim(self, key: tuple[str, str], ahead: _Ahead) -> None:
        """Judge an allocation, as of the revision that wrote it."""
        devices = self._world.devices
        if ahead.is_initial or not devices.is_new(key):
            return
        since = ahead.time - self._options.in_flight_s
        for fault in devices.faults_of_claim(key, since):
            finding = claim_finding(self._world, key, fault, revision=ahead.number, at=ahead.time)
            self._found.append((ahead.time, finding))

    def _apply_pod(self, ahead: _Ahead) -> None:
        pod = ahead.pod
        if pod is None:
            self._world.remove_pod(f"{ahead.item.namespace}/{ahead.item.name}")
            return
        pod.revision = ahead.number
        old = self._world.pods.get(pod.key)
        if old is not None and old.uid != pod.uid:
            self._world.remove_pod(pod.key)
            old = None
        if old is None:
            pod.is_direct = pod.is_direct or bool(pod.node and not ahead.is_initial)
        elif old.node and pod.node != old.node:
            self._add(pod, ahead, Problem("double-bind", f"its node changed from {old.node}"))
        elif pod.node and not old.node:
            self._judge(dataclasses.replace(old, node=pod.node, arrived_at=ahead.time), ahead)
            pod.arrived_at = ahead.time
        else:
            _carry_over(old, pod, ahead.time)
        self._world.set_pod(pod)

    def _judge(self, pod: PodFacts, ahead: _Ahead) -> None:
        """Judge a binding, before the pod is on its node."""
        self.binds += self._options.wants_pod(pod.scheduler)
        self._bound[pod.uid] = _bound(pod, ahead)
        world = self._world
        node = world.nodes.get(pod.node)
        if node is not None and not _all_problems(world, pod, None):
            return
        moment = self._moment(pod, ahead)
        if node is None:
            if not any(world.versions(pod.node, moment.since)):
                self._add(pod, ahead, Problem("missing-node", "its node does not exist"))
            return
        for problem in _all_problems(world, pod, moment):
            self._add(pod, ahead, problem)

    def _moment(self, pod: PodFacts, ahead: _Ahead) -> Moment:
        """What the scheduler may have seen. A binding that was sent again was decided earlier."""
        begun = self._bindings.first_asked(pod) or ahead.time
        since = min(begun, ahead.time) - self._options.in_flight_s
        coming = [
            each.pod
            for each in self._ahead
            if each.pod is not None and each.pod.node and self._is_unbound(each.pod)
        ]
        failed = [
            dataclasses.replace(waiting, node=request.node)
            for request in self._bindings.refused(since, ahead.time + self._options.in_flight_s)
            if (waiting := _waiting(self._world, request)) is not None
        ]
        return Moment(since, [*coming, *failed])

    def _is_unbound(self, pod: PodFacts) -> bool:
        now = self._world.pods.get(pod.key)
        return now is None or not now.node

    # Findings

    def _add(self, pod: PodFacts, ahead: _Ahead, problem: Problem) -> None:
        by = self._bindings.user(pod)
        text = f"{problem.message} (bound by {by})" if by else problem.message
        self._found.append(_bound(pod, ahead).finding(problem.kind, text))

    def _find_unannounced(self) -> None:
        for uid, bound in self._bound.items():
            if uid not in self._announced and bound.at <= self._clock - self._options.grace_s:
                self._found.append(bound.finding("no-event", "no Scheduled event for it"))


class _Bindings:
    """The binding requests of the audit log."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = [each for each in requests if each.is_bind and "dryRun" not in each.uri]
        # By UID, or by namespace/name for a request without one.
        self._first: dict[tuple[str, str], float] = {}
        self._user: dict[str, str] = {}
        for each in self._requests:
            who = each.uid or f"{each.namespace}/{each.name}"
            place = (who, each.node)
            self._first[place] = min(self._first.get(place, each.received_at), each.received_at)
            if each.succeeded:
                self._user[who] = each.user
        self._refused = sorted(
            (each for each in self._requests if not each.succeeded and each.node),
            key=lambda each: each.received_at,
        )
        self._refused_at = [each.received_at for each in self._refused]

    def first_asked(self, pod: PodFacts) -> float:
        """When the binding was first asked for; 0 if it is not in the log."""
        return self._first.get((pod.uid, pod.node)) or self._first.get((pod.key, pod.node), 0.0)

    def user(self, pod: PodFacts) -> str:
        return self._user.get(pod.uid) or self._user.get(pod.key, "")

    def refused(self, since: float, until: float) -> list[Request]:
        start = bisect_left(self._refused_at, since)
        return self._refused[start : bisect_left(self._refused_at, until)]

    def faults(self, bound: dict[str, _Bound], is_partial: bool) -> Iterable[tuple[float, Finding]]:
        """Bindings that the API server confirmed and history does not have, or has only once."""
        done = [each for each in self._requests if each.succeeded]
        for uid, count in Counter(each.uid for each in done if each.uid).items():
            if count > 1 and uid in bound:
                yield bound[uid].finding("double-bind", f"{count} binding requests succeeded")
        for each in done:
            if each.uid in bound and bound[each.uid].node != each.node:
                text = f"a binding to {each.node} succeeded, but it went to {bound[each.uid].node}"
                yield bound[each.uid].finding("double-bind", text)
        if is_partial:
            return
        names = Counter(each.key for each in bound.values())
        unidentified = Counter(f"{each.namespace}/{each.name}" for each in done if not each.uid)
        for key, count in unidentified.items():
            if count > names[key]:
                text = f"{count} binding requests without a UID succeeded, {names[key]} took effect"
                yield 0.0, Finding(kind="double-bind", pod=key, message=text)


def _bound(pod: PodFacts, ahead: _Ahead) -> _Bound:
    return _Bound(pod.key, pod.uid, pod.node, pod.scheduler, ahead.time, ahead.number)


def _waiting(world: World, request: Request) -> PodFacts | None:
    """The pod of a request, if it is the same pod and still waits."""
    found = world.pods.get(f"{request.namespace}/{request.name}")
    if found is None or found.node or (request.uid and found.uid != request.uid):
        return None
    return found


def _all_problems(world: World, pod: PodFacts, moment: Moment | None) -> list[Problem]:
    node = world.nodes[pod.node]
    return [
        *problems(world, pod, node, moment),
        *neighbour_problems(world, pod, node, moment),
    ]


def _carry_over(old: PodFacts, pod: PodFacts, now: float) -> None:
    """What a later revision no longer shows."""
    pod.is_direct = old.is_direct
    pod.arrived_at, pod.changed_at, pod.before = old.arrived_at, old.changed_at, old.before
    if pod.node and (pod.labels != old.labels or pod.held != old.held):
        pod.changed_at, pod.before = now, dataclasses.replace(old, before=None)


def _item(revision: Revision) -> Item:
    if revision.object is None:
        return Item(revision.kind, revision.namespace, revision.name, None)
    found = decode_item(revision.kind, revision.object)
    if (found.namespace, found.name) != (revision.namespace, revision.name):
        raise ValueError(f"it names itself {found.namespace}/{found.name}")
    return found
