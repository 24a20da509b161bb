"""Validation of claims, claim templates and device classes, in kube-apiserver's words.

Selectors are compiled and their costs estimated, as upstream does.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from stowplan.api.labels import label_value_errors
from stowplan.apiserver.field_errors import (
    annotations_causes,
    each,
    each_unique,
    key_problems,
    label_key_causes,
    label_name,
    labels_causes,
    name_causes,
    not_allowed,
    required,
    subdomain_name,
    too_long,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.storage_validation import driver_name_causes
from stowplan.cel.device import COST_LIMIT, LENGTH_LIMIT, compile_selector, worst_cost
from stowplan.cel.errors import CompileError

MOST_CONFIGS = 32
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_MOST_REQUESTS = _MOST_SELECTORS = _MOST_CONSTRAINTS = 32
_MOST_SUBREQUESTS = 8
_LONGEST_DATA = 10 * 1024
_LONGEST_IDENTIFIER = 32
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_IMMUTABLE = "field is immutable"
_NO_SUCH_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest"
    " separated by '/'"
)

#: Names of requests with the names of their subrequests.
Requests = dict[str, set[str]]


def name_of(item: Json) -> str:
    return str(item["name"])


def itself(item: Any) -> Any:
    return item


# Claims


def resource_claim_causes(claim: Json) -> list[Cause]:
    return claim_spec_causes(claim["spec"], "spec")


def resource_claim_update_causes(new: Json, old: Json) -> list[Cause]:
    return _immutable("spec", new, old)


def resource_claim_template_causes(template: Json) -> list[Cause]:
    metadata, at = template["spec"]["metadata"], "spec.metadata"
    causes = annotations_causes(f"{at}.annotations", metadata.get("annotations") or {})
    causes += labels_causes(f"{at}.labels", metadata.get("labels") or {})
    causes += [
        not_allowed(f"{at}.{name}", "cannot be set")
        for name in metadata
        if name not in ("annotations", "labels")
    ]
    return causes + claim_spec_causes(template["spec"]["spec"], "spec.spec")


def resource_claim_template_update_causes(new: Json, old: Json) -> list[Cause]:
    return _immutable("spec", new, old)


def _immutable(field: str, new: Json, old: Json) -> list[Cause]:
    return [] if new[field] == old[field] else [wrong(field, new[field], _IMMUTABLE)]


def claim_spec_causes(spec: Json, path: str) -> list[Cause]:
    devices, at = spec["devices"], f"{path}.devices"
    names = request_names(devices)
    causes = each_unique(
        devices.get("requests"), _MOST_REQUESTS, f"{at}.requests", _request, name_of
    )

    def constraint_causes(constraint: Json, where: str) -> list[Cause]:
        return _constraint(constraint, where, names)

    def config_causes(config: Json, where: str) -> list[Cause]:
        return request_reference_causes(config, where, names) + config_content_causes(config, where)

    causes += each(
        devices.get("constraints"), _MOST_CONSTRAINTS, f"{at}.constraints", constraint_causes
    )
    return causes + each(devices.get("config"), MOST_CONFIGS, f"{at}.config", config_causes)


def request_names(devices: Json) -> Requests:
    return {
        request["name"]: {part["name"] for part in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _request(request: Json, at: str) -> list[Cause]:
    causes = name_causes(f"{at}.name", request["name"], label_name)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    which = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        causes.append(required(at, which))
    elif exactly is not None and alternatives:
        causes.append(wrong(at, None, f"{which}, but multiple fields are set"))
    elif exactly is not None:
        causes += _device_request(exactly, f"{at}.exactly")
    else:
        path = f"{at}.firstAvailable"
        causes += each_unique(alternatives, _MOST_SUBREQUESTS, path, _subrequest, name_of)
    return causes


def _subrequest(request: Json, at: str) -> list[Cause]:
    return name_causes(f"{at}.name", request["name"], label_name) + _device_request(request, at)


def _device_request(request: Json, at: str) -> list[Cause]:
    name = request["deviceClassName"]
    field = f"{at}.deviceClassName"
    causes = name_causes(field, name, subdomain_name) if name else [required(field)]
    causes += each(request.get("selectors"), _MOST_SELECTORS, f"{at}.selectors", selector_causes)
    mode, count = request["allocationMode"], request.get("count", 0)
    if mode == "All":
        if count:
            detail = "must not be specified when allocationMode is 'All'"
            causes.append(wrong(f"{at}.count", count, detail))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(wrong(f"{at}.count", count, "must be greater than zero"))
    else:
        causes.append(unsupported(f"{at}.allocationMode", mode, ("All", "ExactCount")))
    return causes + each(request.get("tolerations"), -1, f"{at}.tolerations", _toleration)


def selector_causes(selector: Json, at: str) -> list[Cause]:
    if "cel" not in selector:
        return [required(f"{at}.cel")]
    expression, field = selector["cel"]["expression"], f"{at}.cel.expression"
    if len(expression.encode()) > LENGTH_LIMIT:
        return [too_long(field, LENGTH_LIMIT)]
    try:
        compile_selector(expression)
    except CompileError as error:
        return [wrong(field, expression, str(error))]
    if worst_cost(expression) > COST_LIMIT:
        return [not_allowed(field, "too complex, exceeds cost limit")]
    return []


def _toleration(toleration: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    if toleration.get("key"):
        causes += label_key_causes(f"{at}.key", toleration["key"])
    operator, value = toleration["operator"], toleration.get("value", "")
    if operator == "Exists":
        if value:
            causes.append(wrong(f"{at}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += [wrong(f"{at}.value", value, text) for text in label_value_errors(value)]
    else:
        causes.append(unsupported(f"{at}.operator", operator, ("Equal", "Exists")))
    effect = toleration.get("effect", "")
    if effect and effect not in TAINT_EFFECTS:
        causes.append(unsupported(f"{at}.effect", effect, TAINT_EFFECTS))
    return causes


def _constraint(constraint: Json, at: str, names: Requests) -> list[Cause]:
    causes = request_reference_causes(constraint, at, names)
    for field in ("matchAttribute", "distinctAttribute"):
        if field in constraint:
            name = constraint[field]
            causes += qualified_name_causes(name, f"{at}.{field}")
            if "/" not in name:
                detail = "a fully qualified name must be a domain and a name separated by a slash"
                causes.append(wrong(f"{at}.{field}", name, detail))
            return causes
    detail = (
        'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields'
        " are set"
    )
    return [*causes, required(at, detail)]


def request_reference_causes(holder: Json, at: str, names: Requests) -> list[Cause]:
    def check(name: str, where: str) -> list[Cause]:
        return request_name_causes(name, where, names)

    return each_unique(holder.get("requests"), _MOST_REQUESTS, f"{at}.requests", check, itself)


def request_name_causes(name: str, at: str, names: Requests) -> list[Cause]:
    parts = name.split("/")
    unknown = wrong(at, name, _NO_SUCH_REQUEST)
    if len(parts) > 2:
        return [unknown]
    causes = [cause for part in parts for cause in name_causes(at, part, label_name)]
    known = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    return causes if known else [*causes, unknown]


def qualified_name_causes(name: str, at: str) -> list[Cause]:
    """Of an attribute or a capacity: an identifier, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, at)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    causes = (
        driver_name_causes(domain, at)
        if domain
        else [wrong(at, "", "the domain must not be empty")]
    )
    if not identifier:
        return [*causes, wrong(at, "", "the name must not be empty")]
    return causes + _identifier(identifier, at)


