"""deploy/scheduler on a real API server: `stowplan run` as its service account, and no more.

The manifests are applied as a user would, with kubectl; the process gets the account's token, the
ConfigMap's configuration and nothing else.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError, unverified_access
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy" / "scheduler"
STOWPLAN = (sys.executable, "-m", "stowplan")
LACKING = re.compile(r'E\d{4} .* "command failed" err="the credentials do not allow: ')

# As `python -m stowplan`, in a pod whose service account is mounted elsewhere than usual.
IN_A_POD = """
import sys
from stowplan.api import kubeconfig
from stowplan.cli.main import main
kubeconfig.SERVICE_ACCOUNT_PATH = sys.argv.pop(1)
main()
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, with two nodes and the cluster-wide installation."""
    require_binaries("etcd", "kube-apiserver", "kubectl")
    with ControlPlane() as running:
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        for name in ("n1", "n2"):
            status = {"capacity": size, "allocatable": size}
            running.api.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        applied = running.kubectl("apply", "-k", str(DEPLOY), check=True)
        assert applied.stderr == "", "neither warnings nor errors"
        yield running


class Scheduler:
    """A running `stowplan run` and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_until_scheduling(self) -> None:
        wait_for("the scheduler to start", lambda: '"Scheduling"' in self.log)

    def stop(self) -> None:
        """In good order, and without ever having been refused anything."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log
        assert "orbidden" not in self.log
        assert "A permission is missing" not in self.log


@contextmanager
def started(
    log: Path, command: list[str], env: Mapping[str, str] | None = None
) -> Iterator[Scheduler]:
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=env)
    try:
        yield Scheduler(process, log)
    finally:
        process.kill()
        process.wait()


def outcome(command: list[str]) -> tuple[int, list[str]]:
    """Exit code of a scheduler that cannot start, and the lines of its log that are errors."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return ended.returncode, [
        line for line in ended.stderr.splitlines() if not re.match(r"[IW]\d{4} |\t| >", line)
    ]


def is_allowed(plane: ControlPlane, account_in: str, **attributes: str) -> bool:
    """Whether the API server lets the namespace's service account do something, as of now."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account_in}:stowplan",
            "resourceAttributes": attributes,
        },
    }
    answer = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def may_read_nodes(plane: ControlPlane, namespace: str) -> bool:
    return is_allowed(plane, namespace, verb="list", resource="nodes")


def may_hold_lease(plane: ControlPlane, namespace: str) -> bool:
    lease = {"group": "coordination.k8s.io", "resource": "leases", "name": "stowplan"}
    return is_allowed(plane, namespace, verb="update", namespace=namespace, **lease)


def wait_for_roles(plane: ControlPlane, namespace: str) -> None:
    """Roles take a moment to be known to the API server's authorizer."""
    wait_for("the cluster role", lambda: may_read_nodes(plane, namespace))
    wait_for("the role", lambda: may_hold_lease(plane, namespace))


def token_kubeconfig(plane: ControlPlane, namespace: str) -> Path:
    """A kubeconfig with nothing but the token of the namespace's service account."""
    token = plane.service_account_token(namespace, "stowplan")
    return plane.write_kubeconfig(f"{namespace}-stowplan", token)


def command(plane: ControlPlane, kubeconfig: Path, *flags: str, namespace: str) -> list[str]:
    """As the Deployment of that namespace runs it, but for the kubeconfig and the port."""
    return [
        *STOWPLAN,
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--config={config_file(plane, namespace)}",
        "--port=0",
        "-v=4",
        *flags,
    ]


def config_file(plane: ControlPlane, namespace: str) -> Path:
    data = plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/stowplan")["data"]
    file = plane.directory / f"config-{namespace}.yaml"
    file.write_text(data["config.yaml"])
    return file


def create_namespace(plane: ControlPlane, name: str) -> None:
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})


