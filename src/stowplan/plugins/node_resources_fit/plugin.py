"""The plugin: Filter by what is left of every resource, Score by the configured strategy.

A verdict id is a set of bits: which resources are short, and whether the node could never offer
enough (then evicting pods does not help). The id becomes reasons only when it is read. Pods that
name more resources than an id has bits get numbered verdicts (`verdicts`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.api.device_objects import DeviceClass
from stowplan.api.objects import Node, Pod
from stowplan.cluster.extended_resources import (
    CLASS_PREFIX,
    DeviceClassByResource,
    can_be_devices,
)
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo, Request, compile_pod
from stowplan.cluster.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    canonical,
    is_extended,
    parse_amounts,
    whole_units,
)
from stowplan.cluster.table import BoolArray, Int32Array, Int64Array, NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import NodeResourcesFitArgs
from stowplan.framework.amounts import Amounts, held_column
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.integers import add_saturating
from stowplan.framework.plugin import Need, Plugin, Reads
from stowplan.framework.status import Status, unresolvable, unschedulable
from stowplan.plugins.node_resources_fit.strategies import STRATEGIES, Strategy, WeightedAverage
from stowplan.plugins.node_resources_fit.verdicts import NumberedVerdicts
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint

_TOO_MANY_PODS = "Too many pods"
# Verdict bits: 0 the pod count, 1 "never fits", then one for each requested resource in order.
_POD_COUNT_BIT = 1
_NEVER_BIT = 2
_FIRST_RESOURCE_BIT = 4
#: int32 has room for this many. Verdicts on pods that name more are numbered instead.
_RESOURCE_BITS = 28
#: Of so many different requests it is remembered what must fit.
_KNOWN_WANTS = 512


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    Args = NodeResourcesFitArgs
    reads = Reads.POD_SPECS
    overlays = True
    needs = (
        Need(
            "filter",
            "preFilter",
            'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
        ),
    )

    def __init__(
        self, args: NodeResourcesFitArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args, handle)
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        chosen = args.scoring_strategy
        ratio = chosen.requested_to_capacity_ratio
        shape = ratio.shape if ratio is not None else ()
        self._strategy: Strategy = STRATEGIES[chosen.type](chosen.resources, shape)
        #: Of each scored resource, whether it counts even if the pod asks for none of it.
        self._always = [
            resource.name in (CPU, MEMORY, EPHEMERAL_STORAGE) for resource in chosen.resources
        ]
        self._maybe_devices = tuple(
            resource.name for resource in chosen.resources if can_be_devices(resource.name)
        )
        self._kept: Amounts | None = None
        self._known_wants: dict[Request, Request] = {}
        #: DIVERGES: where no profile has DynamicResources, no classes are known, and resources that
        #: devices stand for are missing on the node. Upstream would start pods without devices.
        self._classes = self.handle.catalog.shared(DeviceClassByResource)
        #: Capacity of the last two nodes of hints; a hint runs once per waiting pod.
        self._offers: deque[tuple[Node, dict[str, int]]] = deque(maxlen=2)

    # Filter

    def sign(self, info: PodInfo) -> Hashable | None:
        """The numbers of verdicts hold for one attempt only, and long requests make long keys.

        Scores by devices depend on claims and slices, too.
        """
        if len(info.request) > _RESOURCE_BITS:
            return None
        if not self._classes.by_resource:
            return (info.request, info.score_request)
        if self._is_scored_by_devices(info):
            return None
        return (info.request, info.score_request, *self._classes.among(info.request))

    def pre_filter(self, cycle: Cycle) -> None:
        """Upstream computes the pod's request here; ours is compiled with the pod."""

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, wanted = cycle.table, self._wanted(cycle.info)
        places = overlay.places(rows) if overlay is not None else None
        pod_count = table.pod_count[rows]
        if overlay is not None:
            pod_count = pod_count + overlay.pod_count[places]
        is_full = pod_count >= table.allowed_pods[rows]
        if len(cycle.info.request) > _RESOURCE_BITS:
            out[rows] = self._numbered(cycle, wanted, rows, overlay, places, is_full)
            return
        verdict = is_full.astype(np.int32)
        if overlay is None and not isinstance(rows, slice) and _have_room(table, wanted, rows):
            out[rows] = verdict
            return
        everywhere = 0
        devices = self._classes.among(wanted) if self._classes.by_resource else ()
        for place, (name, amount) in enumerate(wanted):
            bit = _FIRST_RESOURCE_BIT << place
            if not table.resources.is_offered(name):
                if name not in devices:
                    everywhere |= bit | _NEVER_BIT
                continue
            lacking = _lacking(table, name, amount, rows, overlay, places, name in devices)
            if lacking is not None:
                short, never = lacking
                verdict |= short * np.int32(bit)
                verdict |= never * np.int32(_NEVER_BIT)
        if everywhere:
            verdict |= everywhere
        out[rows] = verdict

    def _numbered(
        self,
        cycle: Cycle,
        wanted: Request,
        rows: RowSet,
        overlay: Overlay | None,
        places: Rows | None,
        is_full: BoolArray,
    ) -> Int32Array:
        """The verdicts on a pod with a long request: no pass over the rows for what no node offers,
        no list of all reasons for each kind of row."""
        table = cycle.table
        reasons, applies, missing = [_TOO_MANY_PODS], [is_full], []
        can_never = np.zeros_like(is_full)
        devices = frozenset(self._classes.among(wanted))
        for name, amount in wanted:
            if not table.resources.is_offered(name):
                if name not in devices:
                    missing.append(_insufficient(name))
                continue
            lacking = _lacking(table, name, amount, rows, overlay, places, name in devices)
            if lacking is not None:
                reasons.append(_insufficient(name))
                applies.append(lacking[0])
                can_never |= lacking[1]
        if missing:
            can_never[:] = True
        return NumberedVerdicts.of(cycle).ids(reasons, applies, can_never, tuple(missing))

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        reasons = [_TOO_MANY_PODS] if node.pod_count + 1 > node.allowed_pods else []
        short: list[str] = []
        never = False
        for name, amount in self._wanted(cycle.info):
            offered = node.allocatable(name)
            if not offered and name in self._classes.by_resource:
                continue
            if amount > offered:
                never = True
                short.append(name)
            elif amount > offered - node.requested(name):
                short.append(name)
        if short and len(cycle.info.request) > _RESOURCE_BITS:
            # In the order of the columns: what no node offers comes last.
            is_offered = cycle.table.resources.is_offered
            short.sort(key=lambda name: not is_offered(name))
        reasons += map(_insufficient, short)
        if not reasons:
            return None
        return unresolvable(*reasons) if never else unschedulable(*reasons)

    def verdict(self, cycle: Cycle, verdict_id: int) -> Status:
        if len(cycle.info.request) > _RESOURCE_BITS:
            return NumberedVerdicts.of(cycle).status(verdict_id)
        reasons = [_TOO_MANY_PODS] if verdict_id & _POD_COUNT_BIT else []
        reasons += [
            _insufficient(name)
            for place, (name, _) in enumerate(self._wanted(cycle.info))
            if verdict_id & (_FIRST_RESOURCE_BIT << place)
        ]
        never = verdict_id & _NEVER_BIT
        return unresolvable(*reasons) if never else unschedulable(*reasons)

    def _wanted(self, info: PodInfo) -> Request:
        """What must fit."""
        wanted = self._known_wants.get(info.request)
        if wanted is None:
            wanted = tuple(
                item for item in info.request if item[1] > 0 and not self._is_ignored(item[0])
            )
            if len(info.request) <= _RESOURCE_BITS:
                if len(self._known_wants) >= _KNOWN_WANTS:
                    self._known_wants.clear()
                self._known_wants[info.request] = wanted
        return wanted

    def _is_ignored(self, name: str) -> bool:
        if not (self._ignored or self._ignored_groups) or not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    # Score

    def pre_score(self, cycle: Cycle, rows: object) -> None:
        """Never skips."""

    def _is_scored_by_devices(self, info: PodInfo) -> bool:
        if not self._maybe_devices:
            return False
        asked = self._classes.among(info.score_request)
        return any(name in asked for name in self._maybe_devices)

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table, strategy = cycle.table, self._strategy
        amounts = dict(cycle.info.score_request)
        wanted = [amounts.get(resource.name, 0) for resource in strategy.resources]
        # A scalar resource that the pod does not ask for says nothing about the node.
        takes_part = [
            amount != 0 or always for amount, always in zip(wanted, self._always, strict=True)
        ]
        if isinstance(strategy, WeightedAverage) and all(takes_part):
            kept = self._amounts(table)
            if kept.is_plain:
                strategy.score_amounts(kept, wanted, rows, out)
                return
        allocatable: list[Int64Array] = []
        requested: list[Int64Array] = []
        for resource, amount, counts in zip(strategy.resources, wanted, takes_part, strict=True):
            held = held_column(table, resource.name, as_scored=True)[rows]
            offered = table.resources.offered(resource.name)[rows]
            if counts and resource.name in self._classes.by_resource:
                totals = self._classes.totals(table, resource.name)
                if totals is not None:
                    offered, held = totals.in_place_of(offered, held, rows)
            allocatable.append(offered if counts else np.zeros_like(offered))
            requested.append(add_saturating(held, amount))
        out[rows] = strategy.score_columns(requested, allocatable)

    def _amounts(self, table: NodeTable) -> Amounts:
        kept = self._kept
        if kept is None or not kept.has_same_nodes(table):
            names = [resource.name for resource in self._strategy.resources]
            kept = self._kept = Amounts(table, names, as_scored=True)
        return kept

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        wanted = dict(cycle.info.score_request)
        pairs: list[tuple[int, int]] = []
        for resource in self._strategy.resources:
            name, amount = resource.name, wanted.get(resource.name, 0)
            if name in (CPU, MEMORY):
                held = node.non_zero((CPU, MEMORY).index(name))
            elif amount == 0 and name != EPHEMERAL_STORAGE:
                pairs.append((0, 0))
                continue
            else:
                held = node.requested(name)
            offered = node.allocatable(name)
            if name in self._classes.by_resource:
                totals = self._classes.totals(cycle.table, name)
                if totals is not None:
                    offered, held = totals.of_row(cycle.table.row_of[node.name], offered, held)
            pairs.append((held + amount, offered))
        return self._strategy.score(pairs)

    # Coming back

    def events(self) -> Sequence[EventHint]:
        pod = ClusterEvent("Pod", ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        a_class = ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE)
        return (
            EventHint(pod, _room_was_made),
            EventHint(node, self._node_may_fit),
            EventHint(a_class, _devices_may_do),
        )

    def _node_may_fit(self, pod: Pod, old: object, new: object) -> Hint:
        """An empty node of this size would take the pod, and it is new or grew where it matters.

        DIVERGES: ignored resources are ignored here too. Upstream's hint forgets them, and leaves a
        pod that would fit waiting until the next sweep.
        """
        if not isinstance(new, Node):
            return Hint.QUEUE
        wanted = self._wanted(compile_pod(pod))
        offers = self._offers_of(new)
        devices = [name for name in self._classes.among(wanted) if not offers.get(name)]
        if offers.get(PODS, 0) < 1 or any(
            offers.get(name, 0) < amount for name, amount in wanted if name not in devices
        ):
            return Hint.SKIP
        if not isinstance(old, Node) or devices:
            return Hint.QUEUE
        before = self._offers_of(old)
        grew = any(offers.get(name, 0) > before.get(name, 0) for name in (*dict(wanted), PODS))
        return Hint.QUEUE if grew else Hint.SKIP

    def _offers_of(self, node: Node) -> dict[str, int]:
        for known, offers in self._offers:
            if known is node:
                return offers
        amounts = parse_amounts(node.status.allocatable)
        offers = {**canonical(amounts), PODS: whole_units(amounts.get(PODS, 0))}
        self._offers.append((node, offers))
        return offers


