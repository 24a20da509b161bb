"""Rows of every kind with columns of its own, but pods; cells in the order of `tables.COLUMNS`.

Each function is given an object and the time, and returns all cells, the wide ones included.
Numbers and booleans stay what they are: kubectl prints them.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.table_text import (
    access_modes_text,
    age,
    container_cells,
    dig,
    has_condition,
    human_duration,
    items,
    labels_text,
    number,
    selector_text,
    since,
    text,
)
from stowplan.clock import parse_rfc3339

Json = dict[str, Any]

_ROLE_PREFIX = "node-role.kubernetes.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _name(obj: Json) -> str:
    return text(obj, "metadata", "name")


def default_row(obj: Json, _now: float) -> list[Any]:
    """Kinds without columns of their own; kubectl makes AGE of the date."""
    return [_name(obj), text(obj, "metadata", "creationTimestamp")]


def name_age_row(obj: Json, now: float) -> list[Any]:
    return [_name(obj), age(obj, now)]


def node_row(node: Json, now: float) -> list[Any]:
    status = ["Unknown"]
    for condition in items(node, "status", "conditions"):
        if condition.get("type") == "Ready":
            status = ["Ready" if condition.get("status") == "True" else "NotReady"]
    if dig(node, "spec", "unschedulable"):
        status.append("SchedulingDisabled")
    info = dig(node, "status", "nodeInfo") or {}
    kernel = text(info, "kernelVersion") or "<unknown>"
    if architecture := text(info, "architecture"):
        kernel += f" ({architecture})"
    return [
        _name(node),
        ",".join(status),
        _node_roles(node),
        age(node, now),
        text(info, "kubeletVersion"),
        _node_address(node, "InternalIP"),
        _node_address(node, "ExternalIP"),
        text(info, "osImage") or "<unknown>",
        kernel,
        text(info, "containerRuntimeVersion") or "<unknown>",
    ]


def _node_roles(node: Json) -> str:
    roles = set()
    for key, value in (dig(node, "metadata", "labels") or {}).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(roles - {""})) or "<none>"


def _node_address(node: Json, address_type: str) -> str:
    for address in items(node, "status", "addresses"):
        if address.get("type") == address_type:
            return text(address, "address")
    return "<none>"


def namespace_row(namespace: Json, now: float) -> list[Any]:
    return [_name(namespace), text(namespace, "status", "phase"), age(namespace, now)]


def event_row(event: Json, now: float) -> list[Any]:
    """Events of both APIs: core/v1 and events.k8s.io/v1 name the same fields differently."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp")
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    first_seen = since(first or event.get("eventTime"), now)
    last_seen = since(last, now) if last else first_seen
    count = event.get("count") or event.get("deprecatedCount") or 1
    if series := event.get("series"):
        last_seen = since(series.get("lastObservedTime"), now)
        count = number(series, "count")
    target = text(about, "kind").lower()
    if name := text(about, "name"):
        target += f"/{name}"
    component = text(source, "component") or text(event, "reportingController")
    component = component or text(event, "reportingComponent")
    instance = text(source, "host") or text(event, "reportingInstance")
    return [
        last_seen,
        text(event, "type"),
        text(event, "reason"),
        target,
        text(about, "fieldPath"),
        f"{component}, {instance}" if instance else component,
        (text(event, "message") or text(event, "note")).strip(),
        first_seen,
        count,
        _name(event),
    ]


def lease_row(lease: Json, now: float) -> list[Any]:
    return [_name(lease), text(lease, "spec", "holderIdentity"), age(lease, now)]


def priority_class_row(priority_class: Json, now: float) -> list[Any]:
    return [
        _name(priority_class),
        number(priority_class, "value"),
        bool(priority_class.get("globalDefault")),
        age(priority_class, now),
        text(priority_class, "preemptionPolicy"),
    ]


def pod_disruption_budget_row(budget: Json, now: float) -> list[Any]:
    return [
        _name(budget),
        text(budget, "spec", "minAvailable") or "N/A",
        text(budget, "spec", "maxUnavailable") or "N/A",
        number(budget, "status", "disruptionsAllowed"),
        age(budget, now),
    ]


