"""The requests of the schedulers, by kube-apiserver's audit log, are what deploy/ allows.

Every installation runs as its service account and does all that it can do: binds pods, claims and
volumes, evicts, writes conditions and events, elects a leader, authenticates clients. The requests
must be those of deploy/rbac/recorded.yaml, from which tools/rbac.py writes the roles. `make rbac`
sets RECORD_RBAC=1: then the accounts may do everything, and the record is written.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stowplan.audit import AuditTrail, Request
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError, unverified_access
from stowplan.lab.controlplane.gates import SERVE_TAINT_RULES
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.test_deploy_rbac import (
    DEPLOY,
    STOWPLAN,
    command,
    create_namespace,
    install_namespaced,
    is_bound,
    started,
    token_kubeconfig,
    wait_bound,
    wait_event,
    wait_for_roles,
)
from tests.waiting import wait_for
from tools import rbac
from tools.rbac import CLUSTER, KUBE_SYSTEM, OWN, Grant

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
STATIC = DEPLOY.parent / "static"
IS_RECORDING = os.environ.get("RECORD_RBAC") == "1"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
DEVICES = "/apis/resource.k8s.io/v1"
PINNED = ("pinned", "with-local", "with-made", "with-device", "by-resource")
LATE = {"volumeBindingMode": "WaitForFirstConsumer"}


class Stage:
    """A control plane with an audit log, two nodes, and volumes that wait for their first pods."""

    def __init__(self, plane: ControlPlane, trail: AuditTrail) -> None:
        self.plane, self.api, self.trail = plane, plane.api, trail
        for node in ("n1", "n2"):
            size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            self.create_node(node, size)
        local = {"provisioner": "kubernetes.io/no-provisioner", **LATE}
        self.api.create(STORAGE, {"metadata": {"name": "local"}, **local})
        made = {"provisioner": "made.example.com", **LATE}
        self.api.create(STORAGE, {"metadata": {"name": "made"}, **made})
        self.offer_devices()
        self.api.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "high"}, "value": 1000},
        )

    def create_node(self, name: str, size: Json) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        status = {"capacity": size, "allocatable": size}
        self.api.create("/api/v1/nodes", {"metadata": metadata, "status": status})

    def create_pod(self, namespace: str, name: str, cpu: str = "100m", **spec: Any) -> None:
        container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        body = {"metadata": {"name": name}, "spec": spec}
        self.api.create(f"/api/v1/namespaces/{namespace}/pods", body)

    def create_claim(self, namespace: str, name: str, storage_class: str) -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self.api.create(path, {"metadata": {"name": name}, "spec": spec})

    def create_volume(self, name: str, node: str) -> None:
        terms = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}},
        }
        path = "/api/v1/persistentvolumes"
        self.api.create(path, {"metadata": {"name": name}, "spec": spec})
        # As the controller of volumes would.
        self.api.patch(f"{path}/{name}/status", {"status": {"phase": "Available"}})

    def bind_volumes(self, namespace: str, **spec: Any) -> None:
        """One volume is there and one has to be made, as no controller here will."""
        self.create_volume(f"{namespace}-disk", "n1")
        for name in ("local", "made"):
            self.create_claim(namespace, name, name)
            volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
            self.create_pod(namespace, f"with-{name}", volumes=[volume], **spec)
        disk, claim = f"/api/v1/persistentvolumes/{namespace}-disk", "persistentvolumeclaims/made"
        wait_for("the volume", lambda: "claimRef" in self.api.get(disk)["spec"])
        path = f"/api/v1/namespaces/{namespace}/{claim}"
        wait_for("the claim", lambda: "annotations" in self.api.get(path)["metadata"])

    def allocate_device(self, namespace: str, **spec: Any) -> None:
        """Two pods get a device of node n1: by a claim, and by the name of a resource."""
        gated = self.leave_claim_behind(namespace, **spec)
        path = f"{DEVICES}/namespaces/{namespace}/resourceclaims"
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
        claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": requests}}}
        self.api.create(path, claim)
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        self.create_pod(namespace, "with-device", resourceClaims=claims, **spec)
        wait_for("the device", lambda: "allocation" in self.api.get(f"{path}/gpu")["status"])
        # The watch that has shown this claim has shown the one that was left behind.
        self.api.patch(gated, {"spec": {"schedulingGates": None}})
        told = "extendedResourceClaimStatus"
        wait_for("the device by resource", lambda: told in self.api.get(gated)["status"])

    def leave_claim_behind(self, namespace: str, **spec: Any) -> str:
        """A gated pod that asks for a resource, and the claim of an earlier attempt."""
        amounts = {"deviceclass.resource.kubernetes.io/gpu": "1"}
        resources = {"requests": amounts, "limits": amounts}
        container = {"name": "c", "image": "c", "resources": resources}
        gates = [{"name": "example.com/wait"}]
        pod = f"/api/v1/namespaces/{namespace}/pods/by-resource"
        self.create_pod(
            namespace, "by-resource", containers=[container], schedulingGates=gates, **spec
        )
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "by-resource",
            "uid": self.api.get(pod)["metadata"]["uid"],
            "controller": True,
        }
        metadata = {
            "name": "left-behind",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
        }
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
        claim = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
        self.api.create(f"{DEVICES}/namespaces/{namespace}/resourceclaims", claim)
        return pod

    def offer_devices(self) -> None:
        self.api.create(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(8)]
        spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": devices}
        self.api.create(f"{DEVICES}/resourceslices", {"metadata": {"name": "n1"}, "spec": spec})

    def clear(self, namespace: str) -> None:
        """Give the nodes back."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        for pod in self.api.get(pods)["items"]:
            self.api.delete(f"{pods}/{pod['metadata']['name']}", grace_seconds=0)
        wait_for("no pod to be left", lambda: not self.api.get(pods)["items"])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require_binaries("etcd", "kube-apiserver", "kubectl")
    trail = AuditTrail(tmp_path_factory.mktemp("audit"))
    with ControlPlane(apiserver_flags=[*trail.flags, SERVE_TAINT_RULES]) as plane:
        yield Stage(plane, trail)


