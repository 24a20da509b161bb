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

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.decoding import decode_answer
from stowplan.api.informer import Informer, InformerOptions
from stowplan.api.lease import LeaderElector
from stowplan.api.objects import Node, Pod
from stowplan.api.recorder import EventRecorder
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.clock import Clock, SystemClock
from stowplan.errors import Forbidden, LeadershipLost, StowplanError
from stowplan.loader.json_text import load_json
from stowplan.loader.numbers import whole_number
from stowplan.logs import V2, V3, get_logger, kv
from stowplan.scheduler.access import is_cluster_wide
from stowplan.scheduler.binding import Binder
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.gauges import expose_gauges
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

#: Finished pods free their node at once, so they are not even watched.
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
#: After winning the lease, how long the watches may take to catch up before informers relist.
_CATCH_UP_S = 0.25
#: Lists that may be older than the lease before they are taken as current.
_CATCH_UP_LISTS = 6
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


@dataclass(frozen=True, slots=True)
class Means:
    """How the scheduler reads and reports with its permissions; the default needs our own role."""

    #: A field selector that limits the pods, for schedulers that ignore the pods on nodes.
    pods: str = ""
    #: Interval between lists if watching is forbidden; None: keep retrying the watch.
    poll_s: float | None = None
    #: Events may be created, but not patched when they repeat.
    creates_events_only: bool = False
    #: False: write no events.
    writes_events: bool = True
    #: Called with each missing permission that has a fallback: "watch nodes", "create events".
    on_refused: Callable[[str], None] = lambda right: None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str


class _ListVersion(msgspec.Struct):
    metadata: _ListMeta


def _decode_version(body: bytes) -> int:
    version = load_json(body, _ListVersion).metadata.resource_version
    number = whole_number(version)
    if number is None:
        raise ValueError(f"resourceVersion {version[:40]!r} is not a number")
    return number


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
        change = _as_it_is
        if engine.extenders:
            self.extenders = ExtenderClient(
                engine.extenders,
                engine.cache.table,
                whole,
                guard=self.elector.guard if self.elector is not None else None,
            )
            change = stillness.guard
        #: Informers of all kinds by plural name, nodes and pods among them.
        self.informers: dict[str, Informer[Any]] = self._make_informers(
            handlers(engine), namespace, whole, change
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

    def _make_informers(
        self,
        bridge: EventHandlers,
        namespace: str,
        whole: WholeObjects,
        change: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> dict[str, Informer[Any]]:
        """Informers by plural name. `change` wraps handlers that change the cache."""
        engine, client, clock, means = self.engine, self._client, self._clock, self._means
        pods = Informer(
            client,
            PODS,
            namespace=namespace,
            field_selector=f"{_UNFINISHED},{means.pods}" if means.pods else _UNFINISHED,
            on_add=change(bridge.add_pod),
            on_update=change(bridge.update_pod),
            on_delete=change(bridge.delete_pod),
            on_raw=whole.saw_pod if engine.extenders else None,
            options=self._watching(PODS),
            clock=clock,
        )
        nodes = Informer(
            client,
            NODES,
            on_add=change(bridge.add_node),
            on_update=change(bridge.update_node),
            on_delete=change(bridge.delete_node),
            on_raw=whole.saw_node if engine.extenders else None,
            options=self._watching(NODES),
            clock=clock,
        )
        informers: dict[str, Informer[Any]] = {"pods": pods, "nodes": nodes}
        for resource in engine.looked_up():
            set_object = change(partial(bridge.set_object, resource))
            informers[resource.plural] = Informer(
                client,
                resource,
                namespace="" if is_cluster_wide(resource) else namespace,
                on_add=set_object,
                on_update=_ignoring_old(set_object),
                on_delete=change(partial(bridge.delete_object, resource)),
                options=self._watching(resource),
                clock=clock,
            )
        return informers

    def _watching(self, resource: Resource[Any]) -> InformerOptions:
        """The options of an informer that may lack the permission to watch."""
        right = f"watch {resource.plural}"
        return InformerOptions(
            poll_s=self._means.poll_s, on_watch_refused=lambda _: self._means.on_refused(right)
        )

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
        await self._barrier(won_at)
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

    async def _barrier(self, won_at: float) -> None:
        """Wait until the caches have seen everything that happened before we won the lease.

        The previous leader may have bound pods that our watches have not delivered yet. A list
        begun after winning is current; so is a watch that has passed a version read after winning.
        A list older than the lease itself is not, whatever the API server promises about lists.
        """
        informers = self.informers.values()
        for informer in informers:
            await informer.synced.wait()
        target = self.elector.won_version if self.elector is not None else 0
        if min(informer.list_started_at for informer in informers) < won_at:
            target = max(target, await self._current_version())
        deadline = self._clock.monotonic() + _CATCH_UP_S
        relists = 0
        while behind := [each for each in informers if each.resource_version < target]:
            if self._clock.monotonic() < deadline:
                await asyncio.sleep(0.01)
                continue
            if relists == _CATCH_UP_LISTS:
                # They count their versions otherwise, as in an etcd of their own.
                log.warning("Lists are older than the lease", extra=kv(version=target))
                return
            log.log(V2, "Listing again after winning the lease", extra=kv(version=target))
            await asyncio.sleep(relists)
            await asyncio.gather(*(informer.relist() for informer in behind))
            relists += 1

    async def _current_version(self) -> int:
        """The API server's newest resourceVersion, by a consistent read."""
        while True:
            try:
                body = await self._client.request("GET", NODES.path(), params={"limit": 1})
                return decode_answer(_decode_version, body, request="GET nodes", kind="a list")
            except StowplanError as problem:
                log.warning("Cannot read the newest version", extra=kv(err=str(problem)))
                await asyncio.sleep(1.0)

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
        waiting = sum(len(handle.waiting) for handle in self.engine.handles.values())
        unready = waiting + len(self.engine.pre_binding)
        return self.loop.binds_in_flight - unready > _FEW_BINDS

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


def _as_it_is(change: Callable[..., None]) -> Callable[..., None]:
    return change


def _ignoring_old(change: Callable[[Any], None]) -> Callable[[Any, Any], None]:
    return lambda _, new: change(new)


def _call_later(delay_s: float, function: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(delay_s, function)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The most telling of several errors: one of ours if there is any."""
    ours = several.subgroup(StowplanError)
    problem: BaseException = ours or several
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
