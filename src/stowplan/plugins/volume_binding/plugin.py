"""The plugin: PreFilter sorts the claims, Filter searches, Reserve assumes, PreBind binds.

All refusals are unresolvable: evicting pods frees no volumes. Pods without claims skip all of it.
What is believed of volumes is shared by all profiles (`BelievedVolumes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan.api.objects import Pod
from stowplan.api.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.cluster.pod_volumes import claims_of
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import VolumeBindingArgs
from stowplan.errors import StatusError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Need, Plugin
from stowplan.framework.status import SKIP, Status, error, unresolvable
from stowplan.plugins.volume_binding import hints
from stowplan.plugins.volume_binding.assumed import BelievedVolumes
from stowplan.plugins.volume_binding.claims import claim_problem, sort_claims
from stowplan.plugins.volume_binding.prebind import BindingProblem, assume, bind_volumes, revert
from stowplan.plugins.volume_binding.provisioning import Provisioning
from stowplan.plugins.volume_binding.reach import MigratedRows
from stowplan.plugins.volume_binding.search import REASONS, NodeVolumes, Search
from stowplan.queue.events import EventHint

#: Noted by Reserve of a pod with claims.
_RESERVED: Final = "VolumeBinding reserved"


def _refusal(bits: int) -> Status:
    return unresolvable(*(reason for bit, reason in REASONS.items() if bits & bit))


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    Args = VolumeBindingArgs
    looks_up = (
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
    )
    patches = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)
    #: Nominated pods and victims take no volumes with them: every row is as the table has it.
    overlays = True
    verdicts = tuple(_refusal(bits) for bits in range(1, 2 * max(REASONS)))
    needs = (Need("filter", "preFilter", "not found"),)

    def __init__(self, args: VolumeBindingArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._handle = handle or Handle()
        catalog = self._handle.catalog
        self._timeout_s = (args or VolumeBindingArgs()).bind_timeout_seconds
        self._believed = catalog.shared(BelievedVolumes)
        self._provisioning = Provisioning(catalog)
        self._migrated = MigratedRows(catalog)

    # Filter

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not claims_of(cycle.pod):
            return SKIP
        search = self._search(cycle.pod)
        if isinstance(search, Status):
            return search
        cycle.write(Search, search)
        return None

    def _search(self, pod: Pod) -> Search | Status:
        catalog = self._handle.catalog
        problem = claim_problem(pod, catalog[PERSISTENT_VOLUME_CLAIMS])
        if problem is not None:
            return problem
        namespace = pod.metadata.namespace
        claims = [self._believed.claims.get(claim.name, namespace) for claim in claims_of(pod)]
        sorted_claims = sort_claims(
            [claim for claim in claims if claim is not None], catalog[STORAGE_CLASSES]
        )
        if isinstance(sorted_claims, Status):
            return sorted_claims
        return Search(sorted_claims, self._believed, self._provisioning, self._migrated, catalog)

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        search: Search = cycle.read(Search)
        chosen = cycle.table.live_rows if isinstance(rows, slice) else rows
        try:
            out[chosen] = search.on_rows(cycle.table, chosen)
        except ValueError as problem:
            raise StatusError(self.name, "Filter", str(problem)) from problem

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        search: Search = cycle.read(Search)
        try:
            _, bits = search.on_node(node.name, node.labels)
        except ValueError as problem:
            return error(str(problem))
        return self.verdicts[bits - 1] if bits else None

    # Score: upstream scores by capacity only behind an alpha feature gate.

    def pre_score(self, cycle: Cycle, rows: object) -> Status:
        return SKIP

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        out[rows] = 0

    def score(self, pod: Pod, node: NodeView) -> int:
        return 0

    # From decision to fact

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Choose the volumes on the node, and assume that they are the pod's.

        DIVERGES: volumes are chosen here also in a profile that disables Filter. Upstream then
        binds the pod to a node and leaves its claims unbound.
        """
        search = cycle.get(Search)
        if search is None:
            return None
        cycle.write(_RESERVED, True)
        if search.version != self._believed.version:
            # Volumes changed during the decision, most likely while an extender ran: search again.
            newer = self._search(pod)
            if isinstance(newer, Status):
                return newer
            search = newer
        if not search.claims.delayed:
            return None
        row = cycle.table.live_row(node)
        if row is None:
            return error(f'node "{node}" not found')
        labels = cycle.table.node(row).metadata.labels or {}
        try:
            volumes, bits = search.on_node(node, labels)
        except ValueError as problem:
            return error(str(problem))
        if bits:
            return self.verdicts[bits - 1]
        cycle.write(NodeVolumes, assume(self._believed, volumes, node))
        return None

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        volumes = cycle.get(NodeVolumes)
        if volumes is not None:
            revert(self._believed, volumes)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        is_left = cycle.get(NodeVolumes) is not None or self._lacks_reserve(cycle)
        return None if is_left else SKIP

    def _lacks_reserve(self, cycle: Cycle) -> bool:
        """True for a pod with claims in a profile that disables Reserve."""
        return Search in cycle.notes and _RESERVED not in cycle.notes

    async def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        if self._lacks_reserve(cycle):
            return error(f'failed to get cached bindings for pod "{pod.key}"')
        volumes = cycle.get(NodeVolumes)
        if volumes is None:
            return None
        try:
            await bind_volumes(self._handle, self._believed, pod, node, volumes, self._timeout_s)
        except BindingProblem as problem:
            return error(str(problem))
        return None

    # Coming back

    def events(self) -> Sequence[EventHint]:
        return hints.EVENTS
