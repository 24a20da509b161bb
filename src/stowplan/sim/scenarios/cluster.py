"""The cluster as a scenario sees it: create, look, wait, break; the same on every target.

One class over an `ApiClient`; the differences between targets are in their `Target`. Objects that
name no namespace go to `cluster.namespace`. On an existing cluster the scenario's namespaces and
nodes have a prefix of their own, and are removed at the end.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from stowplan.api.client import ApiClient, PatchKind
from stowplan.api.resources import NAMESPACES, PODS, Resource
from stowplan.apiserver.kubelet import RUN_SECONDS
from stowplan.errors import (
    AlreadyExists,
    ApiError,
    ApiUnavailable,
    ConfigError,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.loader.json_text import load_json
from stowplan.scheduler.process import SchedulerProcess
from stowplan.sim.scenarios.facts import FINISHED_PHASES, phase_of
from stowplan.sim.scenarios.own_names import MARK, own_scheduler_name, place_of
from stowplan.sim.scenarios.quiet import Quiet
from stowplan.sim.scenarios.recording import Recording
from stowplan.sim.scenarios.targets import Target
from stowplan.sim.scenarios.timeline import EntryKind, Expectation
from stowplan.sim.traces.model import DisruptionKind
from stowplan.workloads.kinds import find_resource, known_kinds, resource_named

Json = dict[str, Any]

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
ZONE = "topology.kubernetes.io/zone"
_NOT_YET = (NotFound, Throttled, ServerError, ApiUnavailable)
#: The API server keeps a status that is created with the object.
_BORN_WITH_STATUS = ("Node",)
#: Warnings of a run that are kept.
_WARNED = 5


class Cluster:
    """A cluster under a scenario; the module's docstring explains it."""

    def __init__(
        self,
        target: Target,
        recording: Recording,
        quiet: Quiet,
        process: SchedulerProcess | None,
        *,
        seed: int = 0,
    ) -> None:
        self.client: ApiClient = target.client
        #: The scheduler, where one runs.
        self.scheduler = process
        self.target = target
        self.recording = recording
        self.rng = Random(seed)
        self.namespace = place_of("", target.prefix)
        #: The task group of a scenario's background tasks; set by its runner.
        self.group: asyncio.TaskGroup | None = None
        self._quiet = quiet
        self._companions: list[asyncio.Task[Any]] = []
        self._namespaces = {"default", "kube-system", "kube-public", "kube-node-lease"}
        self._made: list[tuple[Resource[Any], str, str]] = []

    # Time

    def now(self) -> float:
        """Seconds since the scenario began, in the cluster's time."""
        return self.recording.now()

    async def sleep(self, seconds: float) -> None:
        """Sleep in the cluster's time."""
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        """Wait until the cluster is quiet: nothing more happens without another write."""
        await self._quiet.settle()

    async def wait_until(
        self,
        what: str,
        condition: Callable[[], Awaitable[bool] | bool],
        timeout_s: float = 60.0,
    ) -> None:
        """Until the condition holds; an error that says `what` if it does not in time.

        An object that is not there, or an API server that does not answer, counts as "not yet".
        """
        deadline = self.now() + timeout_s
        while True:
            await self.target.rest()
            problem: StowplanError | None = None
            try:
                answer = condition()
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer:
                    return
            except _NOT_YET as not_yet:
                problem = not_yet
            if self.now() >= deadline:
                why = f" ({problem})" if problem is not None else ""
                raise StowplanError(
                    f"timed out after {timeout_s:g} s waiting for: {what}{why}"
                ) from problem
            await self.target.pass_time()

    # Objects

    async def create(self, *manifests: Mapping[str, Any], rests: bool = True) -> None:
        """Create objects of any kind, in this order.

        In virtual time, what follows from an object comes before the next one, if it `rests`.
        """
        for manifest in manifests:
            await self._create(manifest)
            if rests:
                await self.target.rest()

    async def create_node(
        self,
        name: str,
        *,
        cpu: str | int = "4",
        memory: str | int = "32Gi",
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        zone: str = "",
        taints: Sequence[Mapping[str, str]] = (),
        unschedulable: bool = False,
        resources: Mapping[str, str | int] | None = None,
        **spec: Any,
    ) -> None:
        """A node with so much of everything; `spec` takes other fields in the API's spelling."""
        amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
        offered = {what: str(amount) for what, amount in amounts.items()}
        placed = {"kubernetes.io/hostname": name} | ({ZONE: zone} if zone else {})
        if unschedulable:
            spec["unschedulable"] = True
        if taints:
            spec["taints"] = [dict(taint) for taint in taints]
        await self.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {**placed, **(labels or {})}},
                "spec": spec,
                "status": {"capacity": offered, "allocatable": offered},
            }
        )

    async def create_pod(
        self,
        name: str,
        *,
        namespace: str = "",
        cpu: str | int | None = None,
        memory: str | int | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        run_s: float | None = None,
        **spec: Any,
    ) -> None:
        """A pod of one container; `spec` takes other fields in the API's spelling.

        With `run_s` it ends by itself so long after it was started, where kubelets are ours.
        """
        requests = {k: str(v) for k, v in (("cpu", cpu), ("memory", memory)) if v is not None}
        container: Json = {"name": "container1", "image": PAUSE_IMAGE}
        if requests:
            container["resources"] = {"requests": requests}
        notes = dict(annotations or {})
        if run_s is not None:
            notes[RUN_SECONDS] = f"{run_s:g}"
            spec.setdefault("restartPolicy", "Never")
        metadata: Json = {"name": name, "namespace": self.place(namespace)}
        if labels:
            metadata["labels"] = dict(labels)
        if notes:
            metadata["annotations"] = notes
        await self.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"containers": [container], **spec},
            }
        )

    async def patch(
        self, kind: str, name: str, patch: Mapping[str, Any], *, namespace: str = ""
    ) -> None:
        """A strategic merge patch; what it says of `status` goes to the status."""
        resource = self._resource(kind)
        place = self._place(resource, namespace)
        rest = {field: value for field, value in patch.items() if field != "status"}
        for part, subresource in ((rest, ""), ({"status": patch.get("status")}, "status")):
            if part and part.get("status", True):
                await self.client.patch(
                    resource,
                    name,
                    part,
                    namespace=place,
                    subresource=subresource,
                    kind=PatchKind.STRATEGIC,
                )

    async def delete(
        self, kind: str, name: str, *, namespace: str = "", grace_period_s: int | None = None
    ) -> None:
        """Delete an object; one that is gone already is no error."""
        resource = self._resource(kind)
        place = self._place(resource, namespace)
        if resource is PODS:
            self.recording.deleted_on_purpose.add(f"{place}/{name}")
        try:
            await self.client.delete(resource, name, namespace=place, grace_period_s=grace_period_s)
        except NotFound:
            return

    async def get(self, kind: str, name: str, *, namespace: str = "") -> Json:
        """Read an object from the API server; NotFound if it does not exist."""
        resource = self._resource(kind)
        path = resource.path(namespace=self._place(resource, namespace), name=name)
        found: Json = load_json(await self.client.request("GET", path))
        return found

    async def list(
        self, kind: str, *, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> list[Json]:
        """All objects of a kind, in the order of their names; namespace `*` for all namespaces."""
        resource = self._resource(kind)
        place = "" if namespace == "*" else self._place(resource, namespace)
        params = {}
        if labels:
            params["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        body = await self.client.request("GET", resource.path(namespace=place), params=params)
        items: list[Json] = load_json(body).get("items") or []
        if resource.namespaced and not place and self.target.is_shared:
            items = [each for each in items if _is_within(each, self.target.prefix)]
        return items

    def ever_had(self, kind: str, name: str, *, namespace: str = "") -> bool:
        """True if the object exists, or existed at some time of the scenario."""
        resource = self._resource(kind)
        place = self._place(resource, namespace)
        if resource is PODS:
            return f"{place}/{name}" in self.recording.seen_pods
        if kind == "Node" and name in self.recording.seen_nodes:
            return True
        return any(made == (resource, place, name) for made in self._made)

    async def node_of(self, pod: str, *, namespace: str = "") -> str:
        """The node that a pod is bound to; "" if there is none."""
        node: str = (await self.get("Pod", pod, namespace=namespace))["spec"].get("nodeName", "")
        return node

    # Bad days

    async def cordon(self, node: str) -> None:
        await self.patch("Node", node, {"spec": {"unschedulable": True}})

    async def uncordon(self, node: str) -> None:
        await self.patch("Node", node, {"spec": {"unschedulable": None}})

    async def drain(self, node: str) -> None:
        """Cordon, and have every pod leave, as `kubectl drain --disable-eviction` does."""
        await self.cordon(node)
        self.recording.add(EntryKind.FAULT, f"node {node}", "is drained")
        await self._empty(node, "drained")

    async def fail(self, node: str) -> None:
        """The node is lost: tainted as unreachable, its pods gone at once, as if long evicted."""
        known = await self.get("Node", node)
        self.recording.add(EntryKind.FAULT, f"node {node}", "fails")
        others = [each for each in known["spec"].get("taints") or () if each["key"] != _LOST]
        lost = [{"key": _LOST, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        await self._set_ready(node, "Unknown", "NodeStatusUnknown")
        await self._replace_taints(node, [*others, *lost])
        await self._empty(node, "lost", grace_period_s=0)

    async def recover(self, node: str) -> None:
        """Bring a failed node back."""
        known = await self.get("Node", node)
        self.recording.add(EntryKind.FAULT, f"node {node}", "recovers")
        await self._set_ready(node, "True", "KubeletReady")
        others = [each for each in known["spec"].get("taints") or () if each["key"] != _LOST]
        await self._replace_taints(node, others)

    async def _set_ready(self, node: str, status: str, reason: str) -> None:
        ready = {"type": "Ready", "status": status, "reason": reason}
        await self.patch("Node", node, {"status": {"conditions": [ready]}})

    async def _replace_taints(self, node: str, taints: Sequence[Json]) -> None:
        await self.client.patch(
            self._resource("Node"),
            node,
            {"spec": {"taints": list(taints) or None}},
            kind=PatchKind.MERGE,
        )

    async def _empty(self, node: str, how: str, *, grace_period_s: int | None = None) -> None:
        """Delete the pods of a node, and count them as drained or lost."""
        there = await self.client.request(
            "GET", PODS.path(), params={"fieldSelector": f"spec.nodeName={node}"}
        )
        for pod in load_json(there).get("items") or ():
            metadata = pod["metadata"]
            if phase_of(pod) not in FINISHED_PHASES:
                self.recording.counts[how] += 1
            await self.delete(
                "Pod",
                metadata["name"],
                namespace=metadata["namespace"],
                grace_period_s=grace_period_s,
            )

    # Telling

    def say(self, text: str) -> None:
        """Add a line to the timeline: `scenario: ...`."""
        self.recording.add(EntryKind.SAID, "", f"scenario: {text}")

    def warn(self, text: str) -> None:
        """Add a line to the timeline and, unless there are many, to the warnings of the run."""
        self.say(text)
        warnings = self.recording.warnings
        if len(warnings) < _WARNED:
            warnings.append(text)
        elif len(warnings) == _WARNED:
            warnings.append("there are more of these")

    def expect(self, text: str, is_met: bool, *, found: str = "", where: str = "") -> None:
        """Record whether an expectation is met, and go on."""
        self.recording.expectations.append(Expectation(text, is_met, found, where))
        self.recording.add(EntryKind.EXPECTATION, "", text, is_met=is_met, found=found)

    # Companions

    def start(self, work: Coroutine[Any, Any, Any], *, name: str = "") -> asyncio.Task[Any]:
        """Run a coroutine until the scenario ends; an exception in it fails the scenario."""
        assert self.group is not None, "only a scenario that is being played has companions"
        task = self.group.create_task(work, name=name or None)
        self._companions.append(task)
        return task

    def end_companions(self) -> None:
        for task in self._companions:
            task.cancel()

    # Own places

    @asynccontextmanager
    async def kept_apart(self) -> AsyncIterator[None]:
        """On an existing cluster: use an own namespace, and remove everything at the end."""
        if not self.target.is_shared:
            yield
            return
        try:
            yield
        finally:
            for resource, namespace, name in reversed(self._made):
                try:
                    await self.client.delete(resource, name, namespace=namespace, grace_period_s=0)
                except ApiError:
                    continue

    async def _create(self, manifest: Mapping[str, Any]) -> None:
        resource = _kind_of(manifest)
        metadata: Json = dict(manifest["metadata"])
        namespace = ""
        if resource.namespaced:
            namespace = metadata["namespace"] = self.place(metadata.get("namespace", ""))
            if namespace not in self._namespaces:
                await self._make_namespace(namespace)
        body = {**manifest, "metadata": metadata}
        if self.target.is_shared:
            metadata["labels"] = {**(metadata.get("labels") or {}), MARK: self.target.prefix}
            if resource is PODS and self.scheduler is not None:
                # For our scheduler alone: the cluster has one of its own.
                asked = manifest["spec"].get("schedulerName", "default-scheduler")
                name = own_scheduler_name(asked, self.target.prefix)
                body["spec"] = {**manifest["spec"], "schedulerName": name}
        try:
            answer = await self.client.create(
                resource, body, namespace=namespace, reads_answer=not metadata.get("name")
            )
        except AlreadyExists as problem:
            raise await self._explained(problem, resource, namespace, metadata) from None
        name = metadata.get("name") or load_json(answer)["metadata"]["name"]
        if resource is not PODS or self.target.is_shared:
            self._made.append((resource, namespace, name))  # the recording knows the pods
        if manifest.get("status") and resource.kind not in _BORN_WITH_STATUS:
            await self.client.patch(
                resource,
                name,
                {"status": manifest["status"]},
                namespace=namespace,
                subresource="status",
                kind=PatchKind.MERGE,
            )

    async def _explained(
        self, problem: AlreadyExists, resource: Resource[Any], namespace: str, metadata: Json
    ) -> AlreadyExists:
        """The same error; it says how to remove the object if another run has left it."""
        if not self.target.is_shared or "name" not in metadata:
            return problem
        try:
            path = resource.path(namespace=namespace, name=metadata["name"])
            there = await self.client.request("GET", path)
        except ApiError:
            return problem
        mark = (load_json(there)["metadata"].get("labels") or {}).get(MARK)
        if mark in (None, self.target.prefix):
            return problem
        kinds = ",".join(dict.fromkeys(["nodes", "namespaces", resource.plural]))
        return AlreadyExists(
            f"{problem}; left by an interrupted run; "
            f"remove it with `kubectl delete {kinds} -l {MARK}`"
        )

    async def _make_namespace(self, namespace: str) -> None:
        self._namespaces.add(namespace)
        metadata: Json = {"name": namespace}
        if self.target.is_shared:
            metadata["labels"] = {MARK: self.target.prefix}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        try:
            await self.client.create(NAMESPACES, manifest)
        except AlreadyExists:
            return
        self._made.append((NAMESPACES, "", namespace))

    def _resource(self, kind: str) -> Resource[Any]:
        found = resource_named(kind)
        if found is None:
            raise ConfigError(f"kind {kind} is not known; known: {', '.join(known_kinds())}")
        return found

    def place(self, namespace: str) -> str:
        """The name in this cluster of a namespace in the scenario."""
        return place_of(namespace, self.target.prefix)

    def _place(self, resource: Resource[Any], namespace: str) -> str:
        return self.place(namespace) if resource.namespaced else ""


_LOST = "node.kubernetes.io/unreachable"


async def change_node(cluster: Cluster, verb: DisruptionKind, node: str) -> None:
    """Call the method of that name."""
    match verb:
        case "cordon":
            await cluster.cordon(node)
        case "uncordon":
            await cluster.uncordon(node)
        case "drain":
            await cluster.drain(node)
        case "fail":
            await cluster.fail(node)
        case "recover":
            await cluster.recover(node)


def _is_within(obj: Json, prefix: str) -> bool:
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace.startswith(prefix)


def _kind_of(manifest: Mapping[str, Any]) -> Resource[Any]:
    api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    found = find_resource(api_version, kind)
    if found is None:
        raise ConfigError(
            f"a manifest says apiVersion {api_version!r} and kind {kind!r}, which is not known;"
            f" known kinds: {', '.join(known_kinds())}"
        )
    if not isinstance(manifest.get("metadata"), Mapping):
        raise ConfigError(f"a manifest of a {kind} has no metadata")
    return found
