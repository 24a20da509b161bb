"""Targets of a scenario (`--on`): an API server, its clients and its clock.

Each target has a context manager: `virtual_target`, `embedded_target`, `real_target` and
`existing_target`. `run` opens one and starts a scheduler on it. Except for an existing cluster, the
servers are started here, on loopback or without a socket, and stopped at the end.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.api.loopback import is_loopback
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.clock import Clock, SystemClock
from stowplan.errors import ConfigError, StowplanError
from stowplan.redaction import redact_url
from stowplan.sim.virtual.time_loop import TimeLoop

#: How long a real cluster must be calm to count as quiet: other components work unseen.
_REAL_CALM_S = 0.6
_EMBEDDED_CALM_S = 0.05
#: Seconds of virtual time, if nothing happens in between.
_LOOK_EVERY_S = 1.0
_NO_BOOKMARKS_S = 1e9
#: Changes of a kind that are kept for watches that begin in the past.
_HISTORY = 1_000
#: Binds claims; and lets those go that are deleted, which the API server protects from that.
_VOLUME_CONTROLLERS = (
    "persistentvolume-binder-controller,persistentvolume-protection-controller,"
    "persistentvolumeclaim-protection-controller"
)
#: Interval between retries of a claim that found no volume; upstream's default is 15 s.
_CLAIMS_AGAIN = "--pvclaimbinder-sync-period=250ms"


async def _next_moment(loop: TimeLoop) -> None:
    """Advance to the next timer, by a second at most: a condition may be waited for."""
    timer = loop.call_later(_LOOK_EVERY_S, lambda: None)
    await loop.passed()
    timer.cancel()


async def _no_wait() -> None:
    """Do not wait: in real time there is no telling whether everything has happened."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running cluster without a scheduler."""

    name: str
    #: The scenario's, and the scheduler's.
    client: ApiClient
    scheduler_client: ApiClient
    clock: Clock
    #: The cluster itself where it is in this process.
    pretend: EmbeddedCluster | None
    #: Waits until all that can happen at this moment has happened.
    rest: Callable[[], Awaitable[None]]
    #: Waits until something may have changed.
    pass_time: Callable[[], Awaitable[None]]
    #: How long nothing must happen for the cluster to be quiet.
    calm_s: float
    is_virtual: bool = False
    #: On an existing cluster: what the scenario makes is kept apart, in namespaces and under names
    #: of schedulers that begin with this, and removed.
    prefix: str = ""

    @property
    def is_shared(self) -> bool:
        return bool(self.prefix)


