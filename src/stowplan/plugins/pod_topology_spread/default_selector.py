"""Which pods belong together when a pod does not say: those of its Services and its owner.

Default constraints get this selector. The selectors of all Services that match the pod are merged,
then that of the ReplicationController, ReplicaSet or StatefulSet that controls it. Services are
indexed by one label that they ask for, so a pod meets only those that it may match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from stowplan.api.labels import CompiledSelector
from stowplan.api.objects import LabelSelector, OwnerReference, Pod
from stowplan.api.resources import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from stowplan.api.selectors import EVERYTHING, compile_label_selector, compile_label_set
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.compiled import compile_once

_Label: TypeAlias = tuple[str, str]
#: Selectors of Services by the first label that each asks for.
_ByLabel: TypeAlias = dict[_Label, list[dict[str, str]]]


class DefaultSelectors:
    """Finds pods' selectors in what the cluster holds."""

    def __init__(self, catalog: Catalog) -> None:
        self._services = catalog[SERVICES]
        self._replication_controllers = catalog[REPLICATION_CONTROLLERS]
        self._replica_sets = catalog[REPLICA_SETS]
        self._stateful_sets = catalog[STATEFUL_SETS]
        self._indexed_version = -1
        self._index: dict[str, _ByLabel] = {}

    def of(self, pod: Pod) -> CompiledSelector:
        """Empty if nothing in the cluster speaks for the pod."""
        labels = self._service_labels(pod)
        namespace = pod.metadata.namespace
        owner = _controller(pod)
        selecting: LabelSelector | None = None
        if owner is not None:
            group, _, version = owner.api_version.rpartition("/")
            kind = (group, version, owner.kind)
            if kind == ("", "v1", "ReplicationController"):
                controller = self._replication_controllers.get(owner.name, namespace)
                if controller is not None:
                    labels = labels | (controller.spec.selector or {})
            elif kind == ("apps", "v1", "ReplicaSet"):
                replica_set = self._replica_sets.get(owner.name, namespace)
                selecting = replica_set.spec.selector if replica_set is not None else None
            elif kind == ("apps", "v1", "StatefulSet"):
                stateful_set = self._stateful_sets.get(owner.name, namespace)
                selecting = stateful_set.spec.selector if stateful_set is not None else None
        if not labels and selecting is None:
            return EVERYTHING
        return compile_once(
            "default selector", (labels, selecting), lambda: _compile(labels, selecting)
        )

    def _service_labels(self, pod: Pod) -> dict[str, str]:
        """What the Services that match the pod ask for; they all agree, since it has it all."""
        labels = pod.metadata.labels
        if not labels:
            return {}
        merged: dict[str, str] = {}
        services = self._services_of(pod.metadata.namespace)
        for label in labels.items():
            for selector in services.get(label, ()):
                if selector.items() <= labels.items():
                    merged |= selector
        return merged

    def _services_of(self, namespace: str) -> _ByLabel:
        if self._indexed_version != self._services.version:
            self._indexed_version = self._services.version
            self._index.clear()
        by_label = self._index.get(namespace)
        if by_label is None:
            by_label = self._index[namespace] = {}
            for service in self._services.within(namespace).values():
                # One without labels would match any pod, and add nothing.
                for label in list((service.spec.selector or {}).items())[:1]:
                    by_label.setdefault(label, []).append(service.spec.selector or {})
        return by_label


def _controller(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)


def _compile(labels: Mapping[str, str], owner: LabelSelector | None) -> CompiledSelector:
    """Both; an owner's invalid selector is passed over."""
    selector = compile_label_set(labels)
    if owner is None:
        return selector
    try:
        return selector.adding(compile_label_selector(owner).requirements)
    except ValueError:
        return selector
