"""Validation of the kinds that are not pods: what is required, what is immutable."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.apiserver.device_taint_validation import device_taint_rule_causes
from stowplan.apiserver.device_validation import (
    device_class_causes,
    resource_claim_causes,
    resource_claim_template_causes,
    resource_claim_template_update_causes,
    resource_claim_update_causes,
)
from stowplan.apiserver.field_errors import (
    not_allowed,
    not_negative,
    required,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.placement_validation import label_selector_causes, taint_causes
from stowplan.apiserver.pod_validation import pod_spec_causes
from stowplan.apiserver.resource_validation import amount_causes
from stowplan.apiserver.selection import labels_match
from stowplan.apiserver.slice_validation import (
    resource_slice_causes,
    resource_slice_update_causes,
)
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.storage_validation import STORAGE_CAUSES
from stowplan.apiserver.workload_validation import (
    deployment_causes,
    job_causes,
    percentage_causes,
    stateful_set_causes,
)

_HIGHEST_USER_PRIORITY = 1_000_000_000
_IMMUTABLE = "field is immutable"
_LABELS_DO_NOT_MATCH = "`selector` does not match template `labels`"


def _node(node: Json) -> list[Cause]:
    causes = taint_causes((node.get("spec") or {}).get("taints"), "metadata.taints")
    return causes + node_status_causes(node)


def node_status_causes(node: Json) -> list[Cause]:
    return [
        cause
        for part in ("capacity", "allocatable")
        for name, amount in (node["status"].get(part) or {}).items()
        for cause in amount_causes(name, amount, f"status.{part}.{name}")
    ]


def _node_update(node: Json, old: Json) -> list[Cause]:
    causes: list[Cause] = []
    spec, old_spec = node["spec"], old["spec"]
    for field in ("podCIDRs", "providerID"):
        if old_spec.get(field) and spec.get(field) != old_spec[field]:
            name = field.removesuffix("s")
            detail = f'node updates may not change {name} except from "" to valid'
            causes.append(not_allowed(f"spec.{field}", detail))
    return causes


def _priority_class(priority_class: Json) -> list[Cause]:
    causes: list[Cause] = []
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith("system-"):
        if name not in ("system-cluster-critical", "system-node-critical"):
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only."
                " error: " + name + " is not a known system priority class"
            )
            causes.append(not_allowed("metadata.name", detail))
    elif value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        causes.append(not_allowed("value", detail))
    policy, supported = priority_class["preemptionPolicy"], ("PreemptLowerPriority", "Never")
    if policy not in supported:
        causes.append(unsupported("preemptionPolicy", policy, supported))
    return causes


def _priority_class_update(new: Json, old: Json) -> list[Cause]:
    causes: list[Cause] = []
    if new["value"] != old["value"]:
        causes.append(not_allowed("value", "may not be changed in an update."))
    if new["preemptionPolicy"] != old["preemptionPolicy"]:
        causes.append(wrong("preemptionPolicy", new["preemptionPolicy"], _IMMUTABLE))
    return causes


def _budget(budget: Json) -> list[Cause]:
    spec = budget["spec"]
    causes: list[Cause] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        detail = "minAvailable and maxUnavailable cannot be both set"
        causes.append(wrong("spec", shown, detail))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if value is not None:
            causes += percentage_causes(f"spec.{field}", value)
    return causes + label_selector_causes(spec.get("selector"), "spec.selector")


def _lease(lease: Json) -> list[Cause]:
    spec = lease["spec"]
    causes: list[Cause] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        causes.append(wrong("spec.leaseTransitions", transitions, detail))
    return causes


def _storage_class_update(new: Json, old: Json) -> list[Cause]:
    changed = [name for name in new if new[name] != old.get(name)]
    causes = [
        not_allowed(field, f"updates to {field} are forbidden.")
        for field in ("parameters", "reclaimPolicy")
        if field in changed
    ]
    return causes + [
        wrong(field, new[field], _IMMUTABLE)
        for field in ("provisioner", "volumeBindingMode")
        if field in changed
    ]


def _workload(obj: Json) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if "replicas" in spec:
        causes += not_negative("spec.replicas", spec["replicas"])
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels") or {}
    if selector is None:
        causes.append(required("spec.selector"))
        causes.append(wrong("spec.template.metadata.labels", labels or None, _LABELS_DO_NOT_MATCH))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        detail = "empty selector is invalid for " + _NAMES.get(obj["kind"], obj["kind"].lower())
        causes.append(wrong("spec.selector", selector, detail))
    else:
        causes += label_selector_causes(selector, "spec.selector")
        if not causes and not labels_match(selector, labels):
            causes.append(wrong("spec.template.metadata.labels", labels, _LABELS_DO_NOT_MATCH))
    causes += pod_spec_causes(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


_NAMES = {"ReplicaSet": "deployment", "DaemonSet": "daemonset", "StatefulSet": "statefulset"}


def _workload_update(new: Json, old: Json) -> list[Cause]:
    if new["spec"].get("selector") != old["spec"].get("selector"):
        return [wrong("spec.selector", new["spec"].get("selector"), _IMMUTABLE)]
    return []


def _replication_controller(controller: Json) -> list[Cause]:
    spec = controller["spec"]
    selector, template = spec.get("selector") or {}, spec.get("template")
    causes: list[Cause] = []
    if not selector:
        causes.append(required("spec.selector"))
    if "replicas" in spec:
        causes += not_negative("spec.replicas", spec["replicas"])
    if template is None:
        return [*causes, required("spec.template")]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        causes.append(wrong("spec.template.metadata.labels", labels, _LABELS_DO_NOT_MATCH))
    causes += pod_spec_causes(template["spec"], "spec.template.spec")
    policy = template["spec"]["restartPolicy"]
    if policy != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def _job(job: Json) -> list[Cause]:
    template = job["spec"]["template"]["spec"]
    causes = job_causes(job) + pod_spec_causes(template, "spec.template.spec")
    if template["restartPolicy"] == "Always":
        detail = 'valid values: "OnFailure", "Never"'
        causes.append(required("spec.template.spec.restartPolicy", detail))
    return causes


def _service(service: Json) -> list[Cause]:
    spec = service["spec"]
    if spec.get("ports") or spec["type"] == "ExternalName" or spec.get("clusterIP") == "None":
        return []
    return [required("spec.ports")]


def event_causes(event: Json) -> list[Cause]:
    """An event lives in the namespace of what it is about."""
    namespace = event["metadata"]["namespace"]
    about = event["involvedObject"].get("namespace", "")
    mismatch = wrong("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        fits = namespace == (about or "default")
        return [] if fits else [mismatch]
    causes: list[Cause] = []
    if not about and namespace not in ("default", "kube-system"):
        causes.append(mismatch)
    for field, limit in _EVENT_LIMITS.items():
        text = event.get(field, "")
        if not text and field != "message":
            causes.append(required(field))
        if len(text) > limit:
            causes.append(wrong(field, "", f"can have at most {limit} characters"))
    return causes


_EVENT_LIMITS = {
    "reportingComponent": 316,
    "reportingInstance": 128,
    "action": 128,
    "reason": 128,
    "message": 1024,
}


def strict_event_causes(event: Json) -> list[Cause]:
    """What the newer group demands on top."""
    causes: list[Cause] = []
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        causes.append(wrong("type", "", f"has invalid value: {kind}"))
    return causes + [
        wrong(field, "", "needs to be unset")
        for field in ("firstTimestamp", "lastTimestamp", "count", "source")
        if event.get(field)
    ]


CREATE_CAUSES: dict[str, Callable[[Json], list[Cause]]] = {
    "nodes": _node,
    "priorityclasses": _priority_class,
    "poddisruptionbudgets": _budget,
    "leases": _lease,
    **STORAGE_CAUSES,
    "deployments": lambda obj: _workload(obj) + deployment_causes(obj),
    "replicasets": _workload,
    "replicationcontrollers": _replication_controller,
    "statefulsets": lambda obj: stateful_set_causes(obj) + _workload(obj),
    "daemonsets": _workload,
    "jobs": _job,
    "services": _service,
    "resourceclaims": resource_claim_causes,
    "resourceclaimtemplates": resource_claim_template_causes,
    "deviceclasses": device_class_causes,
    "resourceslices": resource_slice_causes,
    "devicetaintrules": device_taint_rule_causes,
}
UPDATE_CAUSES: dict[str, Callable[[Json, Json], list[Cause]]] = {
    "nodes": _node_update,
    "priorityclasses": _priority_class_update,
    "storageclasses": _storage_class_update,
    "deployments": _workload_update,
    "replicasets": _workload_update,
    "daemonsets": _workload_update,
    "resourceclaims": resource_claim_update_causes,
    "resourceclaimtemplates": resource_claim_template_update_causes,
    "resourceslices": resource_slice_update_causes,
}
#: An update of these is not validated as a creation as well.
CHECKED_AGAINST_OLD = frozenset({"resourceclaims", "resourceslices"})
