"""A cluster in memory for tests of plugins: synchronous, with virtual time and real parts.

    cluster = MemoryCluster(OnSsd)
    cluster.add_node("n1", labels={"disk": "ssd"})
    assert cluster.decide("web").node == "n1"      # asks only; nothing is created
    cluster.add_pod("web")                         # the scheduler takes it
    assert cluster.node_of("web") == "n1"

Behind it are the embedded API server without HTTP and the scheduler as it runs in production, on
an event loop whose time moves only by `cluster.clock.advance(seconds)`. After every call all that
can happen at that moment has happened. For stories that take longer there are scenarios
(`stowplan.sim.scenarios`, fixture `play_scenario`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Node, Pod
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.api.status_errors import error_from_response
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.apiserver.statuses import status_of
from stowplan.clock import SystemClock, VirtualClock
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.load import load_config
from stowplan.config.types import KubeSchedulerConfiguration, PluginConfig
from stowplan.errors import ApiError, NotFound, StowplanError
from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.framework.status import Code
from stowplan.loader.json_text import load_json
from stowplan.plugins.registry import IN_TREE
from stowplan.queue.hints import complete_hints
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.cycle import decide, judge
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.process import SchedulerProcess
from stowplan.server.library import profile_of
from stowplan.sim.virtual.time_loop import TimeLoop
from stowplan.testing.builders import as_manifest
from stowplan.testing.builders import node as make_node
from stowplan.testing.builders import pod as make_pod
from stowplan.testing.faults import AmbushedTransport, Faults, breakable
from stowplan.testing.verdict import Verdict, Waiting, event_labels, make_verdict, waiting_pods
from stowplan.workloads.kinds import find_resource, resource_named

T = TypeVar("T")

SCHEDULER = "default-scheduler"


class ClusterClock:
    """The cluster's time, moved by hand; everything that is due on the way happens."""

    def __init__(self, clock: VirtualClock, cluster: MemoryCluster) -> None:
        self._clock = clock
        self._cluster = cluster

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def boottime(self) -> float:
        return self._clock.boottime()

    def time(self) -> float:
        return self._clock.time()

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self._cluster.let_pass(seconds)


