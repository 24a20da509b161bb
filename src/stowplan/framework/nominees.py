"""Pods nominated to nodes, compiled once until the nominations of the node change."""

from __future__ import annotations

from typing import Final, NamedTuple

from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.queue.nominator import Nominator

#: Generations of a row without nominated pods, and of nominees that one pod alone sees so.
NO_NOMINEES: Final = 0
NOT_SHARED: Final = -1
#: Entries of nodes that have no nominations any more are dropped when there are more than this.
_SPARE: Final = 256


class Nominees(NamedTuple):
    """Pods nominated to one node. Equal generations mean equal pods, except for NOT_SHARED."""

    generation: int
    pods: list[PodInfo]
    #: The lowest of their priorities.
    lowest: int


class NomineeCache:
    """Nominees by node; an entry is good for one generation of the node's nominations."""

    def __init__(self) -> None:
        self._nominees: dict[str, Nominees] = {}

    def __len__(self) -> int:
        return len(self._nominees)

    def on(self, node: str, nominated: Nominator) -> Nominees:
        """The pods nominated to a node that has some. Read only."""
        found = self._nominees.get(node)
        generation = nominated.generation(node)
        if found is None or found.generation != generation:
            if len(self._nominees) > _SPARE + 2 * len(nominated):
                self._nominees.clear()
            pods = [compile_pod(pod) for pod in nominated.for_node(node)]
            found = Nominees(generation, pods, min(pod.priority for pod in pods))
            self._nominees[node] = found
        return found
