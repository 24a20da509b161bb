"""Pins of a pod: what a node says about it, and what must change so that it says otherwise.

Pure; `pinning` carries out what is planned here, for the commands `pin`, `unpin` and `move`.
Invariant: an edit touches only keys that are about the pod. An annotation is shared by many pods,
so an edit that changes one is only good for the version of the node it was made from.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from stowplan.api.objects import Node, Pod
from stowplan.api.pod_names import PodName, check_name
from stowplan.errors import NotFound
from stowplan.plugins.static_placement.labels import Form, Pin, PinLabels, listed_pods

#: What pods use that name no scheduler; it is kube-scheduler, which knows nothing of pins.
CLUSTERS_OWN_SCHEDULER: Final = "default-scheduler"
#: Where neither the user nor the pod names a scheduler: the static scheduler's own default.
DEFAULT_SCHEDULER: Final = "rfcustom"


def named_node(nodes: Iterable[Node], name: str) -> Node:
    """The node, or an error that names those with names alike."""
    known = {node.name: node for node in nodes}
    if name in known:
        return known[name]
    check_name("node", name)
    alike = difflib.get_close_matches(name, known, n=3)
    if alike:
        hint = f"; did you mean {' or '.join(alike)}?"
    else:
        hint = "" if known else ": the cluster has no nodes"
    raise NotFound(f"there is no node {name!r}{hint}")


def scheduler_of(pod: Pod) -> str:
    return pod.spec.scheduler_name or CLUSTERS_OWN_SCHEDULER


def chosen_scheduler(asked: str | None, pod: Pod | None) -> str:
    """The scheduler whose keys are meant: the one asked for, else the pod's own."""
    if asked is not None:
        return asked
    return DEFAULT_SCHEDULER if pod is None else scheduler_of(pod)


# What a node says, and how to change it


class Wish(Enum):
    """What a node should say about a pod."""

    PINNED = "pinned"
    #: By the newer forms; the older label, which names no namespace, goes.
    PINNED_ANEW = "pinned, without the older label"
    UNPINNED = "not pinned"


@dataclass(frozen=True, slots=True)
class NodeEdit:
    """Keys to set, or to remove where the value is None; and the pins that this makes and ends."""

    node: str
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    added: tuple[Pin, ...] = ()
    removed: tuple[Pin, ...] = ()

    @property
    def needs_same_version(self) -> bool:
        """True if a concurrent change would be lost."""
        return bool(self.annotations)

    def as_patch(self) -> dict[str, Any]:
        """A merge patch."""
        parts = {"labels": self.labels, "annotations": self.annotations}
        return {"metadata": {name: dict(keys) for name, keys in parts.items() if keys}}


def pins_for(node: Node, labels: PinLabels, pod: PodName) -> tuple[Pin, ...]:
    """The pins of one pod on a node, in whatever form."""
    meta = node.metadata
    return tuple(
        pin
        for pin in labels.pins_of(meta.labels or {}, meta.annotations or {})
        if pin.pod == pod.name and pin.namespace in ("", pod.namespace)
    )


def edit_for(node: Node, labels: PinLabels, pod: PodName, wish: Wish) -> NodeEdit | None:
    """What must change on the node; None where it is as wished already."""
    present = pins_for(node, labels, pod)
    added: tuple[Pin, ...] = ()
    removed: tuple[Pin, ...] = ()
    if wish is Wish.UNPINNED:
        removed = present
    else:
        if all(pin.form is Form.OLD_LABEL for pin in present):
            added = (_new_pin(labels, pod),)
        if wish is Wish.PINNED_ANEW:
            removed = tuple(pin for pin in present if pin.form is Form.OLD_LABEL)
    if not added and not removed:
        return None
    label_keys: dict[str, str | None] = {}
    annotation_keys: dict[str, str | None] = {}
    for pin in removed:
        if pin.form is Form.ANNOTATION:
            annotation_keys[pin.key] = _list_without(node, pin)
        else:
            label_keys[pin.key] = None
    for pin in added:
        if pin.form is Form.ANNOTATION:
            annotation_keys[pin.key] = ",".join((*_listed(node, pin.key), pin.pod))
        else:
            label_keys[pin.key] = ""
    return NodeEdit(node.name, label_keys, annotation_keys, added, removed)


def _new_pin(labels: PinLabels, pod: PodName) -> Pin:
    if labels.fits_a_label(pod.namespace, pod.name):
        key, form = labels.label(pod.namespace, pod.name), Form.LABEL
    else:
        key, form = labels.annotation(pod.namespace), Form.ANNOTATION
    return Pin(pod.namespace, pod.name, form, key)


def _listed(node: Node, key: str) -> tuple[str, ...]:
    return listed_pods((node.metadata.annotations or {}).get(key, ""))


def _list_without(node: Node, pin: Pin) -> str | None:
    left = [name for name in _listed(node, pin.key) if name != pin.pod]
    return ",".join(left) or None


def nodes_with_pins(
    nodes: Iterable[Node], labels: PinLabels, pod: PodName
) -> dict[str, tuple[Pin, ...]]:
    """Node names and the pins there, for the nodes that have some."""
    found = ((node.name, pins_for(node, labels, pod)) for node in nodes)
    return {name: pins for name, pins in sorted(found) if pins}


def wishes_for_only(nodes: Iterable[Node], target: Node) -> list[tuple[Node, Wish]]:
    """So that the target alone has the pod's pin. It comes first: never is there no pin at all."""
    others = [(node, Wish.UNPINNED) for node in nodes if node.name != target.name]
    return [(target, Wish.PINNED_ANEW), *others]


# Schedulers named by keys only


def schedulers_with_keys(nodes: Iterable[Node], known: set[str], prefix: str) -> set[str]:
    """Names of the schedulers that the keys on nodes are for.

    `rf.scheduler.a.b/x` is ambiguous: scheduler "a" and namespace "b", unless only "a.b" is known
    as a scheduler's name (from the pods).
    """
    found: set[str] = set()
    for node in nodes:
        meta = node.metadata
        for key in (*(meta.labels or ()), *(meta.annotations or ())):
            head, slash, _ = key.partition("/")
            if not slash or not head.startswith(f"{prefix}."):
                continue
            stem = head.removeprefix(f"{prefix}.")
            scheduler, dot, _ = stem.rpartition(".")
            if stem in known or not dot:
                found.add(stem)
            if dot and (scheduler in known or stem not in known):
                found.add(scheduler)
    return found - {""}


def joined(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
