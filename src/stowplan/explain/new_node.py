"""A new node of a shape that would take the pod."""

from __future__ import annotations

from typing import Final

import msgspec

from stowplan.api.labels import all_match
from stowplan.api.objects import Node, NodeStatus, ObjectMeta
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_volumes import named_claims
from stowplan.cluster.requests import CPU, MEMORY
from stowplan.explain.change import ADD_NODE, Change
from stowplan.explain.node_changes import solved, wanted_labels, with_labels
from stowplan.explain.pod_changes import exact_text
from stowplan.explain.pod_details import HOSTNAME
from stowplan.framework.cycle import Cycle
from stowplan.plugins.volume_binding.volume_index import affinity_of

#: A label of the volume names the zones where it is, separated like this.
_ZONES: Final = "__"
_ZONE_PREFIXES: Final = ("topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/")
_GI: Final = 1 << 30


def new_node(cycle: Cycle, catalog: Catalog) -> Change | None:
    """Another node like the one that offers most of what the pod asks for, without its taints and
    with what it lacks; the smallest that will do if there are no nodes."""
    like = _largest(cycle)
    name = _free_name(cycle, f"{like.name}-new" if like.name else "new-node")
    labels = _labels(cycle, catalog, like, name)
    if labels is None:
        return None
    more = _resources(cycle, like)
    spec = msgspec.structs.replace(like.spec, unschedulable=False, taints=None)
    allocatable = {**(like.status.allocatable or {}), **more}
    status = msgspec.structs.replace(like.status, allocatable=allocatable, capacity=None)
    metadata = msgspec.structs.replace(like.metadata, name=name, uid="")
    node = Node(metadata, spec, status)
    node = with_labels({**labels, HOSTNAME: name}, node)
    said = [f"{amount} {resource}" for resource, amount in more.items() if resource != "pods"]
    said += [f"the label {key}={value}" for key, value in labels.items() if value is not None]
    said += [f"no label {key}" for key, value in labels.items() if value is None]
    having = f"{',' if like.name else ''} with {' and '.join(said)}" if said else ""
    text = f"add a node{f' like {like.name}' if like.name else ''}{having}"
    return Change("NewNode", text, ADD_NODE + len(said), node=node)


def _largest(cycle: Cycle) -> Node:
    table = cycle.table
    rows = table.live_rows.tolist()
    if not rows:
        return Node(ObjectMeta(), status=NodeStatus(allocatable={"pods": "110"}))
    names = [name for name, _ in cycle.info.request] or [CPU]
    return table.node(
        max(rows, key=lambda row: [table.resources.offered_on(name, row) for name in names])
    )


def _free_name(cycle: Cycle, name: str) -> str:
    while name in cycle.table.row_of:
        name += "-new"
    return name


def _resources(cycle: Cycle, like: Node) -> dict[str, str]:
    """What the node must offer more of, in whole cores and gibibytes."""
    table = cycle.table
    row = table.live_row(like.name)
    more: dict[str, str] = {}
    for name, amount in cycle.info.request:
        if amount > (table.resources.offered_on(name, row) if row is not None else 0):
            unit = {CPU: 1000, MEMORY: _GI}.get(name, 1)
            more[name] = exact_text(name, -(-amount // unit) * unit)
    return more


def _labels(cycle: Cycle, catalog: Catalog, like: Node, name: str) -> dict[str, str | None] | None:
    """The labels that selectors, spreading and bound volumes want, besides those of `like`."""
    labels = {**(like.metadata.labels or {}), HOSTNAME: name}
    new = wanted_labels(cycle, labels, name)
    if new is None:
        return None
    for claim_name in named_claims(cycle.pod):
        claim = catalog[PERSISTENT_VOLUME_CLAIMS].get(claim_name, cycle.pod.metadata.namespace)
        volume = catalog[PERSISTENT_VOLUMES].get(claim.spec.volume_name) if claim else None
        if volume is None:
            continue
        for key, value in (volume.metadata.labels or {}).items():
            if key.startswith(_ZONE_PREFIXES) and labels.get(key) not in value.split(_ZONES):
                new[key] = value.split(_ZONES)[0]
        affinity = affinity_of(volume.spec.node_affinity)
        kept = {**labels, **{k: v for k, v in new.items() if v is not None}}
        terms = affinity.terms if affinity is not None else ()
        if terms and not any(all_match(term.requirements, kept) for term in terms):
            new |= solved(terms[0].requirements, kept) or {}
    for constraint in cycle.pod.spec.topology_spread_constraints or ():
        key = constraint.topology_key
        if (
            key not in labels
            and key not in new
            and constraint.when_unsatisfiable == "DoNotSchedule"
        ):
            new[key] = "new"
    return new
