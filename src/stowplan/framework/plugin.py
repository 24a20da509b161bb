"""The plugin contract.

A plugin is a class with a `name` and only the extension points it needs; which points those are
is read off its methods. Two forms exist for Filter and Score, and a plugin may have either or both:

  per node    filter(pod, node) and score(pod, node), optionally with the cycle as third argument:
              all that a ten-line plugin needs
  columns     filter_columns(cycle, rows, out, overlay) and score_columns(cycle, rows, out): write
              out[rows] for many nodes at once

A plugin that has both must give the same answer in both; the per-node form then serves what-if
questions and explanations. `rows` is the same everywhere: a read-only array (numpy.intp) of rows
of nodes in `cycle.table`, each once, at least one, in any order. `out` has an element for every
slot of the table; a plugin writes those at `rows` and no others. The points, in running order:

  pre_enqueue(pod) -> Status | None
  less(a, b) or sort_key(queued) -> tuple          QueueSort: exactly one plugin has it
  pre_filter(cycle) -> PreFilterResult | Status | None
  filter / filter_columns
  post_filter(cycle, diagnosis) -> PostFilterResult | Status
  pre_score(cycle, rows) -> Status | None
  score / score_columns, then normalize(cycle, scores) -> array
  reserve(cycle, pod, node_name) -> Status | None, undone by unreserve(cycle, pod, node_name)
  permit(cycle, pod, node_name) -> Status | (Status, timeout_s) | None
  pre_bind_pre_flight(cycle, pod, node_name) -> SKIP if its pre_bind has nothing to do, or None
  pre_bind(cycle, pod, node_name), bind(cycle, pod, node_name) -> Status | None   (may be async)
  post_bind(cycle, pod, node_name) -> None                                        (may be async)

Nothing here may do I/O except the three binding points. A plugin that raises fails the attempt of
its pod, with its name in the message.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.resources import Resource
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.status import Code, Status
from stowplan.queue.events import EventHint

#: The extension points by their configuration names, and the methods that make a plugin have them.
POINTS: dict[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("sort_key", "less"),
    "preFilter": ("pre_filter",),
    "filter": ("filter_columns", "filter"),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score_columns", "score"),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
}


class Reads(Enum):
    """What a plugin's columns depend on besides the pod's signature; says when they go stale."""

    #: The node alone: labels, annotations, taints, allocatable, ...
    NODE = "node"
    #: The node, which pods stand on it, and of each pod its namespace, labels, spec, whether it is
    #: terminating, and the resources it holds. Not its annotations, and nothing else of its status.
    POD_SPECS = "pod specs"
    #: The node and every field of the pods that stand on it, annotations and status included.
    PODS = "pods"
    #: Anything: columns are never cached.
    ANYTHING = "anything"


class _NotKept(Enum):
    NOT_KEPT = 0


#: Surroundings that no other pod is likely to meet.
NOT_KEPT: Final = _NotKept.NOT_KEPT


class Need(NamedTuple):
    """`point` ("filter" or "score") fails with upstream's words where `prepared_by` is disabled."""

    point: str
    prepared_by: str
    failure: str


class Plugin:
    """Base class of plugins. Override what is needed; everything has a safe default."""

    #: Name in configuration, messages and metrics.
    name: ClassVar[str] = ""
    #: Struct that types the plugin's `args`; None: the plugin takes none.
    Args: ClassVar[type[msgspec.Struct] | None] = None
    #: What cached columns depend on. `Reads.PODS` is safe for every plugin that looks at pods on
    #: the node. `Reads.POD_SPECS` is cheaper: a status write by a kubelet invalidates no row.
    reads: ClassVar[Reads] = Reads.ANYTHING
    #: The same for Score, where it differs.
    score_reads: ClassVar[Reads | None] = None
    #: Kinds besides nodes and pods that it finds in `handle.catalog`: only those are watched.
    looks_up: ClassVar[tuple[Resource[Any], ...]] = ()
    #: Kinds that it patches at its binding points: the scheduler must be allowed to.
    patches: ClassVar[tuple[Resource[Any], ...]] = ()
    #: Kinds of objects that are deleted by its decision.
    deletes: ClassVar[tuple[Resource[Any], ...]] = ()
    #: Whether `bind` may be called again with the same arguments. After an unclear answer it then
    #: is, until the answer is definite; otherwise the pod is looked up, which is less safe.
    bind_is_idempotent: ClassVar[bool] = False
    #: Whether `filter_columns` understands an Overlay; if not, what-if rows use the per-node form.
    overlays: ClassVar[bool] = False
    #: What the verdict ids 1, 2, ... of `filter_columns` mean.
    verdicts: ClassVar[tuple[Status, ...]] = ()
    #: Points that fail in a profile that disables what prepares them; others do without.
    needs: ClassVar[tuple[Need, ...]] = ()

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        self.args = args
        self.handle = handle

    def sign(self, info: PodInfo) -> Hashable | None:
        """What this plugin reads of the pod: equal signatures give equal columns.

        `normalize` too may then depend on nothing else but the scores. None: columns are not kept.
        """
        return None

    def surroundings(self, cycle: Cycle) -> Hashable:
        """What of the cluster, besides a row itself, the columns depend on.

        Kept columns serve only pods that meet the same. NOT_KEPT: no others will.
        """
        return None

    def events(self) -> Sequence[EventHint] | None:
        """Cluster events that may make a pod schedulable that this plugin rejected.

        None means any event.
        """
        return None

    def verdict(self, cycle: Cycle, verdict_id: int) -> Status:
        """What a non-zero entry of the filter column says."""
        return self.verdicts[verdict_id - 1]

    def what_if(self, cycle: Cycle, other: PodInfo, row: int, delta: int) -> None:
        """Update notes for an added (+1) or removed (-1) pod: upstream's AddPod and RemovePod."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """From PreFilter: the only nodes worth looking at. None: all of them."""

    nodes: frozenset[str] | None = None


class Rejections(Protocol):
    """PostFilter's input: the reasons why no node is feasible for the pod."""

    @property
    def total_nodes(self) -> int: ...

    def status_of(self, row: int) -> Status: ...

    def rows_of(self, code: Code) -> Rows:
        """Rows that answered with this code, in the order of nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Eviction:
    """Pods that must leave a node, the most important first."""

    node: str
    victims: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """From PostFilter: what became of the pod that fits nowhere.

    `nominated_node` None leaves the pod's nomination alone, "" clears it. `eviction` is carried
    out after the attempt.
    """

    status: Status
    nominated_node: str | None = None
    eviction: Eviction | None = None


def points_of(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points that a plugin class implements."""
    return frozenset(
        point
        for point, methods in POINTS.items()
        if any(callable(getattr(plugin, method, None)) for method in methods)
    )
