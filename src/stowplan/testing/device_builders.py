"""Device classes, resource slices and claims for tests and scenarios, as JSON, in one call each.

    cluster.add(device_class("gpu", driver="gpu.example.com"))
    cluster.add(resource_slice("gpu.example.com", 8, node="n1", attributes={"model": "A100"}))
    cluster.add(claim_template("one-gpu", "gpu"))
    cluster.add_pod("train", claim_templates={"gpu": "one-gpu"})

A request may be given as the name of a class, or made by `device_request`. What these functions do
not offer is passed on in the API's spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
#: An attribute's value: text, a number, a flag, or {"version": "1.2.3"}.
Attribute: TypeAlias = str | int | bool | Mapping[str, Any]

API_VERSION = "resource.k8s.io/v1"


def device_class(
    name: str, *selectors: str, driver: str = "", extended_resource: str = "", **spec: Any
) -> Json:
    """A class of the devices that match all selectors, which are CEL, and have the driver."""
    expressions = list(selectors)
    if driver:
        expressions.insert(0, f'device.driver == "{driver}"')
    whole: Json = {**spec}
    if expressions:
        whole["selectors"] = [_selector(each) for each in expressions]
    if extended_resource:
        whole["extendedResourceName"] = extended_resource
    return _object("DeviceClass", {"name": name}, whole)


def device(
    name: str,
    *,
    attributes: Mapping[str, Attribute] | None = None,
    capacity: Mapping[str, str | Mapping[str, Any]] | None = None,
    **more: Any,
) -> Json:
    """A device of a slice. `more` is `taints`, `consumesCounters` and the like."""
    made: Json = {"name": name, **more}
    if attributes:
        made["attributes"] = {key: _attribute(value) for key, value in attributes.items()}
    if capacity:
        made["capacity"] = {
            key: {"value": amount} if isinstance(amount, str) else dict(amount)
            for key, amount in capacity.items()
        }
    return made


def resource_slice(
    driver: str,
    devices: int | Iterable[str | Json] = 1,
    *,
    node: str = "",
    name: str = "",
    pool: str = "",
    generation: int = 1,
    slices: int = 1,
    attributes: Mapping[str, Attribute] | None = None,
    capacity: Mapping[str, str | Mapping[str, Any]] | None = None,
    **spec: Any,
) -> Json:
    """Devices of a node, or of all nodes without one; a number makes `device-0`, `device-1`, ...

    `attributes` and `capacity` are those of devices that are given by name or number. The pool is
    named after the node. `spec` is `nodeSelector`, `sharedCounters`, ...
    """
    names = [f"device-{index}" for index in range(devices)] if isinstance(devices, int) else devices
    made = [
        device(each, attributes=attributes, capacity=capacity) if isinstance(each, str) else each
        for each in names
    ]
    pool = pool or node or "pool"
    whole: Json = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
        **({"devices": made} if made else {}),
        **spec,
    }
    if node:
        whole["nodeName"] = node
    elif not whole.keys() & {"nodeSelector", "perDeviceNodeSelection"}:
        whole["allNodes"] = True
    return _object("ResourceSlice", {"name": name or f"{pool}-{driver}"}, whole)


def device_request(
    device_class: str = "",
    name: str = "devices",
    *selectors: str,
    count: int = 1,
    first_available: Iterable[Json] = (),
    **more: Any,
) -> Json:
    """A request of a claim. `first_available` are alternatives, made by this function as well."""
    alternatives = [{"name": each["name"], **each["exactly"]} for each in first_available]
    if alternatives:
        return {"name": name, "firstAvailable": alternatives}
    exactly: Json = {"deviceClassName": device_class, **more}
    if exactly.get("allocationMode") != "All":
        exactly["count"] = count
    if selectors:
        exactly["selectors"] = [_selector(each) for each in selectors]
    return {"name": name, "exactly": exactly}


def resource_claim(
    name: str, *requests: str | Json, namespace: str = "default", **devices: Any
) -> Json:
    """A claim; `devices` are `constraints` and `config`."""
    metadata = {"name": name, "namespace": namespace}
    return _object("ResourceClaim", metadata, _claim_spec(requests, devices))


def claim_template(
    name: str, *requests: str | Json, namespace: str = "default", **devices: Any
) -> Json:
    """A template that gives every pod a claim of its own."""
    metadata = {"name": name, "namespace": namespace}
    return _object("ResourceClaimTemplate", metadata, {"spec": _claim_spec(requests, devices)})


def pod_claims(
    claims: Mapping[str, str] | None, templates: Mapping[str, str] | None
) -> list[dict[str, str]]:
    """The `resourceClaims` of a pod: its own names, with those of claims or of templates."""
    found = [{"name": name, "resourceClaimName": claim} for name, claim in (claims or {}).items()]
    return found + [
        {"name": name, "resourceClaimTemplateName": template}
        for name, template in (templates or {}).items()
    ]


def _claim_spec(requests: Iterable[str | Json], devices: Mapping[str, Any]) -> Json:
    made = [
        device_request(each, f"devices-{index}" if index else "devices")
        if isinstance(each, str)
        else each
        for index, each in enumerate(requests)
    ]
    return {"devices": {"requests": made, **devices}}


def _object(kind: str, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _selector(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _attribute(value: Attribute) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}
