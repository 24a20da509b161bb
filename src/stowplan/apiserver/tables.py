"""meta.k8s.io/v1 Table: what `kubectl get` prints is computed here, not in kubectl.

The REST layer calls `to_table` for lists, single objects and watch events when the client asked
for a Table. Columns and cells are kube-apiserver's; `!` marks the columns of `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stowplan.apiserver import table_rows as rows
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.statuses import bad_request
from stowplan.apiserver.table_pods import pod_row, pod_row_conditions

Json = dict[str, Any]
Row = Callable[[Json, float], list[Any]]

_INTEGERS = frozenset({"Desired", "Current", "Value", "Allowed Disruptions", "Drivers"})
_WORKLOAD = "Age | !Containers | !Images"


@dataclass(frozen=True, slots=True)
class _Layout:
    columns: tuple[Json, ...]
    row: Row


def _layout(titles: str, row: Row) -> _Layout:
    columns = []
    for title in titles.split("|"):
        name = title.strip().lstrip("!")
        columns.append(
            {
                "name": name,
                "type": "integer" if name in _INTEGERS else "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": 1 if "!" in title else 0,
            }
        )
    return _Layout(tuple(columns), row)


_EVENTS = _layout(
    "Last Seen | Type | Reason | Object | !Subobject | !Source | Message | !First Seen | !Count"
    " | !Name",
    rows.event_row,
)

_LAYOUTS: dict[str, _Layout] = {
    "Pod": _layout(
        "Name | Ready | Status | Restarts | Age | !IP | !Node | !Nominated Node | !Readiness Gates",
        pod_row,
    ),
    "Node": _layout(
        "Name | Status | Roles | Age | Version | !Internal-IP | !External-IP | !OS-Image"
        " | !Kernel-Version | !Container-Runtime",
        rows.node_row,
    ),
    "Namespace": _layout("Name | Status | Age", rows.namespace_row),
    "Event": _EVENTS,
    "Lease": _layout("Name | Holder | Age", rows.lease_row),
    "PriorityClass": _layout(
        "Name | Value | Global-Default | Age | PreemptionPolicy", rows.priority_class_row
    ),
    "PodDisruptionBudget": _layout(
        "Name | Min Available | Max Unavailable | Allowed Disruptions | Age",
        rows.pod_disruption_budget_row,
    ),
    "Service": _layout(
        "Name | Type | Cluster-IP | External-IP | Port(s) | Age | !Selector", rows.service_row
    ),
    "Deployment": _layout(
        f"Name | Ready | Up-to-date | Available | {_WORKLOAD} | !Selector", rows.deployment_row
    ),
    "ReplicaSet": _layout(
        f"Name | Desired | Current | Ready | {_WORKLOAD} | !Selector", rows.replica_set_row
    ),
    "ReplicationController": _layout(
        f"Name | Desired | Current | Ready | {_WORKLOAD} | !Selector",
        rows.replication_controller_row,
    ),
    "StatefulSet": _layout(f"Name | Ready | {_WORKLOAD}", rows.stateful_set_row),
    "DaemonSet": _layout(
        "Name | Desired | Current | Ready | Up-to-date | Available | Node Selector"
        f" | {_WORKLOAD} | !Selector",
        rows.daemon_set_row,
    ),
    "Job": _layout(
        f"Name | Status | Completions | Duration | {_WORKLOAD} | !Selector", rows.job_row
    ),
    "PersistentVolume": _layout(
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass"
        " | VolumeAttributesClass | Reason | Age | !VolumeMode",
        rows.persistent_volume_row,
    ),
    "PersistentVolumeClaim": _layout(
        "Name | Status | Volume | Capacity | Access Modes | StorageClass"
        " | VolumeAttributesClass | Age | !VolumeMode",
        rows.persistent_volume_claim_row,
    ),
    "StorageClass": _layout(
        "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age",
        rows.storage_class_row,
    ),
    "VolumeAttachment": _layout(
        "Name | Attacher | PV | Node | Attached | Age", rows.volume_attachment_row
    ),
    "CSINode": _layout("Name | Drivers | Age", rows.csi_node_row),
    "CSIDriver": _layout(
        "Name | AttachRequired | PodInfoOnMount | StorageCapacity | TokenRequests"
        " | RequiresRepublish | Modes | Age",
        rows.csi_driver_row,
    ),
    "CSIStorageCapacity": _layout(
        "Name | StorageClassName | Capacity", rows.csi_storage_capacity_row
    ),
    "ResourceClaim": _layout("Name | State | Age", rows.resource_claim_row),
    "ResourceClaimTemplate": _layout("Name | Age", rows.name_age_row),
    "DeviceClass": _layout("Name | Age", rows.name_age_row),
    "DeviceTaintRule": _layout(
        "Name | Key | Value | Effect | TimeAdded | Age", rows.device_taint_rule_row
    ),
    "ResourceSlice": _layout("Name | Node | Driver | Pool | Age", rows.resource_slice_row),
    "ConfigMap": _layout("Name | Data | Age", rows.data_row),
    "Secret": _layout("Name | Type | Data | Age", rows.secret_row),
    "ServiceAccount": _layout("Name | Age", rows.name_age_row),
}

# Of a taint, where a PriorityClass has a number.
_LAYOUTS["DeviceTaintRule"].columns[2]["type"] = "string"
_DEFAULT_LAYOUT = _layout("Name | Created At", rows.default_row)
_DEFAULT_LAYOUT.columns[1]["type"] = "date"


def to_table(
    kind: Kind,
    objects: Sequence[Json],
    *,
    now: float,
    list_metadata: Json,
    include_object: str = "",
) -> Json:
    """One row an object. `include_object` is the query parameter: None, Metadata or Object."""
    if include_object not in ("", "None", "Metadata", "Object"):
        raise bad_request(f'unrecognized includeObject value: "{include_object}"')
    layout = _LAYOUTS.get(kind.kind, _DEFAULT_LAYOUT)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": list(layout.columns),
        "rows": [
            {
                "cells": layout.row(obj, now),
                **({"conditions": marks} if (marks := _marks(kind, obj)) else {}),
                "object": _carried(kind, obj, include_object),
            }
            for obj in objects
        ],
    }


def _marks(kind: Kind, obj: Json) -> list[Json]:
    return pod_row_conditions(obj) if kind.kind == "Pod" else []


def _carried(kind: Kind, obj: Json, include_object: str) -> Json | None:
    """What of the object goes along with its row."""
    if include_object == "None":
        return None
    if include_object == "Object":
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }
