"""One running scheduler: informers, leader election, the loop, and an orderly shutdown.

- Start: try the lease once; start the informers; as leader, wait at the *barrier* until the caches
  have seen everything that happened before the lease was won; run the loop. The caller's check runs
  beside the lists. With leader election it runs before the lease, because an instance that lacks
  the right to bind must not lead.
- Shutdown (`stop` set): no new attempts, binds under way finish, conditions and events are written,
  the lease is released.
- Losing the lease ends everything at once with LeadershipLost. Every write checks the lease at the
  moment it would be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.lease import LeaderElector
from stowplan.api.objects import Node, Pod
from stowplan.api.recorder import EventRecorder
from stowplan.clock import Clock, SystemClock
from stowplan.errors import Forbidden, LeadershipLost, StowplanError
from stowplan.logs import V2, V3, get_logger, kv
from stowplan.scheduler.barrier import wait_at_barrier
from stowplan.scheduler.binding import Binder
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.gauges import expose_gauges
from stowplan.scheduler.informers import Handler, Means, make_informers, unchanged
from stowplan.scheduler.loop import SchedulingLoop
from stowplan.scheduler.missed_events import write_missed_events
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.reporter import Reporter
from stowplan.scheduler.served_kinds import is_optional, unserved
from stowplan.scheduler.stillness import Stillness
from stowplan.scheduler.watch_check import WatchCheck
from stowplan.scheduler.whole_objects import WholeObjects

if TYPE_CHECKING:
    from stowplan.scheduler.annotator import Annotator

log = get_logger(__name__)

_DRAIN_S = 20.0
_LAST_WORDS_S = 5.0
#: With more binds than this under way, events wait.
_FEW_BINDS = 8
#: A lease that we hold and that expired this long ago means that the process hangs.
_WATCHDOG_S = 20.0


@dataclass(frozen=True, slots=True)
class Election:
    """Leader election settings; names and times as in KubeSchedulerConfiguration."""

    name: str
    namespace: str
    identity: str
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0


class SchedulerProcess:
    """Runs an engine against an API server."""

    def __init__(
        self,
        engine: Engine,
        client: ApiClient,
        *,
        identity: str = "",
        namespace: str = "",
        election: Election | None = None,
        clock: Clock | None = None,
        on_outcome: Callable[[Placement | Failure], None] | None = None,
        handlers: Callable[[Engine], EventHandlers] = EventHandlers,
        reporter: type[Reporter] = Reporter,
        means: Means | None = None,
        annotates: bool = False,
    ) -> None:
        """`handlers` and `reporter` may be replaced by subclasses that see or report more."""
        self.engine = engine
        self._client = client
        self._clock: Clock = clock or SystemClock()
        self._means = means = means or Means()
        self.elector: LeaderElector | None = None
        #: The client for all writes that follow from our decisions.
        writer = client
        if election is not None:
            self.elector = LeaderElector(
                client,
                election.name,
                election.namespace,
                election.identity,
                lease_duration_s=election.lease_duration_s,
                renew_deadline_s=election.renew_deadline_s,
                retry_period_s=election.retry_period_s,
                clock=self._clock,
            )
            writer = client.guarded_by(self.elector.guard)
        self._election = election
        if election is not None:
            self._tell_leading(0)
        self._holding: asyncio.Task[Any] | None = None
        stillness = Stillness()
        whole = WholeObjects(engine.extenders, engine.serves)
        self.extenders: ExtenderClient | None = None
        #: Wraps handlers: their changes wait while a decision waits for an extender.
        change: Callable[[Handler], Handler] = unchanged
        if engine.extenders:
            self.extenders = ExtenderClient(
                engine.extenders,
                engine.cache.table,
                whole,
                guard=self.elector.guard if self.elector is not None else None,
            )
            change = stillness.guard
        #: Informers of all kinds by plural name, nodes and pods among them.
        self.informers: dict[str, Informer[Any]] = make_informers(
            handlers(engine),
            client,
            self._clock,
            means,
            kinds=engine.looked_up(),
            namespace=namespace,
            whole=whole if engine.extenders else None,
            change=change,
        )
        self.pods: Informer[Pod] = self.informers["pods"]
        self.nodes: Informer[Node] = self.informers["nodes"]
        engine.lookup = self.pods.store.get
        self.recorder = EventRecorder(
            client,
            reporting_instance=identity,
            clock=self._clock,
            is_busy=self._is_rushing,
            creates_only=means.creates_events_only,
            is_mute=not means.writes_events,
            on_refused=lambda _: means.on_refused("create events"),
        )
        self.reporter = reporter(writer, self.recorder, self._clock, self.pods.store.get)
        self.reporter.writes_scheduled = means.writes_events
        #: Writes the results of attempts into pods; None: nothing is written there.
        self.annotator: Annotator | None = None
        if annotates:
            from stowplan.scheduler.annotator import Annotator  # loaded only if it is used

            lookup = self.pods.store.get
            self.annotator = Annotator(engine, writer, lookup, self._is_rushing)
            self.reporter.on_ended = self.annotator.ended
        self.watch_check = WatchCheck(client, self.pods, self.informers.values(), self._clock)
        self.reporter.on_bound = self.watch_check.bound
        self.loop = SchedulingLoop(
            engine,
            Binder(engine, writer, self.reporter, stillness, self.extenders),
            self.reporter,
            Evictor(engine, writer, self.recorder, self.pods.store.get),
            stillness=stillness,
            extenders=self.extenders,
            on_outcome=on_outcome,
        )
        #: Set once the loop runs: leader, caches caught up.
        self.scheduling = asyncio.Event()
        for handle in engine.handles.values():
            handle.client = writer
            handle.call_later = _call_later
            handle.wakeup = self.loop.wakeups.new
            handle.background = self.loop.background.start
            handle.observe = engine.metrics.devices.observe
            handle.record = partial(self.recorder.event, reporting_controller=handle.profile)
            handle.preempting.lookup = self.pods.store.get
        expose_gauges(engine, self.loop, self.recorder, self.informers)

    # Running

    async def run(
        self, stop: asyncio.Event, *, check: Coroutine[Any, Any, None] | None = None
    ) -> None:
        """Run until `stop` is set; raise on an error that cannot be survived.

        Nothing is bound before `check` is done; an exception of `check` ends the run.
        """
        checking = asyncio.create_task(_behind_the_lists(check), name="check")
        try:
            async with asyncio.TaskGroup() as group:
                await self._run(group, stop, checking)
        except BaseExceptionGroup as several:
            # One clear error for the command line; the rest is its consequence.
            problem = _first(several)
            if isinstance(problem, Forbidden):
                await checking  # a list was refused, but the check knows what else will be
            raise problem from None
        finally:
            checking.cancel()
            await asyncio.wait([checking])
            if not checking.cancelled():
                checking.exception()  # was raised already, or came too late to matter
            self.loop.abandon()
            self._hang_up()

    async def _run(
        self, group: asyncio.TaskGroup, stop: asyncio.Event, checking: asyncio.Task[None]
    ) -> None:
        background: list[asyncio.Task[Any]] = []

        def start(coroutine: Any, name: str) -> None:
            background.append(group.create_task(coroutine, name=name))

        stopping = group.create_task(stop.wait(), name="stop")
        if self.elector is not None:
            await asyncio.shield(checking)
        won_at = await self._try_lead_at_once()
        optional = {kind.plural for kind in self.engine.looked_up() if is_optional(kind)}
        for name in [each for each in self.informers if each not in optional]:
            start(self.informers[name].run(), name)
        await self._drop_unserved()
        for name in [each for each in self.informers if each in optional]:
            start(self.informers[name].run(), name)
        start(self.recorder.run(), "events")
        start(self.reporter.run(), "status")
        if self.annotator is not None:
            start(self.annotator.run(), "annotations")
        start(self.watch_check.run(), "watch-check")
        leading = group.create_task(self._lead(won_at, checking, start), name="scheduling")
        await asyncio.wait([stopping, leading], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            await self._finish(leading)
        for task in (*background, stopping, leading):
            task.cancel()

    async def _drop_unserved(self) -> None:
        """Do not watch kinds that the API server does not have."""
        for plural in await unserved(self._client, self.engine.looked_up()):
            del self.informers[plural]

    async def _try_lead_at_once(self) -> float | None:
        """Try the lease once; the time of winning it, or None. Lists begun later are current."""
        if self.elector is None:
            return self._clock.monotonic()
        return self._clock.monotonic() if await self.elector.try_acquire() else None

    async def _lead(
        self,
        won_at: float | None,
        checking: asyncio.Task[None],
        start: Callable[[Any, str], None],
    ) -> None:
        if self.elector is not None:
            if won_at is None:
                await self.elector.acquire()
                won_at = self._clock.monotonic()
            self._report_leading(self.elector)
            start(self._hold(self.elector), "lease")
            self._tell_leading(1)
        assert won_at is not None
        lease_version = self.elector.won_version if self.elector is not None else 0
        await wait_at_barrier(
            self.informers.values(), self._client, self._clock, won_at, lease_version
        )
        log.log(V3, "Handlers synced")
        await asyncio.shield(checking)
        log.info(
            "Scheduling",
            extra=kv(
                profiles=list(self.engine.profiles),
                nodes=len(self.nodes.store),
                pods=len(self.pods.store),
            ),
        )
        if self._means.writes_events and self.reporter.writes_scheduled:
            await write_missed_events(
                self.pods.store.values(), self.recorder, serves=self.engine.serves
            )
        self.scheduling.set()
        await self.loop.run()

    async def _hold(self, elector: LeaderElector) -> None:
        self._holding = asyncio.current_task()
        try:
            await elector.hold()
        except LeadershipLost:
            log.error("Leaderelection lost")
            raise

    def _report_leading(self, elector: LeaderElector) -> None:
        """Write the event on the Lease, under the name of the first profile, as upstream does."""
        component = next(iter(self.engine.profiles))
        self.recorder.leader_event(elector.reference, f"{elector.leader} became leader", component)

    # Once

    async def run_once(self, timeout_s: float) -> bool:
        """List the cluster once, try every pending pod once, and wait for the binds.

        Raises if the cluster cannot be read. False: some binds did not finish in time.
        """
        background = [
            asyncio.create_task(self.recorder.run(), name="events"),
            asyncio.create_task(self.reporter.run(), name="status"),
        ]
        try:
            await self._drop_unserved()
            for name, informer in self.informers.items():
                await informer.list_once()
                if name not in ("pods", "nodes"):
                    # Plugins may wait for such an object to change before they let a pod be bound.
                    background.append(asyncio.create_task(informer.run(), name=name))
            is_complete = await self.loop.run_once(timeout_s)
            await self.reporter.drain(_LAST_WORDS_S)
            await self.recorder.drain(_LAST_WORDS_S)
            return is_complete
        finally:
            self.loop.abandon()
            self._hang_up()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    # Ending

    async def _finish(self, leading: asyncio.Task[Any]) -> None:
        log.info("Stopping", extra=kv(binds=self.loop.binds_in_flight))
        leading.cancel()
        await asyncio.wait([leading])
        log.log(V2, "Scheduling queue is closed")
        is_complete = await self.loop.drain(_DRAIN_S)
        if not is_complete:
            log.warning("Some binds did not finish in time; the next start looks them up")
        await self.reporter.drain(_LAST_WORDS_S)
        await self.recorder.drain(_LAST_WORDS_S)
        if self.annotator is not None:
            await self.annotator.drain(_LAST_WORDS_S)
        if self._holding is not None:
            self._holding.cancel()
            await asyncio.wait([self._holding])
        if self.elector is not None:
            self._tell_leading(0)
            if is_complete:
                await self.elector.release()
            # Else the lease expires by itself: until then unfinished binds may still arrive, and
            # another leader could take the room of their pods.

    def _hang_up(self) -> None:
        if self.extenders is not None:
            self.extenders.close()

    # Health and metrics

    def _is_rushing(self) -> bool:
        """True if so many binds are under way that the API server is the bottleneck."""
        return self.loop.busy_binds > _FEW_BINDS

    def is_synced(self) -> bool:
        """True if all informers have listed."""
        return all(informer.synced.is_set() for informer in self.informers.values())

    def is_alive(self) -> bool:
        """The lease, if we hold it, is renewed."""
        return self.elector is None or self.elector.overdue_s() < _WATCHDOG_S

    def _tell_leading(self, value: int) -> None:
        assert self._election is not None
        self.engine.metrics.leader_election_master_status.at(self._election.name).value = value


async def _behind_the_lists(check: Coroutine[Any, Any, None] | None) -> None:
    """Everything waits for the lists in the end, so their requests go first."""
    if check is not None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            check.close()
            raise
        await check


def _call_later(delay_s: float, function: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(delay_s, function)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The most telling of several errors: one of ours if there is any."""
    ours = several.subgroup(StowplanError)
    problem: BaseException = ours or several
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
