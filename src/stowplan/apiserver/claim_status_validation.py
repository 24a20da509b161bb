"""Validation of what schedulers and drivers write into a claim: /status of resourceclaims."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from stowplan.apiserver.device_strategies import device_key
from stowplan.apiserver.device_validation import (
    MOST_CONFIGS,
    Requests,
    config_content_causes,
    itself,
    raw_object_causes,
    request_name_causes,
    request_names,
    request_reference_causes,
)
from stowplan.apiserver.field_errors import (
    duplicate,
    each,
    each_unique,
    label_key_causes,
    label_name,
    name_causes,
    not_allowed,
    required,
    subdomain_name,
    too_long,
    too_many,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.placement_validation import node_selector_causes
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.storage_validation import driver_name_causes

_MOST_RESULTS = 32
_MOST_CONSUMERS = 256
_MOST_BINDING_CONDITIONS = 4
_MOST_DEVICE_CONDITIONS = 8
_MOST_IPS = 16
_LONGEST_INTERFACE, _LONGEST_HARDWARE_ADDRESS = 256, 128
_LONGEST_POOL = 253
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_IMMUTABLE = "field is immutable"


def resource_claim_status_causes(new: Json, old: Json) -> list[Cause]:
    status, before = new["status"], old["status"]
    allocation = status.get("allocation")
    consumers = status.get("reservedFor") or []
    causes = each_unique(
        consumers, _MOST_CONSUMERS, "status.reservedFor", _consumer, lambda ref: ref["uid"]
    )
    allocated = {device_key(result) for result in _results(allocation)}

    def device_causes(device: Json, at: str) -> list[Cause]:
        return _device_status(device, at, allocated)

    causes += each_unique(status.get("devices"), -1, "status.devices", device_causes, _shown_device)
    if consumers and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        causes.append(not_allowed("status.reservedFor", detail))
    elif "deletionTimestamp" in new["metadata"]:
        known = before.get("reservedFor") or []
        if any(consumer not in known for consumer in consumers):
            detail = (
                "new entries may not be added while `deallocationRequested` or"
                " `deletionTimestamp` are set"
            )
            causes.append(not_allowed("status.reservedFor", detail))
    if allocation is not None and "allocation" in before:
        if allocation != before["allocation"]:
            causes.append(wrong("status.allocation", allocation, _IMMUTABLE))
    elif allocation is not None:
        names = request_names(new["spec"]["devices"])
        causes += _allocation(allocation, "status.allocation", names)
    return causes


def _results(allocation: Json | None) -> Iterable[Json]:
    return ((allocation or {}).get("devices") or {}).get("results") or ()


def _consumer(consumer: Json, at: str) -> list[Cause]:
    fields = ("resource", "name", "uid")
    return [required(f"{at}.{field}") for field in fields if not consumer[field]]


def _allocation(allocation: Json, at: str, names: Requests) -> list[Cause]:
    devices = allocation["devices"]

    def result_causes(result: Json, where: str) -> list[Cause]:
        return _result(result, where, names)

    def config_causes(config: Json, where: str) -> list[Cause]:
        source, sources = config["source"], ("FromClaim", "FromClass")
        causes: list[Cause] = []
        if not source:
            causes.append(required(f"{where}.source"))
        elif source not in sources:
            causes.append(unsupported(f"{where}.source", source, sources))
        causes += request_reference_causes(config, where, names)
        return causes + config_content_causes(config, where)

    path = f"{at}.devices"
    causes = each(devices.get("results"), _MOST_RESULTS, f"{path}.results", result_causes)
    causes += each(devices.get("config"), 2 * MOST_CONFIGS, f"{path}.config", config_causes)
    return causes + node_selector_causes(allocation.get("nodeSelector"), f"{at}.nodeSelector")


def _result(result: Json, at: str, names: Requests) -> list[Cause]:
    causes = request_name_causes(result["request"], f"{at}.request", names)
    causes += _device_place(result, at)
    causes += binding_condition_causes(result, at)
    return causes + _share(result, at)


def _device_place(device: Json, at: str) -> list[Cause]:
    causes = driver_name_causes(device["driver"], f"{at}.driver")
    causes += pool_name_causes(device["pool"], f"{at}.pool")
    return causes + name_causes(f"{at}.device", device["device"], label_name)


def pool_name_causes(name: str, at: str) -> list[Cause]:
    if not name:
        return [required(at)]
    causes = [too_long(at, _LONGEST_POOL)] if len(name) > _LONGEST_POOL else []
    for part in name.split("/"):
        causes += name_causes(at, part, subdomain_name)
    return causes


def binding_condition_causes(device: Json, at: str) -> list[Cause]:
    """Of a device, or of the result of its allocation."""
    fields = ("bindingConditions", "bindingFailureConditions")
    lists = [device.get(field) or [] for field in fields]
    causes: list[Cause] = []
    for field, types in zip(fields, lists, strict=True):
        causes += each(
            types,
            _MOST_BINDING_CONDITIONS,
            f"{at}.{field}",
            lambda text, where: label_key_causes(where, text),
        )
    for field, types in zip(fields, lists, strict=True):
        for index, text in enumerate(types):
            if text in types[:index]:
                causes.append(duplicate(f"{at}.{field}[{index}]", text))
            if field == "bindingFailureConditions" and text in lists[0]:
                detail = "bindingFailureConditions must not overlap with bindingConditions"
                causes.append(wrong(f"{at}.{field}[{index}]", text, detail))
    for one, other in (fields, fields[::-1]):
        if not device.get(one) and device.get(other):
            causes.append(wrong(f"{at}.{one}", None, f"{one} are required to use {other}"))
    return causes


def _share(device: Json, at: str) -> list[Cause]:
    share = device.get("shareID")
    if share is None:
        return []
    try:
        normal = str(uuid.UUID(share))
    except ValueError:
        detail = f"error validating uid: {_uuid_problem(share)}"
        return [wrong(f"{at}.shareID", share, detail)]
    if share == normal:
        return []
    detail = (
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with"
        " lowercase hexadecimal characters"
    )
    return [wrong(f"{at}.shareID", share, detail)]


def _uuid_problem(text: str) -> str:
    if len(text) in (32, 36, 38, 45):
        return "invalid UUID format"
    return f"invalid UUID length: {len(text)}"


def _shown_device(device: Json) -> Any:
    return device_key(device)


def _device_status(device: Json, at: str, allocated: set[Any]) -> list[Cause]:
    causes = _device_place(device, at) + _share(device, at)
    if device_key(device) not in allocated:
        causes.append(wrong(at, _shown_id(device), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or ()
    if len(conditions) > _MOST_DEVICE_CONDITIONS:
        field = f"{at}.conditions"
        causes.append(too_many(field, len(conditions), _MOST_DEVICE_CONDITIONS))
    causes += conditions_causes(conditions, f"{at}.conditions")
    if device.get("data") is not None:
        causes += raw_object_causes(device["data"], f"{at}.data")
    return causes + _network_data(device.get("networkData") or {}, f"{at}.networkData")


def _shown_id(device: Json) -> Json:
    return {
        "Driver": device["driver"],
        "Pool": device["pool"],
        "Device": device["device"],
        "ShareID": device.get("shareID") or "",
    }


def conditions_causes(conditions: Sequence[Json], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, kind = f"{path}[{index}]", condition["type"]
        if kind in seen:
            causes.append(duplicate(f"{at}.type", kind))
        seen.add(kind)
        causes += label_key_causes(f"{at}.type", kind)
        status, statuses = condition["status"], ("False", "True", "Unknown")
        if status not in statuses:
            causes.append(unsupported(f"{at}.status", status, statuses))
        generation = condition.get("observedGeneration", 0)
        if generation < 0:
            detail = "must be greater than or equal to zero"
            causes.append(wrong(f"{at}.observedGeneration", generation, detail))
        if not condition.get("lastTransitionTime"):
            causes.append(required(f"{at}.lastTransitionTime"))
        reason = condition["reason"]
        if not reason:
            causes.append(required(f"{at}.reason"))
        elif not re.fullmatch(_REASON, reason):
            detail = (
                "a condition reason must start with alphabetic character, optionally followed by"
                " a string of alphanumeric characters or '_,:', and must end with an alphanumeric"
                " character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or"
                f" 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is"
                f" '{_REASON}')"
            )
            causes.append(wrong(f"{at}.reason", reason, detail))
        if len(reason) > _LONGEST_REASON:
            causes.append(too_long(f"{at}.reason", _LONGEST_REASON))
        if len(condition["message"]) > _LONGEST_MESSAGE:
            causes.append(too_long(f"{at}.message", _LONGEST_MESSAGE))
    return causes


def _network_data(data: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    for field, longest in (
        ("interfaceName", _LONGEST_INTERFACE),
        ("hardwareAddress", _LONGEST_HARDWARE_ADDRESS),
    ):
        if len(data.get(field, "").encode()) > longest:
            causes.append(too_long(f"{at}.{field}", longest))
    return causes + each_unique(data.get("ips"), _MOST_IPS, f"{at}.ips", _address, itself)


def _address(text: str, at: str) -> list[Cause]:
    try:
        if "/" not in text:
            raise ValueError
        canonical = str(ipaddress.ip_interface(text))
    except ValueError:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [wrong(at, text, detail)]
    if text != canonical:
        return [wrong(at, text, f'must be in canonical form ("{canonical}")')]
    return []
