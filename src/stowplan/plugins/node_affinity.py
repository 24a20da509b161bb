"""NodeAffinity: nodeSelector and node affinity, required and preferred.

`addedAffinity` of the arguments is ANDed to what every pod of the profile requires, and added to
what it prefers. Terms are compiled once for all pods that spell them the same; the columns come
from the table's label values (`cluster.node_masks`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from stowplan.api import objects
from stowplan.api.labels import join_errors
from stowplan.api.objects import Node, Pod, PreferredSchedulingTerm
from stowplan.api.selectors import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    compile_node_selector,
    compile_node_selector_term,
)
from stowplan.cluster.compiled import compile_once
from stowplan.cluster.node_masks import (
    NODE_NAME_FIELD,
    node_selector_mask,
    required_mask,
    required_nodes,
    term_weights,
)
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import NodeAffinityArgs
from stowplan.errors import StatusError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.integers import default_normalize
from stowplan.framework.plugin import Plugin, PreFilterResult, Reads
from stowplan.framework.status import SKIP, Status, error, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint, Topics

_POD_MISMATCH = unresolvable("node(s) didn't match Pod's node affinity/selector")
_ENFORCED_MISMATCH = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT = unresolvable("pod affinity terms conflict")
_POD_MISMATCH_ID, _ENFORCED_MISMATCH_ID = 1, 2


class Preferences(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Preferred terms that can match, with their weights; `errors` of those that are invalid."""

    terms: tuple[tuple[int, CompiledNodeSelectorTerm], ...] = ()
    errors: tuple[str, ...] = ()

    def score(self, node: NodeView) -> int:
        return sum(weight for weight, term in self.terms if term.matches(node.labels, node.name))


_NO_PREFERENCES = Preferences()
_PreferredTerms: TypeAlias = tuple[PreferredSchedulingTerm, ...]