@asynccontextmanager
async def virtual_target(
    kubelet: KubeletOptions, *, seed: int, compute_priority: bool = True
) -> AsyncIterator[Target]:
    """The embedded API server without HTTP, on an event loop with virtual time."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, TimeLoop):
        raise StowplanError("a virtual cluster needs an event loop with virtual time")
    cluster = EmbeddedCluster(
        # A watch that is never cut off needs no bookmarks: a third of the cost of idle time.
        bookmark_interval_s=_NO_BOOKMARKS_S,
        kubelet=kubelet,
        clock=loop.clock,
        rng=Random(seed),
        compute_priority=compute_priority,
        volumes=VolumeControllerOptions(),
        device_claims=True,
        # The scheduler is the only reader, and it is never more than a few changes behind.
        keeps_encodings=False,
        history_size=_HISTORY,
    )
    config = ClusterConfig(server=SERVER)
    cluster.start_controllers()
    try:
        yield Target(
            "virtual",
            ApiClient(config, transport=InProcess(cluster, user_agent="scenario")),
            ApiClient(config, transport=InProcess(cluster)),
            loop.clock,
            cluster,
            rest=loop.at_rest,
            pass_time=lambda: _next_moment(loop),
            calm_s=0.0,
            is_virtual=True,
        )
    finally:
        await cluster.stop_controllers()


@asynccontextmanager
async def embedded_target(
    kubelet: KubeletOptions, *, compute_priority: bool = True
) -> AsyncIterator[Target]:
    """The embedded API server over HTTP, in real time."""
    from stowplan.apiserver.server import ApiServer  # HTTP takes long to load

    server = ApiServer(
        kubelet=kubelet,
        compute_priority=compute_priority,
        volumes=VolumeControllerOptions(),
        device_claims=True,
    )
    await server.start()
    try:
        async with _clients(ClusterConfig(server=server.url)) as (client, scheduler_client):
            yield Target(
                "embedded",
                client,
                scheduler_client,
                SystemClock(),
                server,
                rest=_no_wait,
                pass_time=lambda: asyncio.sleep(0.005),
                calm_s=_EMBEDDED_CALM_S,
            )
    finally:
        await server.stop()


@asynccontextmanager
async def real_target(
    *,
    as_scheduler_perf: bool = False,
    device_claims: bool = False,
    feature_gates: Mapping[str, bool] | None = None,
) -> AsyncIterator[Target]:
    """etcd, kube-apiserver, the PV controller, and KWOK for the kubelets."""
    from stowplan.lab.controlplane import components
    from stowplan.lab.controlplane.binaries import BinaryMissing
    from stowplan.lab.controlplane.cluster import ControlPlane
    from stowplan.lab.controlplane.gates import apiserver_flags
    from stowplan.lab.controlplane.processes import ControlPlaneError

    plane = ControlPlane(
        disabled_admission_plugins=components.ADMISSION_OFF_IN_SCHEDULER_PERF
        if as_scheduler_perf
        else components.ADMISSION_NEEDING_CONTROLLERS,
        apiserver_flags=apiserver_flags(feature_gates or {}) if as_scheduler_perf else (),
    )
    try:
        await asyncio.to_thread(plane.start)
        # scheduler_perf's claims name a volume before it exists, and the volume controllers would
        # mark such a claim Lost.
        if as_scheduler_perf and device_claims:
            await asyncio.to_thread(
                plane.start_controller_manager, controllers="resourceclaim-controller"
            )
        if not as_scheduler_perf:
            # Other controllers would undo a scenario's changes of nodes, or anticipate its steps.
            await asyncio.to_thread(
                plane.start_controller_manager, _CLAIMS_AGAIN, controllers=_VOLUME_CONTROLLERS
            )
            await asyncio.to_thread(plane.start_kwok)
    except BinaryMissing as missing:
        plane.stop()
        hint = "`make controlplane` builds it, once"
        raise StowplanError(f"the real control plane is not there: {missing}; {hint}") from None
    except ControlPlaneError as problem:
        plane.stop()
        raise StowplanError(f"the real control plane does not start: {problem}") from None
    except BaseException:
        plane.stop()
        raise
    try:
        async with _real_time("real", load_cluster_config(kubeconfig=str(plane.kubeconfig))) as it:
            yield it
    finally:
        await asyncio.to_thread(plane.stop)


@asynccontextmanager
async def existing_target(
    kubeconfig: str, *, context: str | None, allow_remote: bool
) -> AsyncIterator[Target]:
    """An existing cluster; only one on this machine unless remote ones are allowed."""
    if not os.path.exists(kubeconfig):  # noqa: ASYNC240, PTH110 - nothing else runs yet
        raise ConfigError(
            "no such target; known: virtual, embedded, real, or the path of a kubeconfig",
            where=f"--on {kubeconfig}",
        )
    config = load_cluster_config(kubeconfig=kubeconfig, context=context)
    if not allow_remote and not is_loopback(config.server):
        raise ConfigError(
            f"{redact_url(config.server)} is not on this machine. A scenario creates and deletes "
            "nodes and pods there; use --allow-remote to allow that",
            where=kubeconfig,
        )
    prefix = f"stowplan-scenario-{secrets.token_hex(4)}"
    async with _real_time(kubeconfig, config, prefix=prefix) as target:
        yield target


@asynccontextmanager
async def _real_time(
    name: str, config: ClusterConfig, *, prefix: str = ""
) -> AsyncIterator[Target]:
    async with _clients(config) as (client, scheduler_client):
        yield Target(
            name,
            client,
            scheduler_client,
            SystemClock(),
            None,
            rest=_no_wait,
            pass_time=lambda: asyncio.sleep(0.02),
            calm_s=_REAL_CALM_S,
            prefix=prefix,
        )


@asynccontextmanager
async def _clients(config: ClusterConfig) -> AsyncIterator[tuple[ApiClient, ApiClient]]:
    async with ApiClient(config, user_agent="scenario") as ours, ApiClient(config) as scheduler:
        yield ours, scheduler