def scope_of(request: Request, own: str, *, serves_one: bool) -> str:
    if request.namespace == KUBE_SYSTEM:
        return KUBE_SYSTEM
    is_election = request.resource == "leases" or (request.group, request.resource) == (
        "",
        "events",
    )
    if is_election or (serves_one and request.namespace == own):
        return OWN
    return CLUSTER


def to_grants(requests: list[Request], own: str, *, serves_one: bool = False) -> set[Grant]:
    """The rights behind the requests; objects have names only where roles can name them."""
    return {
        Grant(
            scope_of(request, own, serves_one=serves_one),
            request.group,
            request.resource,
            request.verb,
            request.name if request.resource in ("leases", "configmaps") else "",
        )
        for request in requests
        if request.resource  # else of the server itself, such as /version: everybody's right
    }


@contextmanager
def recording(stage: Stage, key: str, account: str, namespace: str) -> Iterator[None]:
    """Compare what the account asks meanwhile with the record, or write the record."""
    user = f"system:serviceaccount:{namespace}:{account}"
    if IS_RECORDING:
        bind_everything(stage.plane, account, namespace)
    since = stage.trail.mark()
    yield
    requests = stage.trail.requests(user, since)
    refused = [each for each in requests if each.code in (401, 403)]
    used = to_grants(requests, namespace, serves_one=key == "namespaced")
    # RBAC cannot say which object may be created.
    used = {each._replace(name="") if each.verb == "create" else each for each in used}
    if IS_RECORDING:
        rbac.write_record(rbac.read_record() | {key: used})
    assert used == rbac.read_record()[key], "run `make rbac`"
    assert refused == []


def bind_everything(plane: ControlPlane, account: str, namespace: str) -> None:
    name = f"recording-{namespace}"
    plane.kubectl(
        *("create", "clusterrolebinding", name, "--clusterrole=cluster-admin"),
        f"--serviceaccount={namespace}:{account}",
    )


def play(stage: Stage, namespace: str) -> None:
    """All that `stowplan run` can be made to do."""
    ours: Json = {"schedulerName": "stowplan"}
    on_n1: Json = {"nodeSelector": {"kubernetes.io/hostname": "n1"}, **ours}
    on_n2: Json = {"nodeSelector": {"kubernetes.io/hostname": "n2"}, **ours}
    stage.create_pod(namespace, "plain", **on_n1)
    wait_bound(stage.plane, namespace, "plain")
    stage.bind_volumes(namespace, **ours)
    stage.allocate_device(namespace, **ours)
    # Room is made for a more important pod.
    stage.create_pod(namespace, "victim", cpu="3", nodeName="n2")
    stage.create_pod(namespace, "important", cpu="3", priorityClassName="high", **on_n2)
    wait_bound(stage.plane, namespace, "important")
    # A pod fails again and again: its event becomes a series.
    stage.create_pod(namespace, "large", cpu="3", nodeName="n1")
    stage.create_pod(namespace, "waiting", cpu="2", **on_n1)
    wait_event(stage.plane, namespace, "waiting", "FailedScheduling")
    wait_for("a series", partial(has_series_after_churn, stage, namespace))
    assert not is_bound(stage.plane, namespace, "waiting")


def has_series_after_churn(stage: Stage, namespace: str) -> bool:
    """Room comes free on the node, though not enough."""
    stage.create_pod(namespace, "small", nodeName="n1")
    stage.api.delete(f"/api/v1/namespaces/{namespace}/pods/small")
    events = stage.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return any(event.get("series") for event in events)


def scrape(stage: Stage, port: int) -> None:
    """A client with a token, as Prometheus would."""
    name = f"scraper-{port}"
    stage.plane.kubectl("create", "serviceaccount", name, check=True)
    token = stage.plane.service_account_token("default", name)
    wait_for("the port", lambda: unverified_access(f"https://127.0.0.1:{port}").answers("/livez"))
    scraper = unverified_access(f"https://127.0.0.1:{port}", token)
    with pytest.raises(ApiError) as refused:
        scraper.raw("GET", "/metrics")
    assert refused.value.status == 403


