"""Whatever happens in whatever order: every pending pod is in one place, none is lost or doubled.

The model knows only names: which pods exist, which attempts are running, which gates are closed.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stowplan.api.objects import Pod
from stowplan.errors import PluginError
from stowplan.queue import QueuedPod
from stowplan.queue import events as ev
from stowplan.queue.events import ActionType, ClusterEvent, EventResource, Hint
from stowplan.queue.heap import priority_then_age
from tests.examples import examples
from tests.unit.queue.queue_kit import PROFILE, Bench, make_pod, on

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
PRIORITIES = st.sampled_from([None, -1, 0, 5])
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
PLUGINS = st.sets(st.sampled_from(["Fit", "Affinity", "Gates"]), max_size=2)


def sometimes(pod: Pod, old: object | None, new: object | None) -> Hint:
    """Deterministic, but different from pod to pod; broken for one of them."""
    if pod.metadata.name == "e":
        raise RuntimeError("hint is broken")
    return Hint.QUEUE if pod.metadata.name in "ac" else Hint.SKIP


class QueueMachine(RuleBasedStateMachine):
    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[str, Pod] = {}  # pending pods as the API server knows them, by name
        self.flying: dict[str, QueuedPod] = {}  # attempts by UID
        self.bound: set[str] = set()  # UIDs of pods that were scheduled
        self.uids = 0
        self.was_deferred = False  # whether the pod that was popped last had been deferred
        self.others_in_a_row = 0  # pods popped since, while deferred ones waited

    @initialize(by_less=st.booleans())
    def start(self, by_less: bool) -> None:
        options = {"less": lambda a, b: priority_then_age(a) < priority_then_age(b)}
        self.bench = Bench(
            hints={
                "Fit": [on(NODE_ADD), on(POD_LABEL)],
                "Affinity": [on(NODE_LABEL, sometimes)],
                "Gates": [on(NODE_LABEL)],
            },
            pre_enqueue=self.pre_enqueue,
            **(options if by_less else {}),
        )
        self.queue = self.bench.queue
        self.closed: set[str] = set()
        self.broken: set[str] = set()

    def pre_enqueue(self, queued: QueuedPod) -> tuple[str, str] | None:
        name = queued.pod.metadata.name
        if name in self.broken:
            raise PluginError("Gates", "PreEnqueue", "broken on purpose")
        return ("Gates", "closed") if name in self.closed else None

    # The API server's side

    @rule(name=NAMES, priority=PRIORITIES)
    def create(self, name: str, priority: int | None) -> None:
        """A new pod, also in place of one whose deletion nobody saw."""
        self.uids += 1
        self.live[name] = make_pod(name, uid=str(self.uids), priority=priority)
        self.queue.add(self.live[name])

    @rule(name=NAMES, label=st.sampled_from("xy"), priority=PRIORITIES)
    def change(self, name: str, label: str, priority: int | None) -> None:
        old = self.live.get(name)
        if old is None or old.uid in self.bound:
            return  # the event handlers keep assumed pods out
        new = make_pod(name, uid=old.uid, priority=priority, labels={"label": label})
        self.live[name] = new
        self.queue.update(old, new)

    @rule(name=NAMES)
    def tell_again(self, name: str) -> None:
        pod = self.live.get(name)
        if pod is not None and pod.uid not in self.bound:
            self.queue.add(pod)

    @rule(name=NAMES, priority=PRIORITIES)
    def recreate_unseen(self, name: str, priority: int | None) -> None:
        """A relist shows deletion and creation as one update."""
        old = self.live.get(name)
        if old is not None:
            self.uids += 1
            self.live[name] = make_pod(name, uid=str(self.uids), priority=priority)
            self.queue.update(old, self.live[name])

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        pod = self.live.pop(name, None)
        if pod is not None:
            self.queue.delete(pod)

    @rule(name=NAMES)
    def remove_a_predecessor(self, name: str) -> None:
        self.queue.delete(make_pod(name, uid="long ago"))

    # The scheduler's side

    @rule(target=attempts)
    def pop(self) -> str:
        pending = self.queue.pending()
        is_deferred_next = self.queue.is_deferred_next
        queued = self.queue.pop()
        assert is_deferred_next is bool(queued is not None and queued.deferrals)
        if queued is None:
            assert not pending.active
            assert not pending.backoff
            return ""
        fresh = [other for other in pending.active if not other.deferrals]
        deferred = [other for other in pending.active if other.deferrals]
        if deferred and queued is deferred[0]:
            best = queued
            assert not (self.was_deferred and fresh), "others must be popped in between"
            self.was_deferred, self.others_in_a_row = True, 0
        elif fresh:
            best = min(fresh, key=lambda q: (-q.pod.priority, q.timestamp, q.sequence))
            self.was_deferred = False
            self.others_in_a_row += 1
            assert not deferred or self.others_in_a_row < 5, (
                "a deferred pod waits for each of the others once"
            )
        else:
            best = min(
                pending.backoff,
                key=lambda q: (
                    q.backoff_expiration,
                    -q.pod.priority,
                    q.timestamp,
                    q.sequence,
                ),
            )
        assert queued is best
        assert queued.uid not in self.flying
        assert self.live[queued.pod.metadata.name].uid == queued.uid
        self.flying[queued.uid] = queued
        return queued.uid

    @rule(uid=attempts, plugins=PLUGINS, pending=PLUGINS)
    def reject(self, uid: str, plugins: set[str], pending: set[str]) -> None:
        queued = self.flying.pop(uid, None)
        if queued is not None:
            queued.unschedulable_plugins = set(plugins)
            queued.pending_plugins = set(pending)
            current = self.live.get(queued.pod.metadata.name)
            is_current = current is not None and current.uid == uid
            assert self.queue.add_unschedulable(queued) is is_current
            if is_current:
                assert queued.pod is current

    @rule(uid=attempts)
    def fail(self, uid: str) -> None:
        self.reject(uid, set(), set())

    @rule(uid=attempts)
    def defer(self, uid: str) -> None:
        queued = self.flying.pop(uid, None)
        if queued is not None:
            if not any(other.deferrals for other in self.queue.pending().active):
                self.others_in_a_row = 0
            attempts = queued.attempts
            current = self.live.get(queued.pod.metadata.name)
            is_current = current is not None and current.uid == uid
            assert self.queue.defer(queued) is is_current
            if is_current:
                assert self.queue.pending().active[-1] is queued
                assert queued.attempts == attempts - 1, "its next pop goes on with this attempt"

    @rule()
    def pop_and_defer(self) -> None:
        self.defer(self.pop())

    @rule(uid=attempts)
    def succeed(self, uid: str) -> None:
        queued = self.flying.pop(uid, None)
        if queued is not None:
            self.queue.nominator.delete(queued.pod)  # as assuming a pod does
            self.queue.done(uid)
            self.bound.add(uid)

    @rule(names=st.lists(NAMES, max_size=3))
    def activate(self, names: Sequence[str]) -> None:
        self.queue.activate([self.live.get(name, make_pod(name)) for name in names])

    @rule(name=NAMES, node=st.sampled_from(["n1", "n2", ""]))
    def nominate(self, name: str, node: str) -> None:
        self.queue.nominator.add(self.live.get(name, make_pod(name)), node)

    # The cluster and time

    @rule(event=st.sampled_from([NODE_ADD, NODE_LABEL, ev.ASSIGNED_POD_DELETE]))
    def happen(self, event: ClusterEvent) -> None:
        self.queue.move_all(event, None, object())

    @rule()
    def move_everyone(self) -> None:
        self.queue.move_all(ev.UNSCHEDULABLE_TIMEOUT, None, None)

    @rule(name=NAMES, state=st.sampled_from(["open", "closed", "broken"]))
    def turn_gate(self, name: str, state: str) -> None:
        self.closed.discard(name)
        self.broken.discard(name)
        if state == "closed":
            self.closed.add(name)
        elif state == "broken":
            self.broken.add(name)

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.9, 1.0, 3.7, 301.0]))
    def wait(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)

    @rule()
    def flush(self) -> None:
        self.queue.flush_backoff()
        self.queue.flush_unschedulable()
        wakeup = self.queue.next_wakeup()
        assert wakeup is None or wakeup > self.bench.clock.monotonic()

    @precondition(lambda self: not self.broken)
    @rule()
    def time_heals(self) -> None:
        """Sleeping from wakeup to wakeup brings every pod back that no gate keeps out."""
        for _ in range(40):
            wakeup = self.queue.next_wakeup()
            if wakeup is None:
                break
            self.bench.clock.advance(max(0.0, wakeup - self.bench.clock.monotonic()))
            self.queue.flush_backoff()
            self.queue.flush_unschedulable()
        pending = self.queue.pending()
        assert not pending.unschedulable
        assert not pending.backoff
        assert not pending.error_backoff

    # What must always hold

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        pending = self.queue.pending()
        queued = [
            *pending.active,
            *pending.backoff,
            *pending.error_backoff,
            *pending.unschedulable,
            *pending.gated,
        ]
        in_flight = {other.uid for other in pending.in_flight}
        assert in_flight == set(self.flying)
        waiting = {
            pod.uid
            for pod in self.live.values()
            if pod.uid not in in_flight and pod.uid not in self.bound
        }
        assert sorted(other.uid for other in queued) == sorted(waiting)
        for other in queued:
            assert other.pod is self.live[other.pod.metadata.name]
            assert self.queue.get(other.pod) is other

    @invariant()
    def places_agree_with_what_is_known_of_the_pods(self) -> None:
        pending = self.queue.pending()
        assert pending.counts == self.queue.counts
        assert all(other.is_gated for other in pending.gated)
        for place in (pending.active, pending.backoff, pending.error_backoff):
            assert not any(other.is_gated for other in place)
        assert all(other.rejectors for other in [*pending.unschedulable, *pending.backoff])
        assert not any(other.rejectors for other in pending.error_backoff)
        timestamps = [other.timestamp for other in pending.unschedulable]
        assert timestamps == sorted(timestamps)

    @invariant()
    def books_balance(self) -> None:
        reasons: dict[tuple[str, str], int] = {}
        pending = self.queue.pending()
        for place in (
            pending.active,
            pending.backoff,
            pending.unschedulable,
            pending.gated,
        ):
            for other in place:
                for plugin in other.rejectors:
                    reasons[plugin, PROFILE] = reasons.get((plugin, PROFILE), 0) + 1
        assert +self.queue.unschedulable_by == reasons
        assert self.queue.inflight_events.get(ev.POD_POPPED, 0) == len(self.flying)
        if not self.flying:
            assert not any(self.queue.inflight_events.values())

    @invariant()
    def nominations_are_of_living_pods(self) -> None:
        nominator = self.queue.nominator
        found = [pod for node in nominator.nodes() for pod in nominator.for_node(node)]
        assert len(found) == len(nominator)
        living = {pod.uid for pod in self.live.values()}
        assert {pod.uid for pod in found} <= living


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = examples(100, stateful_step_count=50)
