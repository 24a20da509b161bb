"""deploy/scheduler: its roles are the table in scheduler/access.py, and its parts fit together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from stowplan.config.load import load_config
from stowplan.config.types import KubeSchedulerConfiguration, Profile
from stowplan.scheduler.access import LEASE_RIGHTS, Right, rights_for
from stowplan.scheduler.assembly import build_engine

Json = dict[str, Any]
ROOT = Path(__file__).parents[2] / "deploy" / "scheduler"
INSTALLATIONS = [
    pytest.param(ROOT / "cluster", "stowplan", id="cluster"),
    pytest.param(ROOT / "namespaced", "team-a", id="namespaced"),
]


#: Roles that every cluster has, by name, with their namespaces: to ask who a client is.
DELEGATION = {
    "system:auth-delegator": "",
    "extension-apiserver-authentication-reader": "kube-system",
}


class Grant(NamedTuple):
    """One verb on one resource; a namespace or name of "" means all of them."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


def documents(*files: Path) -> list[Json]:
    return [doc for file in files for doc in yaml.safe_load_all(file.read_text())]


def one(objects: Iterable[Json], kind: str) -> Json:
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def granted(file: Path) -> list[Grant]:
    return [
        Grant(role["metadata"].get("namespace", ""), group, resource, verb, name)
        for role in documents(file)
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    ]


def wanted(rights: Iterable[Right], namespace: str, lease: str = "") -> list[Grant]:
    return [
        Grant(
            "" if right.cluster_wide else namespace,
            right.group,
            f"{right.resource}/{right.subresource}" if right.subresource else right.resource,
            verb,
            "" if verb == "create" else lease,
        )
        for right in rights
        for verb in right.verbs
    ]


