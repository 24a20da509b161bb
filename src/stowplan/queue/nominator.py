"""Which pods are promised which node, until they get there.

A preemptor is nominated to the node whose victims are leaving; filters of pods of lower or equal
priority count it as if it were there. Kept by the scheduling queue, read by the scheduling cycle.
A nomination made here is known before the API server's copy of the pod says so.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView
from itertools import count
from typing import Final

from msgspec.structs import replace

from stowplan.api.objects import Pod
from stowplan.queue.pod import pod_uid

#: No two nominators have a generation in common.
_generations: Final = count(1)


class Nominator:
    """`is_pending` tells whether a pod still exists and is not bound: no other is nominated."""

    def __init__(self, is_pending: Callable[[Pod], bool] = lambda pod: True) -> None:
        self._is_pending = is_pending
        self._pods: dict[str, dict[str, Pod]] = {}  # node -> UID -> pod, in order of nomination
        self._nodes: dict[str, str] = {}  # UID -> node
        #: Called with a pod, as it was nominated, whose room on that node is free again. A pod that
        #: stands on its node by now still holds it.
        self.on_freed: Callable[[Pod], None] | None = None
        self._generation: dict[str, int] = {}  # of the nodes in `_pods`

    def __len__(self) -> int:
        """Number of nominated pods: 0, mostly, so test this before anything else."""
        return len(self._nodes)

    def nodes(self) -> KeysView[str]:
        """Nodes that at least one pod is nominated to."""
        return self._pods.keys()

    def copy(self) -> Nominator:
        """The same nominations."""
        twin = Nominator(self._is_pending)
        twin._pods = {node: dict(pods) for node, pods in self._pods.items()}
        twin._nodes = dict(self._nodes)
        twin._generation = dict(self._generation)
        return twin

    def node_of(self, pod: Pod) -> str | None:
        return self._nodes.get(pod_uid(pod))

    def for_node(self, node: str) -> list[Pod]:
        pods = self._pods.get(node)
        return list(pods.values()) if pods else []

    def generation(self, node: str) -> int:
        """Equal generations mean the same pods of a node that has some."""
        return self._generation[node]

    def add(self, pod: Pod, node: str | None = None) -> None:
        """Nominate to `node`, instead of any other. None: as the pod's status says; "": nowhere."""
        node = pod.status.nominated_node_name if node is None else node
        if not node or pod.spec.node_name or not self._is_pending(pod):
            self.delete(pod)
            return
        freed = self._remove(pod, node)
        uid = pod_uid(pod)
        self._nodes[uid] = node
        self._pods.setdefault(node, {})[uid] = pod
        self._generation[node] = next(_generations)
        self._tell(freed)

    def update(self, old: Pod, new: Pod) -> None:
        """The pod changed. Its status wins, unless it never spoke of a nomination: then one that
        was made here, and is not written yet, stays."""
        node = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            node = self.node_of(old)
        self.add(new, node)

    def refresh(self, pod: Pod) -> None:
        """Newer object of the same pod, nomination untouched."""
        uid = pod_uid(pod)
        node = self._nodes.get(uid)
        if node is not None:
            self._pods[node][uid] = pod
            self._generation[node] = next(_generations)

    def delete(self, pod: Pod) -> None:
        if self._nodes:
            self._tell(self._remove(pod, pod.spec.node_name))

    def _remove(self, pod: Pod, keeps: str) -> Pod | None:
        """The pod as it was nominated, if that was to another node than the one it keeps."""
        uid = pod_uid(pod)
        node = self._nodes.pop(uid, None)
        if node is None:
            return None
        pods = self._pods[node]
        known = pods.pop(uid)
        if pods:
            self._generation[node] = next(_generations)
        else:
            del self._pods[node], self._generation[node]
        if node == keeps:
            return None
        return replace(known, status=replace(known.status, nominated_node_name=node))

    def _tell(self, freed: Pod | None) -> None:
        if freed is not None and self.on_freed is not None:
            self.on_freed(freed)
