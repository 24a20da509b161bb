"""The images, run as pods of the shipped manifests on the real control plane.

Command, environment, mounts and user are those of the rendered manifests (tests/pod_container.py).
A pod's only rights are those of its service account with the shipped roles.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from stowplan import __version__
from stowplan.lab.controlplane import ControlPlane
from tests import helm_chart
from tests.controlplane_fixtures import require_binaries
from tests.image_fixtures import REPOSITORY, Images
from tests.pod_container import pod_of, running, wait_for_roles
from tests.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

Json = dict[str, Any]
DEPLOY = REPOSITORY / "deploy"
PODS = "/api/v1/namespaces/{}/pods"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    require_binaries("etcd", "kube-apiserver", "kubectl")
    with ControlPlane() as running_plane:
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        pins = {
            f"rf.scheduler.rfcustom.default/{pod}": ""
            for pod in ("static-static-scheduler", "helm-stowplan-static")
        }
        running_plane.api.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": "node", "labels": pins},
                "status": {"capacity": size, "allocatable": size},
            },
        )
        yield running_plane


@pytest.fixture(scope="module")
def container(images: Images) -> Iterator[str]:
    name = images.container("stowplan:test")
    yield name
    images.do("buildah", "rm", name)


def test_labels_say_what_it_is_and_what_it_was_made_of(images: Images) -> None:
    for name in ("stowplan:test", "stowplan:static-pod"):
        shown = images.do("buildah", "inspect", "--type=image", f"localhost/{name}")
        image = json.loads(shown)["OCIv1"]
        prefix = "org.opencontainers.image."
        labels = {
            key.removeprefix(prefix): value
            for key, value in image["config"]["Labels"].items()
            if key.startswith(prefix)
        }
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True
        ).stdout.strip()
        assert labels.pop("revision").removesuffix("-dirty") == head
        assert labels.pop("source").startswith("https://")
        assert labels == {
            "title": "Stowplan",
            "description": "A Kubernetes scheduler and scheduling framework in Python",
            "licenses": "Apache-2.0",
            "version": __version__,
            # The time of the source, not of the build.
            "created": "2026-01-01T00:00:00Z",
        }
        assert image["created"] == "2026-01-01T00:00:00Z"


INSTALLED = """
from importlib.metadata import distributions
print(*(f"{each.name.lower().replace('_', '-')}=={each.version}" for each in distributions()))
"""


def test_the_bill_of_materials_is_what_is_installed(images: Images, container: str) -> None:
    inside = ("buildah", "run", container, "--")
    text = images.do(*inside, "cat", "/opt/stowplan/sbom.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    parts = [bill["metadata"]["component"], *bill["components"]]
    installed = images.do(*inside, "/opt/stowplan/bin/python", "-c", INSTALLED).split()
    assert sorted(f"{each['name']}=={each['version']}" for each in parts) == sorted(installed)


def create_pod(plane: ControlPlane, name: str, scheduler: str, namespace: str = "default") -> None:
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "c"}]}
    plane.api.create(PODS.format(namespace), {"metadata": {"name": name}, "spec": spec})


def check_scheduling(plane: ControlPlane, pod: str, scheduler: str, namespace: str) -> None:
    create_pod(plane, pod, scheduler, namespace)
    path = f"{PODS.format(namespace)}/{pod}"
    wait_for(f"{pod} to be bound", lambda: plane.api.get(path)["spec"].get("nodeName") == "node")


def check_filtering(port: int) -> None:
    body = json.dumps({"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["x", "y"]}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/filter", body, timeout=10) as answer:
        assert json.load(answer)["NodeNames"] == ["x", "y"]


def kustomized(plane: ControlPlane, folder: str) -> list[Json]:
    text = plane.kubectl("kustomize", str(DEPLOY / folder), check=True).stdout
    return list(yaml.safe_load_all(text))


def charted(name: str, namespace: str) -> list[Json]:
    """The objects of the Helm chart with a set of values."""
    binary = require_binaries("helm")["helm"]
    return helm_chart.render(binary, helm_chart.VALUE_SETS[name], namespace=namespace)


@pytest.mark.parametrize(
    ("source", "deployment", "scheduler"),
    [
        pytest.param("scheduler", "stowplan", "stowplan", id="scheduler"),
        pytest.param("scheduler/namespaced", "stowplan", "stowplan", id="namespaced"),
        pytest.param("static", "static-scheduler", "rfcustom", id="static"),
        pytest.param("extender", "wca-scheduler", "", id="extender"),
        pytest.param("helm", "stowplan", "stowplan", id="helm-scheduler"),
        pytest.param("helm", "stowplan-static", "rfcustom", id="helm-static"),
        pytest.param("helm", "stowplan-extender", "", id="helm-extender"),
    ],
)
def test_a_pod_of_the_manifests(
    plane: ControlPlane,
    images: Images,
    container: str,
    tmp_path: Path,
    source: str,
    deployment: str,
    scheduler: str,
) -> None:
    objects = charted("all", "of-helm") if source == "helm" else kustomized(plane, source)
    pod = pod_of(objects, deployment)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pod.namespace}}
    # Two services of extenders would ask for the same port of the nodes.
    needed = [namespace, *(each for each in objects if each["kind"] != "Service")]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(needed), check=True)
    wait_for_roles(plane, pod)
    with running(images, container, pod, tmp_path / "pod", plane) as started:
        started.wait_ready()
        if scheduler:
            served = pod.namespace if source.endswith("namespaced") else "default"
            check_scheduling(plane, f"{source.replace('/', '-')}-{deployment}", scheduler, served)
        else:
            check_filtering(started.port)
        started.stop()
    assert "orbidden" not in started.log
    assert "A permission is missing" not in started.log
    assert pod.container["securityContext"]["readOnlyRootFilesystem"]
    assert files_of_user(images, container, "65532") == "", "it could have been read-only"


def files_of_user(images: Images, container: str, user: str) -> str:
    """What a user has written to the container's own file system."""
    root = images.do("buildah", "mount", container)
    try:
        return images.do("find", root, "-xdev", "-user", user)
    finally:
        images.do("buildah", "umount", container)
