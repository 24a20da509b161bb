"""Which rows of the table are pinned for which pods.

The plugin asks it once a pod, so the answer is a look-up: nodes are read when they change, never
when a pod asks. Invariant: for a row that holds a node, the index says what the node's labels and
annotations say.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.api.objects import Node
from stowplan.cluster.derived import Derived
from stowplan.cluster.table import NodeTable
from stowplan.plugins.static_placement.labels import Form, PinLabels

#: Namespaces and names of pods; of the older labels, which name no namespace, with "".
PodNames = frozenset[tuple[str, str]]

_NOBODY: PodNames = frozenset()


class PinIndex(Derived[int]):
    """Rows by pod, up to date with a table's journal of nodes."""

    #: Reading a node again costs the same however many there are.
    MOST_CHANGES = 1 << 20

    def __init__(self, labels: PinLabels, *, older_labels: bool = True) -> None:
        super().__init__()
        self._labels = labels
        self._older_labels = older_labels
        self._table: NodeTable | None = None
        self._rows: dict[tuple[str, str], set[int]] = {}
        self._pods: dict[int, PodNames] = {}

    def pods_on(self, node: Node) -> PodNames:
        """The pods that a node is pinned for."""
        meta = node.metadata
        return frozenset(
            (pin.namespace, pin.pod)
            for pin in self._labels.pins_of(meta.labels, meta.annotations)
            if self._older_labels or pin.form is not Form.OLD_LABEL
        )

    def find(self, table: NodeTable, namespace: str, pod: str) -> Mapping[int, bool]:
        """Rows that are pinned for a pod, and whether only an older label says so."""
        self._table = table
        self.update(None, table.node_journal)
        found: dict[int, bool] = {}
        for key, is_older in (((namespace, pod), False), (("", pod), True)):
            for row in self._rows.get(key, ()):
                found.setdefault(row, is_older)
        return found

    def rebuild(self) -> None:
        self._rows.clear()
        self._pods.clear()
        assert self._table is not None
        self.refresh(self._table.live_rows.tolist())

    def refresh(self, changes: list[int]) -> None:
        assert self._table is not None
        for row in set(changes):
            self._set(row, self._table.nodes[row])

    def _set(self, row: int, node: Node | None) -> None:
        before = self._pods.pop(row, _NOBODY)
        now = self.pods_on(node) if node is not None else _NOBODY
        for pod in before - now:
            rows = self._rows[pod]
            rows.discard(row)
            if not rows:
                del self._rows[pod]
        for pod in now - before:
            self._rows.setdefault(pod, set()).add(row)
        if now:
            self._pods[row] = now


def is_pinned(pods: PodNames, namespace: str, pod: str) -> bool:
    """Whether a pod is among those that a node is pinned for."""
    return (namespace, pod) in pods or ("", pod) in pods
