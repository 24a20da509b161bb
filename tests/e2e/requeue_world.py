"""The requeue matrix's words on a real cluster: what `World` does on virtual time, as requests.

Attempts are counted in kube-scheduler's log. Where the API server insists on more than a scheduler
reads, it is added here; what cannot even be asked of it is refused with `Impossible`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import CATALOGED, Resource
from stowplan.lab.controlplane.api_access import ApiAccess, ApiError
from stowplan.testing import as_manifest
from tests.unit.scheduler.engine_bench import changed
from tests.waiting import wait_for

Json = dict[str, Any]

_NODES = "/api/v1/nodes"
_PODS = "/api/v1/namespaces/default/pods"
_KINDS: dict[type, Resource[Any]] = {resource.type: resource for resource in CATALOGED}
#: All that rows create besides pods and nodes. Rows share names, so each must leave nothing.
_STORED = [
    resource
    for resource in CATALOGED
    if resource.group in ("storage.k8s.io", "resource.k8s.io") or "Persistent" in resource.kind
]
#: Long enough for a pod that comes back to be tried.
_QUIET_S = 0.4


class Impossible(Exception):
    """The API server takes no such change."""


class RealWorld:
    def __init__(self, api: ApiAccess, log: Path) -> None:
        self._api = api
        self._log = log
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._tried: dict[str, int] = {}
        self._start = log.stat().st_size
        self.watch()

    # What happens in the cluster

    def add(self, thing: Any) -> None:
        if isinstance(thing, Node):
            self._nodes[thing.name] = thing
            self._api.create(_NODES, _posted(as_manifest(thing)))
        elif isinstance(thing, Pod):
            self._pods[thing.metadata.name] = thing
            self._api.create(_PODS, _posted(_with_feature(as_manifest(thing))))
        else:
            resource, manifest = _stored(thing)
            self._api.create(_path(resource), manifest)
            if status := manifest.get("status"):
                name = manifest["metadata"]["name"]
                self._api.patch(f"{_path(resource)}/{name}/status", {"status": status})

    def replace(self, thing: Any) -> None:
        if not isinstance(thing, Node):
            resource, manifest = _stored(thing)
            manifest.pop("status", None)
            self._api.patch(f"{_path(resource)}/{manifest['metadata']['name']}", manifest)
            return
        old, self._nodes[thing.name] = self._nodes[thing.name], thing
        manifest = as_manifest(thing)
        path = f"{_NODES}/{thing.name}"
        if old.status != thing.status:
            self._api.patch(f"{path}/status", {"status": manifest["status"]})
            return
        labels = dict.fromkeys(old.metadata.labels or {}) | manifest["metadata"]["labels"]
        spec = {key: manifest.get("spec", {}).get(key) for key in ("taints", "unschedulable")}
        self._api.patch(path, {"metadata": {"labels": labels}, "spec": spec})

    def update(self, name: str, **fields: Any) -> None:
        old = self._pods[name]
        self._pods[name] = changed(old, **fields)
        manifest = as_manifest(self._pods[name])
        path = f"{_PODS}/{name}"
        present = self._api.get(path)["spec"]
        match [*fields]:
            case ["labels"]:
                labels = dict.fromkeys(old.metadata.labels or {}) | fields["labels"]
                self._api.patch(path, {"metadata": {"labels": labels}})
            case ["annotations"]:
                self._api.patch(path, {"metadata": fields})
            case ["scheduling_gates"]:
                self._api.patch(path, {"spec": {"schedulingGates": None}})
            case ["tolerations"]:
                tolerations = present.get("tolerations", []) + manifest["spec"]["tolerations"]
                self._api.patch(path, {"spec": {"tolerations": tolerations}})
            case ["containers"]:
                containers = present["containers"]
                containers[0]["resources"] = manifest["spec"]["containers"][0]["resources"]
                self._api.patch(f"{path}/resize", {"spec": {"containers": containers}})
            case _:
                raise Impossible(f"a pod's {', '.join(fields)} never change")

    def remove(self, thing: Any) -> None:
        if isinstance(thing, str):
            kind = _PODS if thing in self._pods else _NODES
            self._api.delete(f"{kind}/{thing}", grace_seconds=0)
        else:
            resource, manifest = _stored(thing)
            self._delete(f"{_path(resource)}/{manifest['metadata']['name']}", finalized=True)

    def node(self, name: str) -> Node:
        return self._nodes[name]

    # Looking

    def watch(self) -> None:
        """Count attempts from here."""
        text = self._said()
        self._tried = {name: _attempts(text, name) for name in "abm"}

    def tried(self, name: str) -> int:
        """Attempts since the last `watch`."""
        return _attempts(self._said(), name) - self._tried[name]

    def rejectors(self, name: str) -> list[str]:
        """The plugins that the pod's last failed attempt was down to."""
        failure = rf'pod="default/{name}" event="ScheduleAttemptFailure".* plugins=(\S+)'
        found: list[str] = re.findall(failure, self._said())
        return re.findall(r'"(\w+)":', found[-1]) if found else []

    def _said(self) -> str:
        """The log since this row began."""
        with self._log.open("rb") as log:
            log.seek(self._start)
            return log.read().decode(errors="replace")

    def let_wait(self, pods: Iterable[Pod], plugin: str) -> None:
        """Until the plugin has rejected them, and no other; a gated pod is not even tried.

        Pods come after the news of all nodes: a node that is heard of later would bring them back.
        """
        wait_for("the nodes to be known", self._knows_nodes)
        for pod in pods:
            name = pod.metadata.name
            self.add(pod)
            if not pod.spec.scheduling_gates:
                wait_for(
                    f"{name} to be rejected by {plugin}",
                    lambda name=name: self.rejectors(name) == [plugin],  # type: ignore[misc]  # mypy: a lambda with a default
                )
        time.sleep(_QUIET_S)

    def _knows_nodes(self) -> bool:
        said = self._said()
        return all(f'"Add event for node" node="{name}"' in said for name in self._nodes)

    def come_back(self, expected: set[str], names: list[str]) -> set[str]:
        """The pods that are tried again, after time enough for those that are expected."""
        for name in expected:
            wait_for(f"{name} to be tried again", lambda name=name: self.tried(name))  # type: ignore[misc]  # mypy: a lambda with a default
        time.sleep(_QUIET_S)
        return {name for name in names if self.tried(name)}

    # The end

    def clean(self) -> None:
        for path in (_PODS, _NODES, *map(_path, _STORED)):
            for thing in self._api.get(path)["items"]:
                metadata = thing["metadata"]
                self._delete(f"{path}/{metadata['name']}", finalized="finalizers" in metadata)

    def _delete(self, path: str, *, finalized: bool) -> None:
        try:
            if finalized:
                # The controllers that would say that it may go are not running.
                self._api.patch(path, {"metadata": {"finalizers": None}})
            self._api.delete(path, grace_seconds=0)
        except ApiError as problem:
            if problem.status != 404:
                raise


