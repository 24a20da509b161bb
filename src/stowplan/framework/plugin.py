"""The plugin contract.

A plugin is a class with a `name` and only the extension points it needs. `Plugin` declares all of
them, in the order in which they run; a class has those that it defines. Two forms exist for Filter
and Score, and a plugin may have either or both:

  per node    filter(pod, node) and score(pod, node), optionally with the cycle as third argument:
              all that a ten-line plugin needs
  columns     filter_columns(cycle, rows, out, overlay) and score_columns(cycle, rows, out): write
              out[rows] for many nodes at once

A plugin that has both must give the same answer in both; the per-node form then serves what-if
questions and explanations. `rows` is the same everywhere: a read-only array (numpy.intp) of rows
of nodes in `cycle.table`, each once, at least one, in any order. `out` has an element for every
slot of the table; a plugin writes those at `rows` and no others.

Nothing here may do I/O except the three binding points. A plugin that raises fails the attempt of
its pod, with its name, file and line in the message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.resources import Resource
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.status import Code, Status
from stowplan.queue.events import EventHint
from stowplan.queue.pod import QueuedPod

#: What `filter` returns: True or None if the pod fits; False, a reason or a Status if it does not.
FilterAnswer: TypeAlias = "bool | str | Status | None"
#: Sends requests to the API server.
Effect: TypeAlias = Callable[[], Awaitable[None]]
#: What the binding points return; they may be async.
BindAnswer: TypeAlias = "Status | Awaitable[Status | None] | None"

_Method = TypeVar("_Method", bound=Callable[..., Any])

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


class _ExtensionPoint:
    """A declared method: documented on `Plugin`, absent from subclasses that do not define it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner

    def __get__(self, plugin: object, owner: type) -> Callable[..., Any]:
        if plugin is None and owner is self._owner:
            return self._method
        raise AttributeError(f"{owner.__name__} has no {self._method.__name__}")


def _extension_point(method: _Method) -> _Method:
    return cast("_Method", _ExtensionPoint(method))


