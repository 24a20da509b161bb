"""Explanations from inside a running scheduler: its own table, profiles, queue and ledger.

`server.explain_api` asks, on the event loop, between two decisions. Nothing is changed: a pending
pod is judged as it is, and a pod that has a node is explained by its recorded attempt, because the
table cannot be asked as if the pod were not there. The work of a question is limited as that of a
decision is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.work import DECISION_WORK, DecisionDeferred
from stowplan.errors import Conflict, NotFound, ServerError
from stowplan.explain.explanation import (
    Comparison,
    Explanation,
    NodeAnswer,
    State,
    Waiting,
)
from stowplan.explain.pending import Pending, PendingGroup
from stowplan.explain.reasoning import compared, explained, no_such_node, over
from stowplan.explain.recorded import AttemptAnswer, Attempts, chosen_attempt
from stowplan.explain.summary import nodes_text
from stowplan.framework.profile import Profile
from stowplan.queue.pod import Place, QueuedPod
from stowplan.scheduler.cycle import judge
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.ledger import Entry

#: Pods that are named for each cause.
_EXAMPLES = 3


class LiveExplainer:
    """Reads an engine. `lookup` finds a pod by `namespace/name`."""

    def __init__(self, engine: Engine, lookup: Callable[[str], Pod | None]) -> None:
        self._engine = engine
        self._lookup = lookup

    def explain(self, key: str) -> Explanation:
        """Everything about one pod; NotFound if there is none."""
        pod = self._pod(key)
        profile = self._profile(pod)
        if pod.is_finished or pod.is_terminating:
            return over(pod, profile)
        node = pod.spec.node_name or self._engine.cache.node_of(pod.uid)
        if node:
            return self._placed(pod, profile, node)
        with self._judged(pod, profile) as decision:
            said = explained(pod, profile, decision, self._engine.cache.catalog)
        return msgspec.structs.replace(said, waiting=self._waiting(pod))

    def compare(self, key: str, name: str) -> Comparison:
        """A node beside the best one, for a pod that has none yet."""
        pod = self._pod(key)
        row = self._engine.cache.table.live_row(name)
        if row is None:
            raise no_such_node(self._engine.cache.table, name)
        if pod.spec.node_name or self._engine.cache.node_of(pod.uid) is not None:
            raise Conflict(f'pod "{key}" has a node, and is compared only without --server')
        profile = self._profile(pod)
        with self._judged(pod, profile) as decision:
            return compared(pod, profile, decision, row)

    def attempts(self, key: str) -> Attempts:
        """What the ledger has of a pod; it may be gone, or recreated under the same name."""
        entries = self._entries(key)
        return Attempts(key, tuple(entry.read(is_whole=False) for entry in entries))

    def attempt(self, key: str, number: int) -> AttemptAnswer:
        """The latest recorded attempt with that number."""
        found = [entry.read(is_whole=True) for entry in self._entries(key)]
        return chosen_attempt(key, found, number)

    def pending(self, namespace: str = "") -> Pending:
        """The pods that wait, grouped by the cause of their last attempt."""
        queue = self._engine.queue.pending(in_order=False)
        held = sum(len(handle.waiting) for handle in self._engine.handles.values())
        counts = {**queue.counts._asdict(), "permit": held}
        counts["inFlight"] = counts.pop("in_flight")
        groups: dict[tuple[State, str, str], list[QueuedPod]] = {}
        waiting = (queue.active, queue.backoff, queue.error_backoff, queue.unschedulable)
        for queued in (each for some in (*waiting, queue.gated) for each in some):
            if not namespace or queued.pod.metadata.namespace == namespace:
                groups.setdefault(self._cause(queued), []).append(queued)
        first = {pods[0].key for pods in groups.values()}
        ledger = self._engine.ledger
        tried = ledger.latest(first) if ledger is not None else {}
        found = [_group(cause, pods, tried.get(pods[0].key)) for cause, pods in groups.items()]
        found.sort(key=lambda each: (-each.pods, each.examples))
        return Pending(counts, tuple(found))

    # Inside

    def _pod(self, key: str) -> Pod:
        pod = self._lookup(key)
        if pod is None:
            raise NotFound(f'pod "{key}" not found; the scheduler does not watch finished pods')
        return pod

    def _profile(self, pod: Pod) -> Profile:
        """The pod's own; the first one judges pods of other schedulers."""
        profiles = self._engine.profiles
        return profiles.get(pod.spec.scheduler_name) or next(iter(profiles.values()))

    @contextmanager
    def _judged(self, pod: Pod, profile: Profile) -> Iterator[Decision]:
        """All nodes' answers to a pending pod, valid within the block."""
        nominator, table = self._engine.queue.nominator, self._engine.cache.table
        table.work.limit(DECISION_WORK)
        try:
            nominated = nominator if len(nominator) else None
            yield judge(table, compile_pod(pod), profile, nominated=nominated)
        except DecisionDeferred:
            raise ServerError(
                f'pod "{pod.key}" is too expensive to explain beside scheduling. Fix: ask again,'
                " when parts are cached, or explain it without --server",
                status=503,
            ) from None
        finally:
            table.work.unlimit()

    def _entries(self, key: str) -> list[Entry]:
        ledger = self._engine.ledger
        if ledger is None:
            raise NotFound("the scheduler keeps no ledger: it runs with --ledger-memory=0")
        entries = ledger.of_pod(key)
        if not entries:
            raise NotFound(f'the ledger has no attempt of pod "{key}"')
        return entries

    def _placed(self, pod: Pod, profile: Profile, node: str) -> Explanation:
        ledger = self._engine.ledger
        known = [
            entry
            for entry in (ledger.of_pod(pod.key) if ledger is not None else ())
            if entry.uid == pod.uid and entry.node == node
        ]
        held = self._engine.handles[profile.name].waiting.get(pod.uid)
        waiting, state, where = None, State.SCHEDULED, f"{pod.key} is on {node}."
        if not pod.spec.node_name:
            state, where = State.PENDING, f"{pod.key} is being bound to {node}."
            place, plugins = "binding", list[str]()
            if held is not None:
                place, plugins = "permit", held.pending_plugins
                where = f"{pod.key} has a place on {node}, and waits for {', '.join(plugins)}."
            waiting = self._waiting(pod) or Waiting(place)
            waiting = msgspec.structs.replace(waiting, place=place, plugins=tuple(plugins))
        said = Explanation(pod.key, profile.name, state, where, node=node, waiting=waiting)
        if not known:
            why = "its ledger has no attempt that chose the node"
            if ledger is None:
                why = "it keeps no ledger (--ledger-memory=0)"
            unknown = f"{where} The scheduler does not know why: {why}."
            return msgspec.structs.replace(said, summary=unknown)
        record = known[-1].read(is_whole=True)
        assert record.details is not None
        total, feasible = record.details.evaluated_nodes, record.details.feasible_nodes
        best = tuple(NodeAnswer(e.node, (), e.total, e.by_plugin) for e in record.details.scores)
        fitted = nodes_text(feasible, total)
        return msgspec.structs.replace(
            said,
            summary=f"{where} Attempt {record.attempt} chose it when it fitted on {fitted}.",
            nodes=total,
            feasible_nodes=feasible,
            best=best,
        )

    def _waiting(self, pod: Pod) -> Waiting | None:
        queue, now = self._engine.queue, self._engine.clock.monotonic()
        found = queue.whereabouts(pod)
        if found is None:
            return None
        queued = found.queued
        place = "binding" if found.place is Place.IN_FLIGHT else found.place.value
        plugins = {queued.gating_plugin} if queued.is_gated else queued.rejectors
        retry_by, backoff = found.retry_by, found.backoff_until
        return Waiting(
            place,
            queued.attempts,
            max(now - queued.timestamp, 0.0),
            None if retry_by is None else max(retry_by - now, 0.0),
            0.0 if backoff is None else max(backoff - now, 0.0),
            tuple(sorted(plugins)),
            queued.gating_message,
        )

    def _cause(self, queued: QueuedPod) -> tuple[State, str, str]:
        if queued.is_gated:
            return State.GATED, queued.gating_plugin, ""
        if not queued.attempts:
            return State.PENDING, "", "not tried yet"
        plugin, reason = queued.reason
        if not queued.rejectors:
            return State.PENDING, "", "the last attempt failed with an error"
        state = State.NOMINATED if queued.pod.status.nominated_node_name else State.PENDING
        return state, plugin or ", ".join(sorted(queued.rejectors)), reason or "refused"


def _group(
    cause: tuple[State, str, str], pods: list[QueuedPod], last: Entry | None
) -> PendingGroup:
    """Pods with one cause; `last` is the latest attempt of the first of them."""
    state, plugin, reason = cause
    examples = tuple(sorted(queued.key for queued in pods)[:_EXAMPLES])
    summary = pods[0].gating_message or (last.message if last is not None else "")
    return PendingGroup(len(pods), state, plugin, reason, examples, summary)
