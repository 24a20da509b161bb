"""A cluster as `kind` makes it from examples/static/kind.yaml, for tests of the static scheduler.

The real control plane with its controllers, KWOK in the place of the kubelets, and the API server's
audit log. deploy/static is applied, so that the scheduler can run as its own service account: its
Deployment stays Pending, for nobody schedules it, and `StaticProcess` runs in its place.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from stowplan.audit import AuditTrail
from stowplan.lab.controlplane import ControlPlane, components
from stowplan.lab.controlplane.processes import free_port
from tests import waiting
from tests.controlplane_fixtures import require_binaries

Json = dict[str, Any]
REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy" / "static"
STATEFUL_SET = REPOSITORY / "examples" / "static" / "statefulset.yaml"
CONTROL_PLANE, WORKER = "kind-control-plane", "kind-worker"
ACCOUNT = "system:serviceaccount:rfscheduler:rfscheduler"
# Six servers on a busy machine can take their time.
PATIENCE_S = 90.0
STATIC = (sys.executable, "-m", "stowplan", "static")

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None]) -> T:
    """The first answer that is true."""
    return waiting.wait_for(what, look, PATIENCE_S)


class StaticStage:
    """See the module."""

    def __init__(self, plane: ControlPlane, trail: AuditTrail) -> None:
        self.plane = plane
        self.trail = trail
        self.api = plane.api

    # -- the cluster --------------------------------------------------------------------------

    def create_node(self, name: str, **metadata: Any) -> None:
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"capacity": size, "allocatable": size}
        self.api.create("/api/v1/nodes", {"metadata": {"name": name, **metadata}, "status": status})

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """None takes a label away."""
        self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": dict(labels)}})

    def create_namespace(self, name: str) -> None:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_for(f"the service account of {name}", lambda: self.api.answers(account))

    def kubectl(self, *arguments: str) -> str:
        return self.plane.kubectl(*arguments, check=True).stdout

    def pods(self, namespace: str = "default") -> dict[str, Json]:
        items = self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def placed(self, namespace: str = "default") -> dict[str, str]:
        """The pods that have a node."""
        found = self.pods(namespace).items()
        return {name: pod["spec"]["nodeName"] for name, pod in found if pod["spec"].get("nodeName")}

    def wait_ready(self, pod: str, node: str, namespace: str = "default") -> None:
        def look() -> bool:
            found = self.pods(namespace).get(pod)
            return found is not None and is_ready(found) and found["spec"]["nodeName"] == node

        wait_for(f"{pod} to be ready on {node}", look)

    def wait_pending(self, pod: str, namespace: str = "default") -> None:
        def look() -> bool:
            found = self.pods(namespace).get(pod)
            return found is not None and not found["spec"].get("nodeName")

        wait_for(f"{pod} to be there", look)

    def wait_told(self, pod: str, reason: str, note: str, namespace: str = "default") -> None:
        """Wait for an event about the pod that says this."""
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"

        def look() -> bool:
            return any(
                each["regarding"].get("name") == pod
                and each["reason"] == reason
                and note in each.get("note", "")
                for each in self.api.get(path)["items"]
            )

        wait_for(f"an event {reason} of {pod} with {note!r}", look)

    def clear(self) -> None:
        """Take the pods of the default namespace away, and all pins."""
        self.kubectl("delete", "-f", str(STATEFUL_SET), "--ignore-not-found")
        self.kubectl("delete", "pod", "--all", "--wait=true")
        wait_for("no pod to be left", lambda: not self.pods())
        for node in self.api.get("/api/v1/nodes")["items"]:
            pins = [
                key for key in node["metadata"].get("labels", {}) if key.startswith("rf.scheduler.")
            ]
            self.label(node["metadata"]["name"], dict.fromkeys(pins))

    # -- credentials --------------------------------------------------------------------------

    def admin(self) -> dict[str, str]:
        """The environment of somebody with all rights, at their desk."""
        return environment(KUBECONFIG=str(self.plane.kubeconfig))

    def account(self, directory: Path) -> dict[str, str]:
        """The environment of a pod of deploy/static: the token, the CA and the API's address."""
        directory.mkdir(exist_ok=True)
        token = self.plane.service_account_token("rfscheduler", "rfscheduler")
        (directory / "token").write_text(token)
        (directory / "ca.crt").write_bytes(self.plane.certificate_authority.read_bytes())
        address = urlsplit(self.plane.url)
        return environment(
            SCHED_INCLUSTER_BASE_PATH=str(directory),
            KUBERNETES_SERVICE_HOST=str(address.hostname),
            KUBERNETES_SERVICE_PORT=str(address.port),
            HOME=str(directory),
        )

    def install(self, directory: Path, *, may_watch: bool) -> None:
        """Apply an installation, and wait until the API server goes by its role."""
        applied = self.plane.kubectl("apply", "-k", str(directory), check=True)
        assert applied.stderr == "", "neither warnings nor errors"

        def allowed(verb: str) -> bool:
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": ACCOUNT,
                    "resourceAttributes": {"verb": verb, "resource": "nodes"},
                },
            }
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            return bool(self.api.create(path, review)["status"]["allowed"])

        wait_for("the role", lambda: allowed("list") and allowed("watch") == may_watch)


