"""DynamicResources: a pod goes only where its claims have their devices, or can get them.

PreFilter looks the claims up, Filter searches for devices on each node (`plugins.dra`), Reserve
takes those of the chosen node, PreBind writes them into the claims and waits until they are
prepared. All refusals are unresolvable: evicting pods frees no devices. What is believed of claims
and devices is shared by all profiles (`DeviceFacts`). Pods without claims skip all of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, ClassVar, Final
from uuid import UUID

from stowplan.api.device_objects import DeviceRequest, ResourceClaim
from stowplan.api.objects import Pod
from stowplan.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from stowplan.api.selectors import CompiledNodeSelector, compile_node_selector
from stowplan.cluster.extended_resources import DeviceClassByResource
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.cluster.work import DecisionDeferred
from stowplan.config.plugin_args import DynamicResourcesArgs
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.integers import MAX_NODE_SCORE
from stowplan.framework.plugin import NOT_KEPT, Need, Plugin, PostFilterResult, Reads
from stowplan.framework.status import SKIP, Status, error, unresolvable, unschedulable
from stowplan.plugins.dra import binding_conditions as conditions
from stowplan.plugins.dra.claim_writes import deallocate
from stowplan.plugins.dra.class_totals import ClassTotals
from stowplan.plugins.dra.device_binding import DeviceBinding
from stowplan.plugins.dra.device_filter import VERDICTS, DeviceFilter
from stowplan.plugins.dra.extended_claims import EarlierClaims, PodExtended, delete_left_behind
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.hints import DeviceHints
from stowplan.plugins.dra.node_search import PodDevices
from stowplan.plugins.dra.pod_claims import ClaimProblem, claims_of, namespaced_name, problem_of
from stowplan.queue.events import EventHint

_NOTHING_TO_FREE = unschedulable("no new claims to deallocate")
_STILL = unschedulable("still not schedulable")
_DEALLOCATED = unschedulable("deallocation of ResourceClaim completed")
_DELETED = unschedulable("deletion of ResourceClaim completed")
#: Upstream's words when an earlier plugin's rejection kept PreFilter from running.
_NEVER_ASKED = error("not found")
#: Attempts that were interrupted and will go on; more than this many start again.
_PAUSED: Final = 16


class DynamicResources(Plugin):
    name = "DynamicResources"
    Args = DynamicResourcesArgs
    looks_up: ClassVar[tuple[Resource[Any], ...]] = (
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
        DEVICE_CLASSES,
    )
    patches = (RESOURCE_CLAIMS,)
    #: What a node offers depends on all claims and slices.
    reads = Reads.ANYTHING
    score_reads = Reads.NODE
    is_costly = True
    pre_bind_is_quick = True
    keeps_zeros = True
    #: Nominated pods and victims take no devices with them: every row is as the table has it.
    overlays = True
    verdicts = VERDICTS
    needs = (
        Need("filter", "preFilter", "not found"),
        Need("score", "preFilter", "not found"),
    )

    def __init__(
        self, args: DynamicResourcesArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args, handle)
        args = args or DynamicResourcesArgs()
        self._filter_timeout_s = float(args.filter_timeout)
        self._binding_timeout_s = float(args.binding_timeout)
        self._facts = self.handle.catalog.shared(DeviceFacts)
        self._hints = DeviceHints(self._facts)
        self._binding = DeviceBinding(self.handle, self._facts, self._binding_timeout_s)
        self._filter = DeviceFilter(self.name, self.handle, self._facts, self._filter_timeout_s)
        self._classes = self.handle.catalog.shared(DeviceClassByResource)
        self._classes.count = ClassTotals(self.handle.catalog, self._facts).of
        self._earlier = self.handle.catalog.shared(EarlierClaims)
        self._paused: dict[str, PodDevices] = {}

    def sign(self, info: PodInfo) -> Hashable | None:
        """Nothing; a pod's claims are part of its `surroundings`."""
        return ()

    def surroundings(self, cycle: Cycle) -> Hashable:
        """Scores are all 0, unless a claim has alternatives. Then they serve no other pod."""
        devices = cycle.get(PodDevices)
        return NOT_KEPT if devices is not None and devices.has_alternatives else None

    # Before Filter

    def pre_enqueue(self, pod: Pod) -> Status | None:
        problem = problem_of(pod, self._facts)
        return unresolvable(problem) if problem else None

    def pre_filter(self, cycle: Cycle) -> Status | None:
        cycle.write(self.name, True)
        has_claims = bool(cycle.pod.spec.resource_claims)
        if not has_claims and not (
            self._classes.by_resource and self._classes.among(cycle.info.request)
        ):
            return SKIP
        try:
            claims = claims_of(cycle.pod, self._facts) if has_claims else []
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        extended = PodExtended.of(cycle.info, self._earlier, self._classes, self._new_uid)
        if not claims and extended is None:
            return SKIP
        for claim in claims:
            refusal = self._cannot_allocate(claim)
            if refusal is not None:
                return refusal
        devices = self._paused.pop(cycle.pod.uid, None)
        if devices is None or not devices.is_same(self._facts, claims, extended):
            try:
                devices = self._looked_up(claims, extended)
            except ValueError as unreadable:
                return error(str(unreadable))
        cycle.write(PodDevices, devices)
        return None

    def _cannot_allocate(self, claim: ResourceClaim) -> Status | None:
        """Why a claim that needs an allocation cannot get one on any node."""
        if claim.status.allocation is not None:
            return None
        if claim.metadata.uid in self._facts.in_flight:
            text = f"resource claim {namespaced_name(claim)} is in the process of being allocated"
            return unresolvable(text)
        for request in claim.spec.devices.requests or ():
            problem = self._lacks_class(claim, request)
            if problem is not None:
                return problem
        return None

    def _lacks_class(self, claim: ResourceClaim, request: DeviceRequest) -> Status | None:
        if request.exactly is not None:
            wanted = [(request.name, request.exactly.device_class_name)]
        else:
            wanted = [
                (f"{request.name}/{each.name}", each.device_class_name)
                for each in request.first_available or ()
            ]
        if not wanted:
            return unresolvable(
                f"resource claim {namespaced_name(claim)}, request {request.name}: "
                "unknown request type"
            )
        for name, device_class in wanted:
            if not device_class:
                return error(f"request {name}: unsupported request type")
            if device_class not in self._facts.classes:
                text = f"request {name}: device class {device_class} does not exist"
                return unresolvable(text)
        return None

    def _new_uid(self) -> str:
        return str(UUID(int=self.handle.rng.getrandbits(128), version=4))

    def _looked_up(self, claims: list[ResourceClaim], extended: PodExtended | None) -> PodDevices:
        if extended is not None:
            claims = [*claims, extended.claim]
        now = self.handle.clock.time()
        reach = [_reach_of(claim) for claim in claims]
        failed = frozenset(
            place for place, claim in enumerate(claims) if self._has_failed(claim, now)
        )
        return PodDevices(self._facts, claims, reach, failed, extended)

    def _has_failed(self, claim: ResourceClaim, now: float) -> bool:
        """Whether an allocated claim's devices failed, or were not prepared in time."""
        if claim.status.allocation is None:
            return False
        try:
            if conditions.is_ready(claim):
                return False
        except conditions.BindingProblem:
            return True
        return conditions.is_overdue(claim, self._binding_timeout_s, now)

    # Filter and Score

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        devices = cycle.get(PodDevices)
        if devices is None:
            return None
        try:
            return self._filter.verdict(cycle, devices, node)
        except DecisionDeferred:
            self._pause(pod, devices)
            raise

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        devices = cycle.get(PodDevices)
        if devices is None:
            out[rows] = 0
            return
        chosen = cycle.table.live_rows if isinstance(rows, slice) else rows
        try:
            self._filter.fill(cycle, devices, chosen, out)
        except DecisionDeferred:
            self._pause(cycle.pod, devices)
            raise

    def _pause(self, pod: Pod, devices: PodDevices) -> None:
        """Keep what an interrupted attempt has found, for its next turn."""
        self._paused[pod.uid] = devices
        if len(self._paused) > _PAUSED:
            del self._paused[next(iter(self._paused))]

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        out[rows] = 0
        devices = cycle.get(PodDevices)
        if devices is None or not devices.has_alternatives:
            return
        if devices.scores is not None:
            devices.fill_scores(rows, out)
            return
        table = cycle.table
        for row in (table.live_rows if isinstance(rows, slice) else rows).tolist():
            out[row] = devices.score(table.names[row], row)

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        devices = cycle.get(PodDevices)
        return 0 if devices is None else devices.score(node.name, cycle.table.row_of[node.name])

    def normalize(self, cycle: Cycle, scores: Int64Array) -> Int64Array:
        highest = int(scores.max(initial=0))
        return scores * MAX_NODE_SCORE // highest if highest else scores

    def post_filter(self, cycle: Cycle, diagnosis: object) -> Status | PostFilterResult:
        """Give back an idle claim that the pod cannot use where its devices are."""
        if self.name not in cycle.notes:
            return _NEVER_ASKED
        devices = cycle.get(PodDevices)
        if devices is None:
            return _NOTHING_TO_FREE
        pod = cycle.pod
        # Upstream takes one at random.
        for place in sorted(devices.unavailable):
            if devices.is_extended(place):
                continue
            claim = devices.claims[place]
            if all(consumer.uid == pod.uid for consumer in claim.status.reserved_for or ()):
                effect = partial(deallocate, self.handle, claim, pod)
                return PostFilterResult(_DEALLOCATED, effect=effect)
        if devices.extended is not None and devices.extended.is_left_behind:
            left = devices.extended.claim
            effect = partial(delete_left_behind, self.handle, self._earlier, self._facts, left, pod)
            return PostFilterResult(_DELETED, effect=effect)
        return _STILL

    # From decision to fact

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        devices = cycle.get(PodDevices)
        if devices is None or not devices.needs_devices:
            return None
        row = cycle.table.live_row(node)
        if row is None:
            return error(f'node "{node}" not found')
        return self._binding.reserve(devices, cycle.table.node(row), self._filter_timeout_s)

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        devices = cycle.get(PodDevices)
        if devices is not None:
            self._binding.unreserve(devices, pod)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        if self.name not in cycle.notes:
            return _NEVER_ASKED
        return None if cycle.get(PodDevices) is not None else SKIP

    async def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        devices = cycle.get(PodDevices)
        return None if devices is None else await self._binding.pre_bind(devices, pod, node)

    # Coming back

    def events(self) -> Sequence[EventHint]:
        return self._hints.events()


class WithTaintRules(DynamicResources):
    """DynamicResources with the feature gate DRADeviceTaintRules: it watches the rules, too."""

    looks_up = (*DynamicResources.looks_up, DEVICE_TAINT_RULES)


def _reach_of(claim: ResourceClaim) -> CompiledNodeSelector | None:
    """Where an allocated claim can be used; None: anywhere."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    return compile_node_selector(allocation.node_selector)
