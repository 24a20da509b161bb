"""Validation of the resource claims of a pod: of its spec, its containers and its status."""

from __future__ import annotations

from stowplan.apiserver.field_errors import (
    duplicate,
    label_name,
    missing,
    name_causes,
    required,
    subdomain_name,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause

_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


def pod_claims_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        at, name = f"{path}[{index}]", claim["name"]
        if not name:
            causes.append(required(f"{at}.name"))
        elif name in seen:
            causes.append(duplicate(f"{at}.name", name))
        else:
            causes += name_causes(f"{at}.name", name, label_name)
            seen.add(name)
        given = [field for field in _REFERENCES if field in claim]
        shown = {
            "Name": name,
            "ResourceClaimName": claim.get("resourceClaimName"),
            "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
        }
        if len(given) > 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            causes.append(wrong(at, shown, detail))
        if not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(wrong(at, shown, detail))
        for field in given:
            causes += name_causes(f"{at}.{field}", claim[field], subdomain_name)
    return causes


def container_claims_causes(container: Json, spec: Json, path: str) -> list[Cause]:
    """A container names claims of its pod, whole or by request, each once."""
    causes: list[Cause] = []
    known = {claim["name"] for claim in spec.get("resourceClaims") or () if claim["name"]}
    seen: set[str] = set()
    for index, claim in enumerate(container["resources"].get("claims") or ()):
        at, name, request = f"{path}[{index}]", claim["name"], claim.get("request", "")
        if not name:
            causes.append(required(at))
            continue
        if name in seen:
            causes.append(duplicate(at, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                causes += name_causes(f"{at}.request", request, label_name)
            if key in seen:
                causes.append(duplicate(at, key))
            elif not request:
                overlaps = [each for each in seen if each.startswith(f"{name}/")]
                causes += [duplicate(at, name) for _ in overlaps]
            seen.add(key)
        if name not in known:
            which = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{which}"
            causes.append(missing(at, name, detail))
    return causes


def claim_statuses_causes(pod: Json) -> list[Cause]:
    """Of `status.resourceClaimStatuses` and `status.extendedResourceClaimStatus`."""
    spec, status = pod["spec"], pod["status"]
    known = {claim["name"] for claim in spec.get("resourceClaims") or ()}
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        at, name = f"status.resourceClaimStatuses[{index}]", claim["name"]
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            causes.append(wrong(f"{at}.name", name, detail))
        if name in seen:
            causes.append(duplicate(f"{at}.name", name))
        seen.add(name)
        if "resourceClaimName" in claim:
            field = f"{at}.resourceClaimName"
            causes += name_causes(field, claim["resourceClaimName"], subdomain_name)
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        causes += _extended(extended, spec, "status.extendedResourceClaimStatus")
    return causes


def _extended(status: Json, spec: Json, path: str) -> list[Cause]:
    containers = {
        container["name"]: (container.get("resources") or {}).get("requests") or {}
        for container in (*(spec.get("initContainers") or ()), *spec["containers"])
    }
    mappings, at = status.get("requestMappings") or (), f"{path}.requestMappings"
    causes: list[Cause] = []
    if not mappings:
        causes.append(required(at, "at least one request mapping is required"))
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(mappings):
        where = f"{at}[{index}]"
        container, resource = mapping["containerName"], mapping["resourceName"]
        request = mapping["requestName"]
        if container not in containers:
            detail = (
                "must match the name of an entry in spec.initContainers.name or"
                " spec.containers.name"
            )
            causes.append(wrong(f"{where}.containerName", container, detail))
        elif resource not in containers[container]:
            detail = (
                "must match the extended resource name of an entry in"
                " spec.initContainers.resources.requests or spec.containers.resources.requests"
            )
            causes.append(wrong(f"{where}.resourceName", resource, detail))
        causes += name_causes(f"{path}.requestName", request, label_name)
        if (container, resource, request) in seen:
            for field in ("containerName", "resourceName", "requestName"):
                causes.append(duplicate(f"{where}.{field}", mapping[field]))
        seen.add((container, resource, request))
    name, field = status["resourceClaimName"], f"{path}.resourceClaimName"
    return causes + (name_causes(field, name, subdomain_name) if name else [required(field)])
