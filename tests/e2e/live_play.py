"""Plays a mixture to one scheduler on a fresh control plane, and records what became of each pod.

The order of decisions is fixed: what plugins look up is there before the scheduler starts, then
nodes come one by one, then pods, each when the one before is bound, or refused and deleted again.
kube-controller-manager's persistent volume controller completes what volume plugins begin.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.lab.controlplane import ControlPlane
from stowplan.plugins.registry import IN_TREE
from tests.e2e.live_mixture import Mixture
from tests.e2e.live_stage import LiveStage, Outcome
from tests.e2e.live_wakeups import epilogue
from tests.e2e.scheduler_play import session_with
from tests.e2e.schedulers import kube_scheduler, stowplan

Json = dict[str, Any]

KUBE_SCHEDULER, STOWPLAN = "kube-scheduler", "stowplan"
#: A victim that is gone before kube-scheduler has seen the answer to its own request can leave it
#: with a preemptor that nothing wakes for five minutes. Stowplan gets no such help.
_THEIR_VICTIMS_TAKE_S = 0.3
_OURS = {plugin.name for plugin in IN_TREE}
#: Plugins of kube-scheduler's default profile that Stowplan has too; it grows by itself.
SHARED = [ref.name for ref in DEFAULT_MULTI_POINT if ref.name in _OURS]
_SCORED = re.compile(
    r'"Plugin scored node for pod" pod="[^"]*/([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(\d+)'
)


@dataclass
class Play:
    """Everything that is compared, and the scores where a scheduler tells them."""

    pods: dict[str, Outcome] = field(default_factory=dict)
    #: Pods of the epilogue: the first refusal, and the node in the end.
    woken: dict[str, Outcome] = field(default_factory=dict)
    #: Volumes and claims as they were in the end.
    storage: dict[str, Json] = field(default_factory=dict)
    #: By pod, plugin and node.
    scores: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)


def configuration(*, preemption: bool) -> str:
    """The default profile, without plugins that only kube-scheduler has, and without PostFilter."""
    plugins: Json = {
        "multiPoint": {
            "disabled": [
                {"name": ref.name} for ref in DEFAULT_MULTI_POINT if ref.name not in SHARED
            ]
        }
    }
    if not preemption:
        plugins["postFilter"] = {"disabled": [{"name": "*"}]}
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": 1,
            # kube-scheduler's default, which is not Stowplan's: it matters from 100 nodes on.
            "percentageOfNodesToScore": 0,
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": "{kubeconfig}", "qps": 5000, "burst": 5000},
            "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
        }
    )


async def play(
    scheduler: str,
    mixture: Mixture,
    *,
    preemption: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Play:
    """The mixture, played to kube-scheduler or to Stowplan, and an epilogue."""
    after = epilogue()
    with ControlPlane() as plane:
        plane.start_controller_manager(
            # A claim that found no volume is looked at again only then.
            "--pvclaimbinder-sync-period=1s",
            controllers="persistentvolume-binder-controller",
        )
        async with _stage(plane, scheduler) as stage:
            objects = mixture.preparations + after.preparations
            await stage.prepare(objects, mixture.phases | after.phases)
            tell(f"{scheduler}: {len(objects)} objects are there")
            with _running(scheduler, plane, configuration(preemption=preemption)) as log:
                await stage.bring_nodes(mixture.nodes)
                tell(f"{scheduler}: {len(mixture.nodes)} nodes are known")
                result = Play()
                for number, pod in enumerate(mixture.pods, 1):
                    result.pods[pod["metadata"]["name"]] = await stage.place(pod)
                    if number in mixture.changes:
                        await stage.change(mixture.changes[number])
                    if number % 100 == 0 or number == len(mixture.pods):
                        tell(f"{scheduler}: {number} pods")
                await stage.collect_events(result.pods)
                await stage.bring_nodes(after.nodes)
                for act in after.acts:
                    result.woken[act.pod["metadata"]["name"]] = await stage.wake(act)
                tell(f"{scheduler}: {len(after.acts)} pods were refused and woken")
                result.storage = await stage.storage()
                result.scores = _scores(log)
    return result


def _running(scheduler: str, plane: ControlPlane, config: str) -> AbstractContextManager[Path]:
    if scheduler == STOWPLAN:
        return stowplan(plane, config)
    gates = "WatchListClient=false"
    if "PodTopologySpread" not in SHARED:
        # Opportunistic batching does nothing in the default profile, but would in one without
        # PodTopologySpread: there it saves work by not looking at all nodes.
        gates += ",OpportunisticBatching=false"
    return kube_scheduler(plane, config, f"--feature-gates={gates}", "--vmodule=schedule_one=10")


@asynccontextmanager
async def _stage(plane: ControlPlane, scheduler: str) -> AsyncIterator[LiveStage]:
    ca_file = str(plane.certificate_authority)
    async with session_with(plane.url, ca_file, plane.admin_token) as session:
        takes_s = _THEIR_VICTIMS_TAKE_S if scheduler == KUBE_SCHEDULER else 0.0
        stage = LiveStage(session, "default-scheduler", leaving_takes_s=takes_s)
        watching = asyncio.create_task(stage.watch())
        try:
            yield stage
        finally:
            watching.cancel()


def _scores(log: Path) -> dict[str, dict[str, dict[str, int]]]:
    """From kube-scheduler's log; Stowplan's has no such lines."""
    scores: dict[str, dict[str, dict[str, int]]] = {}
    for pod, plugin, node, score in _SCORED.findall(log.read_text(errors="replace")):
        scores.setdefault(pod, {}).setdefault(plugin, {})[node] = int(score)
    return scores
