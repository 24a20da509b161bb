"""A whole scheduler through days of any kind: no pod is ever in two places, or in none.

Everything is real but the wires: the default profile on an engine, its binding cycles, evictions
and reports run on virtual time against an API server whose answers and news the machine holds back
at will. At the end of each day the trouble ends: what can be scheduled then must be.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.cluster.compare import compare
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import Conflict
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod
from tests.examples import examples
from tests.property.remote_api import RemoteApi, VirtualLoop
from tests.property.whole_scheduler import Breakages, Scheduler
from tests.unit.scheduler.engine_bench import changed

NODES = ["n1", "n2", "n3"]
NODE_NAMES = st.sampled_from(NODES)
PLACES = st.integers(0, 7)
CPUS = st.sampled_from([0, 1, 1, 2, 3])
PRIORITIES = st.sampled_from([0, 0, 1, 5, 9])
TRAITS = ["gated", "hold", "kept", "polite", "tolerant"]
PLANS = st.tuples(
    CPUS,
    PRIORITIES,
    st.sets(st.sampled_from(TRAITS), max_size=2),
    st.sampled_from(["", "", "", *NODES]),
)
#: Mostly well.
ANSWERS = st.sampled_from(["done", "done", "done", "lost", "failed", "refused", "late"])
TAINTS = st.sampled_from([(), (), (), ("t=x:NoSchedule",)])


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self.api = RemoteApi()
        self.scheduler = Scheduler(self.api, self.clock, self.loop)
        self.breakages = Breakages().__enter__()

    def teardown(self) -> None:
        with self.breakages:
            try:
                self.calm_down()
            finally:
                self.scheduler.kill()
                self.loop.close()

    def some(self, place: int) -> Pod:
        """One of the pods that there are."""
        pods = list(self.api.pods.values())
        return pods[place % len(pods)]

    @initialize(
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        standing=st.lists(st.tuples(CPUS, PRIORITIES, PLACES), max_size=5),
    )
    def start(self, sizes: list[int], standing: list[tuple[int, int, int]]) -> None:
        """A cluster with nodes and pods on them, mostly too many."""
        for name, cpu in zip(NODES, sizes, strict=False):
            self.api.put_node(node(name, cpu=cpu, pods=4))
        for number, (cpu, priority, place) in enumerate(standing):
            where = NODES[place % len(sizes)]
            self.api.put_pod(pod(f"s{number}", cpu=cpu, priority=priority, node=where))
        self.scheduler.inbox.deliver_all()

    # Nodes

    @rule(name=NODE_NAMES, cpu=st.integers(1, 4), slots=st.integers(1, 4), taints=TAINTS)
    def put_node(self, name: str, cpu: int, slots: int, taints: tuple[str, ...]) -> None:
        """A node comes, or changes."""
        self.api.put_node(node(name, cpu=cpu, pods=slots, taints=taints))

    @rule(name=NODE_NAMES, is_gone=st.booleans())
    def lose_node(self, name: str, is_gone: bool) -> None:
        if name in self.api.nodes:
            if is_gone:
                self.api.remove_node(name)
            else:
                self.api.put_node(node(name, unschedulable=True))

    # Pods

    @rule(plans=st.lists(PLANS, min_size=1, max_size=3))
    def create(self, plans: list[tuple[int, int, set[str], str]]) -> None:
        """Names are used again: a pod may follow on one that the scheduler still knows."""
        free = [name for name in "abcdefgh" if f"default/{name}" not in self.api.pods]
        for name, (cpu, priority, traits, nominated) in zip(free, plans, strict=False):
            made = pod(
                name,
                cpu=cpu,
                priority=priority,
                gates=["g"] if "gated" in traits else (),
                labels={"hold": "yes"} if "hold" in traits else {},
                tolerations=["t"] if "tolerant" in traits else (),
                preemption_policy="Never" if "polite" in traits else None,
                nominated_node=nominated,
            )
            if "kept" in traits:
                self.api.kept.add(made.uid)
            self.api.put_pod(made)

    @precondition(lambda self: self.api.pods)
    @rule(place=PLACES, value=st.sampled_from("xy"))
    def change(self, place: int, value: str) -> None:
        """Another label, and an open gate."""
        old = self.some(place)
        labels = {**(old.metadata.labels or {}), "l": value}
        self.api.put_pod(changed(old, labels=labels, scheduling_gates=None))

    @precondition(lambda self: self.api.pods)
    @rule(place=PLACES, name=st.sampled_from(["", *NODES]))
    def nominate(self, place: int, name: str) -> None:
        """Another component speaks of where the pod may go."""
        self.api.put_pod(changed(self.some(place), nominated_node_name=name))

    @precondition(lambda self: self.api.pods)
    @rule(place=PLACES)
    def delete(self, place: int) -> None:
        self.api.delete_pod(self.some(place))

    @precondition(lambda self: self.api.pods)
    @rule(place=PLACES)
    def end(self, place: int) -> None:
        """The kubelet is done with a pod; its informers do not watch finished ones."""
        old = self.some(place)
        if old.is_terminating:
            self.api.remove_pod(old)
        elif old.spec.node_name:
            self.api.remove_pod(old, phase="Succeeded")

    @precondition(lambda self: self.api.pods)
    @rule(place=PLACES, name=NODE_NAMES)
    def bind_elsewhere(self, place: int, name: str) -> None:
        """Another scheduler is quicker."""
        chosen = self.some(place)
        try:
            self.api.bind_now(chosen.key, chosen.uid, name)
        except Conflict:
            pass

    # What reaches the scheduler, and when

    @precondition(lambda self: self.api.pod_news)
    @rule(count=st.integers(1, 5))
    def deliver_pods(self, count: int) -> None:
        for _ in range(min(count, len(self.api.pod_news))):
            self.scheduler.inbox.deliver_pod()
        self.loop.settle()

    @precondition(lambda self: self.api.node_news)
    @rule()
    def deliver_nodes(self) -> None:
        while self.api.node_news:
            self.scheduler.inbox.deliver_node()
        self.loop.settle()

    @rule()
    def relist(self) -> None:
        self.scheduler.inbox.relist()
        self.loop.settle()

    @precondition(lambda self: self.api.requests)
    @rule(place=PLACES, how=ANSWERS)
    def answer(self, place: int, how: str) -> None:
        requests = self.api.requests
        self.api.reply(requests[place % len(requests)], how)
        self.loop.settle()

    @precondition(lambda self: self.api.late)
    @rule(place=PLACES)
    def arrive(self, place: int) -> None:
        """A binding takes effect long after its connection broke: its place must be kept."""
        late = self.api.late[place % len(self.api.late)]
        if not self.api.arrive(late):
            return
        if late.is_kept:
            uid = self.api.pods[late.key].uid
            assert self.scheduler.engine.cache.node_of(uid) == late.node, (late.key, late.node)

    # The scheduler

    @rule(count=st.integers(1, 4), has_heard=st.booleans())
    def attempt(self, count: int, has_heard: bool) -> None:
        if has_heard:
            self.scheduler.inbox.deliver_all()
            self.loop.settle()
        for _ in range(count):
            self.scheduler.attempt()
            self.loop.settle()

    @rule()
    def a_quiet_moment(self) -> None:
        """News arrive, attempts are made, requests are answered."""
        self.scheduler.inbox.deliver_all()
        for _ in range(50):
            if not self.scheduler.attempt():
                break
            self.loop.settle()
        else:
            raise AssertionError("it spins")
        for request in list(self.api.requests):
            self.api.reply(request, "done")
        self.loop.settle()

    @precondition(lambda self: len(self.scheduler.handle.waiting) > 0)
    @rule(is_allowed=st.booleans())
    def end_hold(self, is_allowed: bool) -> None:
        waiting = next(iter(self.scheduler.handle.waiting))
        if is_allowed:
            waiting.allow("Hold")
        else:
            waiting.reject("Hold", "not now")
        self.loop.settle()

    @rule(seconds=st.sampled_from([0.3, 1.0, 6.0, 301.0]))
    def time_goes_on(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.scheduler.flush()
        self.loop.settle()

    @rule(is_heard=st.booleans())
    def restart(self, is_heard: bool) -> None:
        """Killed in the middle; what it asked for last may have been heard or not."""
        self.scheduler.kill()
        self.api.forget_places()
        for request in list(self.api.requests):
            self.api.reply(request, "lost" if is_heard else "refused")
        self.scheduler = Scheduler(self.api, self.clock, self.loop)
        self.loop.settle()

    # What must always hold

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        scheduler = self.scheduler
        pending, cache = scheduler.queue.pending(), scheduler.engine.cache
        assert pending.counts == scheduler.queue.counts
        queued = [
            *pending.active,
            *pending.backoff,
            *pending.error_backoff,
            *pending.unschedulable,
            *pending.gated,
        ]
        uids = [each.uid for each in queued]
        assert len(set(uids)) == len(uids)
        for known in scheduler.inbox.pods.values():
            if known.spec.node_name:
                assert known.uid not in uids
                assert cache.node_of(known.uid) == known.spec.node_name
                continue
            is_binding = known.uid in scheduler.binding
            is_bound = cache.is_assumed(known.uid) and not is_binding
            places = (known.uid in uids) + is_binding + is_bound
            # A pod on its way out is left alone, and queued only to say so. One that a lookup has
            # shown to be gone or bound is in no place until the news of that arrive.
            true = self.api.pods.get(known.key)
            is_over = true is None or true.uid != known.uid or bool(true.spec.node_name)
            assert places == 1 or known.is_terminating or (is_over and not places), (
                known.key,
                places,
            )
        for each in queued:
            assert each.pod is scheduler.inbox.pods.get(each.key)
        assert {each.uid for each in pending.in_flight} <= scheduler.binding.keys()
        assert {each.pod.uid for each in scheduler.handle.waiting} <= scheduler.binding.keys()

    @invariant()
    def nothing_breaks(self) -> None:
        assert not self.breakages.found, "\n".join(self.breakages.found)

    @invariant()
    def the_cache_is_what_was_heard(self) -> None:
        cache, inbox = self.scheduler.engine.cache, self.scheduler.inbox
        comparison = compare(cache, inbox.nodes.values(), inbox.pods.values())
        assert comparison.agrees, str(comparison)
        untold = {old.uid for _, old, _ in self.api.pod_news if isinstance(old, Pod)}
        for assumed in comparison.assumed_pods:
            assert assumed.uid in self.scheduler.binding.keys() | untold, str(assumed)

    @invariant()
    def nominations_are_of_pending_pods(self) -> None:
        nominator, inbox = self.scheduler.queue.nominator, self.scheduler.inbox
        found = [each for name in nominator.nodes() for each in nominator.for_node(name)]
        assert len(found) == len(nominator)
        for each in found:
            known = inbox.pods.get(each.key)
            assert known is not None
            assert known.uid == each.uid
            assert not known.spec.node_name
            assert not self.scheduler.engine.cache.is_assumed(each.uid)

    @invariant()
    def only_evictions_under_way_hold_pods(self) -> None:
        assert len(self.scheduler.handle.preempting) <= self.scheduler.evictions_under_way()

    @invariant()
    def nobody_is_said_to_be_scheduled_twice(self) -> None:
        told = self.scheduler.diary.scheduled
        assert len(set(told)) == len(told)

    # The end of the day

    def calm_down(self) -> None:
        """All is answered, told and let go: events alone must bring every pod back that fits."""
        while self.api.late:
            self.arrive(0)
        for _ in range(30):
            self.clock.advance(1.0)
            self.scheduler.queue.flush_backoff()
            self.run_until_idle()
        self.check_all(is_swept=False)
        self.clock.advance(301.0)
        self.scheduler.flush()
        self.run_until_idle()
        self.check_all(is_swept=True)

    def run_until_idle(self) -> None:
        for _ in range(100):
            self.scheduler.inbox.deliver_all()
            for request in list(self.api.requests):
                self.api.reply(request, "done")
            for waiting in self.scheduler.handle.waiting:
                waiting.allow("Hold")
            for leaving in [each for each in self.api.pods.values() if each.is_terminating]:
                self.api.remove_pod(leaving)
            self.loop.settle()
            has_tried = self.scheduler.attempt()
            self.loop.settle()
            is_held = len(self.scheduler.handle.waiting) > 0
            has_news = bool(self.api.pod_news or self.api.node_news)
            if not (has_tried or is_held or has_news or self.api.requests):
                return
        raise AssertionError("it never comes to rest")

    def check_all(self, *, is_swept: bool) -> None:
        self.nothing_breaks()
        self.every_pod_is_in_one_place()
        self.the_cache_is_what_was_heard()
        self.nominations_are_of_pending_pods()
        scheduler = self.scheduler
        assert scheduler.inbox.pods == self.api.pods
        assert not scheduler.binding
        assert not scheduler.engine.cache.assumed_count
        assert not len(scheduler.handle.preempting)
        pending, nominator = scheduler.queue.pending(), scheduler.queue.nominator
        assert all(each.pod.spec.scheduling_gates for each in pending.gated)
        assert pending.active == pending.backoff == pending.in_flight == []
        # Without any node attempts end in errors, as upstream's do, and are repeated for ever.
        assert not (pending.error_backoff and self.api.nodes)
        for each in pending.unschedulable:
            if "Hold" in each.rejectors and not is_swept:
                continue  # it named no event that would help
            decision = decide(
                scheduler.engine.cache.table,
                compile_pod(each.pod),
                scheduler.profile,
                nominated=nominator if len(nominator) else None,
            )
            assert decision.node is None, f"{each.key} fits on {decision.node} and was not tried"
            assert decision.eviction is None, f"{each.key} could evict others and was not tried"


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = examples(250, stateful_step_count=50)
