"""Defaults of claims and slices, and what the server drops from them before they are stored.

Feature gates are upstream's defaults: attributes that are lists and mappings to resources of nodes
are off, so they are dropped.
"""

from __future__ import annotations

from stowplan.apiserver.history import Json

_GATED_ATTRIBUTES = ("bools", "ints", "strings", "versions")


def default_claim_spec(spec: Json) -> None:
    """Of a claim, or of the claims that a template makes."""
    for request in spec["devices"].get("requests") or ():
        exactly = request.get("exactly")
        for part in ([exactly] if exactly is not None else []) + (
            request.get("firstAvailable") or []
        ):
            mode = part.setdefault("allocationMode", "ExactCount")
            if mode == "ExactCount":
                part.setdefault("count", 1)
            _default_tolerations(part)


def prepare_claim_status(status: Json, old: Json) -> None:
    """Set defaults, and drop what drivers reported of devices that are no longer allocated."""
    for result in _results(status):
        _default_tolerations(result)
    gone = {device_key(result) for result in _results(old)}
    gone -= {device_key(result) for result in _results(status)}
    kept = [each for each in status.get("devices") or () if device_key(each) not in gone]
    status.pop("devices", None)
    if kept:
        status["devices"] = kept


def default_taint_times(obj: Json, now: str) -> None:
    """Of the devices of a slice, or of a DeviceTaintRule."""
    spec = obj["spec"]
    taints = [taint for each in spec.get("devices") or () for taint in each.get("taints") or ()]
    for taint in [*taints, *([spec["taint"]] if "taint" in spec else [])]:
        taint.setdefault("timeAdded", now)


def renew_taint_time(new: Json, old: Json) -> None:
    """A rule's taint counts from its effect's last change, unless the client says otherwise."""
    taint, before = new["spec"]["taint"], old["spec"]["taint"]
    same_time = taint.get("timeAdded") == before.get("timeAdded")
    if same_time and taint["effect"] != before["effect"]:
        taint.pop("timeAdded", None)  # Defaulting sets the current time.


def drop_gated_fields(resource_slice: Json) -> None:
    for device in resource_slice["spec"].get("devices") or ():
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in (device.get("attributes") or {}).values():
            for name in _GATED_ATTRIBUTES:
                attribute.pop(name, None)


def device_key(device: Json) -> tuple[str, str, str, str | None]:
    """Driver, pool, device and share: what tells allocated devices apart."""
    return device["driver"], device["pool"], device["device"], device.get("shareID")


def _results(status: Json) -> list[Json]:
    allocation = status.get("allocation") or {}
    results: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return results


def _default_tolerations(part: Json) -> None:
    for toleration in part.get("tolerations") or ():
        toleration.setdefault("operator", "Equal")
