"""Validation of device taints and of DeviceTaintRules, in kube-apiserver's words."""

from __future__ import annotations

from stowplan.api.labels import label_value_errors
from stowplan.apiserver.claim_status_validation import conditions_causes, pool_name_causes
from stowplan.apiserver.device_validation import TAINT_EFFECTS
from stowplan.apiserver.field_errors import (
    label_key_causes,
    label_name,
    name_causes,
    required,
    too_many,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.storage_validation import driver_name_causes

_MOST_CONDITIONS = 8


def device_taint_rule_causes(rule: Json) -> list[Cause]:
    spec, at = rule["spec"], "spec.deviceSelector"
    selector = spec.get("deviceSelector") or {}
    causes: list[Cause] = []
    if "driver" in selector:
        causes += driver_name_causes(selector["driver"], f"{at}.driver")
    if "pool" in selector:
        causes += pool_name_causes(selector["pool"], f"{at}.pool")
    if "device" in selector:
        causes += name_causes(f"{at}.device", selector["device"], label_name)
    return causes + taint_causes(spec["taint"], "spec.taint")


def device_taint_rule_status_causes(rule: Json) -> list[Cause]:
    conditions, at = rule["status"].get("conditions") or [], "status.conditions"
    causes = conditions_causes(conditions, at)
    if len(conditions) > _MOST_CONDITIONS:
        causes.append(too_many(at, len(conditions), _MOST_CONDITIONS))
    return causes


def taint_causes(taint: Json, at: str) -> list[Cause]:
    causes = label_key_causes(f"{at}.key", taint["key"])
    value, effect = taint.get("value", ""), taint["effect"]
    causes += [wrong(f"{at}.value", value, problem) for problem in label_value_errors(value)]
    if not effect:
        causes.append(required(f"{at}.effect"))
    elif effect not in TAINT_EFFECTS:
        causes.append(unsupported(f"{at}.effect", effect, TAINT_EFFECTS))
    return causes