def _identifier(text: str, at: str) -> list[Cause]:
    causes = [too_long(at, _LONGEST_IDENTIFIER)] if len(text) > _LONGEST_IDENTIFIER else []
    if not re.fullmatch(_IDENTIFIER, text):
        detail = (
            "a valid C identifier must start with alphabetic character or '_', followed by a"
            " string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or"
            f" 'MyName', regex used for validation is '{_IDENTIFIER}')"
        )
        causes.append(wrong(at, text, detail))
    return causes


def config_content_causes(config: Json, at: str) -> list[Cause]:
    if "opaque" not in config:
        return [required(f"{at}.opaque")]
    opaque = config["opaque"]
    causes = driver_name_causes(opaque["driver"], f"{at}.opaque.driver")
    return causes + raw_object_causes(opaque.get("parameters"), f"{at}.opaque.parameters")


def raw_object_causes(value: Any, at: str) -> list[Cause]:
    if value is None:
        return [required(at)]
    if len(msgspec.json.encode(value)) > _LONGEST_DATA:
        return [too_long(at, _LONGEST_DATA)]
    if not isinstance(value, dict):
        return [wrong(at, "<value omitted>", "must be a valid JSON object")]
    return []


# Device classes


def device_class_causes(device_class: Json) -> list[Cause]:
    spec = device_class["spec"]
    causes = each(spec.get("selectors"), _MOST_SELECTORS, "spec.selectors", selector_causes)
    causes += each(spec.get("config"), MOST_CONFIGS, "spec.config", config_content_causes)
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended_resource(name):
        detail = "must be a valid extended resource name"
        causes.append(wrong("spec.extendedResourceName", name, detail))
    return causes


def _is_extended_resource(name: str) -> bool:
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not key_problems(f"requests.{name}")