class Plugin:
    """Base class of plugins. Define the extension points you need; the rest has safe defaults."""

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
    #: Whether `pre_bind` usually takes milliseconds: the pod's node is then published only if it
    #: takes longer; otherwise before, for observers such as an autoscaler.
    pre_bind_is_quick: ClassVar[bool] = False
    #: Whether `filter_columns` understands an Overlay; if not, what-if rows use the per-node form.
    overlays: ClassVar[bool] = False
    #: Whether `filter` costs so much that it is asked node by node, and only until enough nodes are
    #: found; for the last Filter plugin of a profile.
    is_costly: ClassVar[bool] = False
    #: Whether `normalize` leaves scores that are all 0 as they are.
    keeps_zeros: ClassVar[bool] = False
    #: What the verdict ids 1, 2, ... of `filter_columns` mean.
    verdicts: ClassVar[tuple[Status, ...]] = ()
    #: Points that fail in a profile that disables what prepares them; others do without.
    needs: ClassVar[tuple[Need, ...]] = ()

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        """Keep both as attributes; the scheduler makes one instance per profile."""
        self.args = args
        self.handle: Handle = handle or Handle()

    # Extension points, in the order in which they run. The scheduler passes all arguments by
    # position. Wherever a Status is returned, None means success.

    @_extension_point
    def pre_enqueue(self, pod: Pod, /) -> Status | None:
        """Return a Status to keep a pod out of the queue until an event of `events` arrives."""

    @_extension_point
    def sort_key(self, queued: QueuedPod, /) -> tuple[Any, ...]:
        """Return the pod's place in the queue: the smallest key is tried first.

        Exactly one plugin of a configuration has `sort_key` or `less`, the same in all profiles.
        """
        raise NotImplementedError

    @_extension_point
    def less(self, a: QueuedPod, b: QueuedPod, /) -> bool:
        """Return True if pod `a` is tried before pod `b`; `sort_key` is faster."""
        raise NotImplementedError

    @_extension_point
    def pre_filter(self, cycle: Cycle, /) -> PreFilterResult | Status | None:
        """Prepare for Filter, once per attempt.

        SKIP: this plugin does not filter the pod. PreFilterResult: only the nodes it names are
        considered. Any other Status that is not a success rejects the pod on all nodes.
        """

    @_extension_point
    def filter(self, pod: Pod, node: NodeView, /, *cycle: Any, **_: Any) -> FilterAnswer:
        """Say whether the pod fits on a node, which may be hypothetical.

        Define `filter(self, pod, node)` or `filter(self, pod, node, cycle)`.
        """

    @_extension_point
    def filter_columns(
        self, cycle: Cycle, rows: Rows, out: Int32Array, overlay: Overlay | None, /
    ) -> None:
        """Write a verdict id to `out[row]` for each of `rows`: 0 fits, n is `verdicts[n - 1]`.

        `out` has one entry for each slot of the table; write to `out[rows]` and nowhere else.
        `overlay` is None unless the class sets `overlays`.
        """

    @_extension_point
    def post_filter(self, cycle: Cycle, diagnosis: Rejections, /) -> PostFilterResult | Status:
        """Make room, or give up, for a pod that fits on no node."""
        raise NotImplementedError

    @_extension_point
    def pre_score(self, cycle: Cycle, rows: Rows, /) -> Status | None:
        """Prepare for Score, once per attempt; `rows` are those of the feasible nodes.

        SKIP: this plugin does not score the pod.
        """

    @_extension_point
    def score(self, pod: Pod, node: NodeView, /, *cycle: Any, **_: Any) -> int:
        """Return how well a feasible node suits the pod: 0 to 100, or any integer to `normalize`.

        Define `score(self, pod, node)` or `score(self, pod, node, cycle)`.
        """
        raise NotImplementedError

    @_extension_point
    def score_columns(self, cycle: Cycle, rows: Rows, out: Int64Array, /) -> None:
        """Write a score to `out[row]` for each of `rows`.

        `out` has one entry for each slot of the table; write to `out[rows]` and nowhere else.
        """

    @_extension_point
    def normalize(self, cycle: Cycle, scores: Int64Array, /) -> Int64Array:
        """Return the scores of all feasible nodes, in the same order, scaled to 0..100."""
        raise NotImplementedError

    @_extension_point
    def reserve(self, cycle: Cycle, pod: Pod, node_name: str, /) -> Status | None:
        """Take what the pod needs on the chosen node, before it is bound."""

    @_extension_point
    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str, /) -> None:
        """Undo `reserve`: the pod will not be bound. Runs even if `reserve` did not."""

    @_extension_point
    def permit(
        self, cycle: Cycle, pod: Pod, node_name: str, /
    ) -> Status | tuple[Status, float] | None:
        """Allow or reject the binding, or delay it: `(wait(), timeout in seconds)`.

        A waiting pod is in `handle.waiting` until a plugin allows or rejects it.
        """

    @_extension_point
    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str, /) -> Status | None:
        """Return SKIP if `pre_bind` has nothing to do for the pod."""

    @_extension_point
    def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, /) -> BindAnswer:
        """Prepare the node or the cluster for the pod, such as its volumes; may be async."""

    @_extension_point
    def bind(self, cycle: Cycle, pod: Pod, node_name: str, /) -> BindAnswer:
        """Bind the pod to its node; SKIP leaves it to the next Bind plugin; may be async."""

    @_extension_point
    def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, /) -> Awaitable[None] | None:
        """React to a pod that has been bound; may be async."""

    # What the scheduler asks besides, with defaults.

    def sign(self, info: PodInfo) -> Hashable | None:
        """Return all that this plugin reads of the pod: equal signatures give equal columns.

        `normalize` too may then depend on nothing else but the scores. None: columns are not
        cached.
        """
        return None

    def surroundings(self, cycle: Cycle) -> Hashable:
        """Return what of the cluster, besides a row itself, the columns depend on.

        Cached columns serve only pods that meet the same. NOT_KEPT: no others will.
        """
        return None

    def events(self) -> Sequence[EventHint] | None:
        """Return the cluster events that may make a pod schedulable that this plugin rejected.

        None means any event.
        """
        return None

    def verdict(self, cycle: Cycle, verdict_id: int) -> Status:
        """Return what a non-zero entry of the filter column says; by default, from `verdicts`."""
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
    out after the attempt, and so is `effect`: requests to the API server that make room otherwise.
    """

    status: Status
    nominated_node: str | None = None
    eviction: Eviction | None = None
    effect: Effect | None = None


def points_of(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points that a plugin class implements."""
    return frozenset(
        point
        for point, methods in POINTS.items()
        if any(callable(getattr(plugin, method, None)) for method in methods)
    )
