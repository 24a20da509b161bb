"""The scheduling queue: where a pending pod is, and what moves it.

    add ──▶ active ──pop──▶ in flight ──done──▶ scheduled
               ▲                ├──▶ deferred       an expensive attempt, after other active pods
               │                │ add_unschedulable
               │                ├──▶ backoff        retried when its time is up, or when idle
               └────────────────┴──▶ unschedulable  until an event, or five minutes, helps
                                     gated          a PreEnqueue plugin keeps it out

Used by the scheduler's event handlers and loop, from one thread. Between `add` and `delete`, a pod
is in exactly one of these places until its attempt succeeds. Queued pods are keyed by
`namespace/name`, pods in flight by UID. Nothing here waits or starts anything: the loop sleeps
until `on_ready` is called. The caller of the flush methods sleeps until `next_wakeup`, or until
`on_parked` reports that it may be earlier now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from stowplan.api.objects import Pod
from stowplan.clock import Clock
from stowplan.logs import V3, V5, get_logger, kv
from stowplan.plugin_failures import PluginFailures
from stowplan.queue import events as ev
from stowplan.queue.backoff import BackoffQueue
from stowplan.queue.changes import PodRequests, pod_changes
from stowplan.queue.events import ClusterEvent
from stowplan.queue.gate import Gate, PreEnqueue
from stowplan.queue.heap import Less, PodHeap, SortKey, queue_order
from stowplan.queue.hints import Hints, HintTable, OnHint, Strategy
from stowplan.queue.inflight import Attempt
from stowplan.queue.moves import log_failed, log_gated, log_move
from stowplan.queue.nominator import Nominator
from stowplan.queue.places import Places
from stowplan.queue.pod import QueuedPod, pod_uid
from stowplan.queue.unschedulable import UnschedulablePods

log = get_logger(__name__)


class SchedulingQueue(Places):
    """All pending pods, and what moves them from place to place."""

    def __init__(
        self,
        *,
        clock: Clock,
        key: SortKey | None = None,
        less: Less | None = None,
        pre_enqueue: PreEnqueue = lambda queued: None,
        hints: Hints | None = None,
        pod_requests: PodRequests | None = None,
        failures: PluginFailures | None = None,
        on_hint: OnHint | None = None,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        max_in_unschedulable_s: float = 300.0,
    ) -> None:
        """The order is QueueSort's: its `key`, or its `less` (slower) if it has no key."""
        failures = failures or PluginFailures(clock)
        order = queue_order(key, less, failures)
        backoff = BackoffQueue(clock, order, initial_s=initial_backoff_s, max_s=max_backoff_s)
        self._hints = HintTable(hints or {}, failures, clock, on_hint)
        unschedulable = UnschedulablePods(self._hints.index_places)
        super().__init__(clock, PodHeap(order), backoff, unschedulable, max_in_unschedulable_s)
        self._gate = Gate(pre_enqueue, clock, failures)
        self._pod_requests = pod_requests
        self._sequence = 0
        self._attempts = 0
        self._ready = False
        self.nominator = Nominator(self._is_pending)
        self.nominator.on_freed = self._nomination_ended
        self.on_ready: Callable[[], None] | None = None
        #: Called when a pod begins to wait: `next_wakeup` may be sooner than it was.
        self.on_parked: Callable[[], None] | None = None
        self.incoming: Counter[tuple[str, str]] = Counter()  # (queue, event label)
        self.unschedulable_by: Counter[tuple[str, str]] = Counter()  # (plugin, scheduler name)

    # Pods come, change and go

    def add(self, pod: Pod) -> None:
        """A pending pod appeared. One that is known already is updated."""
        attempt = self._in_flight.get(pod_uid(pod))
        if attempt is not None:
            self._update_in_flight(attempt, pod)
        else:
            self._add_or_update(None, pod, ev.UNSCHEDULED_POD_ADD)
        self._notify()

    def update(self, old: Pod | None, new: Pod) -> None:
        """A pending pod changed. The caller keeps out pods that are assumed or bound."""
        if old is not None and pod_uid(old) != pod_uid(new):
            # A relist after a broken watch shows a deleted and recreated pod as one update.
            self.delete(old)
            old = None
        attempt = self._in_flight.get(pod_uid(new))
        if attempt is not None:
            self._update_in_flight(attempt, new)
        else:
            self._add_or_update(old, new, ev.UNSCHEDULED_POD_UPDATE)
        self._notify()

    def delete(self, pod: Pod) -> None:
        """The pod is gone or bound. An attempt in flight ends when it comes back."""
        uid = pod_uid(pod)
        self.nominator.delete(pod)
        attempt = self._in_flight.get(uid)
        if attempt is not None:
            attempt.gone = True
        queued = self._find(pod.key)
        if queued is not None and queued.uid == uid:
            self._drop(queued)

    # The scheduling cycle

    def pop(self) -> QueuedPod | None:
        """The next pod to try, or None. It is in flight until `done` or `add_unschedulable`."""
        queued = self._deferred.pop_next() if self._deferred else self._active.pop()
        if queued is None:
            # An idle scheduler need not wait: backoff only keeps a pod from being in others' way.
            queued = self._backoff.rejected.pop()
            if queued is None:
                return None
            self.incoming["active", ev.POP_FROM_BACKOFF] += 1
        queued.attempts += 1
        self._attempts += 1
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._count_reasons(queued, -1)
        queued.clear_rejectors()
        self._in_flight.begin(queued)
        return queued

    def done(self, uid: str) -> None:
        """The attempt is over and the pod does not come back (or it failed after this point)."""
        self._in_flight.done(uid)

    def add_unschedulable(self, queued: QueuedPod, newest: Pod | None = None) -> bool:
        """The attempt failed: queue the pod again and end the attempt.

        The caller has set `unschedulable_plugins` and `pending_plugins`; if both are empty it was
        an error. `newest` is the pod as the API server knows it, where the caller can tell: while
        a pod was assumed, `update` was not called. False: it is gone or replaced, and not queued.
        """
        try:
            return self._requeue_failed(queued, newest)
        finally:
            self._in_flight.done(queued.uid)
            self._notify()

    def defer(self, queued: QueuedPod) -> bool:
        """The attempt has spent its share of work: go on with it after other active pods.

        Neither a failure nor a new attempt: no backoff, no event, the same attempt number. The next
        `pop` of the pod decides on the cluster as it is then, so no event has to be replayed.
        False: the pod is gone or replaced, and not queued.

        DIVERGES: upstream decides in one go, however long that takes. Here an expensive decision
        lets other pods pass, also those of lower priority.
        """
        attempt = self._in_flight.get(queued.uid)
        self._in_flight.done(queued.uid)
        if not self._is_wanted(queued, attempt):
            return False
        if attempt is not None:
            self._take_newest(queued, attempt.latest)
        queued.attempts -= 1
        queued.deferrals += 1
        self._deferred.put(queued)
        self._ready = True
        self._notify()
        return True

    def activate(self, pods: Iterable[Pod]) -> None:
        """Try these pods soon, without backoff. PreEnqueue plugins may still keep them out."""
        for pod in pods:
            if self._in_flight.get(pod_uid(pod)) is not None:
                self._in_flight.record(ev.FORCE_ACTIVATE, None, pod)
                continue
            queued = self._find(pod.key)
            if queued is None or queued.uid != pod_uid(pod):
                continue
            label = ev.FORCE_ACTIVATE.label
            if self._backoff.remove(pod.key) is not None:
                self._enter_active(queued, label)
            elif self._unschedulable.get(pod.key) is not None:
                self._to_active(queued, label)
        self._notify()

    # Events and time

    def move_all(
        self,
        event: ClusterEvent,
        old: object | None,
        new: object | None,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Something happened in the cluster: queue the pods that it may help."""
        if not self.is_listening:
            return
        audience = self._hints.audience(event)
        if audience.is_empty:
            return
        candidates = self._unschedulable.at(audience.concerned(old, new))
        if audience.is_wildcard:
            gated = [queued for queued in candidates if queued.is_gated]
            candidates = [*self._unschedulable.waiting.values(), *gated]
        if pre_check is not None:
            candidates = [queued for queued in candidates if pre_check(queued.pod)]
        self._move(candidates, event, old, new)

    @property
    def is_listening(self) -> bool:
        """False if no event can matter: no pod waits for one, and no attempt is in flight."""
        parked = self._unschedulable
        return bool(parked.waiting or parked.gated or self._in_flight)

    def hears(self, event: ClusterEvent) -> bool:
        """True if some plugin registered for such events."""
        return not self._hints.audience(event).is_empty

    def flush_backoff(self) -> None:
        """Free the pods whose backoff is over."""
        for queued in self._backoff.pop_completed():
            self._enter_active(queued, ev.BACKOFF_COMPLETE)
        for key in self._gate.due():
            queued = self._unschedulable.gated[key]
            self._requeue(queued, Strategy.AFTER_BACKOFF, ev.BACKOFF_COMPLETE)
        self._notify()

    def flush_unschedulable(self) -> None:
        """Retry pods that no event has helped for too long, lest one was missed.

        DIVERGES: swept as soon as it is due; upstream looks every 30 seconds.
        """
        due = self._unschedulable.due(self._clock.monotonic(), self._max_in_unschedulable_s)
        if due:
            for queued in due:
                queued.is_flushed = True
            self._move(due, ev.UNSCHEDULABLE_TIMEOUT, None, None)

    def next_wakeup(self) -> float | None:
        """Monotonic time at which one of the flush methods has something to do."""
        times = [self._gate.next_retry(), self._backoff.next_completion()]
        oldest = self._unschedulable.oldest()
        if oldest is not None:
            times.append(oldest.timestamp + self._max_in_unschedulable_s)
        return min((time for time in times if time is not None), default=None)

    # Inside

    def _nomination_ended(self, pod: Pod) -> None:
        """Room that was kept for a pod is free for those that had to respect its nomination.

        DIVERGES: upstream looks only at the status of deleted and changed pods, as the scheduler's
        event handlers do, too. That misses a pod that goes to another node than the one it was
        nominated to, and a nomination that was never written; pods that gave way to it are stuck.
        """
        self.move_all(
            ev.ASSIGNED_POD_DELETE,
            pod,
            None,
            lambda other: other.priority <= pod.priority and pod_uid(other) != pod_uid(pod),
        )

    def _new(self, pod: Pod) -> QueuedPod:
        queued = QueuedPod(pod, 0.0)
        self._stamp(queued)
        return queued

    def _stamp(self, queued: QueuedPod) -> None:
        self._sequence += 1
        queued.sequence = self._sequence
        queued.timestamp = self._clock.monotonic()

    def _add_or_update(self, old: Pod | None, pod: Pod, event: ClusterEvent) -> None:
        for predecessor in self._in_flight.supersede(pod.key, pod_uid(pod)):
            self.nominator.delete(predecessor)
        queued = self._find(pod.key)
        if queued is not None and queued.uid != pod_uid(pod):
            self._drop(queued)
            queued = None
        if queued is None:
            self._to_active(self._new(pod), event.label)
        else:
            self._update_queued(queued, old or queued.pod, pod)

    def _update_in_flight(self, attempt: Attempt, new: Pod) -> None:
        changes = pod_changes(attempt.latest, new, self._pod_requests)
        self._in_flight.record_update(attempt, new, changes)

    def _update_queued(self, queued: QueuedPod, old: Pod, new: Pod) -> None:
        queued.replace_pod(new)
        self.nominator.update(old, new)
        if queued.key in self._deferred:
            return
        if self._active.get(queued.key) is not None:
            self._active.refresh(queued)
        elif self._backoff.get(queued.key) is not None:
            self._backoff.refresh(queued)
        else:
            self._unschedulable.index(queued)
            for event in pod_changes(old, new, self._pod_requests):
                strategy = self._hints.audience(event).judge(queued, old, new)
                if strategy is not Strategy.SKIP and self._requeue(queued, strategy, event.label):
                    break

    def _drop(self, queued: QueuedPod) -> None:
        self._active.remove(queued.key)
        self._deferred.pop(queued.key, None)
        self._backoff.remove(queued.key)
        self._unschedulable.remove(queued.key)
        self._gate.forget(queued.key)
        self._count_reasons(queued, -1)
        self.nominator.delete(queued.pod)

    def _requeue_failed(self, queued: QueuedPod, newest: Pod | None) -> bool:
        attempt = self._in_flight.get(queued.uid)
        if not self._is_wanted(queued, attempt):
            return False
        if attempt is not None and newest is None:
            newest = attempt.latest
        if newest is not None:
            self._take_newest(queued, newest)
        is_rejected = queued.attempt_failed()
        self._stamp(queued)
        self._count_reasons(queued, +1)
        strategy = Strategy.AFTER_BACKOFF
        if attempt is not None and is_rejected:
            strategy = self._hints.replay(queued, self._in_flight.events_since(attempt))
        if strategy is Strategy.SKIP:
            self._park(queued)
            self.incoming["unschedulable", ev.SCHEDULE_ATTEMPT_FAILURE] += 1
        else:
            self._requeue(queued, strategy, ev.SCHEDULE_ATTEMPT_FAILURE)
        if log.isEnabledFor(V3):
            place = "Backoff" if self._backoff.get(queued.key) else "Unschedulable"
            place = "Active" if self._active.get(queued.key) else place
            log_failed(queued, place, self._attempts, strategy)
        return True

    def _is_wanted(self, queued: QueuedPod, attempt: Attempt | None) -> bool:
        """False if a pod that comes back from its attempt is gone or replaced."""
        if attempt is not None and attempt.gone:
            log.debug("Pod went away during its attempt", extra=kv(pod=queued.key, uid=queued.uid))
            return False
        if self._find(queued.key) is not None:
            log.error(
                "Pod is queued already; its attempt is dropped",
                extra=kv(pod=queued.key, uid=queued.uid),
            )
            return False
        return True

    def _take_newest(self, queued: QueuedPod, newest: Pod) -> None:
        if newest is not queued.pod:
            queued.replace_pod(newest)
            self.nominator.refresh(queued.pod)

    def _move(
        self,
        candidates: Iterable[QueuedPod],
        event: ClusterEvent,
        old: object | None,
        new: object | None,
    ) -> None:
        judge = self._hints.audience(event).judge
        for queued in candidates:
            strategy = judge(queued, old, new)
            if strategy is Strategy.SKIP:
                continue
            if queued.is_gated and self._gate.still_refuses(queued):
                # It would come back to where it is. Every victim of other preemptors is an event.
                self.incoming["unschedulable", event.label] += 1
                continue
            # It is not there any more if a plugin activated it while it was asked.
            if self._unschedulable.remove(queued.key) is not None:
                self._requeue(queued, strategy, event.label)
        self._in_flight.record(event, old, new)
        self._notify()

    def _requeue(self, queued: QueuedPod, strategy: Strategy, label: str) -> bool:
        """To backoff or active; False if a PreEnqueue plugin keeps it out."""
        if strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(queued):
            return self._to_backoff(queued, label)
        return self._to_active(queued, label)

    def _to_active(self, queued: QueuedPod, label: str) -> bool:
        if not self._admit(queued, label):
            return False
        self._enter_active(queued, label)
        if label in (ev.UNSCHEDULED_POD_ADD.label, ev.UNSCHEDULED_POD_UPDATE.label):
            self.nominator.add(queued.pod)
        return True

    def _to_backoff(self, queued: QueuedPod, label: str) -> bool:
        if not self._admit(queued, label):
            return False
        self._backoff.add(queued)
        if self.on_parked is not None:
            self.on_parked()
        self.incoming["backoff", label] += 1
        if log.isEnabledFor(V5):
            log_move(queued, label, "Backoff")
        self._ready = self._ready or self._backoff.rejected.get(queued.key) is not None
        return True

    def _enter_active(self, queued: QueuedPod, label: str) -> None:
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock.monotonic()
        self._active.add(queued)
        self.incoming["active", label] += 1
        if log.isEnabledFor(V5):
            log_move(queued, label, "Active")
        self._ready = True

    def _admit(self, queued: QueuedPod, label: str) -> bool:
        """Ask the PreEnqueue plugins; a pod that is kept out becomes, or stays, gated."""
        was_here = self._unschedulable.remove(queued.key) is not None
        rejectors = queued.rejectors
        if self._gate.admits(queued):
            return True
        if queued.gating_plugin not in rejectors:
            self.unschedulable_by[queued.gating_plugin, queued.scheduler_name] += 1
        self._park(queued)
        if not was_here:
            self.incoming["unschedulable", label] += 1
            log_gated(queued, label)
        return False

    def _park(self, queued: QueuedPod) -> None:
        self._unschedulable.put(queued)
        if self.on_parked is not None:
            self.on_parked()

    def _count_reasons(self, queued: QueuedPod, step: int) -> None:
        for plugin in queued.rejectors:
            self.unschedulable_by[plugin, queued.scheduler_name] += step

    def _notify(self) -> None:
        """Once for each operation, after it: the head of the queue is then the right one."""
        if self._ready:
            self._ready = False
            if self.on_ready is not None:
                self.on_ready()