def _attempts(log: str, name: str) -> int:
    return log.count(f'"Attempting to schedule pod" pod="default/{name}"')


def _path(resource: Resource[Any]) -> str:
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    namespace = "/namespaces/default" if resource.namespaced else ""
    return f"{prefix}/{resource.version}{namespace}/{resource.plural}"


def _posted(manifest: Json) -> Json:
    """Without what the server decides."""
    manifest["metadata"].pop("uid", None)
    return manifest


def _with_feature(manifest: Json) -> Json:
    """Another feature that nodes must declare: the one of the rows is forbidden by default."""
    spec = manifest["spec"]
    if spec.pop("hostNetwork", False):
        del spec["hostUsers"]
        codes = {"operator": "In", "values": [42]}
        rules = [{"action": "RestartAllContainers", "exitCodes": codes}]
        spec["restartPolicy"] = "Never"
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": rules}
    return manifest


def _stored(thing: Any) -> tuple[Resource[Any], Json]:
    resource = _KINDS[type(thing)]
    manifest: Json = msgspec.json.decode(msgspec.json.encode(thing))
    group = f"{resource.group}/" if resource.group else ""
    manifest |= {"apiVersion": f"{group}{resource.version}", "kind": resource.kind}
    metadata = manifest["metadata"]
    metadata.pop("uid", None)
    metadata.pop("resourceVersion", None)
    if resource.namespaced:
        metadata["namespace"] = "default"
    if resource.kind == "PersistentVolume":
        spec = manifest["spec"]
        spec.setdefault("csi", {"driver": "x.example.com", "volumeHandle": metadata["name"]})
        spec["persistentVolumeReclaimPolicy"] = "Retain"
        (spec.get("claimRef") or {}).pop("uid", None)
    elif resource.kind == "PersistentVolumeClaim":
        manifest.pop("status", None)
    elif resource.kind == "CSINode":
        drivers = manifest.setdefault("spec", {}).setdefault("drivers", [])
        for driver in drivers:
            driver["nodeID"] = "x"
    return resource, manifest
