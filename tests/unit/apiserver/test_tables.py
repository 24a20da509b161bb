"""Tables: the cells that `kubectl get` shows."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.kinds import KINDS
from stowplan.apiserver.table_text import human_duration, selector_text
from stowplan.apiserver.tables import to_table
from stowplan.clock import parse_rfc3339
from stowplan.errors import ApiError

Json = dict[str, Any]

CREATED = "2026-01-01T00:00:00Z"
NOW = parse_rfc3339(CREATED) + 90
_KINDS = {(kind.group, kind.kind): kind for kind in KINDS}


def table(kind: str, *objects: Json, group: str = "", include: str = "") -> Json:
    return to_table(_KINDS[group, kind], objects, now=NOW, list_metadata={}, include_object=include)


def cells(kind: str, obj: Json, group: str = "") -> Json:
    """Cells by column name."""
    obj = {"metadata": {"name": "x", "creationTimestamp": CREATED}, **obj}
    shown = table(kind, obj, group=group)
    names = [column["name"] for column in shown["columnDefinitions"]]
    return dict(zip(names, shown["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "<invalid>"),
        (-1.5, "0s"),
        (0.9, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (9 * 365 * 86400 + 86400, "9y"),
    ],
)
def test_human_duration(seconds: float, expected: str) -> None:
    assert human_duration(seconds) == expected


def waiting(reason: str, **more: Any) -> Json:
    return {"name": "c", "state": {"waiting": {"reason": reason}}, **more}


def terminated(code: int, **more: Any) -> Json:
    return {"name": "c", "state": {"terminated": {"exitCode": code, **more}}}


RUNNING: Json = {"name": "c", "ready": True, "state": {"running": {}}}
READY = [{"type": "Ready", "status": "True"}]
TWO = [{"name": "c"}, {"name": "d"}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
            },
            "SchedulingGated",
        ),
        ({"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]}, "ErrImagePull"),
        ({"phase": "Running", "containerStatuses": [RUNNING]}, "Running"),
        (
            {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff"), RUNNING]},
            "CrashLoopBackOff",
        ),
        (
            {"phase": "Succeeded", "containerStatuses": [terminated(0, reason="Completed")]},
            "Completed",
        ),
        ({"phase": "Failed", "containerStatuses": [terminated(3)]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [terminated(1, signal=9)]}, "Signal:9"),
        (
            {
                "phase": "Running",
                "conditions": READY,
                "containerStatuses": [terminated(0, reason="Completed"), RUNNING],
            },
            "Running",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [terminated(0, reason="Completed"), RUNNING],
            },
            "NotReady",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    terminated(0, reason="Completed"),
                    terminated(1, reason="Error"),
                ],
            },
            "Error",
        ),
        ({"phase": "Pending", "initContainerStatuses": [terminated(0), RUNNING]}, "Init:1/2"),
        ({"phase": "Pending", "initContainerStatuses": [terminated(2)]}, "Init:ExitCode:2"),
        ({"phase": "Pending", "initContainerStatuses": [terminated(1, signal=6)]}, "Init:Signal:6"),
        (
            {"phase": "Pending", "initContainerStatuses": [terminated(1, reason="Error")]},
            "Init:Error",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [waiting("CrashLoopBackOff")]},
            "Init:CrashLoopBackOff",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing")]},
            "Init:0/2",
        ),
    ],
)
def test_pod_status(status: Json, expected: str) -> None:
    spec = {"containers": TWO, "initContainers": [{"name": "i"}, {"name": "j"}]}
    assert cells("Pod", {"spec": spec, "status": status})["Status"] == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
    ],
)
def test_status_of_a_deleted_pod(status: Json, expected: str) -> None:
    metadata = {"name": "x", "deletionTimestamp": CREATED}
    assert cells("Pod", {"metadata": metadata, "status": status})["Status"] == expected


def test_sidecars_count_as_containers() -> None:
    pod = {
        "spec": {
            "containers": [{"name": "c"}],
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "initContainerStatuses": [
                {"name": "s", "started": True, "ready": True, "restartCount": 2}
            ],
            "containerStatuses": [{**RUNNING, "restartCount": 1}],
        },
    }
    shown = cells("Pod", pod)
    assert (shown["Ready"], shown["Restarts"], shown["Status"]) == ("2/2", "3", "Running")


def test_restarts_say_when() -> None:
    last = {"terminated": {"finishedAt": "2026-01-01T00:01:00Z"}}
    status = {"containerStatuses": [{**RUNNING, "restartCount": 4, "lastState": last}]}
    assert cells("Pod", {"status": status})["Restarts"] == "4 (30s ago)"


def test_wide_columns_of_a_pod() -> None:
    pod = {
        "spec": {
            "nodeName": "n",
            "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}],
        },
        "status": {
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}],
            "nominatedNodeName": "m",
            "conditions": [{"type": "g", "status": "True"}],
        },
    }
    shown = cells("Pod", pod)
    wide = ("IP", "Node", "Nominated Node", "Readiness Gates")
    assert [shown[name] for name in wide] == ["10.0.0.1", "n", "m", "1/2"]
    assert [cells("Pod", {})[name] for name in wide] == ["<none>"] * 4
    priorities = {c["name"]: c["priority"] for c in table("Pod")["columnDefinitions"]}
    assert {priorities[name] for name in wide} == {1}
    assert priorities["Age"] == 0


def test_finished_pods_are_marked() -> None:
    marks = table("Pod", {"status": {"phase": "Succeeded"}})["rows"][0]["conditions"]
    assert marks[0]["reason"] == "Succeeded"
    assert "conditions" not in table("Pod", {"status": {"phase": "Running"}})["rows"][0]


@pytest.mark.parametrize(
    ("ready", "unschedulable", "expected"),
    [
        ("True", False, "Ready"),
        ("False", False, "NotReady"),
        ("Unknown", True, "NotReady,SchedulingDisabled"),
        (None, False, "Unknown"),
        (None, True, "Unknown,SchedulingDisabled"),
    ],
)
def test_node_status(ready: str | None, unschedulable: bool, expected: str) -> None:
    conditions = [{"type": "DiskPressure", "status": "False"}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready})
    node = {"spec": {"unschedulable": unschedulable}, "status": {"conditions": conditions}}
    assert cells("Node", node)["Status"] == expected


def test_node_roles_and_addresses() -> None:
    labels = {
        "node-role.kubernetes.io/worker": "",
        "node-role.kubernetes.io/control-plane": "",
        "node-role.kubernetes.io/": "",
        "kubernetes.io/role": "gpu",
    }
    node = {
        "metadata": {"name": "n", "labels": labels},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "arm64"},
        },
    }
    shown = cells("Node", node)
    assert shown["Roles"] == "control-plane,gpu,worker"
    assert (shown["Internal-IP"], shown["External-IP"]) == ("10.1.1.1", "<none>")
    assert (shown["Version"], shown["Kernel-Version"]) == ("v1", "6.1 (arm64)")
    assert shown["Age"] == "<unknown>"
    assert cells("Node", {})["Roles"] == "<none>"


def test_events_of_both_apis_show_the_same() -> None:
    shared = {"type": "Warning", "reason": "FailedScheduling", "reportingInstance": "s-1"}
    core = {
        **shared,
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": "0/3 nodes\n",
        "reportingComponent": "s",
        "firstTimestamp": CREATED,
        "lastTimestamp": "2026-01-01T00:01:00Z",
        "count": 3,
    }
    new = {
        **shared,
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "0/3 nodes\n",
        "reportingController": "s",
        "deprecatedFirstTimestamp": CREATED,
        "deprecatedLastTimestamp": "2026-01-01T00:01:00Z",
        "deprecatedCount": 3,
    }
    shown = cells("Event", core)
    assert shown == cells("Event", new, group="events.k8s.io")
    assert shown == {
        "Last Seen": "30s",
        "Type": "Warning",
        "Reason": "FailedScheduling",
        "Object": "pod/p",
        "Subobject": "",
        "Source": "s, s-1",
        "Message": "0/3 nodes",
        "First Seen": "90s",
        "Count": 3,
        "Name": "x",
    }


def test_event_series() -> None:
    series = {"count": 7, "lastObservedTime": "2026-01-01T00:01:20.000000Z"}
    shown = cells("Event", {"eventTime": "2026-01-01T00:00:30.000000Z", "series": series})
    assert (shown["First Seen"], shown["Last Seen"], shown["Count"]) == ("60s", "10s", 7)


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}


@pytest.mark.parametrize(
    ("group", "kind", "obj", "expected"),
    [
        ("", "Namespace", {"status": {"phase": "Active"}}, ["x", "Active", "90s"]),
        (
            "coordination.k8s.io",
            "Lease",
            {"spec": {"holderIdentity": "me"}},
            ["x", "me", "90s"],
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            {"value": 7, "preemptionPolicy": "Never"},
            ["x", 7, False, "90s", "Never"],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 0}, "status": {"disruptionsAllowed": 2}},
            ["x", "0", "N/A", 2, "90s"],
        ),
        (
            "apps",
            "Deployment",
            {
                "spec": {
                    "replicas": 3,
                    "template": TEMPLATE,
                    "selector": {"matchLabels": {"k": "v"}},
                },
                "status": {"readyReplicas": 1, "updatedReplicas": 2},
            },
            ["x", "1/3", 2, 0, "90s", "a,b", "i,j", "k=v"],
        ),
        (
            "apps",
            "ReplicaSet",
            {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"replicas": 2}},
            ["x", 3, 2, 0, "90s", "a,b", "i,j", "<none>"],
        ),
        (
            "apps",
            "StatefulSet",
            {"spec": {"replicas": 3, "template": TEMPLATE}},
            ["x", "0/3", "90s", "a,b", "i,j"],
        ),
        (
            "batch",
            "Job",
            {"spec": {"completions": 4}, "status": {"succeeded": 1, "startTime": CREATED}},
            ["x", "Running", "1/4", "90s", "90s", "", "", "<none>"],
        ),
        (
            "batch",
            "Job",
            {
                "spec": {"parallelism": 2},
                "status": {"conditions": [{"type": "Failed", "status": "True"}]},
            },
            ["x", "Failed", "0/1 of 2", "", "90s", "", "", "<none>"],
        ),
        (
            "",
            "PersistentVolume",
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": "ns", "name": "claim"},
                    "storageClassName": "fast",
                    "volumeMode": "Block",
                },
                "status": {"phase": "Bound"},
            },
            [
                "x",
                "1Gi",
                "RWO,RWX",
                "Retain",
                "Bound",
                "ns/claim",
                "fast",
                "<unset>",
                "",
                "90s",
                "Block",
            ],
        ),
        (
            "",
            "PersistentVolumeClaim",
            {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}},
            ["x", "Pending", "", "", "", "fast", "<unset>", "90s", "<unset>"],
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"},
            ["x", "p", "Delete", "WaitForFirstConsumer", False, "90s"],
        ),
        (
            "",
            "Service",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.7"],
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
                }
            },
            ["x", "NodePort", "10.0.0.7", "<none>", "80:30080/TCP", "90s", "<none>"],
        ),
        (
            "storage.k8s.io",
            "CSIDriver",
            {"spec": {"volumeLifecycleModes": ["Persistent"]}},
            ["x", True, False, False, "<unset>", False, "Persistent", "90s"],
        ),
    ],
)
def test_rows(group: str, kind: str, obj: Json, expected: list[Any]) -> None:
    assert list(cells(kind, obj, group).values()) == expected


def test_default_storage_class_says_so() -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    obj = {"metadata": {"name": "x", "annotations": annotations}}
    assert cells("StorageClass", obj, "storage.k8s.io")["Name"] == "x (default)"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.stored], ids=str)
def test_every_kind_has_as_many_cells_as_columns(kind: Any) -> None:
    shown = to_table(kind, [{}], now=NOW, list_metadata={}, include_object="None")
    assert len(shown["rows"][0]["cells"]) == len(shown["columnDefinitions"])
    assert shown["rows"][0]["object"] is None


def test_selector_text() -> None:
    selector = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "a", "operator": "DoesNotExist"},
            {"key": "d", "operator": "Exists"},
            {"key": "e", "operator": "NotIn", "values": ["z"]},
        ],
    }
    assert selector_text(selector) == "!a,b=1,c in (x,y),d,e notin (z)"
    assert selector_text(None) == ""


def test_what_goes_along_with_a_row() -> None:
    pod = {"metadata": {"name": "x"}, "spec": {"nodeName": "n"}}
    metadata_only = table("Pod", pod)["rows"][0]["object"]
    assert metadata_only["kind"] == "PartialObjectMetadata"
    assert "spec" not in metadata_only
    whole = table("Pod", pod, include="Object")["rows"][0]["object"]
    assert whole == {"kind": "Pod", "apiVersion": "v1", **pod}
    with pytest.raises(ApiError, match="unrecognized includeObject value"):
        table("Pod", pod, include="Everything")