def create_pod(
    plane: ControlPlane,
    namespace: str,
    name: str,
    cpu: str = "100m",
    scheduler_name: str = "stowplan",
) -> None:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    plane.api.create(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "metadata": {"name": name},
            "spec": {"schedulerName": scheduler_name, "containers": [container]},
        },
    )


def get_pod(plane: ControlPlane, namespace: str, name: str) -> Json:
    return plane.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")


def is_bound(plane: ControlPlane, namespace: str, name: str) -> bool:
    return bool(get_pod(plane, namespace, name)["spec"].get("nodeName"))


def wait_bound(plane: ControlPlane, namespace: str, *names: str) -> None:
    for name in names:
        wait_for(f"{name} to be bound", partial(is_bound, plane, namespace, name))


def wait_event(plane: ControlPlane, namespace: str, pod: str, reason: str) -> Json:
    def look() -> Json | None:
        events = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return next(
            (e for e in events if e["regarding"].get("name") == pod and e["reason"] == reason), None
        )

    return wait_for(f"an event {reason} of {pod}", look)


def check_unschedulable(plane: ControlPlane, namespace: str, name: str) -> None:
    """The pod says why it waits, by condition and by event."""
    message = (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )

    def look() -> Json | None:
        conditions = get_pod(plane, namespace, name)["status"].get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), None)

    condition = wait_for(f"{name} to have a condition", look)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == message
    assert wait_event(plane, namespace, name, "FailedScheduling")["note"] == message


def test_pods_of_the_deployment_meet_the_restricted_standard(plane: ControlPlane) -> None:
    deployment = plane.api.get("/apis/apps/v1/namespaces/stowplan/deployments/stowplan")
    template = deployment["spec"]["template"]
    pod = {"kind": "Pod", "apiVersion": "v1", **template}
    pod["metadata"] = {"name": "trial", "namespace": "stowplan"}

    def create() -> subprocess.CompletedProcess[str]:
        return plane.kubectl(
            "create", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod, sort_keys=False)
        )

    accepted = create()
    assert (accepted.returncode, accepted.stderr) == (0, "")
    del template["spec"]["securityContext"]["seccompProfile"]
    assert 'violates PodSecurity "restricted' in create().stderr, "the namespace enforces it"


def test_the_cluster_wide_roles_suffice(plane: ControlPlane, tmp_path: Path) -> None:
    create_namespace(plane, "elsewhere")
    wait_for_roles(plane, "stowplan")
    kubeconfig = token_kubeconfig(plane, "stowplan")

    with started(tmp_path / "log", command(plane, kubeconfig, namespace="stowplan")) as scheduler:
        create_pod(plane, "default", "small")
        create_pod(plane, "elsewhere", "small")
        create_pod(plane, "default", "huge", cpu="64")
        wait_bound(plane, "default", "small")
        wait_bound(plane, "elsewhere", "small")
        check_unschedulable(plane, "default", "huge")
        event = wait_event(plane, "default", "small", "Scheduled")
        assert event["note"].startswith("Successfully assigned default/small to n")
        leases = "/apis/coordination.k8s.io/v1/namespaces/stowplan/leases"
        assert plane.api.get(f"{leases}/stowplan")["spec"]["holderIdentity"]
        scheduler.stop()
    assert not is_bound(plane, "default", "huge")
    assert plane.api.get(f"{leases}/stowplan")["spec"]["holderIdentity"] == "", "given up"


