"""StaticPlacement: a pod goes to the nodes that are labelled for it, and nowhere else.

PreFilter finds those nodes in an index and limits the search to them. A pod without a pinned node
stays pending, and its message contains the command that pins it. Filter gives the same verdict on a
single node, for nominated nodes and what-if questions. The plugin reads only labels and annotations
of nodes (`labels`), so a cordon or a taint matters only to other plugins of the profile, and a
running pod is never moved. The profile's scores choose between several nodes; without scores the
choice is random (`tieBreak: random`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stowplan.api.objects import Node, Pod
from stowplan.cluster.table import Int32Array, NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.fields import FieldError, invalid, raise_errors
from stowplan.config.plugin_args import PluginArgs
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import Status, unresolvable
from stowplan.logs import get_logger, kv
from stowplan.plugins.static_placement.labels import DEFAULT_PREFIX, PinLabels, name_problem
from stowplan.plugins.static_placement.pin_index import PinIndex, PodNames, is_pinned
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint, Topics

log = get_logger(__name__)

_NOT_PINNED = unresolvable("node(s) had no pin for the pod")


class StaticPlacementArgs(PluginArgs, frozen=True):
    #: What node labels begin with.
    prefix: str = DEFAULT_PREFIX
    #: The name in node labels; empty: the profile's.
    scheduler_name: str = ""
    #: Whether labels that name no namespace count.
    older_labels: bool = True

    def problems(self, path: str) -> Iterator[FieldError]:
        if problem := name_problem("x", self.prefix):
            yield invalid(f"{path}.prefix", self.prefix, problem)
        elif self.scheduler_name and (problem := name_problem(self.scheduler_name, self.prefix)):
            yield invalid(f"{path}.schedulerName", self.scheduler_name, problem)


class StaticPlacement(Plugin):
    name = "StaticPlacement"
    Args = StaticPlacementArgs
    overlays = True
    verdicts = (_NOT_PINNED,)

    def __init__(
        self, args: StaticPlacementArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or StaticPlacementArgs(), handle)
        profile = (handle or Handle()).profile
        name = self.args.scheduler_name or profile
        if problem := name_problem(name, self.args.prefix):
            path = f"pluginConfig[{self.name}].args.schedulerName"
            told = (
                f"{problem}; it is the profile's name, set another one here or rename the profile"
            )
            raise_errors([invalid(path, name, told)])
        self.labels = PinLabels(name, self.args.prefix)
        self._index = PinIndex(self.labels, older_labels=self.args.older_labels)
        #: The last event, since it is repeated for every pending pod, and the pods it pins.
        self._event: tuple[object, object] = (None, None)
        self._event_pods: tuple[PodNames, PodNames] = (frozenset(), frozenset())

    def pre_filter(self, cycle: Cycle) -> PreFilterResult | Status:
        pod, table = cycle.pod, cycle.table
        rows = self._find(pod, table)
        if not rows:
            command = self.labels.command(pod.metadata.namespace, pod.metadata.name)
            return unresolvable(f"the pod is pinned to no node, pin it with `{command}`")
        if any(rows.values()):
            older = [table.names[row] for row, is_older in rows.items() if is_older]
            cycle.write(self.name, frozenset(older))
        return PreFilterResult(frozenset(table.names[row] for row in rows))

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        out[rows] = 1
        for row in self._find(cycle.pod, cycle.table):
            out[row] = 0

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        pods = self._index.pods_on(node.node)
        return None if is_pinned(pods, pod.metadata.namespace, pod.metadata.name) else _NOT_PINNED

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Say so once a pod where only a label of the older form brought it here."""
        if node not in cycle.notes.get(self.name, ()):
            return
        namespace, name = pod.metadata.namespace, pod.metadata.name
        log.warning(
            "Node labels that name no namespace are deprecated",
            extra=kv(
                pod=pod.key,
                node=node,
                label=self.labels.old_label(name),
                use=self.labels.command(namespace, name, node),
            ),
        )

    def events(self) -> Sequence[EventHint]:
        # With taints, lest every change of one is taken for a change that helps.
        actions = (
            ActionType.ADD
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
            | ActionType.UPDATE_NODE_ANNOTATION
        )
        topics = Topics(_names, self._pinned_since)
        return (EventHint(ClusterEvent("Node", actions), self._was_pinned, topics),)

    def _find(self, pod: Pod, table: NodeTable) -> Mapping[int, bool]:
        return self._index.find(table, pod.metadata.namespace, pod.metadata.name)

    def _was_pinned(self, pod: Pod, old: object, new: object) -> Hint:
        """Whether a node that came or changed is pinned for the pod since then."""
        before, now = self._before_and_after(old, new)
        namespace, name = pod.metadata.namespace, pod.metadata.name
        gained = is_pinned(now, namespace, name) and not is_pinned(before, namespace, name)
        return Hint.QUEUE if gained else Hint.SKIP

    def _pinned_since(self, old: object, new: object) -> PodNames:
        before, now = self._before_and_after(old, new)
        return now - before

    def _before_and_after(self, old: object, new: object) -> tuple[PodNames, PodNames]:
        """The pods that a node was, and is, pinned for; read once for all pods that ask."""
        if old is not self._event[0] or new is not self._event[1]:
            self._event = (old, new)
            self._event_pods = (self._pods_on(old), self._pods_on(new))
        return self._event_pods

    def _pods_on(self, node: object) -> PodNames:
        return self._index.pods_on(node) if isinstance(node, Node) else frozenset()


def _names(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Both names by which a node can be pinned for a pod."""
    return (pod.metadata.namespace, pod.metadata.name), ("", pod.metadata.name)