class NodeAffinity(Plugin):
    name = "NodeAffinity"
    Args = NodeAffinityArgs
    reads = Reads.NODE
    overlays = True
    verdicts = (_POD_MISMATCH, _ENFORCED_MISMATCH)

    def __init__(self, args: NodeAffinityArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        added = (args and args.added_affinity) or objects.NodeAffinity()
        self._added: CompiledNodeSelector | None = None
        if added.required is not None:
            self._added = compile_node_selector(added.required)
        self._added_preferences = _compile_preferred(added.preferred or ())
        self._adds_preferences = bool(added.preferred)

    def sign(self, info: PodInfo) -> Hashable:
        labels = info.pod.spec.node_selector
        return (tuple(sorted(labels.items())) if labels else (), _affinity(info.pod))

    # Filter

    def pre_filter(self, cycle: Cycle) -> PreFilterResult | Status | None:
        affinity = _affinity(cycle.pod)
        required = affinity.required if affinity is not None else None
        if required is None:
            # An empty nodeSelector is not an absent one, although it asks for as little.
            is_asked = self._added is not None or cycle.pod.spec.node_selector is not None
            return None if is_asked else SKIP
        names = _named_nodes(required)
        if names is None:
            return None
        return PreFilterResult(names) if names else _CONFLICT

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table = cycle.table
        fits = required_mask(table, required_nodes(cycle.pod), rows)
        verdict = np.where(fits, 0, _POD_MISMATCH_ID)
        if self._added is not None:
            allowed = node_selector_mask(table, self._added, rows)
            verdict = np.where(allowed, verdict, _ENFORCED_MISMATCH_ID)
        out[rows] = verdict

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        if self._added is not None and not self._added.matches(node.labels, node.name):
            return _ENFORCED_MISMATCH
        return None if required_nodes(pod).matches(node.labels, node.name) else _POD_MISMATCH

    # Score

    def pre_score(self, cycle: Cycle, rows: object) -> Status | None:
        affinity = _affinity(cycle.pod)
        if affinity is None or affinity.preferred is None:
            return None if self._adds_preferences else SKIP
        errors = _preferences(cycle.pod).errors
        return error(join_errors(errors)) if errors else None

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table = cycle.table
        added, own = self._added_preferences, self._preferences(cycle.pod)
        out[rows] = term_weights(table, own, own.terms, rows)
        if added.terms:
            out[rows] += term_weights(table, added, added.terms, rows)

    def score(self, pod: Pod, node: NodeView) -> int:
        return self._added_preferences.score(node) + self._preferences(pod).score(node)

    def normalize(self, cycle: Cycle, scores: Int64Array) -> Int64Array:
        return default_normalize(scores, reverse=False)

    def _preferences(self, pod: Pod) -> Preferences:
        preferences = _preferences(pod)
        if preferences.errors:
            # Only where PreScore is disabled, as it refuses such a pod.
            raise StatusError(self.name, "Score", join_errors(preferences.errors))
        return preferences

    # Coming back

    def events(self) -> Sequence[EventHint]:
        node = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return (EventHint(node, self._node_began_to_match, _NODES),)

    def _node_began_to_match(self, pod: Pod, old: object, new: object) -> Hint:
        """As upstream, the pod's own terms alone decide whether an old node matched before."""
        if not isinstance(new, Node) or not isinstance(old, Node | None):
            return Hint.QUEUE
        if self._added is not None and not self._added.matches(new.metadata.labels, new.name):
            return Hint.SKIP
        required = required_nodes(pod)
        if not required.matches(new.metadata.labels, new.name):
            # An invalid term might match, so the pod is retried.
            is_certain = not required.labels.matches(new.metadata.labels) or not (
                required.terms and required.terms.errors
            )
            return Hint.SKIP if is_certain else Hint.QUEUE
        if old is None or not required.matches(old.metadata.labels, old.name):
            return Hint.QUEUE
        return Hint.SKIP


def _affinity(pod: Pod) -> objects.NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None


def _named_nodes(required: objects.NodeSelector) -> frozenset[str] | None:
    """The nodes that the terms name, if every one of them names some; None: any node may do."""
    nodes: frozenset[str] = frozenset()
    for term in required.node_selector_terms or ():
        named = [
            frozenset(field.values or ())
            for field in term.match_fields or ()
            if field.key == NODE_NAME_FIELD and field.operator == "In"
        ]
        if not named:
            return None
        nodes |= frozenset.intersection(*named)
    return nodes if required.node_selector_terms else None


def _nodes_of_pod(pod: Pod) -> frozenset[str] | None:
    """The nodes whose events may help; a DaemonSet's pod names one. None: any node's."""
    affinity, compiled = _affinity(pod), required_nodes(pod).terms
    if affinity is None or affinity.required is None or compiled is None or compiled.errors:
        return None
    return _named_nodes(affinity.required)


def _node_of_event(old: object, new: object) -> tuple[str] | None:
    return (new.name,) if isinstance(new, Node) and isinstance(old, Node | None) else None


_NODES = Topics(_nodes_of_pod, _node_of_event)


def _preferences(pod: Pod) -> Preferences:
    """Preferred terms, compiled once for all pods that spell them the same."""
    affinity = _affinity(pod)
    preferred = affinity.preferred if affinity is not None else None
    if not preferred:
        return _NO_PREFERENCES
    return compile_once("preferred", preferred, lambda: _compile_preferred(preferred), pod.spec)


def _compile_preferred(preferred: _PreferredTerms) -> Preferences:
    """Terms without weight are not even parsed; empty ones match nothing."""
    terms = [
        (term.weight, compile_node_selector_term(term.preference, f"[{index}]"))
        for index, term in enumerate(preferred)
        if term.weight != 0
    ]
    return Preferences(
        terms=tuple((weight, term) for weight, term in terms if not term.nothing),
        errors=tuple(message for _, term in terms for message in term.errors),
    )
