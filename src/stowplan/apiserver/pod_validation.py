"""Validation of pod specs, of pods and of templates, and of what may change in a pod.

A subset of kube-apiserver's checks: fields that concern scheduling, and values that would break
this server's own code. Fields that are not used here (probes, security contexts, mounts) pass.
"""

from __future__ import annotations

from stowplan.api.quantity import nanos
from stowplan.apiserver.field_errors import (
    duplicate,
    in_range,
    label_name,
    name_causes,
    not_allowed,
    one_of,
    required,
    subdomain_name,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.placement_validation import placement_causes, toleration_causes
from stowplan.apiserver.pod_claims_validation import (
    claim_statuses_causes,
    container_claims_causes,
    pod_claims_causes,
)
from stowplan.apiserver.pod_defaults import sum_of_containers
from stowplan.apiserver.resource_validation import resources_causes
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.volume_validation import volumes_causes

_INT32_MAX = 2**31 - 1
_CONTAINER_LISTS = ("containers", "initContainers")
_MAY_CHANGE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_causes(pod: Json) -> list[Cause]:
    """A new pod."""
    spec = pod["spec"]
    causes = pod_spec_causes(spec, "spec")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        causes.append(not_allowed("spec.nodeName", detail))
    return causes


def pod_spec_causes(spec: Json, path: str) -> list[Cause]:
    causes = volumes_causes(spec.get("volumes") or (), f"{path}.volumes")
    causes += pod_claims_causes(spec, f"{path}.resourceClaims")
    causes += _containers(spec, path)
    if spec.get("resources"):
        causes += resources_causes(spec["resources"], f"{path}.resources", pod_level=True)
        causes += _enough_for_containers(spec, f"{path}.resources.requests")
    restart = ("Always", "OnFailure", "Never")
    causes += one_of(f"{path}.restartPolicy", spec["restartPolicy"], restart)
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    causes += one_of(f"{path}.dnsPolicy", spec["dnsPolicy"], dns)
    causes += placement_causes(spec, path)
    for name in ("serviceAccountName", "nodeName", "priorityClassName"):
        if spec.get(name) and name != "priorityClassName":
            causes += name_causes(f"{path}.{name}", spec[name], subdomain_name)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        causes += in_range(f"{path}.activeDeadlineSeconds", deadline, 1, _INT32_MAX)
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            causes += name_causes(f"{path}.{name}", spec[name], label_name)
    causes += toleration_causes(spec.get("tolerations"), f"{path}.tolerations")
    if spec.get("priorityClassName"):
        at = f"{path}.priorityClassName"
        causes += name_causes(at, spec["priorityClassName"], subdomain_name)
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        supported = ("PreemptLowerPriority", "Never")
        causes += one_of(f"{path}.preemptionPolicy", policy, supported)
    if spec.get("overhead"):
        # Upstream checks it as if it were limits, and says so.
        causes += resources_causes({"limits": spec["overhead"]}, f"{path}.overhead")
    return causes


def _enough_for_containers(spec: Json, path: str) -> list[Cause]:
    """What is asked for the whole pod covers what its containers ask for together."""
    causes: list[Cause] = []
    for name, amount in (spec["resources"].get("requests") or {}).items():
        total = sum_of_containers(spec, name)
        if total is not None and nanos(total) > nanos(amount):
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            causes.append(wrong(f"{path}[{name}]", amount, detail))
    return causes


def _containers(spec: Json, path: str) -> list[Cause]:
    if not spec.get("containers"):
        return [required(f"{path}.containers")]
    causes: list[Cause] = []
    seen: set[str] = set()
    host_ports: set[tuple[int, str, str]] = set()
    for list_name in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(list_name) or ()):
            at = f"{path}.{list_name}[{index}]"
            causes += _container(container, at)
            causes += container_claims_causes(container, spec, f"{at}.resources.claims")
            name = container["name"]
            if name in seen:
                causes.append(duplicate(f"{at}.name", name))
            seen.add(name)
            if list_name == "containers":
                causes += _host_port_conflicts(container, at, host_ports)
    return causes


