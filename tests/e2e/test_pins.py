"""`stowplan pin`, `unpin`, `pins` and `move` on the real control plane, budgets included.

As a person with the rights that docs/pins.md names and no other; the API server's audit log says
that every one of them was used and nothing was refused. A StatefulSet's controller creates pods
again, the disruption controller keeps the budgets, `stowplan static` places what is pinned.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.static_stage import (
    CONTROL_PLANE,
    REPOSITORY,
    STATEFUL_SET,
    WORKER,
    StaticStage,
    daemon,
    environment,
    static_stage,
)
from tests.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WEB = ("web-0", "web-1", "web-2")
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PERSON = "system:serviceaccount:default:person"
LONG = "a-name-that-is-longer-than-the-sixty-three-characters-of-a-label-0"


def documented_role() -> dict[str, Any]:
    text = (REPOSITORY / "docs" / "pins.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    role: dict[str, Any] = yaml.safe_load(block)
    assert role["kind"] == "ClusterRole"
    return role


def documented_rights() -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in documented_role()["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Person:
    """Somebody at their desk."""

    def __init__(self, stage: StaticStage) -> None:
        api = stage.api
        api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "person"}})
        roles = "/apis/rbac.authorization.k8s.io/v1"
        role = documented_role()
        api.create(f"{roles}/clusterroles", role)
        api.create(
            f"{roles}/clusterrolebindings",
            {
                "metadata": {"name": "person"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role["metadata"]["name"],
                },
                "subjects": [{"kind": "ServiceAccount", "name": "person", "namespace": "default"}],
            },
        )
        token = stage.plane.service_account_token("default", "person")
        kubeconfig = stage.plane.write_kubeconfig("person", token)
        self._env = environment(KUBECONFIG=str(kubeconfig))
        wait_for("the role", lambda: self.run("pins").returncode == 0)
        self.begun = stage.trail.mark()

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stowplan", *argv],
            capture_output=True,
            text=True,
            env=self._env,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )

    def do(self, *argv: str) -> str:
        done = self.run(*argv)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticStage]:
    """With a scheduler for `test`, and web-0 to web-2 on the worker."""
    directory = tmp_path_factory.mktemp("pins")
    with (
        static_stage(directory) as running,
        daemon(directory / "log", running.admin(), "--name=test", "--daemon", "-vv"),
    ):
        running.kubectl("apply", "-f", str(STATEFUL_SET))
        yield running


@pytest.fixture(scope="module")
def person(stage: StaticStage) -> Person:
    someone = Person(stage)
    for name in WEB:
        someone.do("pin", name, WORKER, "--name", "test")
        stage.wait_ready(name, WORKER)
    return someone


def uid(stage: StaticStage, pod: str) -> str:
    found: str = stage.pods()[pod]["metadata"]["uid"]
    return found


def wait_for_budget(stage: StaticStage, name: str, allowed: int) -> None:
    def look() -> bool:
        budget = stage.api.get(f"{BUDGETS}/{name}")
        status = budget["status"]
        return bool(
            status.get("observedGeneration") == budget["metadata"]["generation"]
            and status["currentHealthy"] == len(WEB)
            and status["disruptionsAllowed"] == allowed
        )

    wait_for(f"budget {name} to allow {allowed}", look)


def create_budget(stage: StaticStage, name: str, at_least: int) -> None:
    selector = {"matchLabels": {"app": "nginx"}}
    spec = {"minAvailable": at_least, "selector": selector}
    stage.api.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    wait_for_budget(stage, name, len(WEB) - at_least)


def test_pods_are_where_they_belong(stage: StaticStage, person: Person) -> None:
    rows = [line.split() for line in person.do("pins", "--check").splitlines()]
    assert rows == [
        ["POD", "NAMESPACE", "NODES", "FORM", "STATE", "DRIFT"],
        *([name, "default", WORKER, "label", "Running", "<none>"] for name in WEB),
    ]


def test_a_budget_is_respected_and_nothing_is_changed(stage: StaticStage, person: Person) -> None:
    create_budget(stage, "web", at_least=3)
    before = uid(stage, "web-0")

    refused = person.run("move", "web-0", CONTROL_PLANE, "--yes")

    assert refused.returncode == 1
    assert "budget  web allows no disruption now (3 healthy, 3 needed)\n" in refused.stdout
    assert refused.stdout.endswith("needed)\n"), "nothing was done"
    assert refused.stderr.splitlines() == [
        "Error: the API server refused to evict pod default/web-0: Cannot evict pod as it "
        "would violate the pod's disruption budget.",
        "Error: Try again later, or delete it anyway with --force",
    ]
    assert uid(stage, "web-0") == before
    assert person.run("pins", "--check").returncode == 0

    # As soon as there is room, it goes.
    stage.api.patch(f"{BUDGETS}/web", {"spec": {"minAvailable": 2}})
    wait_for_budget(stage, "web", 1)
    moved = person.do("move", "web-0", CONTROL_PLANE, "--yes")
    assert moved.endswith(f"default/web-0 is on {CONTROL_PLANE} now (was on {WORKER})\n")
    assert uid(stage, "web-0") != before
    stage.wait_ready("web-0", CONTROL_PLANE)


def test_what_the_eviction_api_cannot_do_is_told(stage: StaticStage, person: Person) -> None:
    """It answers "201 Created" with a failure inside."""
    create_budget(stage, "second", at_least=1)
    before = uid(stage, "web-0")
    refused = person.run("move", "web-0", WORKER, "--yes")
    assert refused.returncode == 1
    assert "This pod has more than one PodDisruptionBudget" in refused.stderr
    assert uid(stage, "web-0") == before
    assert person.run("pins", "--check").returncode == 0

    moved = person.do("move", "web-0", WORKER, "--yes", "--force", "--grace-period", "1")
    assert "default/web-0 deleted\n" in moved
    assert moved.endswith(f"default/web-0 is on {WORKER} now (was on {CONTROL_PLANE})\n")
    stage.wait_ready("web-0", WORKER)


def test_lists_of_long_names(stage: StaticStage, person: Person) -> None:
    for name in (LONG, f"{LONG}1"):
        person.do("pin", name, WORKER, "--name", "test")
    metadata = stage.api.get(f"/api/v1/nodes/{WORKER}")["metadata"]
    key = "rf.scheduler.test.default/pods"
    assert metadata["annotations"][key] == f"{LONG},{LONG}1"
    person.do("unpin", LONG, "--name", "test")
    person.do("unpin", f"{LONG}1", "--name", "test")
    assert key not in stage.api.get(f"/api/v1/nodes/{WORKER}")["metadata"].get("annotations", {})


def test_the_documented_rights_are_those_that_are_used(stage: StaticStage, person: Person) -> None:
    """The last of the file: all that was asked for until now."""
    asked = stage.trail.requests(PERSON, since=person.begun)
    assert {request.right for request in asked} == documented_rights()
    assert [request for request in asked if request.code == 403] == []