class MemoryCluster:
    """See the module. Close it, or use it as a context manager; the fixture does that."""

    def __init__(
        self,
        *plugins: type[Plugin],
        args: Mapping[str, Mapping[str, Any]] | None = None,
        config: KubeSchedulerConfiguration | str | Path | None = None,
        defaults: bool = True,
        seed: int = 0,
    ) -> None:
        """The plugins join the default ones, with `args` by plugin name; with `defaults=False`
        they are all there is, beside sorting, gates and binding. A `config` (or its file) says
        itself which of them are enabled.
        """
        self.faults = Faults(remove_node=self.remove_node)
        #: Attempts in order: what the scheduler tried, and what came of it.
        self.attempts: list[Placement | Failure] = []
        self._loop = TimeLoop()
        self._api = EmbeddedCluster(
            kubelet=KubeletOptions(enabled=False),
            clock=self._loop.clock,
            rng=Random(seed),
            compute_priority=False,
            device_claims=True,
        )
        self._api.faults = self.faults.requests
        self.clock = ClusterClock(self._loop.clock, self)
        try:
            wired, registry = configured(plugins, args, config, defaults, self.faults)
            self.engine = build_engine(
                wired,
                registry=registry,
                clock=self._loop.clock,
                stopwatch_clock=SystemClock(),
                rng=Random(seed),
            )
        except BaseException:
            self._loop.close()
            raise
        transport = AmbushedTransport(InProcess(self._api), self.faults)
        self._process = SchedulerProcess(
            self.engine,
            ApiClient(ClusterConfig(server=SERVER), transport=transport),
            identity="memory",
            clock=self._loop.clock,
            on_outcome=self.attempts.append,
        )
        self._running: asyncio.Task[None] | None = None
        self._namespaces = {"default", "kube-system"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the scheduler; the cluster is gone."""
        if self._loop.is_closed():
            return
        if self._running is not None:
            self._running.cancel()
            self._run(_ended(self._running))
            self._running = None
            self._run(self._api.stop_controllers())
        self._loop.close()

    # The cluster

    def add_node(self, node: Node | str = "", **fields: Any) -> Node:
        """A node, or a name and whatever `stowplan.testing.node` takes."""
        made = node if isinstance(node, Node) else make_node(node, **fields)
        return self._create(NODES, as_manifest(made))

    def update_node(self, node: Node) -> Node:
        """The node as it is from now on."""
        current = self._read(NODES, node.name)
        metadata = {**current["metadata"], "labels": dict(node.metadata.labels or {})}
        metadata["annotations"] = dict(node.metadata.annotations or {})
        del metadata["resourceVersion"]
        changed = {**as_manifest(node), "metadata": metadata}
        self._request("PUT", NODES.path(name=node.name), changed)
        self._request("PUT", NODES.path(name=node.name, subresource="status"), changed)
        self.settle()
        return self.node(node.name)

    def remove_node(self, name: str) -> None:
        self._request("DELETE", NODES.path(name=name))
        self.settle()

    def node(self, name: str) -> Node:
        return msgspec.convert(self._read(NODES, name), Node)

    def add_pod(self, pod: Pod | str = "", **fields: Any) -> Pod:
        """A pod, or a name and whatever `stowplan.testing.pod` takes.

        With `node=` it stands there; without, the scheduler tries it at once.
        """
        made = pod if isinstance(pod, Pod) else make_pod(pod, **fields)
        return self._create(PODS, as_manifest(made), made.metadata.namespace)

    def add_pods(self, count: int, prefix: str = "pod-", **fields: Any) -> list[Pod]:
        return [self.add_pod(f"{prefix}{index}", **fields) for index in range(count)]

    def remove_pod(self, name: str, *, namespace: str = "default") -> None:
        path = PODS.path(namespace=namespace, name=name)
        self._request("DELETE", path, {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
        self.settle()

    def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """As the API server has it."""
        return msgspec.convert(self._read(PODS, name, namespace), Pod)

    def patch(
        self, kind: str, name: str, patch: Mapping[str, Any], *, namespace: str = "default"
    ) -> None:
        """Merge something into an object: `patch("pod", "web", {"metadata": {...}})`."""
        resource = resource_named(kind)
        if resource is None:
            raise ValueError(f"kind {kind!r} is not known")
        path = resource.path(namespace=namespace if resource.namespaced else "", name=name)
        self._request("PATCH", path, patch, content_type="application/merge-patch+json")
        self.settle()

    def node_of(self, pod: str, *, namespace: str = "default") -> str:
        """Where a pod stands; "" while it waits."""
        return self.pod(pod, namespace=namespace).spec.node_name

    def add(self, manifest: Mapping[str, Any]) -> None:
        """Any object that plugins look up, as JSON: a Service, a claim, ..."""
        kind, version = manifest.get("kind", ""), manifest.get("apiVersion", "")
        resource = find_resource(version, kind)
        if resource is None:
            raise ValueError(f"kind {kind!r} of {version!r} is not known")
        namespace = manifest.get("metadata", {}).get("namespace", "default")
        self._create(resource, dict(manifest), namespace if resource.namespaced else "")

    # Questions

    def decide(self, pod: Pod | str, **fields: Any) -> Verdict:
        """Where a pod would go now, and why not elsewhere. Nothing is created or bound.

        The verdict is an error (`is_error`, `message`) if a plugin fails on any node, even on one
        that the scheduler would not have asked about.
        A name is that of a pod that waits, or of a new one, for which `fields` are as in `add_pod`.
        """
        self.settle()
        asked = self._asked(pod, fields)
        profile = self.engine.profiles.get(asked.spec.scheduler_name)
        if profile is None:
            profile = next(iter(self.engine.profiles.values()))
        engine, info = self.engine, compile_pod(asked)
        table, nominator = engine.cache.table, engine.queue.nominator
        nominated = nominator if len(nominator) else None
        rng = engine.handles[profile.name].rng
        state = rng.getstate()
        decision = decide(
            table, info, profile, cursor=engine.cursor, turn=engine.turn, nominated=nominated
        )
        judged = decision
        if decision.node is not None:
            # The same question about every node: chance must answer it as it did before.
            rng.setstate(state)
            judged = judge(table, info, profile, nominated=nominated)
        # Judging all nodes asks more than deciding, so it can fail alone: a single feasible node is
        # not scored, and a search that found enough nodes ends early.
        is_broken = judged.status.code is Code.ERROR
        return make_verdict(judged if is_broken else decision, judged, profile)

    def _asked(self, pod: Pod | str, fields: Mapping[str, Any]) -> Pod:
        if isinstance(pod, Pod):
            return pod
        if not fields:
            try:
                return self.pod(pod)
            except NotFound:
                pass
        return make_pod(pod, **fields)

    @property
    def waiting(self) -> list[Waiting]:
        """Every pod that has no node yet: where it waits, for what, and what may wake it."""
        self.settle()
        events = {
            name: [label for entry in hints for label in event_labels(entry.event)]
            for profile in self.engine.profiles.values()
            for name, hints in complete_hints(
                {plugin.name: plugin.events() for plugin in profile.plugins.values()}
            ).items()
        }
        messages = {
            pod.key: condition.message
            for pod in self._process.pods.store.values()
            for condition in pod.status.conditions or ()
            if condition.type == "PodScheduled"
        }
        found = waiting_pods(self.engine.queue.pending(), messages, events)
        held = [
            Waiting(
                pod=held.pod.metadata.name,
                where="permit",
                plugins=tuple(held.pending_plugins),
                until=held.next_deadline,
            )
            for handle in self.engine.handles.values()
            for held in handle.waiting
        ]
        names = {each.pod for each in held}
        return [each for each in found if each.pod not in names] + held

    def waits(self, pod: str) -> Waiting | None:
        """How a pod waits; None if it does not."""
        return next((each for each in self.waiting if each.pod == pod), None)

    @property
    def placements(self) -> dict[str, str]:
        """Pods by namespace/name, and where they stand ("": they wait)."""
        self.settle()
        return {pod.key: pod.spec.node_name for pod in self._process.pods.store.values()}

    # Time

    def settle(self) -> None:
        """Let happen what can happen at this moment. Every other method does it."""
        if asyncio._get_running_loop() is self._loop:
            return  # in the middle of it: a fault that changes the cluster
        _refuse_in_a_loop()
        self._start()
        self._run(self._loop.at_rest())
        self._check()

    def let_pass(self, seconds: float) -> None:
        """`clock.advance`."""
        self.settle()
        self._run(asyncio.sleep(seconds))
        self.settle()

    # Inside

    def _start(self) -> None:
        if self._running is None:
            self._run(self._start_controllers())
            self._running = self._loop.create_task(self._process.run(asyncio.Event()))

    async def _start_controllers(self) -> None:
        self._api.start_controllers()

    def _check(self) -> None:
        if self._running is not None and self._running.done():
            self._running.result()
            raise StowplanError("the scheduler has stopped")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _create(self, resource: Resource[T], manifest: Any, namespace: str = "") -> T:
        if namespace and namespace not in self._namespaces:
            self._namespaces.add(namespace)
            home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            self._request("POST", "/api/v1/namespaces", home)
        # The server gives it a UID and a time of creation.
        metadata = {**manifest["metadata"]}
        for field in ("uid", "creationTimestamp"):
            metadata.pop(field, None)
        path = resource.path(namespace=namespace)
        body = self._request("POST", path, {**manifest, "metadata": metadata})
        self.settle()
        created: T = load_json(body, resource.type)
        return created

    def _read(self, resource: Resource[Any], name: str, namespace: str = "") -> dict[str, Any]:
        self.settle()
        found: dict[str, Any] = load_json(
            self._request("GET", resource.path(namespace=namespace, name=name))
        )
        return found

    def _request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> bytes:
        """Straight to the API server: faults are for the scheduler only."""
        target = parse_path(path)
        assert target is not None, path
        sent = b"" if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, target, {}, sent, content_type if sent else "")
        try:
            return self._api.rest.answer(request).body
        except ApiError as refusal:
            answer = msgspec.json.encode(status_of(refusal))
            asked = f"{method} {path}"
            raise error_from_response(refusal.status, answer, request=asked) from None


def _refuse_in_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "a MemoryCluster is synchronous: use it in `def` tests, and in `async def` ones the"
        " scenarios of stowplan.scenarios"
    )


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # told already, or of no interest any more


def configured(
    plugins: Sequence[type[Plugin]],
    args: Mapping[str, Mapping[str, Any]] | None,
    config: KubeSchedulerConfiguration | str | Path | None,
    defaults: bool,
    faults: Faults,
) -> tuple[KubeSchedulerConfiguration, Registry]:
    """The configuration with these plugins, which listen to `faults`."""
    own = [plugin for plugin in plugins if plugin not in IN_TREE]
    chosen = [breakable(each, faults) if each in own else each for each in plugins]
    made, registry = profile_of(chosen, scheduler_name=SCHEDULER, defaults=defaults)
    if config is not None:
        made = config if isinstance(config, KubeSchedulerConfiguration) else load_config(config)
    if args:
        entries = tuple(PluginConfig(name, dict(given)) for name, given in args.items())
        profiles = tuple(
            replace(profile, plugin_config=(*entries, *profile.plugin_config))
            for profile in made.profiles
        )
        made = replace(made, profiles=profiles)
    return made, registry
