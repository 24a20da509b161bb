"""Which events may let in a pod that its own, or another pod's, required terms kept out.

As upstream, terms are compared here without looking up the labels of namespaces: a selector of
namespaces counts only if a namespace without labels meets it. Where terms cannot be read, every
event brings the pod back.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_affinity import REQUIRED, REQUIRED_ANTI, AffinityTerm, PodTerms, pod_terms
from stowplan.queue.events import Hint


def after_pod_change(pod: Pod, old: object, new: object) -> Hint:
    """A pod came, went or changed its labels."""
    if not isinstance(old, Pod | None) or not isinstance(new, Pod | None):
        return Hint.QUEUE
    if new is not None and old is not None and new.uid == pod.uid:
        # Its own labels changed: another pod's anti-affinity might no longer match it.
        return Hint.QUEUE
    if any(other is not None and not _has_place(other) for other in (old, new)):
        return Hint.SKIP
    terms = pod_terms(pod)
    if _is_unreadable(terms, REQUIRED) or _is_unreadable(terms, REQUIRED_ANTI):
        return Hint.QUEUE
    if new is not None:
        begins = _match_all(terms.required, new)
        if old is None:
            return Hint.QUEUE if begins else Hint.SKIP
        begins = begins and not _match_all(terms.required, old)
        ends = _match_all(terms.required_anti, old) and not _match_all(terms.required_anti, new)
        return Hint.QUEUE if begins or ends else Hint.SKIP
    if old is None or _match_all(terms.required_anti, old):
        return Hint.QUEUE
    its_terms = pod_terms(old)
    may_help = _is_unreadable(its_terms, REQUIRED_ANTI) or _match_all(its_terms.required_anti, pod)
    return Hint.QUEUE if may_help else Hint.SKIP


def after_node_change(pod: Pod, old: object, new: object) -> Hint:
    """A node came, or changed its labels."""
    if not isinstance(old, Node | None) or not isinstance(new, Node):
        return Hint.QUEUE
    terms = pod_terms(pod)
    if _is_unreadable(terms, REQUIRED):
        return Hint.QUEUE
    now = new.metadata.labels or {}
    before = (old.metadata.labels if old is not None else None) or {}
    # Of a node that came, `before` is empty: it helps affinity if it has the key.
    for term in terms.required:
        key = term.topology_key
        if key in now and before.get(key) != now[key]:
            return Hint.QUEUE
    if _is_unreadable(terms, REQUIRED_ANTI):
        return Hint.QUEUE
    # It helps anti-affinity in any case, as no other pod need be near it.
    for term in terms.required_anti:
        key = term.topology_key
        if old is None or (key in before and before[key] != now.get(key)):
            return Hint.QUEUE
    return Hint.SKIP


def _has_place(pod: Pod) -> bool:
    """Whether other pods' terms see it: it stands on a node, or is nominated to one."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def _is_unreadable(terms: PodTerms, kind: str) -> bool:
    return any(error.startswith(kind) for error in terms.errors)


def _match_all(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """True if all terms match; False without terms."""
    return bool(terms) and all(term.matches(pod, None) for term in terms)
