"""Admission: what needs other objects to be decided. Priority, namespaces, node taints."""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.apiserver.field_errors import not_allowed
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Kind,
)
from stowplan.apiserver.statuses import Cause, forbidden, not_found
from stowplan.apiserver.store import Store

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
IMMORTAL_NAMESPACES = ("default", "kube-public", "kube-system")
SYSTEM_PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another"
        " node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
_ADMIN = "resource.kubernetes.io/admin-access"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """Which of upstream's admission plugins are at work, as far as one may turn them off."""

    #: TaintNodesByCondition; a controller must remove the taint when the node is ready.
    taint_new_nodes: bool = True
    #: Priority: without it a pod's `spec.priority` is whatever its creator says.
    compute_priority: bool = True


def admit_create(kind: Kind, obj: Json, store: Store, options: AdmissionOptions, name: str) -> None:
    """`name` is what messages call the object: its name, or the prefix of one to be generated."""
    if kind.namespaced:
        _admit_namespace(kind, obj, store, name)
    if kind is PODS and options.compute_priority:
        _admit_priority(obj, store, name)
    elif kind is NODES and options.taint_new_nodes:
        _taint_new_node(obj)


def admit_update(kind: Kind, obj: Json, old: Json) -> None:
    """What was computed on creation stays, also where an update leaves it out."""
    if kind is PODS:
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                obj["spec"].setdefault(field, old["spec"][field])


def admit_delete(kind: Kind, name: str) -> None:
    """Reject the deletion of built-in namespaces and priority classes."""
    if kind is NAMESPACES and name in IMMORTAL_NAMESPACES:
        raise forbidden(kind, name, "this namespace may not be deleted")
    if kind is PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
        raise forbidden(kind, name, "this is a system priority class and cannot be deleted")


def _admit_namespace(kind: Kind, obj: Json, store: Store, shown: str) -> None:
    name = obj["metadata"]["namespace"]
    namespace = store.get(NAMESPACES, "", name)
    if namespace is None:
        raise not_found(NAMESPACES, name)
    if "deletionTimestamp" in namespace.object["metadata"]:
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = Cause(
            "metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating"
        )
        raise forbidden(kind, shown, why, (cause,))


def _admit_priority(pod: Json, store: Store, shown: str) -> None:
    """spec.priority is the number behind priorityClassName, never the client's own."""
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    if not name:
        default = _default_class(store)
        if default is not None:
            spec["priorityClassName"] = name = default["metadata"]["name"]
    policy, value = "PreemptLowerPriority", 0
    if name:
        record = store.get(PRIORITY_CLASSES, "", name)
        if record is None:
            raise forbidden(
                PODS,
                shown,
                f"no PriorityClass with name {name} was found",
            )
        value = record.object.get("value", 0)
        policy = record.object.get("preemptionPolicy", policy)
    if spec.get("priority", value) != value:
        raise forbidden(
            PODS,
            shown,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod"
            f" spec; priority admission controller computed {value} from the given PriorityClass"
            " name",
        )
    spec["priority"] = value
    if spec.get("preemptionPolicy", policy) != policy:
        raise forbidden(
            PODS,
            shown,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be"
            f" provided in pod spec; priority admission controller computed {policy} from the"
            " given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _default_class(store: Store) -> Json | None:
    """The global default; of several the one with the smallest value."""
    found: Json | None = None
    for record in store.records(PRIORITY_CLASSES):
        candidate = record.object
        if candidate.get("globalDefault") and (
            found is None or candidate.get("value", 0) < found.get("value", 0)
        ):
            found = candidate
    return found


def admin_access_causes(
    kind: Kind, obj: Json, store: Store, old: Json | None = None
) -> list[Cause]:
    """Admin access to devices needs a label on the namespace, in a request and in a result.

    `old` is given for updates of the status: what was granted stays granted.
    """
    if kind is RESOURCE_CLAIMS and old is not None:
        granted = _asks_for_admin(old)
        path = "" if granted else _asks_for_admin(obj)
    elif kind is RESOURCE_CLAIMS or kind is RESOURCE_CLAIM_TEMPLATES:
        spec = obj["spec"] if kind is RESOURCE_CLAIMS else obj["spec"]["spec"]
        path = _asks_for_admin({"spec": spec})
    else:
        return []
    namespace = store.get(NAMESPACES, "", obj["metadata"]["namespace"]) if path else None
    if namespace is None or namespace.object["metadata"].get("labels", {}).get(_ADMIN) == "true":
        return []
    detail = (
        f"admin access to devices requires the `{_ADMIN}: true` label on the containing namespace"
    )
    return [not_allowed(path, detail)]


def _asks_for_admin(claim: Json) -> str:
    """The path of the first request or result with admin access, "" if there is none."""
    if "status" in claim:
        devices = (claim["status"].get("allocation") or {}).get("devices") or {}
        found, path = devices.get("results") or (), "status.allocation.devices.results"
    else:
        requests = claim["spec"]["devices"].get("requests") or ()
        found, path = [each.get("exactly") or {} for each in requests], "spec.devices.requests"
    for index, each in enumerate(found):
        if each.get("adminAccess"):
            return f"{path}[{index}].adminAccess"
    return ""


def _taint_new_node(node: Json) -> None:
    """TaintNodesByCondition: a new node is closed until the node controller sees it ready."""
    taints = node["spec"].setdefault("taints", [])
    if not any(
        taint.get("key") == NOT_READY["key"] and taint.get("effect") == NOT_READY["effect"]
        for taint in taints
    ):
        taints.append(dict(NOT_READY))


def first_objects() -> list[tuple[Kind, Json]]:
    """What every cluster has from the start."""
    objects: list[tuple[Kind, Json]] = [
        (NAMESPACES, {"metadata": {"name": name}}) for name in SYSTEM_NAMESPACES
    ]
    for name, (value, description) in SYSTEM_PRIORITIES.items():
        priority_class = {
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
        objects.append((PRIORITY_CLASSES, priority_class))
    return objects
