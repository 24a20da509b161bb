"""A pod of a rendered manifest, run as a buildah container in the way a kubelet would run it.

Command, environment, mounts, user and capabilities come from the pod's own specification, and the
token of its service account is all the rights that it has. Two things differ from a cluster: the
process shares the machine's network, so ports of pods without `hostNetwork` are replaced by free
ones, and its root file system is writable, so tests look whether something was written.
"""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.image_fixtures import Images
from tests.private_network import PrivateNetwork
from tests.waiting import wait_for

Json = dict[str, Any]
#: /var/run is a link to /run, and buildah would follow it to the machine's own.
ACCOUNT: Final = "/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class Pod:
    """A pod as it is to run: its metadata, its specification, and the objects that it mounts."""

    namespace: str
    spec: Json
    objects: list[Json] = field(default_factory=list)

    @property
    def container(self) -> Json:
        (only,) = self.spec["containers"]
        assert isinstance(only, dict)
        return only


def pod_of(objects: Iterable[Json], name: str = "") -> Pod:
    """The pod of the only Deployment among rendered objects, or of that with this name."""
    objects = list(objects)
    (found,) = [
        each
        for each in objects
        if each["kind"] == "Deployment" and name in ("", each["metadata"]["name"])
    ]
    namespace = found["metadata"].get("namespace", "default")
    return Pod(namespace, found["spec"]["template"]["spec"], objects)


def wait_for_roles(plane: ControlPlane, pod: Pod) -> None:
    """Roles take a moment to be known to the API server's authorizer."""
    account = pod.spec["serviceAccountName"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": pod.namespace}
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in pod.objects
        if subject in each.get("subjects", [])
    }
    user = f"system:serviceaccount:{pod.namespace}:{account}"
    for each in pod.objects:
        if (each["kind"], each["metadata"]["name"]) in bound:
            wait_for("a role", partial(is_in_force, plane, each, user))


def is_in_force(plane: ControlPlane, role: Json, user: str) -> bool:
    """Whether the API server grants the role's last rule to a user."""
    rule = role["rules"][-1]
    resource, _, subresource = rule["resources"][0].partition("/")
    asked = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "namespace": role["metadata"].get("namespace", ""),
        "name": rule.get("resourceNames", [""])[0],
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    answer = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


class PodContainer:
    """A container that runs a pod's command."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, pod: Pod) -> None:
        self.process = process
        self._log = log
        self._pod = pod

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        """The first that the container declares."""
        return int(self._pod.container["ports"][0]["containerPort"])

    def probe(self, kind: str) -> tuple[int, str]:
        """What a probe of the pod gets: `startupProbe`, `livenessProbe`, `readinessProbe`."""
        asked = self._pod.container[kind]["httpGet"]
        ports = {each.get("name"): each["containerPort"] for each in self._pod.container["ports"]}
        port, host = ports.get(asked["port"], asked["port"]), asked.get("host", "127.0.0.1")
        scheme = asked.get("scheme", "HTTP").lower()
        # Kubelets do not verify certificates of probes either.
        tls = ssl._create_unverified_context() if scheme == "https" else None
        url = f"{scheme}://{host}:{port}{asked['path']}"
        with urllib.request.urlopen(url, timeout=10, context=tls) as answer:
            return answer.status, answer.read().decode()

    def wait_ready(self) -> None:
        """Until all probes succeed."""

        def answers() -> bool:
            assert self.process.poll() is None, self.log
            probes = ("startupProbe", "livenessProbe", "readinessProbe")
            return all(self.probe(kind)[0] == 200 for kind in probes)

        wait_for("the probes", answers, timeout_s=60)

    def stop(self) -> None:
        """As a kubelet ends it; buildah itself would kill it."""
        os.kill(innermost(self.process.pid), signal.SIGTERM)
        assert self.process.wait(timeout=40) == 0, self.log


def innermost(pid: int) -> int:
    """The process that runs the command, below some of buildah's own."""
    while children := [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]:
        (pid,) = children
    return pid