def service_row(service: Json, now: float) -> list[Any]:
    cluster_ips = items(service, "spec", "clusterIPs")
    ports = []
    for port in items(service, "spec", "ports"):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{number(port, 'port')}{node_port}/{text(port, 'protocol')}")
    return [
        _name(service),
        text(service, "spec", "type"),
        cluster_ips[0] if cluster_ips else "<none>",
        _external_ip(service),
        ",".join(ports) or "<none>",
        age(service, now),
        labels_text(dig(service, "spec", "selector")),
    ]


def _external_ip(service: Json) -> str:
    external = list(items(service, "spec", "externalIPs"))
    match text(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            ingress = {
                text(entry, "ip") or text(entry, "hostname")
                for entry in items(service, "status", "loadBalancer", "ingress")
            }
            return ",".join(sorted(ingress - {""}) + external) or "<pending>"
        case "ExternalName":
            return text(service, "spec", "externalName")
    return "<unknown>"


def deployment_row(deployment: Json, now: float) -> list[Any]:
    ready = number(deployment, "status", "readyReplicas")
    return [
        _name(deployment),
        f"{ready}/{number(deployment, 'spec', 'replicas')}",
        number(deployment, "status", "updatedReplicas"),
        number(deployment, "status", "availableReplicas"),
        age(deployment, now),
        *container_cells(deployment),
        selector_text(dig(deployment, "spec", "selector")),
    ]


def replica_set_row(replica_set: Json, now: float) -> list[Any]:
    return [
        *_replica_counts(replica_set, now),
        *container_cells(replica_set),
        selector_text(dig(replica_set, "spec", "selector")) or "<none>",
    ]


def replication_controller_row(controller: Json, now: float) -> list[Any]:
    return [
        *_replica_counts(controller, now),
        *container_cells(controller),
        labels_text(dig(controller, "spec", "selector")),
    ]


def _replica_counts(obj: Json, now: float) -> list[Any]:
    return [
        _name(obj),
        number(obj, "spec", "replicas"),
        number(obj, "status", "replicas"),
        number(obj, "status", "readyReplicas"),
        age(obj, now),
    ]


def stateful_set_row(stateful_set: Json, now: float) -> list[Any]:
    ready = number(stateful_set, "status", "readyReplicas")
    return [
        _name(stateful_set),
        f"{ready}/{number(stateful_set, 'spec', 'replicas')}",
        age(stateful_set, now),
        *container_cells(stateful_set),
    ]


def daemon_set_row(daemon_set: Json, now: float) -> list[Any]:
    return [
        _name(daemon_set),
        number(daemon_set, "status", "desiredNumberScheduled"),
        number(daemon_set, "status", "currentNumberScheduled"),
        number(daemon_set, "status", "numberReady"),
        number(daemon_set, "status", "updatedNumberScheduled"),
        number(daemon_set, "status", "numberAvailable"),
        labels_text(dig(daemon_set, "spec", "template", "spec", "nodeSelector")),
        age(daemon_set, now),
        *container_cells(daemon_set),
        selector_text(dig(daemon_set, "spec", "selector")) or "<none>",
    ]


def job_row(job: Json, now: float) -> list[Any]:
    succeeded = number(job, "status", "succeeded")
    completions, parallelism = dig(job, "spec", "completions"), number(job, "spec", "parallelism")
    wanted = "1" if completions is None else str(completions)
    if completions is None and parallelism > 1:
        wanted = f"1 of {parallelism}"
    started, completed = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    duration = ""
    if started:
        end = parse_rfc3339(completed) if completed else now
        duration = human_duration(end - parse_rfc3339(started))
    return [
        _name(job),
        _job_status(job),
        f"{succeeded}/{wanted}",
        duration,
        age(job, now),
        *container_cells(job),
        selector_text(dig(job, "spec", "selector")) or "<none>",
    ]


def _job_status(job: Json) -> str:
    for condition in ("Complete", "Failed"):
        if has_condition(job, condition):
            return condition
    if dig(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if has_condition(job, condition):
            return condition
    return "Running"


def _phase(obj: Json) -> str:
    terminating = dig(obj, "metadata", "deletionTimestamp")
    return "Terminating" if terminating else text(obj, "status", "phase")


def _storage_class(obj: Json) -> str:
    annotated = dig(obj, "metadata", "annotations", _CLASS_ANNOTATION)
    return text(obj, "spec", "storageClassName") if annotated is None else str(annotated)


def _optional(obj: Json, *path: str) -> str:
    found = dig(obj, *path)
    return "<unset>" if found is None else str(found)


def persistent_volume_row(volume: Json, now: float) -> list[Any]:
    claim = dig(volume, "spec", "claimRef")
    return [
        _name(volume),
        text(volume, "spec", "capacity", "storage") or "0",
        access_modes_text(items(volume, "spec", "accessModes")),
        text(volume, "spec", "persistentVolumeReclaimPolicy"),
        _phase(volume),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        _storage_class(volume),
        _optional(volume, "spec", "volumeAttributesClassName"),
        text(volume, "status", "reason"),
        age(volume, now),
        _optional(volume, "spec", "volumeMode"),
    ]


def persistent_volume_claim_row(claim: Json, now: float) -> list[Any]:
    volume = text(claim, "spec", "volumeName")
    capacity = text(claim, "status", "capacity", "storage") or "0"
    return [
        _name(claim),
        _phase(claim),
        volume,
        capacity if volume else "",
        access_modes_text(items(claim, "status", "accessModes")) if volume else "",
        _storage_class(claim),
        _optional(claim, "spec", "volumeAttributesClassName"),
        age(claim, now),
        _optional(claim, "spec", "volumeMode"),
    ]


def storage_class_row(storage_class: Json, now: float) -> list[Any]:
    annotations = dig(storage_class, "metadata", "annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS_ANNOTATIONS)
    return [
        _name(storage_class) + (" (default)" if is_default else ""),
        text(storage_class, "provisioner"),
        text(storage_class, "reclaimPolicy") or "Delete",
        text(storage_class, "volumeBindingMode") or "Immediate",
        bool(storage_class.get("allowVolumeExpansion")),
        age(storage_class, now),
    ]


def volume_attachment_row(attachment: Json, now: float) -> list[Any]:
    return [
        _name(attachment),
        text(attachment, "spec", "attacher"),
        text(attachment, "spec", "source", "persistentVolumeName"),
        text(attachment, "spec", "nodeName"),
        bool(dig(attachment, "status", "attached")),
        age(attachment, now),
    ]


def csi_node_row(csi_node: Json, now: float) -> list[Any]:
    return [_name(csi_node), len(items(csi_node, "spec", "drivers")), age(csi_node, now)]


def csi_driver_row(driver: Json, now: float) -> list[Any]:
    attach = dig(driver, "spec", "attachRequired")
    requests = dig(driver, "spec", "tokenRequests")
    audiences = ",".join(text(request, "audience") for request in requests or ())
    return [
        _name(driver),
        True if attach is None else bool(attach),
        bool(dig(driver, "spec", "podInfoOnMount")),
        bool(dig(driver, "spec", "storageCapacity")),
        "<unset>" if requests is None else audiences,
        bool(dig(driver, "spec", "requiresRepublish")),
        ",".join(items(driver, "spec", "volumeLifecycleModes")) or "<none>",
        age(driver, now),
    ]


def csi_storage_capacity_row(capacity: Json, _now: float) -> list[Any]:
    return [
        _name(capacity),
        text(capacity, "storageClassName"),
        _optional(capacity, "capacity"),
    ]


def data_row(obj: Json, now: float) -> list[Any]:
    """ConfigMaps: how many entries they have."""
    entries = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [_name(obj), entries, age(obj, now)]


def secret_row(secret: Json, now: float) -> list[Any]:
    return [_name(secret), text(secret, "type"), len(secret.get("data") or {}), age(secret, now)]


def resource_claim_row(claim: Json, now: float) -> list[Any]:
    deleted = dig(claim, "metadata", "deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if dig(claim, "status", "allocation") is not None:
        states.append("allocated")
        if items(claim, "status", "reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return [_name(claim), ",".join(states), age(claim, now)]


def device_taint_rule_row(rule: Json, now: float) -> list[Any]:
    parts = [text(rule, "spec", "taint", field) for field in ("key", "value", "effect")]
    added = since(dig(rule, "spec", "taint", "timeAdded"), now)
    return [_name(rule), *parts, added, age(rule, now)]


def resource_slice_row(resource_slice: Json, now: float) -> list[Any]:
    return [
        _name(resource_slice),
        text(resource_slice, "spec", "nodeName"),
        text(resource_slice, "spec", "driver"),
        text(resource_slice, "spec", "pool", "name"),
        age(resource_slice, now),
    ]