def test_the_scheduler_of_a_cluster(stage: Stage, tmp_path: Path) -> None:
    plane, port = stage.plane, free_port()
    plane.kubectl("apply", "-k", str(DEPLOY), check=True)
    wait_for_roles(plane, "stowplan")
    flags = command(plane, token_kubeconfig(plane, "stowplan"), namespace="stowplan")
    with (
        recording(stage, "scheduler", "stowplan", "stowplan"),
        started(tmp_path / "log", [*flags, f"--secure-port={port}"]) as scheduler,
    ):
        scheduler.wait_until_scheduling()
        play(stage, "default")
        scrape(stage, port)
        scheduler.stop()
    stage.clear("default")


def test_the_scheduler_of_a_namespace(stage: Stage, tmp_path: Path) -> None:
    plane, port = stage.plane, free_port()
    create_namespace(plane, "team-a")
    install_namespaced(plane, "team-a")
    config = token_kubeconfig(plane, "team-a")
    flags = command(plane, config, "--namespace=team-a", namespace="team-a")
    with (
        recording(stage, "namespaced", "stowplan", "team-a"),
        started(tmp_path / "log", [*flags, f"--secure-port={port}"]) as scheduler,
    ):
        scheduler.wait_until_scheduling()
        play(stage, "team-a")
        scrape(stage, port)
        scheduler.stop()
    stage.clear("team-a")


@pytest.mark.parametrize(
    ("key", "directory", "flags"),
    [
        ("static", STATIC, ()),
        ("respect-node-state", STATIC / "respect-node-state", ("--respect-node-state",)),
    ],
)
def test_the_static_scheduler(
    stage: Stage, tmp_path: Path, key: str, directory: Path, flags: tuple[str, ...]
) -> None:
    plane = stage.plane
    create_namespace(plane, key)
    plane.kubectl("apply", "-k", str(directory), check=True)
    token = plane.service_account_token("rfscheduler", "rfscheduler")
    config = plane.write_kubeconfig("rfscheduler", token)
    may_list = ("auth", "can-i", "list", "nodes" if key == "static" else "services", "-A")
    wait_for(
        "the role", lambda: plane.kubectl(*may_list, f"--token={token}").stdout.strip() == "yes"
    )
    ours = {"schedulerName": "rfcustom"}
    words = [*STOWPLAN, "static", f"--kubeconfig={config}", "--daemon", "-vv"]
    words += [f"--prometheus-port={free_port()}", *flags]
    with (
        recording(stage, key, "rfscheduler", "rfscheduler"),
        started(tmp_path / "log", words) as scheduler,
    ):
        stage.create_pod(key, "pinned", **ours)
        wait_event(plane, key, "pinned", "FailedScheduling")
        pins = {f"rf.scheduler.rfcustom.{key}/{pod}": "" for pod in PINNED}
        stage.api.patch("/api/v1/nodes/n1", {"metadata": {"labels": pins}})
        wait_bound(plane, key, "pinned")
        if key == "respect-node-state":
            stage.bind_volumes(key, **ours)
            stage.allocate_device(key, **ours)
        scheduler.process.terminate()
        assert scheduler.process.wait(30) == 0, scheduler.log


def test_the_recorder(stage: Stage, tmp_path: Path) -> None:
    plane, account = stage.plane, "stowplan-record"
    applied = plane.kubectl("apply", "-k", str(DEPLOY.parent / "record"), check=True)
    assert "Warning" not in applied.stderr  # the pod meets the restricted standard
    token = plane.service_account_token(account, account)
    config = plane.write_kubeconfig(account, token)
    may_list = ("auth", "can-i", "list", "csidrivers", f"--token={token}")
    wait_for("the role", lambda: plane.kubectl(*may_list).stdout.strip() == "yes")
    with recording(stage, "record", account, account):
        done = subprocess.run(
            [*STOWPLAN, "record", f"{tmp_path}/", "--for=10s", f"--kubeconfig={config}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr  # every kind is in it
    assert {grant.verb for grant in rbac.read_record()["record"]} == {"list", "watch"}


def test_the_roles_that_every_cluster_has(stage: Stage) -> None:
    """They grant what the tool takes them for."""
    rbac_api = "/apis/rbac.authorization.k8s.io/v1"
    roles = {
        "system:basic-user": f"{rbac_api}/clusterroles/system:basic-user",
        "system:auth-delegator": f"{rbac_api}/clusterroles/system:auth-delegator",
        "extension-apiserver-authentication-reader": f"{rbac_api}/namespaces/kube-system/roles"
        "/extension-apiserver-authentication-reader",
    }
    for grant, name in rbac.BUILT_IN.items():
        assert any(
            grant.group in rule["apiGroups"]
            and grant.resource in rule["resources"]
            and grant.verb in rule["verbs"]
            and rule.get("resourceNames", [grant.name]) == [grant.name]
            for rule in stage.api.get(roles[name])["rules"]
        ), grant