@contextmanager
def running(
    images: Images,
    container: str,
    pod: Pod,
    folder: Path,
    plane: ControlPlane,
    host_files: Mapping[str, Path] | None = None,
    network: PrivateNetwork | None = None,
) -> Iterator[PodContainer]:
    """Run a pod in a container of its image; `host_files` stand for the node's, by their paths.

    `network` stands for the node's, where a pod with `hostNetwork` has the ports of its manifest.
    """
    folder.mkdir(exist_ok=True)
    if not pod.spec.get("hostNetwork"):
        pod = with_free_ports(pod)
    log = folder / "log"
    command = run_command(pod, container, folder, plane, host_files or {})
    with log.open("wb") as stream:

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, env=images.environment, stdout=stream, stderr=stream)

        process = start() if network is None else network.call(start)
    try:
        yield PodContainer(process, log, pod)
    finally:
        if process.poll() is None:
            os.kill(innermost(process.pid), signal.SIGKILL)
            process.terminate()
        process.wait()


def with_free_ports(pod: Pod) -> Pod:
    """The same pod with ports that no other process of the machine has."""
    (container,) = pod.spec["containers"]
    numbers = {str(port["containerPort"]): str(free_port()) for port in container.get("ports", [])}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        if isinstance(value, int) and str(value) in numbers:
            return int(numbers[str(value)])
        if isinstance(value, str):
            return re.sub(r"\d+", lambda found: numbers.get(found[0], found[0]), value)
        return value

    keys = ("args", "command", "env", "ports", "startupProbe", "livenessProbe", "readinessProbe")
    changed = container | {key: replaced(container[key]) for key in keys if key in container}
    return Pod(pod.namespace, pod.spec | {"containers": [changed]}, pod.objects)


def run_command(
    pod: Pod, container: str, folder: Path, plane: ControlPlane, host_files: Mapping[str, Path]
) -> list[str]:
    """`buildah run` with all that the pod's specification says."""
    spec, variables = pod.container, environment(pod, plane)
    words = ["buildah", "run"]
    security = pod.spec.get("securityContext", {}) | spec.get("securityContext", {})
    if "runAsUser" in security:
        words.append(f"--user={security['runAsUser']}:{security.get('runAsGroup', 0)}")
    dropped = security.get("capabilities", {}).get("drop", [])
    words += [f"--cap-drop={capability.lower()}" for capability in dropped]
    words += [f"--env={name}={value}" for name, value in variables.items()]
    for path, source, mode in mounts(pod, folder, plane, host_files):
        words.append(f"--volume={source}:{path}:{mode}")
    command = [*spec["command"], *spec.get("args", [])]
    return [*words, container, "--", *(expand(word, variables) for word in command)]


def expand(word: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` as a kubelet expands it."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), word)


def environment(pod: Pod, plane: ControlPlane) -> dict[str, str]:
    address = urlsplit(plane.url)
    found = {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }
    fields = {
        "metadata.namespace": pod.namespace,
        "metadata.name": "pod",
        "spec.nodeName": "node",
        "status.podIP": "127.0.0.1",
    }
    for each in pod.container.get("env", []):
        if "value" in each:
            found[each["name"]] = expand(each["value"], found)
        else:
            found[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
    return found


def mounts(
    pod: Pod, folder: Path, plane: ControlPlane, host_files: Mapping[str, Path]
) -> Iterator[tuple[str, Path, str]]:
    """Path in the container, path here, and `ro` or `rw`."""
    volumes = {each["name"]: each for each in pod.spec.get("volumes", [])}
    for mount in pod.container.get("volumeMounts", []):
        volume = volumes[mount["name"]]
        source = folder / mount["name"]
        if "configMap" in volume:
            write_files(source, data_of(pod, "ConfigMap", volume["configMap"]["name"]))
        elif "secret" in volume:
            write_files(source, data_of(pod, "Secret", volume["secret"]["secretName"]))
        elif "hostPath" in volume:
            source = host_files[volume["hostPath"]["path"]]
        else:
            assert "emptyDir" in volume, f"a volume that is not known here: {volume}"
            source.mkdir(exist_ok=True)
            source.chmod(0o777)
        yield mount["mountPath"], source, "ro" if mount.get("readOnly") else "rw"
    account = pod.spec.get("serviceAccountName")
    if account and pod.spec.get("automountServiceAccountToken", True):
        token = plane.service_account_token(pod.namespace, account)
        authority = plane.certificate_authority.read_text()
        files = {"token": token, "ca.crt": authority, "namespace": pod.namespace}
        write_files(folder / "serviceaccount", files)
        yield ACCOUNT, folder / "serviceaccount", "ro"


def data_of(pod: Pod, kind: str, name: str) -> dict[str, str]:
    """The data of a rendered object."""
    (found,) = [
        each for each in pod.objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return dict(found.get("data", {}))


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    folder.chmod(0o755)
