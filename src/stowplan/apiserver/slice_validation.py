"""Validation of resource slices: pools, devices, attributes, capacities, counters and taints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stowplan.api.quantity import format_quantity, nanos
from stowplan.apiserver.claim_status_validation import (
    binding_condition_causes,
    pool_name_causes,
)
from stowplan.apiserver.device_taint_validation import taint_causes
from stowplan.apiserver.device_validation import name_of, qualified_name_causes
from stowplan.apiserver.field_errors import (
    Check,
    each,
    each_unique,
    label_name,
    name_causes,
    not_allowed,
    required,
    subdomain_name,
    too_long,
    too_many,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.placement_validation import node_selector_causes
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.storage_validation import driver_name_causes

_MOST_DEVICES, _MOST_ADVANCED_DEVICES = 128, 64
_MOST_COUNTER_SETS, _MOST_COUNTERS, _MOST_CONSUMPTIONS = 8, 32, 2
_MOST_ATTRIBUTES_AND_CAPACITIES = 32
_MOST_TAINTS = 16
_MOST_VALID_VALUES = 10
_LONGEST_VALUE = 64
_LONGEST_KEY = 63 + 1 + 32
_LONGEST_COUNTER_NAME = 63
_NANOS = 10**9
_IMMUTABLE = "field is immutable"
_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?"
    rf"(\+{_BUILD}(\.{_BUILD})*)?",
    re.ASCII,
)


def resource_slice_causes(resource_slice: Json) -> list[Cause]:
    return _slice(resource_slice, None)


def resource_slice_update_causes(new: Json, old: Json) -> list[Cause]:
    """The whole validation of an update: unchanged taints are not checked again."""
    return _slice(new, old)


def _slice(resource_slice: Json, old: Json | None) -> list[Cause]:
    spec, before = resource_slice["spec"], None if old is None else old["spec"]
    causes = driver_name_causes(spec["driver"], "spec.driver") + _pool(spec["pool"], "spec.pool")
    if before is not None:
        for field, now, then in (
            ("spec.pool.name", spec["pool"]["name"], before["pool"]["name"]),
            ("spec.driver", spec["driver"], before["driver"]),
            ("spec.nodeName", spec.get("nodeName"), before.get("nodeName")),
        ):
            if now != then:
                causes.append(wrong(field, now, _IMMUTABLE))
    causes += _slice_nodes(spec)
    if spec.get("sharedCounters") and spec.get("devices"):
        detail = "only one of `sharedCounters` or `devices` is allowed"
        causes.append(wrong("spec", "", detail))
    devices = spec.get("devices") or ()
    advanced = any(one.get("taints") or one.get("consumesCounters") for one in devices)
    known = {one["name"]: one for one in (before or {}).get("devices") or ()}
    on_devices = bool(spec.get("perDeviceNodeSelection"))

    def device_causes(device: Json, at: str) -> list[Cause]:
        return _device(device, known.get(device["name"]), at, on_devices=on_devices)

    most = _MOST_ADVANCED_DEVICES if advanced else _MOST_DEVICES
    causes += each_unique(devices, most, "spec.devices", device_causes, name_of)
    return causes + each_unique(
        spec.get("sharedCounters"), _MOST_COUNTER_SETS, "spec.sharedCounters", _counter_set, name_of
    )


def _pool(pool: Json, at: str) -> list[Cause]:
    causes = pool_name_causes(pool["name"], f"{at}.name")
    if pool["resourceSliceCount"] <= 0:
        field = f"{at}.resourceSliceCount"
        causes.append(wrong(field, pool["resourceSliceCount"], "must be greater than zero"))
    if pool["generation"] < 0:
        detail = "must be greater than or equal to zero"
        causes.append(wrong(f"{at}.generation", pool["generation"], detail))
    return causes


def _slice_nodes(spec: Json) -> list[Cause]:
    causes: list[Cause] = []
    given: list[str] = []
    name = spec.get("nodeName")
    if name:
        given.append("`nodeName`")
        causes += name_causes("spec.nodeName", name, subdomain_name)
    elif name is not None:
        detail = "must be either unset or set to a non-empty string"
        causes.append(wrong("spec.nodeName", name, detail))
    selector = spec.get("nodeSelector")
    if selector is not None:
        given.append("`nodeSelector`")
        causes += node_selector_causes(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            field = "spec.nodeSelector.nodeSelectorTerms"
            causes.append(wrong(field, terms, "must have exactly one node selector term"))
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(flag):
            given.append(f"`{flag}`")
        elif flag in spec:
            detail = "must be either unset or set to true"
            causes.append(wrong(f"spec.{flag}", spec[flag], detail))
    which = (
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is"
        " required"
    )
    if not given:
        causes.append(required("spec", which))
    elif len(given) > 1:
        shown = "{" + ", ".join(given) + "}"
        causes.append(wrong("spec", shown, f"{which}, but multiple fields are set"))
    return causes


# Devices


def _device(device: Json, old: Json | None, at: str, *, on_devices: bool) -> list[Cause]:
    causes = name_causes(f"{at}.name", device["name"], label_name)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _MOST_ATTRIBUTES_AND_CAPACITIES:
        detail = (
            "the total number of attributes and capacities must not exceed"
            f" {_MOST_ATTRIBUTES_AND_CAPACITIES}"
        )
        causes.append(wrong(at, count, detail))
    causes += _map(attributes, -1, f"{at}.attributes", _qualified, _attribute, _LONGEST_KEY)
    shared = bool(device.get("allowMultipleAllocations"))
    check = _shared_capacity if shared else _whole_capacity
    causes += _map(capacity, -1, f"{at}.capacity", _qualified, check, _LONGEST_KEY)
    if old is None or old.get("taints") != device.get("taints"):
        causes += each(device.get("taints"), _MOST_TAINTS, f"{at}.taints", taint_causes)
    causes += each_unique(
        device.get("consumesCounters"),
        _MOST_CONSUMPTIONS,
        f"{at}.consumesCounters",
        _consumption,
        lambda consumption: consumption["counterSet"],
    )
    causes += _device_nodes(device, at) if on_devices else _no_device_nodes(device, at)
    return causes + binding_condition_causes(device, at)


def _device_nodes(device: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    given: list[str] = []
    name = device.get("nodeName")
    if name:
        given.append("`nodeName`")
        causes += name_causes(f"{at}.nodeName", name, subdomain_name)
    elif name is not None:
        causes.append(wrong(f"{at}.nodeName", name, "must not be empty"))
    if "nodeSelector" in device:
        given.append("`nodeSelector`")
        causes += node_selector_causes(device["nodeSelector"], f"{at}.nodeSelector")
    if device.get("allNodes"):
        given.append("`allNodes`")
    elif "allNodes" in device:
        detail = "must be either unset or set to true"
        causes.append(wrong(f"{at}.allNodes", device["allNodes"], detail))
    which = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when"
        " `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    if not given:
        causes.append(required(at, which))
    elif len(given) > 1:
        causes.append(wrong(at, "{" + ", ".join(given) + "}", which))
    return causes


def _no_device_nodes(device: Json, at: str) -> list[Cause]:
    if not device.keys() & {"nodeName", "nodeSelector", "allNodes"}:
        return []
    detail = (
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is"
        " set to true in the ResourceSlice spec"
    )
    return [wrong(at, None, detail)]


def _map(
    items: Mapping[str, Any], most: int, at: str, check_key: Check, check: Check, longest: int
) -> list[Cause]:
    if 0 <= most < len(items):
        return [too_many(at, len(items), most)]
    causes: list[Cause] = []
    for key, item in sorted(items.items()):
        causes += check_key(key, at) + check(item, f"{at}[{_shortened(key, longest)}]")
    return causes


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    left = longest - len("...")
    return text[: (left + 1) // 2] + "..." + text[len(text) - left // 2 :]


def _qualified(name: str, at: str) -> list[Cause]:
    return qualified_name_causes(name, at)


def _attribute(attribute: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text.encode()) > _LONGEST_VALUE:
        causes.append(too_long(f"{at}.string", _LONGEST_VALUE))
    if version is not None:
        if not _SEMVER.fullmatch(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            causes.append(wrong(f"{at}.version", version, detail))
        if len(version.encode()) > _LONGEST_VALUE:
            causes.append(too_long(f"{at}.version", _LONGEST_VALUE))
    if len(attribute) != 1:
        shown = attribute or ""
        causes.append(wrong(at, shown, "exactly one value must be specified"))
    return causes


# Counters


def _counter_set(counter_set: Json, at: str) -> list[Cause]:
    return _counter_name(counter_set["name"], f"{at}.name") + _counters(counter_set, at)


def _consumption(consumption: Json, at: str) -> list[Cause]:
    return _counter_name(consumption["counterSet"], f"{at}.counterSet") + _counters(consumption, at)


def _counter_name(name: str, at: str) -> list[Cause]:
    return name_causes(at, name, label_name) if name else [required(at)]


def _counters(holder: Json, at: str) -> list[Cause]:
    counters, field = holder.get("counters"), f"{at}.counters"
    if not counters:
        return [required(field)]
    return _map(
        counters,
        _MOST_COUNTERS,
        field,
        lambda key, where: name_causes(where, key, label_name),
        lambda counter, where: [],
        _LONGEST_COUNTER_NAME,
    )


# Capacity


def _whole_capacity(capacity: Json, at: str) -> list[Cause]:
    if "requestPolicy" not in capacity:
        return []
    return [not_allowed(f"{at}.requestPolicy", "allowMultipleAllocations must be true")]


def _shared_capacity(capacity: Json, at: str) -> list[Cause]:
    policy, at = capacity.get("requestPolicy") or {}, f"{at}.requestPolicy"
    values, bounds, default = policy.get("validValues"), policy.get("validRange"), "default"
    if values and bounds is not None:
        detail = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange"'
            " at the same time"
        )
        return [not_allowed(at, detail)]
    for field, given in (("validValues", values), ("validRange", bounds)):
        if given and default not in policy:
            return [required(f"{at}.{default}", f"required when {field} is defined")]
    if values:
        return _valid_values(policy[default], capacity["value"], values, f"{at}.validValues")
    if bounds is not None:
        if default not in policy:
            return [required(f"{at}.{default}", "required when validRange is defined")]
        return _valid_range(policy[default], capacity["value"], bounds, f"{at}.validRange")
    return []


def _valid_values(default: str, capacity: str, values: list[str], at: str) -> list[Cause]:
    amounts = [nanos(value) for value in values]
    causes = [
        wrong(f"{at}[{index + 1}]", values[index + 1], "values must be sorted in ascending order")
        for index in range(len(values) - 1)
        if amounts[index] > amounts[index + 1]
    ]

    def option_causes(option: str, where: str) -> list[Cause]:
        if nanos(option) <= nanos(capacity):
            return []
        return [wrong(where, option, f"option is larger than capacity value: {capacity}")]

    causes += each_unique(
        values, _MOST_VALID_VALUES, at, option_causes, lambda value: str(_whole(value))
    )
    if len(values) > _MOST_VALID_VALUES or nanos(default) not in amounts:
        detail = "default value is not valid according to the requestPolicy"
        causes.append(wrong(at, default, detail))
    return causes


def _valid_range(default: str, capacity: str, bounds: Json, at: str) -> list[Cause]:
    least, most, step = bounds.get("min"), bounds.get("max"), bounds.get("step")
    if least is None:
        return [required(f"{at}.min", "required when validRange is defined")]
    causes: list[Cause] = []

    def refuse(field: str, shown: str, larger: str, smaller: str, detail: str) -> None:
        if nanos(larger) > nanos(smaller):
            causes.append(wrong(f"{at}.{field}", shown, detail))

    refuse("min", least, least, capacity, f"min is larger than capacity value: {capacity}")
    refuse("min", default, least, default, f"default is less than min: {least}")
    if most is not None:
        refuse("max", least, least, most, f"min is larger than max: {most}")
        refuse("max", most, most, capacity, f"max is larger than capacity value: {capacity}")
        refuse("max", default, default, most, f"default is more than max: {most}")
    if step is None:
        return causes
    added = _sum(least, step)
    detail = f"one step {added} is larger than capacity value: {capacity}"
    refuse("step", step, added, capacity, detail)
    for value in (default,) if most is None else (default, most):
        # DIVERGES: upstream divides by zero here; kube-apiserver answers with an error 500.
        if not _whole(step) or (_whole(value) - _whole(least)) % _whole(step):
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            causes.append(wrong(f"{at}.step", value, detail))
    return causes


def _whole(text: str) -> int:
    return -(-nanos(text) // _NANOS)


def _sum(one: str, other: str) -> str:
    """In the form of the first, as Go adds quantities."""
    total = nanos(one) + nanos(other)
    suffix = "Ki" if one.endswith("i") else ""
    if suffix and total % (1024 * _NANOS) == 0:
        return format_quantity(f"{total // (1024 * _NANOS)}{suffix}")
    return format_quantity(f"{total}n")
