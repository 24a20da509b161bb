"""All pins of a cluster as rows: which pod belongs where, where it is, and how the two differ.

Pure; `stowplan pins` reads nodes and pods and prints what comes out. A row is a pod of one
scheduler, whether the pod exists or not, with every node that has a pin for it. Pods of the
scheduler that have no pin at all are rows too: they will wait as soon as they are created again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stowplan.api.objects import Node, Pod
from stowplan.plugins.static_placement.labels import DEFAULT_PREFIX, Form, Pin, PinLabels
from stowplan.static.pins import (
    CLUSTERS_OWN_SCHEDULER,
    DEFAULT_SCHEDULER,
    joined,
    scheduler_of,
    schedulers_with_keys,
)

ABSENT: Final = "absent"
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class PinDrift:
    """Something about a row that is not as its pins say, or not as pins should be."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PinRow:
    """One pod and its pins; `namespace` is "" where only the older label names it."""

    scheduler: str
    namespace: str
    pod: str
    #: In the order of the nodes' names; a node may have several.
    pins: tuple[tuple[str, Pin], ...]
    state: str
    runs_on: str
    drift: tuple[PinDrift, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for node, _ in self.pins))

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pin.form.value for _, pin in self.pins))

    def as_object(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "namespace": self.namespace or None,
            "scheduler": self.scheduler,
            "pins": [
                {"node": node, "form": pin.form.value, "key": pin.key} for node, pin in self.pins
            ],
            "state": self.state,
            "runsOn": self.runs_on or None,
            "drift": [{"reason": each.reason, "message": each.message} for each in self.drift],
        }


@dataclass(frozen=True, slots=True)
class _Cluster:
    nodes: dict[str, Node]
    pods: dict[tuple[str, str], Pod]


def pin_rows(
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    *,
    scheduler: str | None = None,
    namespace: str = "",
    prefix: str = DEFAULT_PREFIX,
) -> list[PinRow]:
    """The rows of one namespace, or of all; of one scheduler, or of every one that has pins."""
    cluster = _Cluster(
        {node.name: node for node in nodes},
        {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods},
    )
    if scheduler is not None:
        names = {scheduler}
    else:
        known = {scheduler_of(pod) for pod in cluster.pods.values()}
        names = schedulers_with_keys(nodes, known, prefix) | {DEFAULT_SCHEDULER}
    rows = [
        row
        for name in sorted(names)
        for row in _rows_of(
            PinLabels(name, prefix),
            cluster,
            namespace,
            # All that kube-scheduler places would be much, and has no use for pins.
            with_unpinned=name == scheduler or name != CLUSTERS_OWN_SCHEDULER,
        )
    ]
    return sorted(rows, key=lambda row: (row.namespace, _by_number(row.pod), row.scheduler))


def _rows_of(
    labels: PinLabels, cluster: _Cluster, namespace: str, *, with_unpinned: bool
) -> list[PinRow]:
    pins: dict[tuple[str, str], list[tuple[str, Pin]]] = {}
    older: dict[str, list[tuple[str, Pin]]] = {}
    for name, node in sorted(cluster.nodes.items()):
        meta = node.metadata
        for pin in labels.pins_of(meta.labels or {}, meta.annotations or {}):
            if pin.form is Form.OLD_LABEL:
                older.setdefault(pin.pod, []).append((name, pin))
            elif namespace in ("", pin.namespace):
                pins.setdefault((pin.namespace, pin.pod), []).append((name, pin))
    ours = {key: pod for key, pod in cluster.pods.items() if scheduler_of(pod) == labels.scheduler}
    for pod_name, found in older.items():
        # The older label is about every pod of that name: about those that are there, or pinned by
        # a newer form, or else about one that may come.
        about = {key for key in (*ours, *pins) if key[1] == pod_name}
        for key in about or {(namespace, pod_name)}:
            pins.setdefault(key, []).extend(found)
    if with_unpinned:
        for key, pod in ours.items():
            if not pod.is_finished and namespace in ("", key[0]):
                pins.setdefault(key, [])
    return [_row(labels.scheduler, key, sorted(pins[key], key=_node), cluster) for key in pins]


def _row(
    scheduler: str, key: tuple[str, str], pins: Sequence[tuple[str, Pin]], cluster: _Cluster
) -> PinRow:
    pod = cluster.pods.get(key)
    is_only_older = all(pin.form is Form.OLD_LABEL for _, pin in pins)
    if pod is not None and scheduler_of(pod) != scheduler and is_only_older:
        pod = None  # a namesake, about which the label says nothing
    return PinRow(
        scheduler=scheduler,
        namespace=key[0],
        pod=key[1],
        pins=tuple(pins),
        state=_state(pod),
        runs_on=pod.spec.node_name if pod is not None else "",
        drift=tuple(_drift(scheduler, pins, pod, cluster)),
    )


def _state(pod: Pod | None) -> str:
    if pod is None:
        return ABSENT
    return "Terminating" if pod.is_terminating else pod.status.phase or "Unknown"


def _drift(
    scheduler: str, pins: Sequence[tuple[str, Pin]], pod: Pod | None, cluster: _Cluster
) -> Iterable[PinDrift]:
    pinned = list(dict.fromkeys(node for node, _ in pins))
    if pod is not None and scheduler_of(pod) != scheduler:
        used = scheduler_of(pod)
        yield PinDrift("OtherScheduler", f"uses scheduler {used}, so the pin has no effect")
    if pod is not None and not pod.is_finished:
        at = pod.spec.node_name
        is_gone = ", which is gone" if at not in cluster.nodes else ""
        if at and (is_gone or (pinned and at not in pinned)):
            yield PinDrift("Elsewhere", f"runs on {at}{is_gone}")
    if not pinned:
        yield PinDrift("NoPin", "no node has a pin for it")
    if len(pinned) > 1:
        yield PinDrift("SeveralNodes", f"pinned to {len(pinned)} nodes")
    cordoned = [node for node in pinned if cluster.nodes[node].spec.unschedulable]
    if cordoned:
        yield PinDrift("Cordoned", f"{joined(cordoned)} {_is(cordoned)} cordoned")
    old = list(dict.fromkeys(node for node, pin in pins if pin.form is Form.OLD_LABEL))
    if old:
        yield PinDrift("OlderLabel", f"older label on {joined(old)}")


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _node(placed: tuple[str, Pin]) -> tuple[str, str]:
    return placed[0], placed[1].form.value


def _by_number(name: str) -> list[tuple[int, str]]:
    """web-2 before web-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name) if part
    ]
