"""Which rows of the table are pinned for which pods.

The plugin asks it once a pod, so the answer is a look-up: nodes are read when they change, never
when a pod asks. What must stay true: for a row that holds a node, the index says what the node's
labels and annotations say. Rows whose node is gone may still be in it, as the journal does not tell
of those; they are left out when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.api.objects import Node
from stowplan.cluster.table import NodeTable
from stowplan.plugins.static_placement.labels import Form, PinLabels

#: Namespaces and names of pods; of the older labels, which name no namespace, with "".
PodNames = frozenset[tuple[str, str]]

_NOBODY: PodNames = frozenset()


class PinIndex:
    """Rows by pod, up to date with a table's journal of nodes."""

    def __init__(self, labels: PinLabels, *, older_labels: bool = True) -> None:
        self._labels = labels
        self._older_labels = older_labels
        self._table: NodeTable | None = None
        self._position = 0
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
        self._follow(table)
        nodes = table.nodes
        found: dict[int, bool] = {}
        for key, is_older in (((namespace, pod), False), (("", pod), True)):
            for row in self._rows.get(key, ()):
                if nodes[row] is not None:
                    found.setdefault(row, is_older)
        return found

    def _follow(self, table: NodeTable) -> None:
        """Read the nodes that changed since the last question."""
        journal = table.node_journal
        if table is self._table and journal.end == self._position:
            return
        changed = journal.rows_since(self._position) if table is self._table else None
        if changed is None:
            self._table = table
            self._rows.clear()
            self._pods.clear()
            changed = table.live_rows.tolist()
        for row in changed:
            self._set(row, table.nodes[row])
        self._position = journal.end

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