def _insufficient(name: str) -> str:
    return f"Insufficient {name}"


def _have_room(table: NodeTable, wanted: Request, rows: Rows) -> bool:
    """Whether all rows have enough left for a pod that asks for cpu and memory alone, as most do.

    False: look at each resource.
    """
    if tuple([name for name, _ in wanted]) != (CPU, MEMORY):
        return False
    free = table.allocatable[:2].take(rows, 1)
    free -= table.requested[:2].take(rows, 1)
    amounts = np.array([amount for _, amount in wanted], np.int64)[:, None]
    return not np.count_nonzero(free < amounts)


def _lacking(
    table: NodeTable,
    name: str,
    amount: int,
    rows: RowSet,
    overlay: Overlay | None,
    places: Rows | None,
    is_of_devices: bool,
) -> tuple[BoolArray, BoolArray] | None:
    """Which rows have too little left of a resource, and which of them could never have enough;
    None if none has.

    A resource that devices stand for is up to DynamicResources on rows that offer none of it.
    """
    if overlay is None:
        held = table.resources.held(name)[rows]
    else:
        assert places is not None
        held = overlay.held(name, rows, places)
    allocatable = table.resources.offered(name)[rows]
    short = allocatable - held < amount
    if not np.count_nonzero(short):
        return None
    if is_of_devices:
        short &= allocatable > 0
    return short, short & (allocatable < amount)


