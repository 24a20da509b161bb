"""Validation of claims, volumes, classes and what CSI drivers say of themselves.

As for pods, what a scheduler's user writes is checked; the sources of volumes only as far as the
scheduler reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stowplan.api.quantity import nanos
from stowplan.apiserver.field_errors import (
    duplicate,
    key_problems,
    label_key_causes,
    name_causes,
    not_allowed,
    not_negative,
    required,
    subdomain_name,
    too_long,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.placement_validation import label_selector_causes, node_selector_causes
from stowplan.apiserver.statuses import Cause

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_LONGEST_DRIVER_NAME = 63
_LONGEST_NODE_ID = 256


# Claims and volumes


def claim_spec_causes(spec: Json, path: str) -> list[Cause]:
    """Of a claim, or of the template of one in a pod's ephemeral volume."""
    causes: list[Cause] = []
    if not spec.get("accessModes"):
        causes.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    causes += label_selector_causes(spec.get("selector"), f"{path}.selector")
    causes += _access_modes(spec, path)
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = f"{path}.resources[storage]"
    if amount is None:
        causes.append(required(at))
    else:
        causes += _positive_amount(at, amount)
    if spec.get("storageClassName"):
        at = f"{path}.storageClassName"
        causes += name_causes(at, spec["storageClassName"], subdomain_name)
    return causes + _volume_mode(spec, path)


def _claim(claim: Json) -> list[Cause]:
    return claim_spec_causes(claim["spec"], "spec")


def _volume(volume: Json) -> list[Cause]:
    spec = volume["spec"]
    causes: list[Cause] = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes"))
    causes += _access_modes(spec, "spec")
    capacity = spec.get("capacity")
    if not capacity:
        causes.append(required("spec.capacity"))
    if not capacity or capacity.keys() != {"storage"}:
        shown = dict(sorted(capacity.items())) if capacity else None
        causes.append(unsupported("spec.capacity", shown, ("storage",)))
    for name, amount in (capacity or {}).items():
        causes += _positive_amount(f"spec.capacity[{name}]", amount)
    policy = spec.get("persistentVolumeReclaimPolicy")
    policies = ("Delete", "Recycle", "Retain")
    if policy and policy not in policies:
        causes.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, policies))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if "required" not in affinity:
            detail = "must specify required node constraints"
            causes.append(required("spec.nodeAffinity.required", detail))
        causes += node_selector_causes(affinity.get("required"), "spec.nodeAffinity.required")
    causes += _volume_source(spec)
    if spec.get("storageClassName"):
        causes += name_causes("spec.storageClassName", spec["storageClassName"], subdomain_name)
    causes += _volume_mode(spec, "spec")
    attributes = spec.get("volumeAttributesClassName")
    if attributes is not None:
        at = "spec.volumeAttributesClassName"
        if not attributes:
            causes.append(required(at, "an empty string is disallowed"))
        else:
            causes += name_causes(at, attributes, subdomain_name)
        if "csi" not in spec:
            detail = "has to be specified when using volumeAttributesClassName"
            causes.append(required("spec.csi", detail))
    return causes


_NOT_A_SOURCE = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def _volume_source(spec: Json) -> list[Cause]:
    sources = [name for name in spec if name not in _NOT_A_SOURCE]
    if not sources:
        return [required("spec", "must specify a volume type")]
    causes = [
        not_allowed(f"spec.{name}", "may not specify more than 1 volume type")
        for name in sources[1:]
    ]
    if sources == ["csi"]:
        causes += driver_name_causes(spec["csi"].get("driver", ""), "spec.csi.driver")
        if not spec["csi"].get("volumeHandle"):
            causes.append(required("spec.csi.volumeHandle"))
    elif sources == ["local"] and "nodeAffinity" not in spec:
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes


