"""Results for tests: the verdict on a pod by node and plugin, and why pods are pending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stowplan.api.objects import Pod
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status
from stowplan.queue.events import ActionType, ClusterEvent
from stowplan.queue.pod import PendingPods, QueuedPod
from stowplan.scheduler.decision import Decision


@dataclass(frozen=True)
class NodeVerdict:
    """What one node had to say."""

    node: str
    fits: bool
    #: Why not, and which plugin says so.
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    #: False: evicting other pods would not help.
    is_resolvable: bool = True
    #: 0 to 100 by plugin, before weights; empty if the node does not fit.
    scores: Mapping[str, int] = field(default_factory=dict)
    #: The sum of weighted scores.
    total: int = 0


@dataclass(frozen=True)
class Verdict:
    """Where a pod would go, and why not elsewhere."""

    pod: str
    #: "" if no node takes it.
    node: str
    #: What events and the condition say if none does.
    message: str
    status: Status
    nodes: Mapping[str, NodeVerdict]
    #: Plugins that rejected it somewhere, if no node takes it: their events bring it back.
    rejected_by: frozenset[str] = frozenset()
    #: Pods that preemption would evict, and from where.
    victims: tuple[str, ...] = ()
    nominated_node: str = ""

    @property
    def feasible(self) -> list[str]:
        """The nodes that take the pod, best first; of equals in the order of names."""
        fitting = [each for each in self.nodes.values() if each.fits]
        return [each.node for each in sorted(fitting, key=lambda each: (-each.total, each.node))]

    @property
    def is_error(self) -> bool:
        """A plugin broke; the message names it."""
        return self.status.code is Code.ERROR

    def reasons(self, node: str) -> tuple[str, ...]:
        """Why a node does not take the pod; empty if it does."""
        return self._of(node).reasons

    def scores(self, node: str) -> Mapping[str, int]:
        """What each plugin gives a node, 0 to 100, before weights."""
        return self._of(node).scores

    def score(self, node: str, plugin: str) -> int:
        scores = self.scores(node)
        if plugin not in scores:
            known = ", ".join(scores) or "none"
            raise KeyError(f"{plugin} gave node {node} no score; plugins that did: {known}")
        return scores[plugin]

    def _of(self, node: str) -> NodeVerdict:
        if node not in self.nodes:
            known = ", ".join(self.nodes) or "none"
            raise KeyError(f"there is no node {node}; there are: {known}")
        return self.nodes[node]


def make_verdict(decision: Decision, judged: Decision, profile: Profile) -> Verdict:
    """From what was decided and, if some node fits, what every node says (`cycle.judge`)."""
    scores = _scores(judged, profile)
    nodes: dict[str, NodeVerdict] = {}
    table, diagnosis = decision.cycle.table, judged.diagnosis
    for row in table.order.tolist():
        name = table.names[row]
        nodes[name] = _node_verdict(name, row, diagnosis, scores)
    eviction = decision.eviction
    return Verdict(
        pod=decision.pod.key,
        node=decision.node or "",
        message=decision.message,
        status=decision.status,
        nodes=nodes,
        rejected_by=frozenset(decision.unschedulable_plugins | decision.pending_plugins),
        victims=tuple(victim.key for victim in eviction.victims) if eviction is not None else (),
        nominated_node=decision.nominated_node or "",
    )


def _node_verdict(
    name: str,
    row: int,
    diagnosis: Diagnosis | None,
    scores: Mapping[str, tuple[dict[str, int], int]],
) -> NodeVerdict:
    if name in scores:
        by_plugin, total = scores[name]
        return NodeVerdict(name, True, scores=by_plugin, total=total)
    if diagnosis is None:
        return NodeVerdict(name, False)
    if diagnosis.pre_filter_message:
        return NodeVerdict(name, False, (diagnosis.pre_filter_message,))
    status = diagnosis.status_of(row)
    return NodeVerdict(
        name,
        status.is_success,
        tuple(status.reasons),
        status.plugin,
        is_resolvable=status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    )


def _scores(judged: Decision, profile: Profile) -> dict[str, tuple[dict[str, int], int]]:
    sheet = judged.scores
    if sheet is None:
        return {}
    weights = {step.name: step.weight for step in profile.scores}
    return {
        each.node: (
            {name: score // weights[name] for name, score in each.by_plugin.items()},
            each.total,
        )
        for each in sheet.top(len(sheet.rows))
    }


@dataclass(frozen=True)
class Waiting:
    """A pod that waits."""

    pod: str
    #: "active", "backoff", "error-backoff", "unschedulable", "gated", "in-flight" or "permit".
    where: str
    #: Plugins that rejected, gate or hold it.
    plugins: tuple[str, ...] = ()
    #: What its PodScheduled condition says.
    message: str = ""
    attempts: int = 0
    #: Labels of the events that may bring it back.
    wakes_on: tuple[str, ...] = ()
    #: When its backoff or Permit's patience ends, by the cluster's clock; None: never by itself.
    until: float | None = None


def waiting_pods(
    pending: PendingPods,
    messages: Mapping[str, str],
    wakes_on: Mapping[str, Iterable[str]],
) -> list[Waiting]:
    """Everybody in the queue; `wakes_on` has the labels of events by plugin."""
    places: list[tuple[str, list[QueuedPod]]] = [
        ("active", pending.active),
        ("backoff", pending.backoff),
        ("error-backoff", pending.error_backoff),
        ("unschedulable", pending.unschedulable),
        ("gated", pending.gated),
        ("in-flight", pending.in_flight),
    ]
    found: list[Waiting] = []
    for where, queue in places:
        for queued in queue:
            plugins = sorted(queued.rejectors | {queued.gating_plugin} - {""})
            labels = {label for plugin in plugins for label in wakes_on.get(plugin, ())}
            found.append(
                Waiting(
                    pod=_short(queued.pod),
                    where=where,
                    plugins=tuple(plugins),
                    message=queued.gating_message or messages.get(queued.key, ""),
                    attempts=queued.attempts,
                    wakes_on=tuple(sorted(labels)),
                    until=queued.backoff_expiration if "backoff" in where else None,
                )
            )
    return found


def event_labels(event: ClusterEvent) -> list[str]:
    """A registered event as what may happen: `NodeAdd`, `NodeUpdateNodeLabel`, ..."""
    if event.action == ActionType.ALL:
        return [f"{event.resource}*"]
    return [ClusterEvent(event.resource, each).label for each in ActionType if each & event.action]


def _short(pod: Pod) -> str:
    """A pod's name, with its namespace unless that is the usual one."""
    return pod.metadata.name if pod.metadata.namespace == "default" else pod.key
