"""Play a YAML scenario's steps on a cluster, one after the other.

`run_scenario` runs a `Player`. Every step is added to the timeline, executed, and followed by a
wait for quiet unless it says otherwise, so the same steps give the same placements on a fast and on
a slow cluster. A request that the API server refuses is reported as an error in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from stowplan.errors import ApiError, ConfigError, NotFound, StowplanError
from stowplan.sim.scenarios.actions import (
    Action,
    Create,
    Delete,
    Expect,
    Json,
    ObjectPattern,
    OnNodes,
    Patch,
    PlayTrace,
    PlayWorkload,
    Say,
    Scenario,
    ScenarioStep,
    Sleep,
    WaitForQuiet,
    WaitUntil,
)
from stowplan.sim.scenarios.cluster import Cluster, change_node
from stowplan.sim.scenarios.expectations import Expected
from stowplan.sim.scenarios.facts import ClaimResult, ClusterState
from stowplan.sim.scenarios.node_names import check_node_names
from stowplan.sim.scenarios.timeline import EntryKind
from stowplan.sim.scenarios.workload_cluster import workload_scenario

if TYPE_CHECKING:
    from stowplan.sim.scenarios.trace_play import TraceProgress
    from stowplan.sim.traces.model import Trace


class Player:
    """`mistake` is set where the file asked for something that the API server refused."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int | None = None,
        on_progress: Callable[[TraceProgress], None] | None = None,
    ) -> None:
        """`seed` goes before that of the scenario, and before those of its traces."""
        self._scenario = scenario
        self._seed = scenario.seed if seed is None else seed
        self._on_progress = on_progress
        self.mistake: ConfigError | None = None

    async def __call__(self, cluster: Cluster) -> None:
        if not cluster.target.is_shared:
            try:
                check_node_names(self._scenario.steps, self._trace)
            except ConfigError as problem:
                self.mistake = problem
                raise
        for step in self._scenario.steps:
            if not isinstance(step.action, Say):
                what = f"step {step.number}" if step.number else ""
                cluster.recording.add(EntryKind.STEP, what, step.title, line=step.place.line)
            try:
                await self._do(step.action, cluster, step)
                if step.settle:
                    await cluster.settle()
            except ConfigError as problem:
                if not problem.where:
                    problem = ConfigError(str(problem), where=str(step.place))
                self.mistake = problem
                raise problem from None
            except ApiError as problem:
                self.mistake = ConfigError(str(problem), where=str(step.place))
                raise self.mistake from None
            except StowplanError as problem:
                raise StowplanError(f"{step.place}: {problem}") from None

    async def _do(self, action: Action, cluster: Cluster, step: ScenarioStep) -> None:
        match action:
            case Create():
                await self._create(action, cluster, settle=step.settle)
            case Delete():
                await self._delete(action, cluster)
            case Patch():
                for target in await _matching(action.target, cluster):
                    await cluster.patch(
                        target.kind, target.name, action.patch, namespace=target.namespace
                    )
            case OnNodes():
                await self._on_nodes(action, cluster)
            case Sleep():
                await cluster.sleep(action.seconds)
            case Say():
                cluster.say(action.text)
            case WaitForQuiet():
                await cluster.settle()
            case WaitUntil():
                await self._wait(action, cluster)
            case Expect():
                await self._expect(action.all, cluster)
            case PlayWorkload():
                for workload in action.workloads:
                    await workload_scenario(workload)(cluster)
            case PlayTrace():
                from stowplan.sim.scenarios.trace_play import play_trace  # few scenarios have one

                await play_trace(cluster, self._trace(action), on_progress=self._on_progress)

    def _trace(self, action: PlayTrace) -> Trace:
        return action.trace if self._seed is None else action.with_seed(self._seed)

    async def _create(self, action: Create, cluster: Cluster, *, settle: bool) -> None:
        await cluster.create(*action.objects, *action.nodes)
        if settle and action.pods and (action.objects or action.nodes):
            # Nodes and pods come by different watches: a pod must not be tried before the
            # scheduler knows all of its cluster.
            await cluster.settle()
        await cluster.create(*action.pods)

    async def _delete(self, action: Delete, cluster: Cluster) -> None:
        grace = None if action.grace_period_s is None else round(action.grace_period_s)
        for named in action.targets:
            for target in await _matching(named, cluster):
                if not cluster.ever_had(target.kind, target.name, namespace=target.namespace):
                    # NotFound: a step that deletes nothing is a mistake.
                    await cluster.get(target.kind, target.name, namespace=target.namespace)
                await cluster.delete(
                    target.kind, target.name, namespace=target.namespace, grace_period_s=grace
                )

    async def _on_nodes(self, action: OnNodes, cluster: Cluster) -> None:
        for name in action.nodes:
            for target in await _matching(ObjectPattern("Node", name), cluster):
                await change_node(cluster, action.verb, target.name)

    async def _wait(self, action: WaitUntil, cluster: Cluster) -> None:
        finding = ClaimResult(False)

        async def is_so() -> bool:
            nonlocal finding
            finding = action.expected.look(await self._view(cluster, [action.expected]))
            return finding.is_met

        try:
            await cluster.wait_until(str(action.expected), is_so, action.timeout_s)
        except ApiError:
            raise
        except StowplanError:
            found = f"not within {action.timeout_s:g} s: {finding.found}"
            finding = ClaimResult(False, found)
        _record(cluster, action.expected, finding)

    async def _expect(self, expected: Sequence[Expected], cluster: Cluster) -> None:
        view = await self._view(cluster, expected)
        for each in expected:
            _record(cluster, each, each.look(view))

    async def _view(self, cluster: Cluster, asked_by: Sequence[Expected]) -> ClusterState:
        objects: dict[ObjectPattern, Json | None] = {}
        for target in (target for each in asked_by for target in each.objects):
            try:
                found = await cluster.get(target.kind, target.name, namespace=target.namespace)
            except NotFound:
                if cluster.ever_had(target.kind, target.name, namespace=target.namespace):
                    objects[target] = None
                continue
            objects[target] = found
        return ClusterState(
            await cluster.list("Pod", namespace="*"),
            await cluster.list("Node"),
            cluster.target.prefix,
            cluster.recording.victims,
            objects,
            cluster.recording.seen_pods,
            cluster.recording.seen_nodes,
        )


def _record(cluster: Cluster, expected: Expected, finding: ClaimResult) -> None:
    cluster.expect(str(expected), finding.is_met, found=finding.found, where=expected.place.short)


async def _matching(named: ObjectPattern, cluster: Cluster) -> list[ObjectPattern]:
    """The objects that a pattern means, in the order of their names; NotFound if there is none."""
    if not named.is_pattern:
        return [named]
    found = [
        ObjectPattern(named.kind, each["metadata"]["name"], named.namespace)
        for each in await cluster.list(named.kind, namespace=named.namespace)
        if fnmatchcase(each["metadata"]["name"], named.name)
    ]
    if not found:
        raise NotFound(f"there is no {named.kind} that matches {named.name}")
    return found
