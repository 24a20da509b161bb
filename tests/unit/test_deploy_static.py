"""deploy/static and examples/static: the rights are few, and the parts fit together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from stowplan.scheduler.access import rights_for
from stowplan.static.settings import StaticSettings, make_engine
from tests.unit.test_deploy import (
    Grant,
    Json,
    assert_asks_for_little,
    container_of,
    documents,
    granted,
    one,
    wanted,
)

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / "deploy" / "static"
EXAMPLES = REPOSITORY / "examples" / "static"
VARIANTS = [ROOT, ROOT / "base", ROOT / "list-only", ROOT / "respect-node-state"]
LIST_ONLY = [
    Grant("", "", "nodes", "list"),
    Grant("", "", "pods", "list"),
    Grant("", "", "pods/binding", "create"),
]
ALL = [
    *LIST_ONLY,
    Grant("", "", "nodes", "watch"),
    Grant("", "", "pods", "watch"),
    Grant("", "events.k8s.io", "events", "create"),
]


def rights_of(settings: StaticSettings) -> list[Grant]:
    """What such plugins need; it sets no conditions, and leaves events as they are. The status of
    pods is written only for devices that they get by the name of a resource.
    """
    engine, _ = make_engine(settings)
    asked = wanted(rights_for(engine.plugins()), "")
    return [
        each
        for each in asked
        if (each.resource != "pods/status" or settings.respect_node_state)
        and (each.resource, each.verb) != ("events", "patch")
    ]


def test_what_the_shipped_role_grants_is_what_the_plugins_ask_for() -> None:
    assert sorted(rights_of(StaticSettings())) == sorted(ALL)


@pytest.fixture
def shared() -> list[Json]:
    return documents(*ROOT.glob("base/*.yaml"))


@pytest.fixture
def container(shared: list[Json]) -> Json:
    return container_of(shared)


@pytest.mark.parametrize(
    ("file", "rights"),
    [
        pytest.param(ROOT / "cluster" / "rbac.yaml", ALL, id="shipped"),
        pytest.param(ROOT / "list-only" / "rbac.yaml", LIST_ONLY, id="list-only"),
        pytest.param(
            ROOT / "respect-node-state" / "rbac.yaml",
            rights_of(StaticSettings(respect_node_state=True)),
            id="respect-node-state",
        ),
    ],
)
def test_the_role_is_minimal_and_bound_to_the_service_account(
    file: Path, rights: list[Grant], shared: list[Json]
) -> None:
    assert sorted(granted(file)) == sorted(rights)
    role, binding = documents(file)
    account = one(shared, "ServiceAccount")["metadata"]
    assert binding["kind"] == "ClusterRoleBinding"
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": role["kind"],
        "name": role["metadata"]["name"],
    }
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]


def test_the_readme_explains_every_right_and_no_other() -> None:
    table = (ROOT / "README.md").read_text().partition("## What it may do")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| (?:(\S+) )?(\S+): (\w+) \|", table, re.MULTILINE)
    assert sorted(explained) == sorted((right.group, right.resource, right.verb) for right in ALL)


@pytest.mark.parametrize("directory", VARIANTS)
def test_no_manifest_is_forgotten(directory: Path) -> None:
    kustomization = directory / "kustomization.yaml"
    listed = yaml.safe_load(kustomization.read_text())["resources"]
    files = {file.name for file in directory.glob("*.yaml")} - {kustomization.name}
    assert {name for name in listed if name.endswith(".yaml")} == files
    assert all((directory / name).exists() for name in listed)


def test_the_parts_share_names(shared: list[Json]) -> None:
    namespace = one(shared, "Namespace")["metadata"]["name"]
    account, deployment = one(shared, "ServiceAccount"), one(shared, "Deployment")
    assert account["metadata"]["namespace"] == deployment["metadata"]["namespace"] == namespace
    assert account["automountServiceAccountToken"] is True
    spec = deployment["spec"]
    assert spec["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_deployment_is_the_daemon_and_is_probed_on_its_metrics_port(container: Json) -> None:
    assert container["command"] == ["stowplan"]
    assert container["args"] == ["static", "--daemon", "-vv"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables == {
        "SCHED_NAME": "rfcustom",
        "SCHED_DELAY": "10",
        "SCHED_BIND_ADDRESS": "0.0.0.0",
        "SCHED_PROMETHEUS_PORT": "8000",
    }
    (port,) = container["ports"]
    assert str(port["containerPort"]) == variables["SCHED_PROMETHEUS_PORT"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/metrics", "port": port["name"]}


def test_the_deployment_asks_for_little_and_runs_as_nobody(
    shared: list[Json], container: Json
) -> None:
    pod = one(shared, "Deployment")["spec"]["template"]["spec"]
    assert_asks_for_little(pod, container)
    assert "volumes" not in pod, "it needs nothing but its token"


def test_it_runs_the_image_of_the_other_installation(container: Json) -> None:
    other = one(documents(*ROOT.parent.glob("scheduler/base/*.yaml")), "Deployment")
    assert container["image"] == other["spec"]["template"]["spec"]["containers"][0]["image"]


def test_the_examples_are_those_of_the_original() -> None:
    (cluster,) = documents(EXAMPLES / "kind.yaml")
    assert [node["role"] for node in cluster["nodes"]] == ["control-plane", "worker"]
    objects = documents(EXAMPLES / "statefulset.yaml")
    service, stateful_set = one(objects, "Service"), one(objects, "StatefulSet")
    spec = stateful_set["spec"]
    assert (stateful_set["metadata"]["name"], spec["replicas"]) == ("web", 3)
    assert spec["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == {"app": "nginx"}
    pod = spec["template"]["spec"]
    assert (pod["schedulerName"], pod["terminationGracePeriodSeconds"]) == ("test", 1)