class StaticProcess:
    """A running `stowplan static` and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.process = process
        self._log = log
        self._port = port

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def lines(self) -> list[str]:
        return self.log.splitlines()

    def metrics(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log


@contextmanager
def daemon(
    log: Path, env: Mapping[str, str], *flags: str, port: int | None = None
) -> Iterator[StaticProcess]:
    """`stowplan static` with these flags, one of them `--daemon`, and a port of its own."""
    port = port or free_port()
    command = [*STATIC, f"--prometheus-port={port}", *flags]
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=env)
    try:
        yield StaticProcess(process, log, port)
    except BaseException:
        print(log.read_text())
        raise
    finally:
        process.kill()
        process.wait()


def one_shot(env: Mapping[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    """`stowplan static`, once."""
    return subprocess.run(
        [*STATIC, f"--prometheus-port={free_port()}", *flags],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
    )


def environment(**variables: str) -> dict[str, str]:
    """Ours, without what would tell a scheduler where to look or what to be."""
    ours = {
        key: value
        for key, value in os.environ.items()
        if key != "KUBECONFIG" and not key.startswith(("SCHED_", "KUBERNETES_"))
    }
    return ours | variables


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


# KWOK deletes a terminating pod twice, by name and not by UID: the second time it may hit the next
# pod of that name, which nobody wanted to go. So it has a user of its own, whom a policy stops.
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ALL_RIGHTS = {"as": "kwok", "as-groups": ["system:masters"]}
PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "operations": ["DELETE"],
}
POLICY = {
    "matchConstraints": {"resourceRules": [PODS]},
    "matchConditions": [{"name": "kwok", "expression": "request.userInfo.username == 'kwok'"}],
    "validations": [{"expression": "has(oldObject.metadata.deletionTimestamp)"}],
}


def start_kwok(plane: ControlPlane) -> None:
    """Returns as soon as it cannot delete pods that are not terminating."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    for each in config["users"]:
        each["user"] |= ALL_RIGHTS
    kubeconfig = plane.directory / "kwok.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    metadata = {"name": "kwok"}
    binding = {"policyName": "kwok", "validationActions": ["Deny"]}
    for kind, spec in ("policies", POLICY), ("policybindings", binding):
        path = f"{ADMISSION}/validatingadmission{kind}"
        plane.api.create(path, {"metadata": metadata, "spec": spec})

    pods = "/api/v1/namespaces/default/pods"
    containers = [{"name": "c", "image": "c"}]
    plane.api.create(pods, {"metadata": metadata, "spec": {"containers": containers}})
    its_user = ("--as=kwok", "--as-group=system:masters")
    attempt = ("delete", "pod", "kwok", "--dry-run=server", *its_user)
    wait_for("the policy", lambda: "failed expression" in plane.kubectl(*attempt).stderr)
    plane.api.delete(f"{pods}/kwok")
    plane.start_kwok(None, f"--kubeconfig={kubeconfig}")


@contextmanager
def static_stage(directory: Path) -> Iterator[StaticStage]:
    """The cluster with kind's two nodes, the first tainted as kind does it."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kwok")
    trail = AuditTrail(directory)
    # Nobody looks whether KWOK reports for its nodes in time: on a busy machine it does not, and
    # then pods that were ready would not be.
    controllers = f"{components.CONTROLLERS},-node-lifecycle-controller,-taint-eviction-controller"
    no_taints = ("TaintNodesByCondition",)
    with ControlPlane(disabled_admission_plugins=no_taints, apiserver_flags=trail.flags) as plane:
        plane.start_controller_manager(controllers=controllers)
        stage = StaticStage(plane, trail)
        stage.create_node(CONTROL_PLANE)
        stage.create_node(WORKER)
        taint = "node-role.kubernetes.io/control-plane:NoSchedule"
        stage.kubectl("taint", "node", CONTROL_PLANE, taint)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_for("the default service account", lambda: plane.api.answers(account))
        start_kwok(plane)
        stage.install(DEPLOY, may_watch=True)
        yield stage
