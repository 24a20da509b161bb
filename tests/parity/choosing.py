"""What the live scheduler would choose: `decide`, asked again and again on one cluster.

`judge`, which `stowplan decide` asks, looks at every node anew. `decide` takes short ways: rows and
sums that it keeps for pods of one shape, brought up to date from journals. Here every question is
asked until those are kept and used, by the same pod and by a twin of another name; pods are also
assumed on nodes, and forgotten. What must stay true: all choices of a step are about one state of
the cluster, so that one answer of the oracle's goes with all of them.
"""

from __future__ import annotations

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.resources import POD_DISRUPTION_BUDGETS
from stowplan.clock import SystemClock
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.framework.candidates import Victims
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code
from stowplan.judge import Stream
from stowplan.judge.configuration import Configuration
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Thing
from stowplan.plugins.default_preemption.dry_run import DryRun
from stowplan.plugins.default_preemption.victims import read_budgets
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from tests.parity.generate.dice import Json, copied

#: What a step has for us alone: how the chooser comes to its cluster.
_OURS = ("assumed", "tried", "place")


def wire(step: Json) -> Json:
    """A step as `stowplan decide --stream` and the oracle read it."""
    return {name: value for name, value in step.items() if name not in _OURS}


def follow_up(step: Json, node: str | None) -> list[Json]:
    """The same question after a copy of the pod was placed where it wanted to go.

    `place` says how many times over. Of ports upstream keeps a set: when one of two pods that ask
    for the same goes, it believes the port to be free. So pods that ask for ports are not placed.
    """
    times = step.get("place", 0)
    if not node or not times or "hostPort" in str(step["pod"]):
        return []
    placed = copied(step["pod"])
    for name in ("name", "uid"):
        placed["metadata"][name] += f"-{step['id']}-{times}"
    placed["spec"]["nodeName"] = node
    # No other pod began then: ties go by the order of a list that upstream rearranges.
    placed["status"]["startTime"] = f"2026-01-02T00:{step['id']:02}:{times:02}Z"
    again = {"id": step["id"], "apply": [placed], "pod": step["pod"]}
    return [{**again, "assumed": True, "place": times - 1}]


class Chooser(Stream):
    """A stream of its own, in which `decide` chooses."""

    def __init__(self) -> None:
        super().__init__(check=False)
        self._cursor = 0
        self._is_tried = False

    def choose(self, step: Json) -> Json:
        """Every time that it was asked, the `choices`; where it began in which `order` of nodes."""
        self._is_tried = bool(step.get("tried"))
        made: list[Json] = []
        start = self._cursor
        is_next = "pod" in step and "config" not in step
        if is_next and step.get("assumed") and self._assume(step.get("apply", [])):
            made = self._ask({"id": step["id"], "pod": step["pod"]})["choices"]
            self._cursor = start
        # Whatever was assumed is confirmed by this.
        said = self._ask(wire(step))
        # The order is settled when somebody looks, and the oracle does at every step.
        table = self._cluster.cache.table
        order = [table.names[row] for row in table.order.tolist()]
        return {"choices": made + said["choices"], "order": order, "start": start}

    def search_again_from(self, start: int) -> None:
        self._cursor = start

    def _ask(self, line: Json) -> Json:
        said = self.answer(line)
        del said["id"]
        if "error" in said:
            return {"choices": [{"broken": said["error"]}]}
        return said or {"choices": []}

    def _assume(self, applied: list[Json]) -> bool:
        """Whether all are pods that nobody has seen before; then they are assumed."""
        try:
            pods = [msgspec.convert(thing, Pod) for thing in applied]
        except msgspec.ValidationError:
            # A question that was made smaller, and makes no sense any more.
            return False
        if not all(self._is_new(pod) for pod in pods):
            return False
        for pod in pods:
            self._cluster.cache.assume(pod, pod.spec.node_name, compile_pod(pod))
        return bool(pods)

    def _is_new(self, pod: Pod) -> bool:
        is_known = any(
            (thing.namespace, thing.name) == (pod.metadata.namespace, pod.metadata.name)
            for thing in self._cluster.things.values()
        )
        return bool(pod.spec.node_name) and not pod.is_finished and not is_known

    def _judged(
        self, cluster: GivenCluster, pod: Thing, profile: Profile, config: Configuration
    ) -> Json:
        table, info = cluster.cache.table, cluster.asked(pod)
        # A judge looks at all nodes, so the profiles of a stream do not know.
        pattern = config.profile_for(pod.struct)
        profile.percentage_of_nodes_to_score = pattern.percentage_of_nodes_to_score
        start = self._cursor

        def choose(asked: PodInfo) -> Decision:
            nominated = cluster.nominees(config.serves)
            return decide(table, asked, profile, cursor=start, nominated=nominated)

        def full(decision: Decision) -> Json:
            return told(decision) | room(decision, cluster)

        first = choose(info)
        self._cursor = first.cursor
        choices = [full(first), full(choose(info))]
        twin = None if pod.key in cluster.things else _twin(info.pod)
        if self._is_tried and first.node and cluster.cache.node_of(info.uid) is None:
            cluster.cache.assume(info.pod, first.node, info)
            choose(twin or info)
            cluster.cache.forget(info.uid)
            choices.append(full(choose(info)))
        if twin is not None:
            choices.append(full(choose(twin)))
        return {"choices": choices}


def _twin(pod: Pod) -> PodInfo | None:
    """The same pod by another name; None where names matter."""
    if any(volume.ephemeral is not None for volume in pod.spec.volumes or ()):
        return None
    metadata = msgspec.structs.replace(
        pod.metadata, name=f"{pod.metadata.name}-twin", uid=f"{pod.uid}-twin"
    )
    return compile_pod(msgspec.structs.replace(pod, metadata=metadata))


def room(decision: Decision, cluster: GivenCluster) -> Json:
    """What it would cost to clear nodes for a pod that fits nowhere, by node."""
    if decision.node is not None or decision.diagnosis is None:
        return {}
    budgets = read_budgets(cluster.cache.catalog[POD_DISRUPTION_BUDGETS])
    search = DryRun(decision.cycle, budgets, SystemClock().time())
    rows = decision.diagnosis.rows_of(Code.UNSCHEDULABLE).tolist()
    names = cluster.cache.table.names
    candidates = {
        names[row]: {
            "victims": [info.pod.key for info in outcome.pods],
            "violations": outcome.violations,
        }
        for row, outcome in search.try_rows(rows).items()
        if isinstance(outcome, Victims)
    }
    return {"room": candidates}


def told(decision: Decision) -> Json:
    """A decision in the oracle's words; to be told before the next one."""
    if decision.status.code is Code.ERROR:
        return {"error": decision.message}
    if decision.node is None:
        return {"message": decision.message, "plugins": sorted(decision.unschedulable_plugins)}
    told: Json = {
        "node": decision.node,
        "evaluated": decision.evaluated_nodes,
        "feasible": decision.feasible_nodes,
    }
    sheet = decision.scores
    if sheet is not None:
        names = [sheet.table.names[row] for row in sheet.rows.tolist()]
        told["totals"] = dict(zip(names, sheet.totals.tolist(), strict=True))
        scores: Json = {name: {} for name in names}
        for plugin, weighted in sheet.by_plugin:
            for name, score in zip(names, weighted.tolist(), strict=True):
                scores[name][plugin] = score
        told["scores"] = scores
    return told
