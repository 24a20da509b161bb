"""The demo's run: builds the cluster, starts a scheduler, plays the story, and ends in good order.

All of it goes through HTTP, with one API client for the scheduler and another for the show, so any
API server will do. The caller owns the server, the signals and the output.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient, PatchKind
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.apiserver.kubelet import RUN_SECONDS
from stowplan.clock import SystemClock
from stowplan.config.load import default_config
from stowplan.demo.chronicle import Chronicle, NewsKind
from stowplan.demo.cluster import NAMESPACE, POOL, NodePlan, priority_class
from stowplan.demo.displays import Display
from stowplan.demo.story import Cordon, CreatePod, DeletePod, OpenGate, Step, Story
from stowplan.demo.view import DemoView, look
from stowplan.errors import ApiError
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.process import SchedulerProcess

_PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_LOOK_S: Final = 0.1
#: With no job running and nothing queued, pods still pending after this long will not fit.
_SETTLED_S: Final = 1.5
#: After the story's last step, in any case.
_PATIENCE_S: Final = 60.0
#: Finished jobs are cleaned up after this long, at speed 1.
_KEEP_JOBS_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What to play. `once` ends with the opening; otherwise waves follow until it is stopped."""

    once: bool = False
    seed: int = 1
    speed: float = 1.0
    nodes: int = 12


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The state of the demo when it ended."""

    view: DemoView
    #: Pods of the opening that never got a node although they should have.
    missing: tuple[str, ...]
    #: Whether it ended before the story did.
    was_stopped: bool


class Show:
    """One run of the demo against an API server."""

    def __init__(
        self,
        url: str,
        options: ShowOptions,
        display: Display,
        *,
        kubectl: str = "",
        handlers: Callable[[Engine], EventHandlers] = EventHandlers,
    ) -> None:
        """`kubectl` is the command to look at the same cluster, for the display.

        `handlers` may be replaced by a subclass that sees more.
        """
        self._url = url
        self._kubectl = kubectl
        self._handlers = handlers
        #: The address of the web console, for the display.
        self.console_url = ""
        self._options = options
        self._display = display
        self._story = Story(options.seed, nodes=options.nodes)
        self._chronicle = Chronicle(SystemClock())
        config = default_config()
        self.engine = build_engine(
            config, registry=in_tree_registry(), rng=Random(options.seed), where="demo"
        )
        self._story_is_over = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> DemoResult:
        """Run until `stop` is set, or with `once` until every pod is placed or known not to fit."""
        try:
            async with self._client() as mine, self._client() as schedulers:
                await self._build(mine, self._story.nodes)
                async with asyncio.TaskGroup() as group:
                    return await self._play(group, mine, schedulers, stop)
        except BaseExceptionGroup as several:
            raise _first(several) from None

    async def _play(
        self,
        group: asyncio.TaskGroup,
        mine: ApiClient,
        schedulers: ApiClient,
        stop: asyncio.Event,
    ) -> DemoResult:
        chronicle = self._chronicle
        process = SchedulerProcess(
            self.engine,
            schedulers,
            identity="stowplan-demo",
            on_outcome=chronicle.outcome,
            handlers=self._handlers,
        )
        pods = Informer(
            mine,
            PODS,
            on_add=chronicle.add,
            on_update=chronicle.update,
            on_delete=chronicle.delete,
        )
        ending = asyncio.Event()
        scheduling = group.create_task(process.run(ending), name="scheduler")
        await process.scheduling.wait()
        showing = group.create_task(self._display.run(chronicle, self._look), name="display")
        helping = [
            group.create_task(pods.run(), name="pods"),
            group.create_task(self._direct(mine), name="story"),
        ]
        if not self._options.once:
            helping.append(group.create_task(self._clean_up(mine), name="clean-up"))
        is_done = await self._until_end(process, stop)
        outcome = DemoResult(self._look(), tuple(self._missing()), was_stopped=not is_done)
        # The terminal is given back first: ending in good order may take a moment.
        await _cancel([showing])
        await _cancel(helping)
        ending.set()
        await scheduling
        return outcome

    def _look(self) -> DemoView:
        return look(
            self.engine,
            self._chronicle,
            url=self._url,
            seed=self._options.seed,
            kubectl=self._kubectl,
            console=self.console_url,
        )

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[ApiClient]:
        async with ApiClient(ClusterConfig(server=self._url), user_agent="stowplan-demo") as client:
            yield client

    # Making things happen

    async def _build(self, client: ApiClient, nodes: Iterable[NodePlan]) -> None:
        await client.request("POST", _PRIORITY_CLASSES, body=msgspec.json.encode(priority_class()))
        for node in nodes:
            await client.create(NODES, node.manifest())
        self._chronicle.tell(NewsKind.OTHER, _describe(self._story.nodes))

    async def _direct(self, client: ApiClient) -> None:
        """Play the story, each step in its time."""
        began = self._chronicle.elapsed
        steps = self._story.opening if self._options.once else self._endless()
        for step in steps:
            due = began + step.at / self._options.speed
            await asyncio.sleep(max(0.0, due - self._chronicle.elapsed))
            try:
                await self._do(client, step)
            except ApiError as problem:
                # A user with kubectl may have been there first.
                self._chronicle.tell(NewsKind.OTHER, f"the demo was refused: {problem}")
        self._story_is_over.set()

    def _endless(self) -> Iterable[Step]:
        return itertools.chain(self._story.opening, self._story.waves())

    async def _do(self, client: ApiClient, step: Step) -> None:
        if isinstance(step, CreatePod):
            manifest = step.pod.manifest(self._options.speed)
            await client.create(PODS, manifest, namespace=NAMESPACE)
        elif isinstance(step, DeletePod):
            await client.delete(PODS, step.name, namespace=NAMESPACE)
        elif isinstance(step, OpenGate):
            patch: dict[str, Any] = {"spec": {"schedulingGates": None}}
            await client.patch(PODS, step.name, patch, namespace=NAMESPACE, kind=PatchKind.MERGE)
            self._chronicle.tell(NewsKind.OTHER, f"opened the gate of {NAMESPACE}/{step.name}")
        else:
            await self._cordon(client, step)

    async def _cordon(self, client: ApiClient, step: Cordon) -> None:
        patch = {"spec": {"unschedulable": True if step.is_on else None}}
        await client.patch(NODES, step.node, patch, kind=PatchKind.MERGE)
        verb = "cordoned" if step.is_on else "uncordoned"
        self._chronicle.tell(NewsKind.OTHER, f"{verb} {step.node}")

    async def _clean_up(self, client: ApiClient) -> None:
        """Delete finished jobs after a while, as a Job's TTL does."""
        keep_s = _KEEP_JOBS_S / self._options.speed
        while True:
            await asyncio.sleep(_LOOK_S)
            now = self._chronicle.elapsed
            for sighting in list(self._chronicle.pods.values()):
                pod = sighting.pod
                if sighting.ended_at is None or now - sighting.ended_at < keep_s:
                    continue
                if not pod.is_terminating:
                    try:
                        await client.delete(
                            PODS, pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.uid
                        )
                    except ApiError:
                        continue  # gone already

    # Knowing when it is over

    async def _until_end(self, process: SchedulerProcess, stop: asyncio.Event) -> bool:
        """Wait for the end of the story: True, or for `stop`: False."""
        over_since: float | None = None
        quiet_since: float | None = None
        while not stop.is_set():
            now = self._chronicle.elapsed
            if self._story_is_over.is_set():
                over_since = now if over_since is None else over_since
                if not self._missing() and not self._unexplained():
                    return True
                quiet_since = (quiet_since or now) if self._is_quiet(process) else None
                if quiet_since is not None and now - quiet_since >= _SETTLED_S:
                    return True
                if now - over_since >= _PATIENCE_S:
                    return True
            try:
                await asyncio.wait_for(stop.wait(), _LOOK_S)
            except TimeoutError:
                continue
        return False

    def _missing(self) -> list[str]:
        """Pods of the opening that should have been placed by now."""
        wanted = [
            step.pod.key
            for step in self._story.opening
            if isinstance(step, CreatePod) and not step.pod.stays_pending
        ]
        return [key for key in wanted if key not in self._chronicle.ever_placed]

    def _unexplained(self) -> bool:
        """True if a pod waits and the reason is not known yet."""
        return any(not sighting.reason for sighting in self._chronicle.waiting())

    def _is_quiet(self, process: SchedulerProcess) -> bool:
        """True if nothing is under way that could still place a pod or make room for one."""
        counts = self.engine.queue.counts
        if counts.active or counts.backoff or counts.in_flight or process.loop.binds_in_flight:
            return False
        return not any(
            RUN_SECONDS in (sighting.pod.metadata.annotations or {})
            for sighting in self._chronicle.pods.values()
            if sighting.placed_at is not None and sighting.ended_at is None
        )


def _describe(nodes: tuple[NodePlan, ...]) -> str:
    zones = len({node.zone for node in nodes})
    text = f"{len(nodes)} node{'s'[: len(nodes) != 1]} in {zones} zone{'s'[: zones != 1]}"
    pool = [node.name for node in nodes if node.is_in_pool]
    if pool:
        text += f"; {', '.join(pool)} tainted {POOL['key']}={POOL['value']}:{POOL['effect']}"
    cordoned = [node.name for node in nodes if node.is_cordoned]
    if cordoned:
        text += f"; {', '.join(cordoned)} cordoned"
    return text


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group; the others are its consequences."""
    problem: BaseException = several
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
