"""Builds an `Explanation`: asks all nodes, counts their reasons, and finds what is nearest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, RESOURCE_CLAIM_TEMPLATES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import NodeTable
from stowplan.config.fields import did_you_mean
from stowplan.errors import NotFound
from stowplan.explain.advice import VOLUME_PLUGINS, advice_for
from stowplan.explain.commands import owner_of
from stowplan.explain.explanation import (
    Comparison,
    Explanation,
    NodeAnswer,
    Reason,
    State,
)
from stowplan.explain.facts import Obstacle
from stowplan.explain.obstacles import nearest_rows, obstacles_of
from stowplan.explain.preemption import foretell
from stowplan.explain.retries import retry_texts
from stowplan.explain.summary import Group, cause_of, nodes_text, refusal_of
from stowplan.explain.unread import (
    HOW_TO_READ,
    left_out_text,
    unread_claims,
    unread_text,
    without_unread,
)
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.profile import Profile
from stowplan.framework.score_sheet import NodeScore
from stowplan.framework.status import Code, Status
from stowplan.scheduler.decision import Decision

if TYPE_CHECKING:  # slow to import, and a running scheduler explains without them
    from stowplan.judge.configuration import Configuration
    from stowplan.judge.given_cluster import GivenCluster
    from stowplan.judge.objects import Thing

#: How many nodes are shown as nearest or best, and as examples of a reason.
NEAREST: Final = 3
_EXAMPLES: Final = 3
#: Reasons that are shown; a pod can have as many as there are nodes.
_MOST_REASONS: Final = 20


class Explainer:
    """Explains pods of one cluster. The profile is made once, and so are its caches."""

    def __init__(self, cluster: GivenCluster, config: Configuration) -> None:
        self.cluster = cluster
        self.config = config
        self._profiles: dict[str, Profile] = {}

    def profile_for(self, pod: Pod) -> Profile:
        """The profile that serves a pod, with plugins that look at this cluster."""
        pattern = self.config.profile_for(pod)
        profile = self._profiles.get(pattern.name)
        if profile is None:
            profile = self._profiles[pattern.name] = self.cluster.settle(pattern, preempts=True)
        return profile

    @contextmanager
    def judged(self, thing: Thing) -> Iterator[Decision]:
        """All nodes' answers to a pod; a pod that has a node is judged as if it had none.

        The decision is valid within the block.
        """
        known = self.cluster.things.get(thing.key) if thing.struct.spec.node_name else None
        if known is not None:
            self.cluster.remove(thing.key)
        try:
            profile = self.profile_for(thing.struct)
            asked = without_unread(self.cluster, _pending(thing))
            yield self.cluster.judge(asked, profile, self.config.serves)
        finally:
            if known is not None:
                self.cluster.put(known)

    def explain(self, thing: Thing, *, foretells: bool = True) -> Explanation:
        """Everything about one pod; without `foretells` all but preemption, which may take long."""
        pod: Pod = thing.struct
        profile = self.profile_for(pod)
        if pod.is_finished or pod.is_terminating:
            return over(pod, profile)
        with self.judged(thing) as decision:
            catalog = self.cluster.cache.catalog
            unread = tuple(dict.fromkeys(unread_claims(self.cluster, pod).values()))
            return explained(
                pod,
                profile,
                decision,
                catalog,
                foretells=foretells,
                unread=unread,
                are_nodes_unread=NODES.plural in self.cluster.unread,
                missing_template=self._missing_template(thing),
            )

    def _missing_template(self, thing: Thing) -> str:
        """Say which template of a claim does not exist, if the cluster's templates were read."""
        if RESOURCE_CLAIM_TEMPLATES.plural in self.cluster.unread:
            return ""
        unknown, namespace = self.cluster.supposed(thing).unknown, thing.namespace
        if not unknown:
            return ""
        there = {
            each.metadata.name
            for each in self.cluster.cache.catalog[RESOURCE_CLAIM_TEMPLATES]
            if each.metadata.namespace == namespace
        }
        return (
            f"The ResourceClaimTemplate {unknown[0]} that it names does not exist in the namespace"
            f" {namespace}{did_you_mean(unknown[0], there) or '.'}"
        )

    def compare(self, thing: Thing, name: str) -> Comparison:
        """A node beside the best one; NotFound if there is no such node."""
        row = self.cluster.cache.table.live_row(name)
        if row is None:
            raise no_such_node(self.cluster.cache.table, name)
        pod: Pod = thing.struct
        profile = self.profile_for(pod)
        with self.judged(thing) as decision:
            said = compared(pod, profile, decision, row)
        unread = tuple(dict.fromkeys(unread_claims(self.cluster, pod).values()))
        if not unread:
            return said
        known = tuple(each for each in said.accepted_by if each not in VOLUME_PLUGINS)
        return msgspec.structs.replace(said, accepted_by=known, note=left_out_text(unread))