def test_annotations_need_the_role_for_them(plane: ControlPlane, tmp_path: Path) -> None:
    """Without it pods are scheduled, and the log says what is missing."""
    create_namespace(plane, "annotated")
    wait_for_roles(plane, "stowplan")
    kubeconfig = token_kubeconfig(plane, "stowplan")
    words = command(plane, kubeconfig, "--annotate", namespace="stowplan")
    key = "kube-scheduler-simulator.sigs.k8s.io/selected-node"

    def written(name: str) -> str:
        found = get_pod(plane, "annotated", name)
        return str(found["metadata"].get("annotations", {}).get(key, ""))

    with started(tmp_path / "without", words) as scheduler:
        create_pod(plane, "annotated", "first")
        wait_bound(plane, "annotated", "first")
        wait_for("the refusal", lambda: "Cannot annotate some pods" in scheduler.log)
        assert '"A permission is missing" right="patch pods in the whole cluster"' in scheduler.log
        scheduler.process.terminate()
        assert scheduler.process.wait(30) == 0
    assert written("first") == ""
    plane.kubectl("apply", "-f", str(DEPLOY / "annotate" / "rbac.yaml"), check=True)
    allowed = partial(is_allowed, plane, "stowplan", verb="patch", resource="pods")
    wait_for("the role", allowed)
    with started(tmp_path / "with", words) as scheduler:
        create_pod(plane, "annotated", "second")
        wait_for("the annotation", lambda: written("second"))
        scheduler.stop()
    assert written("second") == get_pod(plane, "annotated", "second")["spec"]["nodeName"]


def test_the_service_account_of_a_pod_suffices(plane: ControlPlane, tmp_path: Path) -> None:
    """In-cluster configuration: no kubeconfig, only what the kubelet would give to the pod."""
    wait_for_roles(plane, "stowplan")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(plane.service_account_token("stowplan", "stowplan"))
    (account / "ca.crt").write_bytes(plane.certificate_authority.read_bytes())
    (account / "namespace").write_text("stowplan")
    address = urlsplit(plane.url)
    env = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
        "HOME": str(tmp_path),
    }
    flags = ["run", f"--config={config_file(plane, 'stowplan')}", "--port=0", "-v=4"]

    with started(
        tmp_path / "log", [sys.executable, "-c", IN_A_POD, str(account), *flags], env
    ) as scheduler:
        create_pod(plane, "default", "from-inside")
        wait_bound(plane, "default", "from-inside")
        scheduler.stop()


def test_the_roles_suffice_to_authenticate_clients(plane: ControlPlane, tmp_path: Path) -> None:
    """The Deployment's HTTPS port, asked by a scraper with rights."""
    wait_for_roles(plane, "stowplan")
    plane.kubectl("create", "serviceaccount", "prometheus", check=True)
    plane.kubectl(
        *("create", "clusterrolebinding", "prometheus-metrics"),
        *("--clusterrole=system:monitoring", "--serviceaccount=default:prometheus"),
        check=True,
    )
    token = plane.service_account_token("default", "prometheus")
    port = free_port()
    flags = command(plane, token_kubeconfig(plane, "stowplan"), namespace="stowplan")
    with started(tmp_path / "log", [*flags, f"--secure-port={port}"]) as scheduler:
        scheduler.wait_until_scheduling()
        scraper = unverified_access(f"https://127.0.0.1:{port}", token)
        assert "scheduler_pending_pods" in scraper.raw("GET", "/metrics")
        with pytest.raises(ApiError) as refused:
            scraper.raw("GET", "/configz")
        assert refused.value.status == 403
        scheduler.stop()


def test_the_namespaced_roles_suffice_for_their_namespace(
    plane: ControlPlane, tmp_path: Path
) -> None:
    create_namespace(plane, "my-team")
    create_namespace(plane, "other-team")
    install_namespaced(plane, "my-team")
    kubeconfig = token_kubeconfig(plane, "my-team")
    flags = served_namespace(plane, "my-team")
    assert flags == ["--namespace=my-team"]

    with started(
        tmp_path / "log", command(plane, kubeconfig, *flags, namespace="my-team")
    ) as scheduler:
        scheduler.wait_until_scheduling()
        create_pod(plane, "other-team", "first")
        create_pod(plane, "my-team", "huge", cpu="64")
        check_unschedulable(plane, "my-team", "huge")
        create_pod(plane, "my-team", "last")
        wait_bound(plane, "my-team", "last")
        wait_event(plane, "my-team", "last", "Scheduled")
        leases = "/apis/coordination.k8s.io/v1/namespaces/my-team/leases"
        assert plane.api.get(f"{leases}/stowplan")["spec"]["holderIdentity"]
        scheduler.stop()
    assert not is_bound(plane, "other-team", "first")


