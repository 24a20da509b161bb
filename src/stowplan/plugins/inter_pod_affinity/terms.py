"""Which namespaces the terms of an incoming pod speak of, and what labels namespaces have.

Selectors of namespaces become sets of names, so that counters can be kept by name. A selector is
evaluated over the labels of all namespaces at once, and its set is kept until a namespace changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from stowplan.api.objects import Namespace
from stowplan.api.selectors import CompiledSelector
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.catalog import Shelf
from stowplan.cluster.label_columns import LabelColumns
from stowplan.cluster.pod_affinity import AffinityTerm
from stowplan.cluster.pod_classes import CounterKey, Namespaces

#: What an element of a set takes, about.
_NAME_BYTES: Final = 64


class KnownNamespaces:
    """The cluster's namespaces, as affinity asks for them."""

    def __init__(self, shelf: Shelf[Namespace], *, limit_bytes: int = 4 << 20) -> None:
        self._shelf = shelf
        self._version = -1
        self._namespaces: list[Namespace] = []
        self._labels = LabelColumns(self._labels_at, 0)
        self._chosen: BytesLru[CompiledSelector, frozenset[str]] = BytesLru(limit_bytes)

    @property
    def version(self) -> int:
        """Changes with every namespace."""
        return self._shelf.version

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
        names = self._names(selector)
        return names if not term.namespaces else term.namespaces | names

    def counted_by(self, term: AffinityTerm) -> CounterKey:
        """The pods that a term of an incoming pod speaks of."""
        return CounterKey(self.scope(term), term.selector)

    def _names(self, selector: CompiledSelector) -> frozenset[str]:
        if self._version != self._shelf.version:
            self._read_shelf()
        names = self._chosen.get(selector)
        if names is None:
            mask = np.ones(len(self._namespaces), np.bool_)
            self._labels.narrow(mask, selector.requirements)
            names = frozenset(
                self._namespaces[index].metadata.name for index in np.flatnonzero(mask).tolist()
            )
            size = _NAME_BYTES * (1 + len(names) + len(selector.requirements))
            self._chosen.put(selector, names, size)
        return names

    def _read_shelf(self) -> None:
        self._version = self._shelf.version
        self._namespaces = list(self._shelf)
        self._labels = LabelColumns(self._labels_at, len(self._namespaces))
        for index in range(len(self._namespaces)):
            self._labels.write(index, {}, self._labels_at(index))
        self._chosen.clear()

    def _labels_at(self, index: int) -> Mapping[str, str]:
        return self._namespaces[index].metadata.labels or {}
