"""A pod's affinity to other pods, compiled: which pods each of its terms speaks of.

Pods of one template share one compiled value, because the affinity is compiled once for all that
spell it the same in the same namespace. The index of standing pods' terms and the InterPodAffinity
plugin read it. `matchLabelKeys` and `mismatchLabelKeys` need nothing here: the API server has
merged them into the label selector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from stowplan.api.objects import Affinity, Pod, PodAffinity, PodAffinityTerm
from stowplan.api.selectors import NOTHING, CompiledSelector, compile_label_selector
from stowplan.cluster.compiled import compile_once

#: How the errors of these kinds begin.
REQUIRED, REQUIRED_ANTI = "requiredAffinityTerms", "requiredAntiAffinityTerms"


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Pods in some namespaces that match a selector, and the label that makes nodes one place."""

    topology_key: str
    selector: CompiledSelector
    namespaces: frozenset[str]
    namespace_selector: CompiledSelector = NOTHING

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str] | None) -> bool:
        """Whether the term speaks of a pod whose namespace has these labels."""
        return self.accepts(pod.metadata.namespace, pod.metadata.labels, namespace_labels)

    def accepts(
        self,
        namespace: str,
        labels: Mapping[str, str] | None,
        namespace_labels: Mapping[str, str] | None,
    ) -> bool:
        """`matches`, of any pod with these labels in the namespace."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)


class PodTerms(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """All terms of a pod. A kind of which one term is invalid has none, but an error."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    #: With the weight, which is below zero for anti-affinity.
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()
    #: Texts that begin with the kind, in upstream's words.
    errors: tuple[str, ...] = ()


NO_TERMS = PodTerms()


def pod_terms(pod: Pod) -> PodTerms:
    """The terms of a pod, compiled once for all pods that spell them the same."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    namespace = pod.metadata.namespace
    return compile_once(
        "affinity", (namespace, near, far), lambda: _compile(near, far, namespace), pod.spec
    )


def prefers(affinity: Affinity | None) -> bool:
    """Whether there are preferred terms, valid or not."""
    return affinity is not None and any(
        wishes is not None and wishes.preferred
        for wishes in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def _compile(
    affinity: PodAffinity | None, anti_affinity: PodAffinity | None, namespace: str
) -> PodTerms:
    near, far = affinity or PodAffinity(), anti_affinity or PodAffinity()
    errors: list[str] = []

    def compiled(kind: str, terms: Iterable[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compile_term(term, namespace) for term in terms)
        except ValueError as problem:
            errors.append(f"{kind}: {problem}")
            return ()

    wanted, unwanted = near.preferred or (), far.preferred or ()
    required = compiled(REQUIRED, near.required or ())
    required_anti = compiled(REQUIRED_ANTI, far.required or ())
    preferred = compiled("preferredAffinityTerms", [w.pod_affinity_term for w in wanted])
    preferred_anti = compiled("preferredAntiAffinityTerms", [w.pod_affinity_term for w in unwanted])
    return PodTerms(
        required=required,
        required_anti=required_anti,
        preferred=(
            *((w.weight, term) for w, term in zip(wanted, preferred, strict=False)),
            *((-w.weight, term) for w, term in zip(unwanted, preferred_anti, strict=False)),
        ),
        errors=tuple(errors),
    )


def _compile_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    """Raises ValueError for an invalid selector."""
    if term.namespaces or term.namespace_selector is not None:
        namespaces = frozenset(term.namespaces or ())
    else:
        namespaces = frozenset((namespace,))
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=compile_label_selector(term.label_selector),
        namespaces=namespaces,
        namespace_selector=compile_label_selector(term.namespace_selector),
    )