def _room_was_made(pod: Pod, old: object, new: object) -> Hint:
    if isinstance(old, Pod) and new is None:
        held_room = old.spec.node_name or old.status.nominated_node_name
        return Hint.QUEUE if held_room else Hint.SKIP
    if isinstance(old, Pod) and isinstance(new, Pod):
        if new.uid == pod.uid:
            return Hint.QUEUE
        if not new.spec.node_name:
            return Hint.SKIP
        wanted = {name for name, amount in compile_pod(pod).request if amount}
        before, after = dict(compile_pod(old).held), dict(compile_pod(new).held)
        shrank = any(after.get(name, 0) < before.get(name, 0) for name in wanted)
        return Hint.QUEUE if shrank else Hint.SKIP
    return Hint.QUEUE


def _devices_may_do(pod: Pod, old: object, new: object) -> Hint:
    """A class came whose devices stand for a resource that the pod asks for, or it does now."""
    if not isinstance(new, DeviceClass) or not (old is None or isinstance(old, DeviceClass)):
        return Hint.QUEUE
    wanted = dict(compile_pod(pod).request)
    name = new.spec.extended_resource_name
    if old is not None:
        if (old.spec.extended_resource_name or "") == (name or ""):
            return Hint.SKIP
    elif CLASS_PREFIX + new.metadata.name in wanted:
        return Hint.QUEUE
    return Hint.QUEUE if name is not None and name in wanted else Hint.SKIP