def no_such_node(table: NodeTable, name: str) -> NotFound:
    names = [table.names[row] for row in table.live_rows.tolist()]
    return NotFound(f'node "{name}" not found{did_you_mean(name, names)}')


def _pending(thing: Thing) -> Thing:
    pod: Pod = thing.struct
    if not pod.spec.node_name:
        return thing
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return replace(thing, struct=msgspec.structs.replace(pod, spec=spec))


def compared(pod: Pod, profile: Profile, decision: Decision, row: int) -> Comparison:
    """A row beside the best one, from a judgement."""
    name, diagnosis = decision.cycle.table.names[row], decision.diagnosis
    answer = NodeAnswer(name)
    if diagnosis is not None and diagnosis.candidates is not None:
        answer = obstacles_of(profile, diagnosis, row)
    elif decision.node is None:
        answer = NodeAnswer(name, (Obstacle(decision.status.plugin, decision.status.message),))
    if answer.obstacles or decision.scores is None:
        best = _best(decision)
        return Comparison(pod.key, answer, best[0] if best else None, _accepted(profile, answer))
    mine = decision.scores.of(row)
    best = _best(decision)
    return Comparison(pod.key, _scored(mine), best[0], _accepted(profile, answer))


def _accepted(profile: Profile, answer: NodeAnswer) -> tuple[str, ...]:
    """The filters that have nothing against a node."""
    refusing = {each.plugin for each in answer.obstacles}
    return tuple(step.name for step in profile.filters if step.name not in refusing)


def over(pod: Pod, profile: Profile) -> Explanation:
    """Of a pod that needs no node any more."""
    if pod.is_finished:
        state, what = State.FINISHED, f"has ended ({pod.status.phase}) and needs no node"
    else:
        state, what = State.TERMINATING, "is being deleted, and is not scheduled any more"
    node = pod.spec.node_name
    return Explanation(pod.key, scheduler_of(pod), state, f"{pod.key} {what}.", node=node)


def scheduler_of(pod: Pod) -> str:
    """The scheduler that a pod asks for."""
    return pod.spec.scheduler_name or "default-scheduler"


def explained(
    pod: Pod,
    profile: Profile,
    decision: Decision,
    catalog: Catalog,
    *,
    foretells: bool = True,
    unread: Sequence[str] = (),
    are_nodes_unread: bool = False,
    missing_template: str = "",
) -> Explanation:
    """Everything that a judgement says about a pod; `unread` are claims that it does not know, and
    `missing_template` is a sentence about the one that its claim should be made from.
    """
    diagnosis = decision.diagnosis
    total = len(decision.cycle.table)
    groups = _groups(profile, diagnosis) if diagnosis is not None and total else []
    reasons = tuple(each.reason for each in groups)
    best = _best(decision)
    feasible = decision.feasible_nodes
    nearest: tuple[NodeAnswer, ...] = ()
    retried: tuple[str, ...] = ()
    if diagnosis is not None and not feasible:
        if diagnosis.candidates is not None:
            rows = nearest_rows(profile, diagnosis, NEAREST)
            nearest = tuple(obstacles_of(profile, diagnosis, row) for row in rows)
        plugins = {reason.plugin for reason in reasons}
        if not pod.spec.node_name and not pod.spec.scheduling_gates:
            retried = retry_texts(profile, sorted(plugins), decision.cycle.info)
    cause = "" if feasible else missing_template or _why_nowhere(decision, groups, total)
    state, summary = _summary(pod, decision.cycle.table, feasible, cause)
    advice = advice_for(
        pod,
        () if feasible else reasons,
        catalog,
        has_nodes=total > 0,
        are_nodes_unread=are_nodes_unread,
        is_node_missing=_is_node_missing(pod, decision.cycle.table),
        details=[cause, *(found.detail for node in nearest for found in node.obstacles)],
    )
    if unread:
        advice = advice or HOW_TO_READ
        if feasible and state is State.PENDING:
            cause = "fits, if claims that could not be read allow it"
            summary = (
                f"{pod.key} is pending. It would fit on {nodes_text(feasible, total)}, if its"
                f" volumes allow it: {unread_text(unread)}."
            )
        else:
            summary += f" {left_out_text(unread)}"
    may_preempt = not feasible and state in (State.PENDING, State.NOMINATED)
    return Explanation(
        pod.key,
        scheduler_of(pod),
        state,
        summary,
        cause=cause,
        node=pod.spec.node_name or pod.status.nominated_node_name,
        nodes=total,
        feasible_nodes=feasible,
        reasons=reasons,
        nearest=nearest,
        best=best,
        retried_on=retried,
        advice=advice,
        last_message=last_message(pod),
        owner=owner.resource if (owner := owner_of(pod, catalog)) else "",
        preemption=foretell(profile, decision) if foretells and may_preempt else None,
    )


