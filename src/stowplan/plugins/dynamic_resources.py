"""DynamicResources: stands guard until devices can be allocated.

A pod that claims devices (`spec.resourceClaims`) must not run before they are allocated to it, and
Stowplan cannot do that yet: such a pod is rejected with a reason that says so. For all others the
plugin does what kube-scheduler's does for them: nothing, visible only as a score of 0 and as the
sentence that there are no claims to give back when a pod fits nowhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import DynamicResourcesArgs
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.plugin import Need, Plugin, Reads
from stowplan.framework.status import SKIP, Status, error, unresolvable, unschedulable
from stowplan.queue.events import EventHint

_UNSUPPORTED = unresolvable(
    "Stowplan does not support dynamic resource allocation yet, "
    "and the pod asks for it in spec.resourceClaims"
)
_NOTHING_TO_FREE = unschedulable("no new claims to deallocate")
#: Upstream's words when an earlier plugin's rejection kept PreFilter from running.
_NEVER_ASKED = error("not found")


class DynamicResources(Plugin):
    name = "DynamicResources"
    # Its timeouts are for allocating devices; they are checked, and wait for that.
    Args = DynamicResourcesArgs
    reads = Reads.NODE
    overlays = True
    verdicts = (_UNSUPPORTED,)
    needs = (
        Need("filter", "preFilter", "not found"),
        Need("score", "preFilter", "not found"),
    )

    def sign(self, info: PodInfo) -> Hashable:
        return _has_claims(info.pod)

    def pre_filter(self, cycle: Cycle) -> Status:
        cycle.write(self.name, True)
        return _UNSUPPORTED if _has_claims(cycle.pod) else SKIP

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        out[rows] = _has_claims(cycle.pod)

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        """Only asked where a profile has the plugin at Filter alone."""
        return _UNSUPPORTED if _has_claims(pod) else None

    def post_filter(self, cycle: Cycle, diagnosis: object) -> Status:
        return _NOTHING_TO_FREE if self.name in cycle.notes else _NEVER_ASKED

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        out[rows] = 0

    def score(self, pod: Pod, node: NodeView) -> int:
        return 0

    def events(self) -> Sequence[EventHint]:
        """None: a pod's claims never change, so nothing helps a pod that has some."""
        return ()


def _has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims)
