"""The plugin: Filter by what is left of every resource, Score by the configured strategy.

A verdict id is a set of bits: which resources are short, and whether the node could never offer
enough (then evicting pods does not help). The id becomes reasons only when somebody reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np

from stowplan.api.objects import Node, Pod
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
from stowplan.cluster.table import Int32Array, Int64Array, NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import NodeResourcesFitArgs
from stowplan.framework.amounts import Amounts
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Need, Plugin, Reads
from stowplan.framework.status import Status, unresolvable, unschedulable
from stowplan.plugins.node_resources_fit.strategies import STRATEGIES, Strategy, WeightedAverage
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint

_TOO_MANY_PODS = "Too many pods"
# Verdict bits: 0 the pod count, 1 "never fits", then one for each requested resource in order.
_POD_COUNT_BIT = 1
_NEVER_BIT = 2
_FIRST_RESOURCE_BIT = 4
#: int32 has room for this many; further resources (nobody asks for so many) share the last bit.
_RESOURCE_BITS = 28
#: Of so many different requests it is remembered which bits stand for what.
_KNOWN_WANTS = 512
_Wanted: TypeAlias = list[tuple[int, tuple[str, int]]]


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    Args = NodeResourcesFitArgs
    reads = Reads.PODS
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
        self._kept: Amounts | None = None
        self._known_wants: dict[Request, _Wanted] = {}
        #: What the last two nodes offer that hints were asked about: each waiting pod asks anew.
        self._offers: deque[tuple[Node, dict[str, int]]] = deque(maxlen=2)

    # Filter

    def sign(self, info: PodInfo) -> Hashable:
        return (info.request, info.score_request)

    def pre_filter(self, cycle: Cycle) -> None:
        """Upstream computes the pod's request here; ours is compiled with the pod."""

    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table = cycle.table
        pod_count = table.pod_count[rows]
        places = overlay.places(rows) if overlay is not None else None
        if overlay is not None:
            pod_count = pod_count + overlay.pod_count[places]
        verdict = (pod_count >= table.allowed_pods[rows]).astype(np.int32)
        for bit, (name, amount) in self._wanted(cycle.info):
            index = table.resource_row(name)
            allocatable = table.allocatable[index][rows]
            free = allocatable - table.requested[index][rows]
            if overlay is not None:
                free -= overlay.requested_of(index)[places]
            if free.min(initial=amount) < amount:
                short = free < amount
                verdict |= short * np.int32(bit)
                verdict |= (short & (allocatable < amount)) * np.int32(_NEVER_BIT)
        out[rows] = verdict

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        reasons = [_TOO_MANY_PODS] if node.pod_count + 1 > node.allowed_pods else []
        never = False
        for _, (name, amount) in self._wanted(cycle.info):
            if amount > node.free(name):
                reasons.append(f"Insufficient {name}")
                never |= amount > node.allocatable(name)
        if not reasons:
            return None
        return unresolvable(*reasons) if never else unschedulable(*reasons)

    def verdict(self, cycle: Cycle, verdict_id: int) -> Status:
        reasons = [_TOO_MANY_PODS] if verdict_id & _POD_COUNT_BIT else []
        reasons += [
            f"Insufficient {name}"
            for bit, (name, _) in self._wanted(cycle.info)
            if verdict_id & bit
        ]
        never = verdict_id & _NEVER_BIT
        return unresolvable(*reasons) if never else unschedulable(*reasons)

    def _wanted(self, info: PodInfo) -> _Wanted:
        """What must fit, each with its verdict bit."""
        wanted = self._known_wants.get(info.request)
        if wanted is None:
            if len(self._known_wants) >= _KNOWN_WANTS:
                self._known_wants.clear()
            last = _RESOURCE_BITS - 1
            items = [item for item in info.request if item[1] > 0 and not self._is_ignored(item[0])]
            wanted = self._known_wants[info.request] = [
                (_FIRST_RESOURCE_BIT << min(place, last), item) for place, item in enumerate(items)
            ]
        return wanted

    def _is_ignored(self, name: str) -> bool:
        if not (self._ignored or self._ignored_groups) or not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    # Score

    def pre_score(self, cycle: Cycle, rows: object) -> None:
        """Never skips."""

    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table, strategy = cycle.table, self._strategy
        amounts = dict(cycle.info.score_request)
        wanted = [amounts.get(resource.name, 0) for resource in strategy.resources]
        # A scalar resource that the pod does not ask for says nothing about the node.
        takes_part = [
            amount != 0 or resource.name in (CPU, MEMORY, EPHEMERAL_STORAGE)
            for resource, amount in zip(strategy.resources, wanted, strict=True)
        ]
        # By name first: a name that is new widens the table.
        indices = [table.resource_row(resource.name) for resource in strategy.resources]
        if isinstance(strategy, WeightedAverage) and isinstance(rows, slice) and all(takes_part):
            kept = self._amounts(table, indices)
            if kept.is_plain:
                strategy.score_amounts(kept, wanted, rows, out)
                return
        allocatable: list[Int64Array] = []
        requested: list[Int64Array] = []
        for index, amount, counts in zip(indices, wanted, takes_part, strict=True):
            held = table.non_zero[index] if index < 2 else table.requested[index]
            offered = table.allocatable[index][rows]
            allocatable.append(offered if counts else np.zeros_like(offered))
            requested.append(held[rows] + amount)
        out[rows] = strategy.score_columns(requested, allocatable)

    def _amounts(self, table: NodeTable, indices: list[int]) -> Amounts:
        kept = self._kept
        if kept is None or kept.indices != indices or kept.follow(table) is None:
            kept = self._kept = Amounts(table, indices, as_scored=True)
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
            pairs.append((held + amount, node.allocatable(name)))
        return self._strategy.score(pairs)

    # Coming back

    def events(self) -> Sequence[EventHint]:
        pod = ClusterEvent("Pod", ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        return (EventHint(pod, _room_was_made), EventHint(node, self._node_may_fit))

    def _node_may_fit(self, pod: Pod, old: object, new: object) -> Hint:
        """An empty node of this size would take the pod, and it is new or grew where it matters.

        DIVERGES: ignored resources are ignored here too. Upstream's hint forgets them, and leaves a
        pod that would fit waiting until the next sweep.
        """
        if not isinstance(new, Node):
            return Hint.QUEUE
        wanted = [item for _, item in self._wanted(compile_pod(pod))]
        offers = self._offers_of(new)
        if offers.get(PODS, 0) < 1 or any(offers.get(name, 0) < amount for name, amount in wanted):
            return Hint.SKIP
        if not isinstance(old, Node):
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
