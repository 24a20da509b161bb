"""Objects for tests of the audit, as an API server would store them, and histories of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from stowplan.audit import (
    Finding,
    Item,
    Options,
    Report,
    Request,
    Revision,
    audit_cluster,
    audit_history,
    decode_item,
)

Json: TypeAlias = dict[str, Any]

#: When everything that does not say otherwise happened.
START = 1_800_000_000.0
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def at(seconds: float) -> str:
    """RFC 3339, counted from the start."""
    return datetime.fromtimestamp(START + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, *, cpu: str = "4", pods: str = "110", **more: Any) -> Json:
    """`labels`, `taints`, `unschedulable` and `allocatable` are added."""
    spec = {key: more[key] for key in ("taints", "unschedulable") if key in more}
    offers = {"cpu": cpu, "memory": "8Gi", "pods": pods, **more.get("allocatable", {})}
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOST: name, **more.get("labels", {})},
            "creationTimestamp": at(-1000),
            "managedFields": more.get("managedFields", []),
        },
        "spec": spec,
        "status": {"allocatable": offers},
    }


def pod(name: str, where: str = "", *, cpu: str = "100m", bound: float = 0.0, **more: Any) -> Json:
    """A pod, bound at some second if it has a node; `labels`, `annotations`, `status`, and
    anything else, which goes into its spec."""
    meta = {
        "name": name,
        "namespace": more.pop("namespace", "default"),
        "uid": more.pop("uid", f"uid-{name}"),
        "creationTimestamp": at(more.pop("created", -500)),
        "labels": more.pop("labels", {}),
        "annotations": more.pop("annotations", {}),
        "managedFields": more.pop("managedFields", []),
    }
    if more.pop("terminating", False):
        meta["deletionTimestamp"] = at(0)
    status = dict(more.pop("status", {}))
    container: Json = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    container["ports"] = [{"hostPort": port} for port in more.pop("ports", ())]
    container["resources"]["requests"].update(more.pop("requests", {}))
    spec = {"schedulerName": "default-scheduler", "containers": [container], **more}
    if where:
        spec["nodeName"] = where
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}
        status.setdefault("conditions", [condition])
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def anti(labels: Json, key: str = HOST, **more: Any) -> Json:
    return {"podAntiAffinity": _required(labels, key, more)}


def together(labels: Json, key: str = HOST, **more: Any) -> Json:
    return {"podAffinity": _required(labels, key, more)}


def _required(labels: Json, key: str, more: Json) -> Json:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def spread(labels: Json, key: str = ZONE, **more: Any) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        **more,
    }


def claim(name: str, volume: str = "", *modes: str) -> Json:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": done},
        "spec": {"volumeName": volume, "accessModes": list(modes or ("ReadWriteOnce",))},
    }


def volume(name: str, *, labels: Json | None = None, hosts: Iterable[str] = ()) -> Json:
    spec: Json = {}
    if hosts:
        wanted = {"key": HOST, "operator": "In", "values": list(hosts)}
        terms = [{"matchExpressions": [wanted]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"kind": "PersistentVolume", "metadata": {"name": name, "labels": labels}, "spec": spec}


def uses(*claims: str) -> list[Json]:
    return [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
        for number, name in enumerate(claims)
    ]


def devices(*names: str, **more: Any) -> Json:
    """A slice of devices of one pool; `counters` are shared, `device` is added to each."""
    spec: Json = {"driver": "gpu", "pool": {"name": "p", "generation": 1}, "nodeName": "n1"}
    if "counters" in more:
        spec["sharedCounters"] = [{"name": "s", "counters": more["counters"]}]
    spec["devices"] = [{"name": name, **more.get("device", {})} for name in names]
    name = more.get("name", "slice")
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device_claim(name: str, *devices: str, pods: Iterable[str] = (), **result: Any) -> Json:
    """A resource claim with its devices, reserved for pods."""
    status: Json = {}
    if devices:
        results = [
            {"request": "r", "driver": "gpu", "pool": "p", "device": device, **result}
            for device in devices
        ]
        status["allocation"] = {"devices": {"results": results}}
    status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
    metadata = {"name": name, "namespace": "default", "creationTimestamp": at(-1000)}
    return {"kind": "ResourceClaim", "metadata": metadata, "status": status}


def wants(*claims: str) -> list[Json]:
    """A pod's `resourceClaims`."""
    return [{"name": name, "resourceClaimName": name} for name in claims]


def event(name: str, reason: str = "Scheduled") -> Json:
    return {
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": "default"},
        "reason": reason,
        "involvedObject": {"uid": f"uid-{name}"},
    }


def item(thing: Json) -> Item:
    return decode_item(thing["kind"], msgspec.json.encode(thing))


def report_now(*things: Json, now: float = 600.0, **options: Any) -> Report:
    return audit_cluster(map(item, things), now=START + now, options=Options(**options))


def audit_now(*things: Json, now: float = 600.0, **options: Any) -> list[Finding]:
    """Findings about a cluster of these objects, ten minutes after the start."""
    return report_now(*things, now=now, **options).findings


def kinds(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return sorted((each.kind, each.pod.removeprefix("default/")) for each in findings)


def bind_object(made: Json, where: str, second: float) -> Json:
    """A pod as it is after its binding."""
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(second)}
    spec = {**made["spec"], "nodeName": where}
    return {**made, "spec": spec, "status": {"conditions": [condition]}}


class History:
    """Revisions in the order in which they are given."""

    def __init__(self) -> None:
        self.revisions: list[Revision] = []
        self.requests: list[Request] = []

    def put(self, *things: Json, initial: bool = False) -> History:
        for thing in things:
            meta = thing["metadata"]
            raw = msgspec.Raw(msgspec.json.encode(thing))
            self._add(thing["kind"], meta.get("namespace", ""), meta["name"], raw, initial)
        return self

    def gone(self, kind: str, name: str, namespace: str = "") -> History:
        return self._add(kind, namespace, name, None)

    def bind(self, made: Json, where: str, second: float) -> History:
        """Create a pod, unless it exists, and bind it at some second."""
        known = {(each.name, each.namespace) for each in self.revisions if each.kind == "Pod"}
        meta = made["metadata"]
        if (meta["name"], meta["namespace"]) not in known:
            self.put(made)
        return self.put(bind_object(made, where, second))

    def tick(self, second: float) -> History:
        """Let time pass: some object of no importance is written."""
        meta = {"name": "tick", "creationTimestamp": at(second)}
        return self.put({"kind": "StorageClass", "metadata": meta})

    def ask(
        self,
        name: str,
        where: str,
        second: float,
        *,
        code: int = 201,
        uid: str | None = None,
        query: str = "",
    ) -> History:
        """A binding request in the audit log."""
        self.requests.append(
            Request(
                user="kube-scheduler",
                verb="create",
                group="",
                resource="pods/binding",
                namespace="default",
                name=name,
                uri=f"/api/v1/namespaces/default/pods/{name}/binding{query}",
                code=code,
                uid=f"uid-{name}" if uid is None else uid,
                node=where,
                received_at=START + second,
            )
        )
        return self

    def _add(
        self, kind: str, namespace: str, name: str, raw: Any, initial: bool = False
    ) -> History:
        number = len(self.revisions) + 1
        self.revisions.append(Revision(number, kind, namespace, name, raw, initial))
        return self

    def report(self, **options: Any) -> Report:
        asked = {"ignore": frozenset({"no-event"}), **options}
        return audit_history(self.revisions, requests=self.requests, options=Options(**asked))

    def audit(self, **options: Any) -> list[Finding]:
        return self.report(**options).findings
