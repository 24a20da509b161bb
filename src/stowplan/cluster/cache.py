"""What the scheduler believes: nodes, the pods that stand on them, and those it has just placed.

Informer events and the scheduler's own decisions meet here. A pod is known by its UID. A decided
pod is *assumed*: it occupies its node at once, until the API server confirms it, the bind fails
(`forget`) or it is deleted. Assumed pods never expire. Every call is O(1) in the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_info import PodInfo, Request, compile_pod, same_footprint
from stowplan.cluster.table import NodeTable
from stowplan.logs import get_logger, kv

log = get_logger(__name__)


@dataclass(slots=True)
class _Placed:
    info: PodInfo
    row: int
    node: str
    assumed: bool


class ClusterCache:
    """The table, which pod stands where, and whatever else plugins look up."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.catalog = Catalog()
        self._placed: dict[str, _Placed] = {}
        self._assumed: set[str] = set()

    # Reading

    @property
    def pod_count(self) -> int:
        return len(self._placed)

    @property
    def assumed_count(self) -> int:
        return len(self._assumed)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def node_of(self, uid: str) -> str | None:
        """Name of the node that a pod stands on, assumed or confirmed."""
        placed = self._placed.get(uid)
        return placed.node if placed is not None else None

    def pod(self, uid: str) -> Pod | None:
        """A pod as it stands on its node; one that is assumed has its node only here."""
        placed = self._placed.get(uid)
        return placed.info.pod if placed is not None else None

    def held_by(self, pod: Pod) -> Request:
        """What a pod takes from its node; not compiled again if it stands there as it is given."""
        placed = self._placed.get(pod.uid)
        if placed is not None and placed.info.pod is pod:
            return placed.info.held
        return compile_pod(pod).held

    def placements(self) -> dict[str, str]:
        """UID to node name of every pod that occupies a node."""
        return {uid: placed.node for uid, placed in self._placed.items()}

    def placed(self) -> Iterator[tuple[Pod, str, bool]]:
        """Every pod that occupies a node, that node, and whether it is assumed; oldest first."""
        return ((each.info.pod, each.node, each.assumed) for each in self._placed.values())

    # The scheduler's own decisions

    def assume(self, pod: Pod, node: str, info: PodInfo | None = None) -> Pod:
        """Occupy a node with a pod that is about to be bound; returns the pod as if bound."""
        if pod.uid in self._placed:
            raise ValueError(f"pod {pod.key} ({pod.uid}) is in the cache already")
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        if info is None:
            info = compile_pod(bound)
        else:
            info = PodInfo(
                bound,
                info.kind,
                info.request,
                info.score_request,
                info.held,
                info.held_non_zero,
                info.host_ports,
                info.volumes,
                info.priority,
            )
        self.place(info, node, assumed=True)
        return bound

    def forget(self, uid: str) -> bool:
        """Take an assumed pod off its node; False when it is not (or no longer) assumed."""
        if uid not in self._assumed:
            return False
        self._remove(uid)
        return True

    # What the API server says

    def add_pod(self, pod: Pod) -> None:
        """A pod that has a node appeared: new to us, or the confirmation of an assumed one."""
        placed = self._placed.get(pod.uid)
        if placed is None:
            self.place(compile_pod(pod), pod.spec.node_name, assumed=False)
            return
        if placed.assumed:
            placed.assumed = False
            self._assumed.discard(pod.uid)
            if placed.node != pod.spec.node_name:
                log.warning(
                    "Pod was bound to another node than decided",
                    extra=kv(pod=pod.key, decided=placed.node, bound=pod.spec.node_name),
                )
        self._update(placed, pod)

    def update_pod(self, pod: Pod) -> None:
        """A new version of a pod that has a node."""
        self.add_pod(pod)

    def remove_pod(self, uid: str) -> bool:
        """The pod is gone or finished; True if it occupied a node."""
        if uid not in self._placed:
            return False
        self._remove(uid)
        return True

    def set_node(self, node: Node) -> None:
        self.table.set_node(node)

    def remove_node(self, name: str) -> None:
        self.table.remove_node(name)

    # For `rebuild`

    def clear_pods(self) -> None:
        """Forget which pods stand where; the table is new."""
        self._placed.clear()
        self._assumed.clear()

    def place(self, info: PodInfo, node: str, *, assumed: bool) -> None:
        """Occupy a node with a pod that is not in the cache."""
        row = self.table.add_pod(node, info)
        self._placed[info.uid] = _Placed(info, row, node, assumed)
        if assumed:
            self._assumed.add(info.uid)

    # Inside

    def _remove(self, uid: str) -> None:
        placed = self._placed.pop(uid)
        self._assumed.discard(uid)
        self.table.remove_pod(placed.row, uid)

    def _update(self, placed: _Placed, pod: Pod) -> None:
        old = placed.info.pod
        if (placed.node, old.metadata.namespace) != (pod.spec.node_name, pod.metadata.namespace):
            # A UID never moves to another node. If a server says so anyway, drop the old pod.
            moved = compile_pod(pod)
            self._remove(pod.uid)
            self.place(moved, pod.spec.node_name, assumed=False)
        elif same_footprint(old, pod) and _same_identity(old, pod):
            # Nothing that a plugin counts changed: keep the numbers, show the newer object.
            self.table.renew_pod(placed.row, placed.info, pod)
        else:
            new = compile_pod(pod)
            if (
                new.takes_as_much_as(placed.info)
                and old.spec == pod.spec
                and _same_identity(old, pod)
            ):
                # Most likely its containers started: no row needs a refresh.
                self.table.renew_pod(placed.row, placed.info, pod)
                return
            placed.info = new
            self.table.replace_pod(placed.row, new)


def _same_identity(old: Pod, new: Pod) -> bool:
    """Whether selectors and the terminating flag see the same pod."""
    before, after = old.metadata, new.metadata
    return before.labels == after.labels and (
        (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
    )
