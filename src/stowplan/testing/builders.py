"""Pods and nodes for tests, in one call each.

    pod("web-0", cpu="500m", labels={"app": "web"}, tolerations=["dedicated=web:NoSchedule"])
    node("n1", cpu=8, zone="eu-1a", taints=["dedicated=web:NoSchedule"])

Every object gets a UID of its own from a counter, so two pods never share one by accident and a
test that builds the same objects in the same order sees the same UIDs. Nested values may be given
as structs of `api.objects` or as plain JSON in the API's spelling. `as_manifest` turns either kind
of object into what one would POST to an API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, TypeAlias

import msgspec

from stowplan.api.objects import (
    Condition,
    Container,
    ContainerImage,
    Labels,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
)
from stowplan.loader.json_text import load_json
from stowplan.testing.device_builders import pod_claims

Quantity: TypeAlias = str | int | float
TaintLike: TypeAlias = Taint | Mapping[str, str] | str
TolerationLike: TypeAlias = Toleration | Mapping[str, Any] | str

HOSTNAME_LABEL = "kubernetes.io/hostname"
REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"

#: When everything that the builders make was created; a fixed moment, as no clock is read here.
CREATED = "2026-01-01T00:00:00Z"
#: What `terminating=True` puts down as the time of deletion.
DELETED = "2026-01-01T01:00:00Z"

_serial = count(1)
_SPEC_FIELDS = dict(zip(PodSpec.__struct_fields__, PodSpec.__struct_encode_fields__, strict=True))


def pod(
    name: str = "",
    *,
    namespace: str = "default",
    cpu: Quantity | None = "100m",
    memory: Quantity | None = "128Mi",
    requests: Mapping[str, Quantity] | None = None,
    node: str = "",
    labels: Labels | None = None,
    annotations: Labels | None = None,
    priority: int | None = None,
    scheduler_name: str = "default-scheduler",
    tolerations: Iterable[TolerationLike] = (),
    gates: Iterable[str] = (),
    claims: Mapping[str, str] | None = None,
    claim_templates: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    uid: str = "",
    phase: str = "",
    terminating: bool = False,
    nominated_node: str = "",
    created: str = CREATED,
    status: PodStatus | None = None,
    **spec: Any,
) -> Pod:
    """A pod with one container that asks for `cpu`, `memory` (None: not at all) and `requests`.

    `spec` takes any other field of PodSpec by its Python name: `node_selector=...`, `affinity=...`,
    `containers=...` (then cpu, memory and requests are not used). `claims` are resource claims and
    `claim_templates` templates of them, by the pod's own names. Without a name it is numbered.
    """
    serial = next(_serial)
    unknown = spec.keys() - _SPEC_FIELDS.keys()
    if unknown:
        raise TypeError(f"PodSpec has no field {', '.join(sorted(unknown))}")
    wire: dict[str, Any] = {_SPEC_FIELDS[field]: value for field, value in spec.items()}
    if "containers" not in wire:
        wire["containers"] = [_container(cpu, memory, requests)]
    wire |= {"nodeName": node, "schedulerName": scheduler_name, "priority": priority}
    if chosen := [_toleration(item) for item in tolerations]:
        wire["tolerations"] = chosen
    if named := [{"name": gate} for gate in gates]:
        wire["schedulingGates"] = named
    if wanted := pod_claims(claims, claim_templates):
        wire["resourceClaims"] = wanted
    return Pod(
        metadata=ObjectMeta(
            name=name or f"pod-{serial}",
            namespace=namespace,
            uid=uid or _uid(serial),
            creation_timestamp=created,
            deletion_timestamp=DELETED if terminating else None,
            labels=labels,
            annotations=annotations,
            owner_references=(owner,) if owner is not None else None,
        ),
        spec=msgspec.convert(wire, PodSpec),
        status=status or PodStatus(phase=phase, nominated_node_name=nominated_node),
    )


def node(
    name: str = "",
    *,
    cpu: Quantity = "4",
    memory: Quantity = "32Gi",
    pods: Quantity = 110,
    resources: Mapping[str, Quantity] | None = None,
    zone: str | None = None,
    region: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    taints: Iterable[TaintLike] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    declared_features: Iterable[str] = (),
    conditions: Iterable[Condition] = (Condition(type="Ready", status="True"),),
    uid: str = "",
    created: str = CREATED,
) -> Node:
    """A ready node that offers `cpu`, `memory`, `pods` and `resources` (by full name).

    It carries its name as hostname label, and `zone` and `region` as topology labels; `labels`
    come on top. `images` maps image names to bytes. Without a name it is numbered.
    """
    serial = next(_serial)
    name = name or f"node-{serial}"
    own: Labels = {HOSTNAME_LABEL: name}
    if zone is not None:
        own[ZONE_LABEL] = zone
    if region is not None:
        own[REGION_LABEL] = region
    offers: dict[str, Quantity] = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=uid or _uid(serial),
            creation_timestamp=created,
            labels=own | (labels or {}),
            annotations=annotations,
        ),
        spec=NodeSpec(
            unschedulable=unschedulable, taints=tuple(_taint(item) for item in taints) or None
        ),
        status=NodeStatus(
            allocatable=offers,
            capacity=dict(offers),
            conditions=tuple(conditions) or None,
            images=tuple(
                ContainerImage(names=(image,), size_bytes=size)
                for image, size in (images or {}).items()
            )
            or None,
            declared_features=tuple(declared_features) or None,
        ),
    )


def as_manifest(built: Pod | Node) -> dict[str, Any]:
    """The object as full JSON, with what an API server insists on but no scheduler reads.

    A server gives the object a UID of its own when it is created. A priority without a class is
    refused by servers that run the Priority admission plugin.
    """
    # Through JSON, as `to_builtins` would leave tuples where JSON has lists.
    manifest: dict[str, Any] = load_json(msgspec.json.encode(built))
    for quantities in _quantity_maps(manifest):
        # The API wants strings here, although it reads numbers too.
        quantities.update({name: str(amount) for name, amount in quantities.items()})
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(manifest.get("spec", {}).get(kind, ())):
            container.setdefault("name", f"{kind[0]}{index}")
            container.setdefault("image", "pause")
    for constraint in manifest.get("spec", {}).get("topologySpreadConstraints", ()):
        # Left out where it is the default here; a server knows no default.
        constraint.setdefault("maxSkew", 1)
    return {"apiVersion": "v1", "kind": type(built).__name__, **manifest}


def _uid(serial: int) -> str:
    return f"00000000-0000-4000-8000-{serial:012x}"


def _container(
    cpu: Quantity | None, memory: Quantity | None, more: Mapping[str, Quantity] | None
) -> Container:
    amounts: dict[str, Quantity] = dict(more or {})
    if cpu is not None:
        amounts["cpu"] = cpu
    if memory is not None:
        amounts["memory"] = memory
    # Extended resources must be limited to what is requested, or an API server refuses the pod.
    limits = {name: amount for name, amount in amounts.items() if "/" in name}
    return Container(
        name="main",
        image="pause",
        resources=ResourceRequirements(requests=amounts, limits=limits or None)
        if amounts
        else None,
    )


def _taint(item: TaintLike) -> Taint:
    """A taint, also in kubectl's spelling: `key=value:Effect` or `key:Effect`."""
    if isinstance(item, Taint):
        return item
    if not isinstance(item, str):
        return msgspec.convert(dict(item), Taint)
    pair, _, effect = item.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or not effect:
        raise ValueError(f"{item!r} is not a taint; write key=value:Effect or key:Effect")
    return Taint(key=key, value=value, effect=effect)


def _toleration(item: TolerationLike) -> Toleration:
    """A toleration, also as text: `key=value:Effect` (Equal), `key:Effect` or `key` (Exists)."""
    if isinstance(item, Toleration):
        return item
    if not isinstance(item, str):
        return msgspec.convert(dict(item), Toleration)
    pair, _, effect = item.partition(":")
    key, equals, value = pair.partition("=")
    return Toleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def _quantity_maps(manifest: dict[str, Any]) -> Iterable[dict[str, Any]]:
    spec, status = manifest.get("spec", {}), manifest.get("status", {})
    holders = [spec, *spec.get("containers", ()), *spec.get("initContainers", ())]
    found = [status.get("allocatable"), status.get("capacity"), spec.get("overhead")]
    for holder in holders:
        resources = holder.get("resources") or {}
        found += [resources.get("requests"), resources.get("limits")]
    return [quantities for quantities in found if quantities]
