"""A whole scheduler, without informers and loop, beside an API server that a test holds in hand."""

from __future__ import annotations

import asyncio
import logging
from random import Random

from stowplan.api.objects import Pod
from stowplan.api.verbs import NoApi, Recorder, SchedulerApi
from stowplan.clock import VirtualClock
from stowplan.config.load import parse_config
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SUCCESS, Status, wait
from stowplan.plugins.registry import in_tree_registry
from stowplan.queue.events import EventHint
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.binding import Binder
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.outcome import Placement
from stowplan.scheduler.reporter import Reporter
from tests.property.remote_api import Inbox, RemoteApi, VirtualLoop

PROFILE = "default-scheduler"
CONFIG = parse_config(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{plugins: {permit: {enabled: [{name: Hold}]}}}]\n"
)


class Hold(Plugin):
    """Keeps pods that are labelled so at Permit, for five seconds at most."""

    name = "Hold"

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> tuple[Status, float]:
        return (wait(), 5.0) if "hold" in (pod.metadata.labels or {}) else (SUCCESS, 0.0)

    def events(self) -> list[EventHint]:
        return []


class PluginApi(NoApi):
    """Sends the bindings of DefaultBinder; no other plugin here sends anything."""

    def __init__(self, api: SchedulerApi) -> None:
        self._api = api

    async def bind(
        self,
        pod_namespace: str,
        pod_name: str,
        pod_uid: str,
        node: str,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        await self._api.bind(pod_namespace, pod_name, pod_uid, node, timeout_s=timeout_s)


class Diary(Recorder):
    """Remembers which pods were reported as scheduled, in place of writing events."""

    def __init__(self) -> None:
        self.scheduled: list[str] = []

    def event(
        self,
        regarding: Pod,
        *,
        type: str,  # noqa: A002 - the API's name
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        related: Pod | None = None,
        once: bool = False,
        occurred_at: float | None = None,
    ) -> None:
        if reason == "Scheduled":
            self.scheduled.append(regarding.uid)


class Breakages(logging.Handler):
    """What the scheduler logs of defects: exceptions that it caught, and wrong decisions."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name == "stowplan.scheduler.self_check":
            self.found.append(self.format(record))

    def __enter__(self) -> Breakages:
        logging.getLogger("stowplan").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("stowplan").removeHandler(self)


class Scheduler:
    """The default profile and `Hold`, and everything that acts on decisions."""

    def __init__(self, api: RemoteApi, clock: VirtualClock, loop: VirtualLoop) -> None:
        self._loop = loop
        registry = in_tree_registry()
        registry.register(Hold)
        self.engine = build_engine(CONFIG, registry=registry, clock=clock, rng=Random(1))
        self.engine.verify_decisions(1)
        self.queue = self.engine.queue
        self.profile = self.engine.profiles[PROFILE]
        self.handle = self.engine.handles[PROFILE]
        self.inbox = Inbox(api, EventHandlers(self.engine))
        lookup = self.inbox.pods.get
        self.engine.lookup = lookup
        self.handle.preempting.lookup = lookup
        self.diary = Diary()
        self.handle.client = PluginApi(api)
        self._reporter = Reporter(api, self.diary, clock, lookup)
        self._binder = Binder(self.engine, api, self._reporter)
        self._evictor = Evictor(self.engine, api, self.diary, lookup)
        self._reports = loop.create_task(self._reporter.run())
        #: Binding cycles under way by the pod's UID.
        self.binding: dict[str, asyncio.Task[None]] = {}
        self._evictions_begun = 0

    def evictions_under_way(self) -> int:
        ended = self.engine.metrics.preemptions
        return self._evictions_begun - int(ended.at("success").value + ended.at("error").value)

    def attempt(self) -> bool:
        """What the scheduling loop does in one turn; False if nobody is ready."""
        outcome = self.engine.attempt()
        if outcome is None:
            return False
        if isinstance(outcome, Placement):
            uid = outcome.pod.uid
            assert uid not in self.binding, "one pod, two binding cycles"
            self.binding[uid] = self._loop.create_task(self._binder.run(outcome))
            self.binding[uid].add_done_callback(lambda _: self.binding.pop(uid))
            return True
        self._loop.call_soon(self._reporter.failed, outcome)
        if outcome.eviction is not None:
            self._evictions_begun += 1
            self._loop.call_soon(self._evictor.start, outcome)
        return True

    def flush(self) -> None:
        self.queue.flush_backoff()
        self.queue.flush_unschedulable()

    def kill(self) -> None:
        """Nothing that it began goes on."""
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.settle()
