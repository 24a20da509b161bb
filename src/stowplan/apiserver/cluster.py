"""A pretend cluster: objects, their REST endpoints and controllers; everything but HTTP.

`server` puts HTTP in front of it, `in_process` calls it directly. Controllers are tasks of the
running event loop: they live from `start_controllers` to `stop_controllers`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from stowplan.apiserver import admission
from stowplan.apiserver.claim_controller import ClaimController
from stowplan.apiserver.ephemeral_volumes import EphemeralVolumes
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import PODS
from stowplan.apiserver.kubelet import Kubelet, KubeletOptions
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest, Rest
from stowplan.apiserver.statuses import no_such_path
from stowplan.apiserver.store import Store
from stowplan.apiserver.volume_controller import VolumeController, VolumeControllerOptions
from stowplan.apiserver.workload_controllers.controller import (
    WorkloadController,
    WorkloadControllerOptions,
)
from stowplan.clock import Clock
from stowplan.errors import ApiError


class EmbeddedCluster:
    """All of it in this process: when that ends, the cluster is gone."""

    def __init__(
        self,
        *,
        history_size: int = 10_000,
        bookmark_interval_s: float = 60.0,
        kubelet: KubeletOptions | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        compute_priority: bool = True,
        volumes: VolumeControllerOptions | None = None,
        workloads: WorkloadControllerOptions | None = None,
        device_claims: bool = False,
        keeps_encodings: bool = True,
    ) -> None:
        """Create a cluster.

        Without `compute_priority` a pod's priority is its `spec.priority`, as in scheduler_perf.
        Without `volumes` claims are never bound. Without `workloads` a Deployment gets no pods, and
        dependents outlive their owners. Without `device_claims` pods get no resource claims from
        templates, and claims stay reserved for pods that are gone. Without `keeps_encodings` each
        reader of an object pays for its encoding, and memory is saved.
        """
        self.store = Store(
            history_size=history_size, clock=clock, rng=rng, keeps_encodings=keeps_encodings
        )
        self._kubelet_options = kubelet or KubeletOptions()
        # Taint new nodes only if the kubelet simulation runs, which removes the taint.
        self.rest = Rest(
            self.store,
            bookmark_interval_s=bookmark_interval_s,
            admission=admission.AdmissionOptions(
                taint_new_nodes=self._kubelet_options.enabled, compute_priority=compute_priority
            ),
        )
        self.kubelet = Kubelet(self.store, self.rest.deleter, self._kubelet_options)
        self.volume_controller: VolumeController | None = None
        self.ephemeral_volumes: EphemeralVolumes | None = None
        if volumes is not None and volumes.enabled:
            self.volume_controller = VolumeController(self.store, self.rest.deleter, volumes)
            self.ephemeral_volumes = EphemeralVolumes(
                self.store, self.rest.writer, self.rest.deleter
            )
        self.workload_controller: WorkloadController | None = None
        if workloads is not None and workloads.enabled:
            self.workload_controller = WorkloadController(
                self.store, self.rest.writer, self.rest.deleter, workloads
            )
            self.rest.deleter.has_collector = True
        self.claim_controller: ClaimController | None = None
        if device_claims:
            self.claim_controller = ClaimController(self.store, self.rest.writer, self.rest.deleter)
        #: What goes wrong on purpose.
        self.faults: list[Fault] = []
        self._controllers: list[asyncio.Task[None]] = []
        for kind, obj in admission.first_objects():
            self.create(kind.group, kind.version, kind.plural, obj)

    def answer_later(self, request: ApiRequest, delay_s: float) -> None:
        """Carry out a request of which the client has lost the connection."""

        def arrive() -> None:
            with suppress(ApiError):
                self.rest.answer(request)

        asyncio.get_running_loop().call_later(delay_s, arrive)

    @property
    def has_work(self) -> bool:
        """Some stand-in will do something soon, without being asked again."""
        controllers = (
            self.kubelet,
            self.volume_controller,
            self.ephemeral_volumes,
            self.workload_controller,
            self.claim_controller,
        )
        return any(each is not None and each.has_work for each in controllers)

    def start_controllers(self) -> None:
        if self._kubelet_options.enabled:
            running = asyncio.create_task(self.kubelet.run(), name="pretend-kubelet")
            self._controllers.append(running)
        if self.volume_controller is not None:
            running = asyncio.create_task(self.volume_controller.run(), name="pretend-volumes")
            self._controllers.append(running)
        if self.ephemeral_volumes is not None:
            running = asyncio.create_task(self.ephemeral_volumes.run(), name="ephemeral-volumes")
            self._controllers.append(running)
        if self.workload_controller is not None:
            running = asyncio.create_task(self.workload_controller.run(), name="workloads")
            self._controllers.append(running)
        if self.claim_controller is not None:
            running = asyncio.create_task(self.claim_controller.run(), name="resource-claims")
            self._controllers.append(running)

    async def stop_controllers(self) -> None:
        for task in self._controllers:
            task.cancel()
        await asyncio.gather(*self._controllers, return_exceptions=True)
        self._controllers.clear()

    def create(
        self, group: str, version: str, plural: str, obj: Json, *, namespace: str = ""
    ) -> Json:
        """Creates an object without a request, with defaults, admission and validation."""
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        place = f"/namespaces/{namespace}" if namespace else ""
        target = parse_path(f"{prefix}{place}/{plural}")
        if target is None:
            raise no_such_path()
        return self.rest.writer.create(target, obj, WriteOptions()).object

    def remove_pod(self, namespace: str, name: str) -> None:
        """Delete a pod at once and without a request, as a controller of ours; it may be gone."""
        record = self.store.get(PODS, namespace, name)
        if record is not None:
            self.rest.deleter.delete(PODS, record, {"gracePeriodSeconds": 0})

    def drop_watches(self) -> int:
        """Closes all watch streams; clients have to reconnect. The number that were open."""
        return self.rest.watches.drop_all()

    def compact(self) -> None:
        """Forgets the history: watches and continue tokens from before get a 410."""
        self.store.compact()