def container_of(manifests: list[Json]) -> Json:
    (found,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def assert_asks_for_little(pod: Json, container: Json) -> None:
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys()


@pytest.fixture
def shared() -> list[Json]:
    return documents(*ROOT.glob("base/*.yaml"))


@pytest.fixture
def container(shared: list[Json]) -> Json:
    return container_of(shared)


@pytest.fixture
def config(shared: list[Json], tmp_path: Path) -> KubeSchedulerConfiguration:
    (text,) = one(shared, "ConfigMap")["data"].values()
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load_config(str(file))


def default_rights() -> list[Right]:
    config = KubeSchedulerConfiguration(profiles=(Profile(scheduler_name="stowplan"),))
    engine = build_engine(config)
    return rights_for(engine.plugins())


def test_the_cluster_roles_are_the_table() -> None:
    expected = wanted(default_rights(), "") + wanted(LEASE_RIGHTS, "stowplan", "stowplan")
    assert sorted(granted(ROOT / "cluster" / "rbac.yaml")) == sorted(expected)


def test_the_namespaced_roles_are_the_table_with_little_cluster_wide() -> None:
    expected = wanted(default_rights(), "team-a") + wanted(LEASE_RIGHTS, "team-a", "stowplan")
    roles = granted(ROOT / "namespaced" / "rbac.yaml")
    assert sorted(roles) == sorted(expected)
    cluster_wide = {
        (f"{right.resource}/{right.subresource}".rstrip("/"), verb)
        for right in default_rights()
        if right.cluster_wide
        for verb in right.verbs
    }
    for grant in roles:
        if not grant.namespace:
            assert (grant.resource, grant.verb) in cluster_wide


def test_the_readme_explains_every_right_and_no_other() -> None:
    table = (ROOT / "README.md").read_text().partition("## What it may do")[2].partition("\n## ")[0]
    explained = set()
    for resources, verbs in re.findall(r"^\| ([a-z][^|`]*): ([^|]*) \|", table, re.MULTILINE):
        for listed in resources.split("; "):
            first, _, rest = listed.partition(" ")
            group, names = ("", listed) if not rest or first.endswith(",") else (first, rest)
            explained |= {
                (group, name, verb)
                for name in names.split(", ")
                for verb in re.findall(r"\b(?:get|list|watch|create|update|patch|delete)\b", verbs)
            }
    assert explained == {
        (right.group, right.resource, right.verb)
        for right in granted(ROOT / "cluster" / "rbac.yaml")
    }


@pytest.mark.parametrize(("directory", "namespace"), INSTALLATIONS)
def test_every_role_is_bound_to_the_service_account(
    directory: Path, namespace: str, shared: list[Json]
) -> None:
    objects = documents(directory / "rbac.yaml")
    account = one(shared, "ServiceAccount")["metadata"]["name"]
    roles, bindings = set(), set()
    for obj in objects:
        where = obj["metadata"].get("namespace", "")
        if obj.get("roleRef", {}).get("name") in DELEGATION:
            where = DELEGATION[obj["roleRef"]["name"]]
            roles.add((obj["roleRef"]["kind"], where, obj["roleRef"]["name"]))
        assert where in ("", namespace, "kube-system")
        if obj["kind"] in ("Role", "ClusterRole"):
            roles.add((obj["kind"], where, obj["metadata"]["name"]))
        else:
            bindings.add((obj["roleRef"]["kind"], where, obj["roleRef"]["name"]))
            assert obj["subjects"] == [
                {"kind": "ServiceAccount", "name": account, "namespace": namespace}
            ]
    assert roles == bindings
    assert {name for _, _, name in bindings} >= DELEGATION.keys()


@pytest.mark.parametrize("name", ["scheduler", "static", "extender", "record"])
def test_apply_with_f_in_place_of_k_changes_nothing(name: str) -> None:
    """kubectl refuses a Kustomization, but would apply the other files of its folder."""
    assert [file.name for file in (ROOT.parent / name).glob("*.yaml")] == ["kustomization.yaml"]


@pytest.mark.parametrize("directory", [ROOT, ROOT / "base", ROOT / "cluster", ROOT / "namespaced"])
def test_no_manifest_is_forgotten(directory: Path) -> None:
    kustomization = directory / "kustomization.yaml"
    listed = yaml.safe_load(kustomization.read_text())["resources"]
    files = {file.name for file in directory.glob("*.yaml")} - {kustomization.name}
    assert {name for name in listed if name.endswith(".yaml")} == files
    assert all((directory / name).exists() for name in listed)


def test_the_configuration_elects_with_the_lease_that_the_role_names(
    config: KubeSchedulerConfiguration,
) -> None:
    election = config.leader_election
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == ("stowplan", "stowplan")
    assert [profile.scheduler_name for profile in config.profiles] == ["stowplan"]


def test_the_deployment_reads_the_config_map(shared: list[Json], container: Json) -> None:
    pod = one(shared, "Deployment")["spec"]["template"]["spec"]
    config_map = one(shared, "ConfigMap")
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": config_map["metadata"]["name"]}}
    (key,) = config_map["data"]
    assert f"--config={mount['mountPath']}/{key}" in container["args"]
    assert pod["serviceAccountName"] == one(shared, "ServiceAccount")["metadata"]["name"]


def test_the_deployment_is_probed_where_it_listens(container: Json) -> None:
    (port,) = container["ports"]
    assert f"--secure-port={port['containerPort']}" in container["args"]
    probed = {
        probe: container[probe]["httpGet"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert probed == {
        "startupProbe": {"path": "/healthz", "port": port["name"], "scheme": "HTTPS"},
        "livenessProbe": {"path": "/healthz", "port": port["name"], "scheme": "HTTPS"},
        "readinessProbe": {"path": "/readyz", "port": port["name"], "scheme": "HTTPS"},
    }


def test_probes_are_as_patient_as_kubeadms(container: Json) -> None:
    manifest = yaml.safe_load((ROOT.parent / "static-pod" / "kube-scheduler.yaml").read_text())
    (kubeadms,) = manifest["spec"]["containers"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe, theirs = container[name], kubeadms[name]
        assert probe["timeoutSeconds"] == theirs["timeoutSeconds"]
        if name != "readinessProbe":  # whose failure restarts nothing
            seconds = probe.get("periodSeconds", 10) * probe["failureThreshold"]
            assert seconds == theirs["periodSeconds"] * theirs["failureThreshold"]


def test_the_deployment_asks_for_little_and_runs_as_nobody(
    shared: list[Json], container: Json
) -> None:
    spec = one(shared, "Deployment")["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 2
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert_asks_for_little(pod, container)
