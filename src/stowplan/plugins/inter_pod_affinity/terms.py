"""Which namespaces the terms of an incoming pod speak of, and what labels namespaces have.

Selectors of namespaces become sets of names, so that counters can be kept by name; a set is
remembered until some namespace changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.api.objects import Namespace
from stowplan.api.selectors import CompiledSelector
from stowplan.cluster.catalog import Shelf
from stowplan.cluster.counters import CounterKey, Namespaces
from stowplan.cluster.pod_affinity import AffinityTerm


class KnownNamespaces:
    """The cluster's namespaces, as affinity asks for them."""

    def __init__(self, shelf: Shelf[Namespace]) -> None:
        self._shelf = shelf
        self._version = -1
        self._chosen: dict[CompiledSelector, frozenset[str]] = {}

    def labels_of(self, name: str) -> Mapping[str, str]:
        """A namespace that is not known (yet) counts as one without labels."""
        namespace = self._shelf.get(name)
        return (namespace.metadata.labels if namespace is not None else None) or {}

    def scope(self, term: AffinityTerm) -> Namespaces:
        """The namespaces that a term of an incoming pod speaks of; None: all of them.

        Upstream compares the term's selector with a namespace without labels as well, so one that
        such a namespace meets (nothing but NotIn and DoesNotExist) lets in every namespace.
        """
        selector = term.namespace_selector
        if selector.nothing:
            return term.namespaces
        if selector.matches(None):
            return None
        return term.namespaces | self._names(selector)

    def counted_by(self, term: AffinityTerm) -> CounterKey:
        """The pods that a term of an incoming pod speaks of."""
        return CounterKey(self.scope(term), term.selector)

    def _names(self, selector: CompiledSelector) -> frozenset[str]:
        if self._version != self._shelf.version:
            self._version = self._shelf.version
            self._chosen.clear()
        names = self._chosen.get(selector)
        if names is None:
            names = self._chosen[selector] = frozenset(
                namespace.metadata.name
                for namespace in self._shelf
                if selector.matches(namespace.metadata.labels)
            )
        return names
