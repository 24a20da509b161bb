"""The walk through a StatefulSet that the Static Scheduler's README takes, line by line.

As the administrator at their desk, and as the service account of deploy/static with its rights and
no other: there, everything that was asked of the API server is compared with the role.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.static_stage import (
    ACCOUNT,
    CONTROL_PLANE,
    DEPLOY,
    STATEFUL_SET,
    WORKER,
    StaticProcess,
    StaticStage,
    daemon,
    one_shot,
    static_stage,
    wait_for,
)
from tests.unit.test_deploy import documents, granted

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WEB = ("web-0", "web-1", "web-2")
# Asking what one may do is everybody's right.
ASKING = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")
LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - __main__ - INFO - (Pod \S+ scheduled .*)"
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticStage]:
    with static_stage(tmp_path_factory.mktemp("static")) as running:
        yield running


@pytest.fixture
def stage(whole: StaticStage) -> Iterator[StaticStage]:
    """Two nodes without pins, and no pods."""
    whole.install(DEPLOY, may_watch=True)
    yield whole
    whole.clear()


def rights(role: Path) -> set[tuple[str, str, str]]:
    return {(grant.group, grant.resource, grant.verb) for grant in granted(role)}


def deployed(stage: StaticStage) -> tuple[list[str], dict[str, str]]:
    """Flags and variables of the Deployment, whose pod the pod security standard has let in."""
    (pod,) = wait_for("the pod of the Deployment", lambda: [*stage.pods("rfscheduler").values()])
    (container,) = pod["spec"]["containers"]
    command, *flags = container["args"]
    assert command == "static"
    return flags, {each["name"]: each["value"] for each in container["env"]}


def label(pod: str) -> str:
    return f"rf.scheduler.test.default/{pod}"


def scheduled(lines: list[str]) -> list[str]:
    """The lines that tell where pods went, less the date and time before them."""
    return [match[1] for line in lines if (match := LINE.fullmatch(line))]


def create_bare_pod(stage: StaticStage, name: str) -> None:
    container = {"name": "c", "image": "c"}
    stage.api.create(
        "/api/v1/namespaces/default/pods",
        {
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "test",
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        },
    )


def wait_caught_up(stage: StaticStage, node: str, name: str) -> None:
    """A pod of no controller goes where it is pinned; by then what came before it was seen too."""
    create_bare_pod(stage, name)
    stage.label(node, {label(name): ""})
    stage.wait_ready(name, node)


def move(stage: StaticStage, pod: str, node: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stowplan", "move", pod, node, "--name=test", "--yes"],
        env=stage.admin(),
        capture_output=True,
        text=True,
        timeout=60,
    )


def check_metrics(page: str, lines: list[str]) -> None:
    """Each pod was placed on a node as often as the log says, by requests that succeeded."""
    for told, count in Counter(scheduled(lines)).items():
        _, pod, *_, node = told.split()
        labels = f'{{namespace="default",node="{node}",pod="{pod}",scheduler="test"}}'
        assert f"schedule_request_success_total{labels} {count}.0" in page
        for name in ("schedule_request", "schedule_request_success"):
            assert f"{name}_total{labels} " in page
            assert f"{name}_created{labels} " in page
    for name, text in (
        ("schedule_request", "Total binding requests"),
        ("schedule_request_success", "Binding successful requests"),
        ("schedule_request_failure", "Binding failed requests"),
    ):
        assert f"# HELP {name}_total {text}\n# TYPE {name}_total counter\n" in page
    # A pod may be deleted at the very moment when it is bound; the next one of its name is not.
    failed = re.findall(r'^schedule_request_failure_total{http_status="(\d+)"', page, re.MULTILINE)
    assert set(failed) <= {"404", "409"}


def walk(stage: StaticStage, scheduler: StaticProcess) -> None:
    stage.kubectl("apply", "-f", str(STATEFUL_SET))
    stage.wait_pending("web-0")
    # It says what to type.
    stage.wait_told("web-0", "FailedScheduling", f"kubectl label node NODE {label('web-0')}=")
    assert set(stage.pods()) == {"web-0"}, "the controller waits for the first one"
    assert stage.placed() == {}

    stage.kubectl("label", "node", WORKER, f"{label('web-0')}=whatever")
    stage.wait_ready("web-0", WORKER)
    stage.wait_told("web-0", "Scheduled", f"Successfully assigned default/web-0 to {WORKER}")
    stage.wait_pending("web-1")
    stage.wait_told("web-1", "FailedScheduling", f"kubectl label node NODE {label('web-1')}=")
    assert set(stage.pods()) == {"web-0", "web-1"}

    stage.kubectl("label", "node", WORKER, f"{label('web-1')}=", f"{label('web-2')}=")
    for pod in WEB:
        stage.wait_ready(pod, WORKER)

    # Other labels alone move nothing.
    before = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    stage.kubectl("label", "node", WORKER, *(f"{label(pod)}-" for pod in WEB))
    stage.kubectl("label", "node", CONTROL_PLANE, *(f"{label(pod)}=a" for pod in WEB))
    wait_caught_up(stage, CONTROL_PLANE, "bare")
    after = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    assert after == before | {"bare": after["bare"]}
    assert stage.placed() == dict.fromkeys(WEB, WORKER) | {"bare": CONTROL_PLANE}

    # Only when the pods are made anew; the taint of that node does not matter.
    stage.kubectl("delete", "pod", "-l", "app=nginx")
    for pod in WEB:
        stage.wait_ready(pod, CONTROL_PLANE)
    moved = move(stage, "web-0", WORKER)
    assert moved.returncode == 0, moved.stderr
    stage.wait_ready("web-0", WORKER)
    wait_caught_up(stage, WORKER, "last")
    told = [f"Pod {pod} scheduled on node {WORKER}" for pod in WEB]
    told += [f"Pod {pod} scheduled on node {CONTROL_PLANE}" for pod in ("bare", *WEB)]
    told += [f"Pod {pod} scheduled on node {WORKER}" for pod in ("web-0", "last")]
    wait_for("the last line", lambda: scheduled(scheduler.lines)[-1] == told[-1])
    assert scheduled(scheduler.lines) == told


def test_as_the_administrator(stage: StaticStage, tmp_path: Path) -> None:
    flags = ("--name=test", "--daemon", "-vv")
    with daemon(tmp_path / "log", stage.admin(), *flags) as scheduler:
        walk(stage, scheduler)
        check_metrics(scheduler.metrics(), scheduler.lines)
        check_metrics(scheduler.metrics("/any/path"), scheduler.lines)
        scheduler.stop()


def test_as_the_service_account_with_the_shipped_role(stage: StaticStage, tmp_path: Path) -> None:
    since = stage.trail.mark()
    flags, variables = deployed(stage)
    env = stage.account(tmp_path / "account") | variables | {"SCHED_NAME": "test"}
    with daemon(tmp_path / "log", env, *flags) as scheduler:
        walk(stage, scheduler)
        scheduler.stop()
    requests = stage.trail.requests(ACCOUNT, since)
    refused = [each for each in requests if each.code not in (200, 201, 404, 409)]
    assert refused == []
    used = {each.right for each in requests} - {ASKING}
    assert used == rights(DEPLOY / "cluster" / "rbac.yaml"), "what is granted is what is used"


def apply_the_role_of_the_original(stage: StaticStage) -> None:
    """Over ours: the same rights as in list-only, with the group that the original left empty."""
    stage.install(DEPLOY / "list-only", may_watch=False)
    role, binding = documents(DEPLOY / "list-only" / "rbac.yaml")
    for each in (role, binding):
        del each["metadata"]["labels"]
    binding["roleRef"]["apiGroup"] = ""
    text = yaml.safe_dump_all([role, binding])
    stage.plane.kubectl("apply", "-f", "-", input=text, check=True)


def test_with_the_role_of_the_original(stage: StaticStage, tmp_path: Path) -> None:
    apply_the_role_of_the_original(stage)
    since = stage.trail.mark()
    env = stage.account(tmp_path / "account") | {"SCHED_DELAY": "1", "SCHED_NAME": "test"}

    def again_and_again() -> bool:
        requests = stage.trail.requests(ACCOUNT, since)
        listed = Counter(each.resource for each in requests if each.verb == "list")
        return min(listed["pods"], listed["nodes"]) >= 3

    with daemon(tmp_path / "log", env, "--daemon", "-vv") as scheduler:
        stage.kubectl("apply", "-f", str(STATEFUL_SET))
        stage.wait_pending("web-0")
        assert stage.placed() == {}
        stage.kubectl("label", "node", WORKER, *(f"{label(pod)}=" for pod in WEB))
        for pod in WEB:
            stage.wait_ready(pod, WORKER)
        told = [f"Pod {pod} scheduled on node {WORKER}" for pod in WEB]
        wait_for("the last line", lambda: scheduled(scheduler.lines) == told)
        (warned,) = [line for line in scheduler.lines if "The role does not allow" in line]
        assert " - WARNING - " in warned
        assert "listed every 1.0 seconds" in warned
        wait_for("three lists of pods and of nodes", again_and_again)
        scheduler.stop()
    requests = stage.trail.requests(ACCOUNT, since)
    refused = Counter(each.right for each in requests if each.code not in (200, 201))
    assert set(refused) == rights(DEPLOY / "cluster" / "rbac.yaml") - rights(
        DEPLOY / "list-only" / "rbac.yaml"
    )
    assert set(refused.values()) == {1}, "each is tried once, and given up"
    used = {each.right for each in requests if each.code in (200, 201)}
    assert used - {ASKING} == rights(DEPLOY / "list-only" / "rbac.yaml")


def test_with_respect_for_the_state_of_nodes(stage: StaticStage, tmp_path: Path) -> None:
    stage.install(DEPLOY / "respect-node-state", may_watch=True)
    since = stage.trail.mark()
    env = stage.account(tmp_path / "account")
    flags = ("--name=test", "--daemon", "--respect-node-state")
    with daemon(tmp_path / "log", env, *flags) as scheduler:
        create_bare_pod(stage, "bare")
        stage.label(CONTROL_PLANE, {label("bare"): ""})
        stage.wait_told("bare", "FailedScheduling", "untolerated taint")
        stage.label(WORKER, {label("bare"): ""})
        stage.wait_ready("bare", WORKER)
        scheduler.stop()
    requests = stage.trail.requests(ACCOUNT, since)
    assert [each for each in requests if each.code not in (200, 201)] == []
    used = {each.right for each in requests} - {ASKING}
    unused = rights(DEPLOY / "respect-node-state" / "rbac.yaml") - used
    # There are no volumes or devices here to be promised to claims.
    devices = {
        ("resource.k8s.io", "resourceclaims", verb) for verb in ("create", "delete", "patch")
    }
    devices |= {
        ("resource.k8s.io", f"resourceclaims/{part}", "patch") for part in ("binding", "status")
    }
    volumes = {("", f"persistentvolume{end}", "patch") for end in ("s", "claims")}
    assert unused == volumes | devices | {("", "pods/status", "patch")}


def test_one_shot_needs_several_runs(stage: StaticStage) -> None:
    env = stage.admin()
    flags = ("--name=test", "-vv")
    stage.kubectl("apply", "-f", str(STATEFUL_SET))
    stage.wait_pending("web-0")
    waiting = one_shot(env, *flags)
    assert waiting.returncode == 0, waiting.stderr
    assert f"kubectl label node NODE {label('web-0')}=" in waiting.stdout + waiting.stderr
    assert stage.placed() == {}

    stage.kubectl("label", "node", WORKER, *(f"{label(pod)}=" for pod in WEB))
    for number, pod in enumerate(WEB):
        stage.wait_pending(pod)
        run = one_shot(env, *flags)
        assert run.returncode == 0, run.stderr
        lines = (run.stdout + run.stderr).splitlines()
        assert scheduled(lines) == [f"Pod {pod} scheduled on node {WORKER}"]
        # The next pod is made only now, when the run has ended.
        assert list(stage.placed()) == list(WEB[: number + 1])
        stage.wait_ready(pod, WORKER)
    idle = one_shot(env, *flags)
    assert (idle.returncode, scheduled(idle.stderr.splitlines())) == (0, [])
