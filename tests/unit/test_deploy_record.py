"""deploy/record: rights to read and nothing else, and parts that fit together."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml

from stowplan.cli.record import record
from stowplan.recording.decisions import EVENTS
from stowplan.recording.entries import KINDS
from tests.unit.test_deploy import Grant, Json, container_of, documents, granted, one
from tests.unit.test_deploy_extender import built, mounted

ROOT = Path(__file__).parents[2] / "deploy" / "record"


@pytest.fixture
def shared() -> list[Json]:
    return documents(*ROOT.glob("base/*.yaml"))


@pytest.fixture
def container(shared: list[Json]) -> Json:
    return container_of(shared)


def test_the_role_lets_it_read_what_is_recorded_and_nothing_else() -> None:
    kinds = (*KINDS, EVENTS)
    wanted = [Grant("", kind.group, kind.plural, verb) for kind in kinds for verb in _READING]
    assert sorted(granted(ROOT / "base" / "rbac.yaml")) == sorted(wanted)


_READING = ("list", "watch")


def test_no_manifest_is_forgotten() -> None:
    kustomization = ROOT / "base" / "kustomization.yaml"
    listed = yaml.safe_load(kustomization.read_text())["resources"]
    files = {file.name for file in kustomization.parent.glob("*.yaml")} - {kustomization.name}
    assert set(listed) == files


def test_the_parts_share_names(shared: list[Json], container: Json) -> None:
    namespace = one(shared, "Namespace")["metadata"]["name"]
    account, deployment = one(shared, "ServiceAccount"), one(shared, "Deployment")
    claim = one(shared, "PersistentVolumeClaim")
    for part in (account, deployment, claim):
        assert part["metadata"]["namespace"] == namespace
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    binding = one(documents(ROOT / "base" / "rbac.yaml"), "ClusterRoleBinding")
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], namespace)
    (volume,) = pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert container["args"][:2] == ["record", f"{mount['mountPath']}/"]


def test_the_deployment_asks_for_little_and_runs_as_nobody(
    shared: list[Json], container: Json
) -> None:
    pod = one(shared, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys()


def test_it_runs_the_image_of_the_other_installation(container: Json) -> None:
    other = one(documents(*ROOT.parent.glob("scheduler/base/*.yaml")), "Deployment")
    assert container["image"] == other["spec"]["template"]["spec"]["containers"][0]["image"]


def test_the_overlay_hashes_names_with_a_secret(kubectl_binary: Path) -> None:
    deployment = one(built(kubectl_binary, ROOT / "hashed"), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, *args = container["args"]
    assert [*container["command"], command] == ["stowplan", "record"]
    with click.Context(record) as ctx:
        values, _, _ = record.make_parser(ctx).parse_args(list(args))
    key = Path(str(values["hash_key"]))
    readme = (ROOT / "README.md").read_text()
    assert (
        f"create secret generic {mounted(pod, container, str(key))['secret']['secretName']} "
        in (readme)
    )
    assert f"--from-literal={key.name}=" in readme