def _is_node_missing(pod: Pod, table: NodeTable) -> bool:
    return bool(pod.spec.node_name) and table.live_row(pod.spec.node_name) is None


def _summary(pod: Pod, table: NodeTable, feasible: int, cause: str) -> tuple[State, str]:
    key = pod.key
    fits = f"would fit on {nodes_text(feasible, len(table))}"
    if _is_node_missing(pod, table):
        node = pod.spec.node_name
        return State.SCHEDULED, f"{key} is bound to the node {node}, which does not exist."
    if pod.spec.node_name:
        now = f"Now it {fits}." if feasible else f"Now it would fit nowhere. {cause}"
        return State.SCHEDULED, f"{key} is on {pod.spec.node_name}. {now}"
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        then = (
            f"Without them it {fits}."
            if feasible
            else f"Without them it would fit nowhere. {cause}"
        )
        return State.GATED, f"{key} is held by its scheduling gates: {gates}. {then}"
    nominated = pod.status.nominated_node_name
    if nominated and not feasible:
        return State.NOMINATED, (
            f"{key} is nominated to {nominated}{_room_text(table, nominated)}. {cause}"
        )
    if feasible:
        tried = (
            "has not tried it again since that became true."
            if last_message(pod)
            else "has not tried it; is a scheduler of that name running?"
        )
        who = f"The scheduler that it asks for, {scheduler_of(pod)},"
        return State.PENDING, f"{key} is pending although it {fits}. {who} {tried}"
    return State.PENDING, f"{key} is pending. {cause}"


def _room_text(table: NodeTable, node: str) -> str:
    """Whether pods are on their way out of a node that a pod is nominated to."""
    row = table.live_row(node)
    if row is None:
        return ", which does not exist"
    leaving = [info.pod.key for info in table.pods[row].values() if info.pod.is_terminating]
    if not leaving:
        return ", where no pod is being deleted"
    more = f" and {len(leaving) - 1} more" if len(leaving) > 1 else ""
    return f" and waits until {leaving[0]}{more} there, which is being deleted, is gone"


def _why_nowhere(decision: Decision, groups: list[Group], total: int) -> str:
    if not total:
        return "The cluster has no nodes."
    if decision.status.code is Code.ERROR:
        return f"The attempt fails: {decision.message}."
    diagnosis = decision.diagnosis
    if diagnosis is not None and diagnosis.candidates is None:
        return refusal_of(decision.cycle.pod, diagnosis.absent)
    return cause_of(decision.cycle, groups)


def _groups(profile: Profile, diagnosis: Diagnosis) -> list[Group]:
    """What plugins say, and about which nodes; largest group first."""
    absent, table = diagnosis.absent, diagnosis.cycle.table
    if diagnosis.candidates is None:
        return [_group(profile, absent, absent.message, table.live_rows, table.names)]
    found: dict[tuple[str, str], tuple[Status, list[Rows]]] = {}
    for status, rows in diagnosis.groups():
        for reason in islice(status.reasons, _MOST_REASONS):
            found.setdefault((status.plugin, reason), (status, []))[1].append(rows)
    left_out = np.flatnonzero(table.valid & ~diagnosis.candidates)
    if len(left_out):
        found[absent.plugin, absent.message] = absent, [left_out]
    groups = [
        _group(profile, status, reason, np.concatenate(rows), table.names)
        for (_, reason), (status, rows) in found.items()
    ]
    groups.sort(key=lambda each: (-each.reason.nodes, each.reason.plugin, each.reason.reason))
    return groups[:_MOST_REASONS]


def _group(
    profile: Profile, status: Status, reason: str, rows: Rows, names: Sequence[str]
) -> Group:
    examples = tuple(names[row] for row in rows[:_EXAMPLES].tolist())
    may_help = status.code is Code.UNSCHEDULABLE
    said = Reason(len(rows), status.plugin, reason, examples, eviction_may_help=may_help)
    return Group(said, rows, profile)


def _best(decision: Decision) -> tuple[NodeAnswer, ...]:
    scores = decision.scores
    return tuple(_scored(each) for each in scores.top(NEAREST)) if scores is not None else ()


def _scored(score: NodeScore) -> NodeAnswer:
    return NodeAnswer(score.node, total=score.total, scores=score.by_plugin)


def last_message(pod: Pod) -> str:
    """Why its scheduler could not place a pod, as the pod's condition says."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""