def test_missing_rights_are_named_in_one_line(plane: ControlPlane) -> None:
    create_namespace(plane, "narrow")
    install_namespaced(plane, "narrow")
    kubeconfig = token_kubeconfig(plane, "narrow")

    code, lines = outcome(command(plane, kubeconfig, namespace="narrow"))

    # The roles of one namespace, but asked to serve them all, with the lease of another.
    assert (code, len(lines)) == (1, 1)
    told, _, advice = LACKING.sub("", lines[0]).partition(". ")
    cluster, lease = told.split("; ")
    assert cluster.removeprefix("in the whole cluster: ").split(", ") == [
        "list,watch pods",
        "create pods/binding",
        "patch resourceclaims/status.resource.k8s.io",
        "list,watch poddisruptionbudgets.policy",
        "list,watch,patch persistentvolumeclaims",
        "list,watch services",
        "list,watch replicationcontrollers",
        "list,watch replicasets.apps",
        "list,watch statefulsets.apps",
        "patch resourceclaims.resource.k8s.io",
    ]
    assert lease == "in namespace stowplan: create,get,update leases.coordination.k8s.io"
    assert "deploy/scheduler" in advice
    assert "--namespace" in advice

    # Without the right to read nodes nothing can be placed, not even in one namespace.
    plane.kubectl("delete", "clusterrolebinding", "stowplan-nodes-narrow", check=True)
    wait_for("the right to go", lambda: not may_read_nodes(plane, "narrow"))
    code, lines = outcome(command(plane, kubeconfig, "--namespace=narrow", namespace="narrow"))
    assert (code, len(lines)) == (1, 1)
    told = LACKING.sub("", lines[0]).partition(". ")[0]
    lacking = told.removeprefix("in the whole cluster: ").split(", ")
    assert lacking[0] == "list,watch nodes"
    # Whatever else its plugins look up that is in no namespace.
    assert "list,watch namespaces" in lacking
    assert "in namespace" not in told


def test_missing_rights_that_it_can_do_without_are_warned_of(
    plane: ControlPlane, tmp_path: Path
) -> None:
    create_namespace(plane, "silent")
    install_namespaced(plane, "silent", without=("pods/status", "events"))
    kubeconfig = token_kubeconfig(plane, "silent")

    with started(
        tmp_path / "log",
        command(plane, kubeconfig, "--namespace=silent", namespace="silent"),
    ) as scheduler:
        scheduler.wait_until_scheduling()
        create_pod(plane, "silent", "small")
        wait_bound(plane, "silent", "small")
        warned = re.findall(r'"A permission is missing" right="(.*?)"', scheduler.log)
        assert warned == [
            "patch pods/status in namespace silent",
            "create events.events.k8s.io in namespace silent",
            "patch events.events.k8s.io in namespace silent",
            "create events in namespace silent",
        ]


def install_namespaced(
    plane: ControlPlane, namespace: str, *, without: tuple[str, ...] = ()
) -> None:
    """As the README says it, less the rules for these resources."""
    rendered = plane.kubectl("kustomize", str(DEPLOY / "namespaced"), check=True).stdout
    objects = list(yaml.safe_load_all(rendered.replace("team-a", namespace)))
    for obj in objects:
        if obj["kind"] == "Role":
            for rule in obj["rules"]:
                rule["resources"] = [each for each in rule["resources"] if each not in without]
            obj["rules"] = [rule for rule in obj["rules"] if rule["resources"]]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects), check=True)
    wait_for_roles(plane, namespace)


def served_namespace(plane: ControlPlane, namespace: str) -> list[str]:
    """The Deployment's --namespace flag, with the variable in it filled in as the kubelet would."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/stowplan"
    (container,) = plane.api.get(path)["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    return [
        flag.replace(f"$({variable['name']})", namespace)
        for flag in container["args"]
        if flag.startswith("--namespace")
    ]