def _container(container: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    if not container["name"]:
        causes.append(required(f"{at}.name"))
    else:
        causes += name_causes(f"{at}.name", container["name"], label_name)
    if not container.get("image"):
        causes.append(required(f"{at}.image"))
    for index, port in enumerate(container.get("ports") or ()):
        causes += _port(port, f"{at}.ports[{index}]")
    pull = ("Always", "IfNotPresent", "Never")
    policy = container["imagePullPolicy"]
    if policy not in pull:
        causes.append(unsupported(f"{at}.imagePullPolicy", policy, pull))
    return causes + resources_causes(container["resources"], f"{at}.resources")


def _port(port: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    if not port["containerPort"]:
        causes.append(required(f"{at}.containerPort"))
    else:
        causes += in_range(f"{at}.containerPort", port["containerPort"], 1, 65535)
    if port.get("hostPort"):
        causes += in_range(f"{at}.hostPort", port["hostPort"], 1, 65535)
    protocols = ("SCTP", "TCP", "UDP")
    if port["protocol"] not in protocols:
        causes.append(unsupported(f"{at}.protocol", port["protocol"], protocols))
    return causes


def _host_port_conflicts(container: Json, at: str, seen: set[tuple[int, str, str]]) -> list[Cause]:
    causes: list[Cause] = []
    for index, port in enumerate(container.get("ports") or ()):
        if not port.get("hostPort"):
            continue
        key = (port["hostPort"], port.get("hostIP", ""), port["protocol"])
        if key in seen:
            text = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            causes.append(duplicate(f"{at}.ports[{index}].hostPort", text))
        seen.add(key)
    return causes


# Updates


def pod_update_causes(new: Json, old: Json) -> list[Cause]:
    """Almost nothing of a pod's spec may change after its creation."""
    spec, old_spec = new["spec"], old["spec"]
    causes = pod_spec_causes(spec, "spec")
    for name in _CONTAINER_LISTS:
        if len(spec.get(name) or ()) != len(old_spec.get(name) or ()):
            detail = "pod updates may not add or remove containers"
            return [*causes, not_allowed(f"spec.{name}", detail)]
    causes += _deadline(spec, old_spec)
    causes += _only_added_tolerations(spec, old_spec)
    causes += _only_removed_gates(spec, old_spec)
    causes += _only_added_node_selectors(spec, old_spec)
    if _unchangeable(spec, old_spec) != _unchangeable(old_spec, old_spec):
        detail = f"pod updates may not change fields other than {_MAY_CHANGE}\n"
        causes.append(not_allowed("spec", detail))
    return causes


def _unchangeable(spec: Json, old_spec: Json) -> Json:
    """The spec without what an update may change."""
    kept = dict(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        kept.pop(name, None)
    for name in _CONTAINER_LISTS:
        kept[name] = [
            {key: value for key, value in container.items() if key != "image"}
            for container in spec.get(name) or ()
        ]
    if old_spec.get("schedulingGates"):  # node selection of a gated pod can still be narrowed
        kept.pop("nodeSelector", None)
        affinity = {**(kept.pop("affinity", None) or {})}
        affinity.pop("nodeAffinity", None)
        kept["affinity"] = affinity
    return kept


def _deadline(spec: Json, old_spec: Json) -> list[Cause]:
    at = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    if new is None and old is not None:
        return [wrong(at, None, "must not update from a positive integer to nil value")]
    if new is not None and old is not None and old < new:
        return [wrong(at, new, "must be less than or equal to previous value")]
    return []


def _only_added_tolerations(spec: Json, old_spec: Json) -> list[Cause]:
    def but_seconds(toleration: Json) -> Json:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    now = [but_seconds(toleration) for toleration in spec.get("tolerations") or ()]
    if all(but_seconds(old) in now for old in old_spec.get("tolerations") or ()):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [not_allowed("spec.tolerations", detail)]


def _only_removed_gates(spec: Json, old_spec: Json) -> list[Cause]:
    before = {gate["name"] for gate in old_spec.get("schedulingGates") or ()}
    return [
        not_allowed(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate["name"] not in before
    ]


def _only_added_node_selectors(spec: Json, old_spec: Json) -> list[Cause]:
    """While a pod is gated it may be narrowed down; otherwise nothing of this may change."""
    if not old_spec.get("schedulingGates"):
        return []
    new, old = spec.get("nodeSelector") or {}, old_spec.get("nodeSelector") or {}
    if old.items() <= new.items():
        return []
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [wrong("spec.nodeSelector", new or None, detail)]


def pod_status_causes(new: Json, old: Json) -> list[Cause]:
    causes: list[Cause] = []
    status, old_status = new["status"], old["status"]
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != old_status.get("nominatedNodeName", ""):
        causes += name_causes("status.nominatedNodeName", nominated, subdomain_name)
        if old["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            causes.append(not_allowed("status.nominatedNodeName", detail))
    if status.get("qosClass") != old_status.get("qosClass"):
        causes.append(wrong("status.qosClass", status.get("qosClass"), "field is immutable"))
    return causes + claim_statuses_causes(new)