def _access_modes(spec: Json, path: str) -> list[Cause]:
    modes = spec.get("accessModes") or ()
    at = f"{path}.accessModes"
    causes = [unsupported(at, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    known = {mode for mode in modes if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        causes.append(not_allowed(at, "may not use ReadWriteOncePod with other access modes"))
    return causes


def _volume_mode(spec: Json, path: str) -> list[Cause]:
    mode = spec.get("volumeMode")
    if mode is None or mode in _VOLUME_MODES:
        return []
    return [unsupported(f"{path}.volumeMode", mode, _VOLUME_MODES)]


def _positive_amount(field: str, amount: str) -> list[Cause]:
    return [] if nanos(amount) > 0 else [wrong(field, amount, "must be greater than zero")]


# Classes


def _storage_class(storage_class: Json) -> list[Cause]:
    causes: list[Cause] = []
    provisioner = storage_class["provisioner"]
    if not provisioner:
        causes.append(required("provisioner"))
    else:
        problems = key_problems(provisioner.lower())
        causes += [wrong("provisioner", provisioner.lower(), problem) for problem in problems]
    policy, policies = storage_class["reclaimPolicy"], ("Delete", "Retain")
    if policy and policy not in policies:
        causes.append(unsupported("reclaimPolicy", policy, policies))
    mode, modes = storage_class["volumeBindingMode"], ("Immediate", "WaitForFirstConsumer")
    if mode not in modes:
        causes.append(unsupported("volumeBindingMode", mode, modes))
    for index, term in enumerate(storage_class.get("allowedTopologies") or ()):
        rules = term.get("matchLabelExpressions") or ()
        causes += _topology_term(rules, f"allowedTopologies[{index}].matchLabelExpressions")
    return causes


def _topology_term(rules: Iterable[Json], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        at, key, values = f"{path}[{index}]", rule["key"], rule.get("values") or ()
        if not values:
            causes.append(required(f"{at}.values"))
        repeated = [place for place, value in enumerate(values) if value in values[:place]]
        causes += [duplicate(f"{at}.values[{place}]", values[place]) for place in repeated]
        causes += label_key_causes(f"{at}.key", key)
        if key in seen:
            causes.append(duplicate(f"{at}.key", key))
        seen.add(key)
    return causes


# CSI


def driver_name_causes(name: str, at: str) -> list[Cause]:
    if not name:
        return [required(at)]
    causes: list[Cause] = []
    if len(name) > _LONGEST_DRIVER_NAME:
        causes.append(too_long(at, _LONGEST_DRIVER_NAME))
    return causes + [wrong(at, name, problem) for problem in subdomain_name(name.lower())]


def _csi_node(node: Json) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, driver in enumerate(node["spec"].get("drivers") or ()):
        at, name = f"spec.drivers[{index}]", driver["name"]
        causes += driver_name_causes(name, f"{at}.name")
        causes += _node_id(driver["nodeID"], f"{at}.nodeID")
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            causes += not_negative(f"{at}.allocatable.count", count)
        if name in seen:
            causes.append(duplicate(f"{at}.name", name))
        seen.add(name)
        keys = driver.get("topologyKeys") or ()
        for place, key in enumerate(keys):
            if key in keys[:place]:
                causes.append(duplicate(at, key))
            causes += label_key_causes(at, key)
    return causes


def _node_id(node_id: str, at: str) -> list[Cause]:
    if not node_id:
        return [required(at)]
    if len(node_id) > _LONGEST_NODE_ID:
        return [wrong(at, node_id, f"must be {_LONGEST_NODE_ID} characters or less")]
    return []


def _csi_driver(driver: Json) -> list[Cause]:
    causes: list[Cause] = []
    policy = driver["spec"].get("fsGroupPolicy")
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    if policy is not None and policy not in policies:
        causes.append(unsupported("spec.fsGroupPolicy", policy, policies))
    for mode in driver["spec"].get("volumeLifecycleModes") or ():
        modes = ("Persistent", "Ephemeral")
        if mode not in modes:
            causes.append(unsupported("spec.volumeLifecycleModes", mode, modes))
    return causes


def _csi_capacity(capacity: Json) -> list[Cause]:
    causes = label_selector_causes(capacity.get("nodeTopology"), "nodeTopology")
    causes += name_causes("storageClassName", capacity["storageClassName"], subdomain_name)
    amount = capacity.get("capacity")
    if amount is not None and nanos(amount) < 0:
        causes.append(wrong("capacity", amount, "must be greater than or equal to 0"))
    return causes


def _attachment(attachment: Json) -> list[Cause]:
    spec = attachment["spec"]
    causes = driver_name_causes(spec["attacher"], "spec.attacher")
    source = spec["source"]
    which = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if "inlineVolumeSpec" in source and "persistentVolumeName" in source:
        causes.append(not_allowed("spec.source", which))
    elif "inlineVolumeSpec" not in source and "persistentVolumeName" not in source:
        causes.append(required("spec.source", which))
    causes += name_causes("spec.nodeName", spec["nodeName"], subdomain_name)
    if source.get("persistentVolumeName"):
        at = "spec.source.persistentVolumeName"
        causes += name_causes(at, source["persistentVolumeName"], subdomain_name)
    return causes


STORAGE_CAUSES: dict[str, Callable[[Json], list[Cause]]] = {
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "storageclasses": _storage_class,
    "csinodes": _csi_node,
    "csidrivers": _csi_driver,
    "csistoragecapacities": _csi_capacity,
    "volumeattachments": _attachment,
}
