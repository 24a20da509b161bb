"""The examples as programs, on the embedded and on the real API server: what they print and do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.lab.faults import Fault
from tests.integration.target import NAMESPACE, Target
from tests.integration.warm_python import WarmProcess
from tests.waiting import wait_for

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
HELLO = EXAMPLES / "hello" / "scheduler.py"
RANDOM = EXAMPLES / "random" / "random_scheduler.py"
TEN_LINES = EXAMPLES / "ten_lines" / "ssd_scheduler.py"
CORE_EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"

# Starts the random scheduler with other functions in its two lists.
RIGGED = """
import sys
sys.path.insert(0, {directory!r})
import random_scheduler
from random_scheduler import predicates, priorities
predicates.clear()
priorities.clear()
throws = dict()
{code}
random_scheduler.main()
"""


class Program:
    """A running example and what it has printed."""

    def __init__(self, process: WarmProcess, output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    @property
    def messages(self) -> list[str]:
        """The lines without the date and time that Go's log package puts before them."""
        stamped = [
            re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (.*)", line) for line in self.lines
        ]
        assert all(stamped), self.lines
        return [match[1] for match in stamped if match]

    def wait_for_line(self, part: str) -> None:
        wait_for(f"{part!r} to be printed", lambda: any(part in line for line in self.lines))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.lines


@contextmanager
def running(target: Target, directory: Path, *arguments: str | Path) -> Iterator[Program]:
    output = directory / "output"
    output.touch()
    process = WarmProcess(arguments, output, {"KUBECONFIG": str(target.kubeconfig())})
    try:
        yield Program(process, output)
    finally:
        process.kill()
        process.wait()


def rigged(code: str) -> tuple[str, str]:
    return "-c", RIGGED.format(directory=str(RANDOM.parent), code=code)


def create_node(target: Target, name: str, *, ready: bool = True, **spec: Any) -> None:
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": str(ready)}]
    target.api.create(
        "/api/v1/nodes",
        {
            "metadata": {"name": name},
            "spec": spec,
            "status": {"capacity": size, "allocatable": size, "conditions": conditions},
        },
    )


def apply(target: Target, example: Path, name: str = "") -> Json:
    """Create the example's pod, perhaps under another name."""
    manifest = yaml.safe_load((example.parent / "pod.yaml").read_text())
    if name:
        manifest["metadata"]["name"] = name
    return target.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", manifest)


def patch_pod(target: Target, name: str, body: Json, subresource: str = "") -> None:
    target.api.patch(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}{subresource}", body)


def bindings(target: Target, pod: str) -> int:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding"
    return target.proxy.requests.count(("POST", path))


# Hello

HELLO_LINE = "pod: 'hello', phase: 'Pending' PrgContSched."
STRANGER_LINE = "pod: 'stranger', phase: 'Pending' somebody-else."


def test_hello_is_no_longer_than_it_says() -> None:
    assert len(HELLO.read_text().splitlines()) <= 40


def test_hello_prints_every_change_and_binds_once(target: Target, tmp_path: Path) -> None:
    create_node(target, "a-cordoned", unschedulable=True)
    create_node(target, "b-broken", ready=False)
    create_node(target, "c-good")
    target.create_pods("stranger", schedulerName="somebody-else")
    with running(target, tmp_path, HELLO) as hello:
        hello.wait_for_line(STRANGER_LINE)
        apply(target, HELLO)
        assert target.wait_bound("hello") == {"hello": "c-good"}
        # Bound but not started yet: each of these changes tempts it to bind the pod again.
        for number in range(3):
            patch_pod(target, "hello", {"metadata": {"labels": {"number": str(number)}}})
        patch_pod(target, "hello", {"status": {"phase": "Running"}}, "/status")
        hello.wait_for_line("pod: 'hello', phase: 'Running' PrgContSched.")
        target.delete_pod("stranger")
        wait_for("the deletion", lambda: hello.lines.count(STRANGER_LINE) >= 2)
        ours = [line for line in hello.lines if "'hello'" in line]
        started = "pod: 'hello', phase: 'Running' PrgContSched."
        assert ours == [HELLO_LINE] * (len(ours) - 1) + [started]
        assert len(ours) >= 6, "found, bound, three labels, running"
        assert set(hello.lines) - set(ours) == {STRANGER_LINE}
    assert bindings(target, "hello") == 1
    assert bindings(target, "stranger") == 0


def test_hello_leaves_what_it_finds_bound_alone(target: Target, tmp_path: Path) -> None:
    create_node(target, "n1")
    apply(target, HELLO)
    target.bind("hello", "n1")
    apply(target, HELLO, "other")
    with running(target, tmp_path, HELLO):
        target.wait_bound("other")
    assert bindings(target, "hello") == 0


def test_hello_survives_the_end_of_the_watch(target: Target, tmp_path: Path) -> None:
    create_node(target, "n1")
    with running(target, tmp_path, HELLO) as hello:
        apply(target, HELLO, "before")
        target.wait_bound("before")
        target.proxy.cut_watches()
        apply(target, HELLO, "between")
        target.wait_bound("between")
        target.proxy.go_away()
        hello.wait_for_line("API server cannot be reached")
        target.proxy.come_back()
        apply(target, HELLO, "after")
        target.wait_bound("after")
        assert hello.lines.count("pod: 'before', phase: 'Pending' PrgContSched.") == 2, "none twice"


def test_hello_tries_again_until_a_pod_is_bound_or_gone(target: Target, tmp_path: Path) -> None:
    with running(target, tmp_path, HELLO) as hello:
        apply(target, HELLO, "doomed")
        hello.wait_for_line("pod: 'doomed' is not bound, next try in 2 s: no node is ready")
        target.delete_pod("doomed")
        apply(target, HELLO)
        hello.wait_for_line("pod: 'hello' is not bound, next try in 2 s: no node is ready")
        target.proxy.inject(Fault("POST", "/binding$", status=409))
        create_node(target, "n1")
        # Nothing changes the pods from now on.
        hello.wait_for_line("injected: 409")
        target.wait_bound("hello")
        assert bindings(target, "hello") == 2
        assert bindings(target, "doomed") == 0


def test_hello_takes_namespace_and_node_by_hand(target: Target, tmp_path: Path) -> None:
    create_node(target, "a")
    create_node(target, "b")
    with running(target, tmp_path, HELLO, NAMESPACE, "b"):
        apply(target, HELLO)
        assert target.wait_bound("hello") == {"hello": "b"}
    assert not [path for _, path in target.proxy.requests if path.startswith("/api/v1/nodes")]


def test_hello_says_in_one_line_why_it_cannot_start(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, HELLO],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "KUBECONFIG": str(tmp_path / "missing")},
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"KUBECONFIG: no such file: {tmp_path / 'missing'}\n"


# The workshop's own script, with PyPI's `kubernetes` client


def workshop_script() -> str:
    """As docs/from-workshop.md shows it."""
    page = (EXAMPLES.parent / "docs" / "from-workshop.md").read_text()
    section = page.partition("\n## The workshop's script, today\n")[2].partition("\n## ")[0]
    (script,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return str(script)


def test_the_workshops_script_binds_a_pod_once_without_an_exception(
    target: Target, tmp_path: Path
) -> None:
    script = tmp_path / "workshop.py"
    script.write_text(workshop_script())
    create_node(target, "worker-01")
    apply(target, HELLO)
    with running(target, tmp_path, script) as workshop:
        assert target.wait_bound("hello") == {"hello": "worker-01"}
        # Bound but not started yet, which is where the original binds it again.
        patch_pod(target, "hello", {"metadata": {"labels": {"number": "1"}}})
        target.proxy.cut_watches()
        apply(target, HELLO, "after")
        target.wait_bound("after")
        patch_pod(target, "hello", {"status": {"phase": "Running"}}, "/status")
        workshop.wait_for_line("pod: 'hello', phase: 'Running' PrgContSched.")
        allowed = r"pod: '\w+', phase: '(Pending|Running)' PrgContSched\."
        allowed += r"|bound to worker-01: 201|watching again: .*"
        assert [line for line in workshop.lines if not re.fullmatch(allowed, line)] == []
    path = f"/api/v1/namespaces/{NAMESPACE}/bindings"
    assert target.proxy.requests.count(("POST", path)) == 2, "one for each pod"


def test_the_workshops_script_goes_on_after_a_refused_binding(
    target: Target, tmp_path: Path
) -> None:
    script = tmp_path / "workshop.py"
    script.write_text(workshop_script())
    create_node(target, "worker-01")
    target.proxy.inject(Fault("POST", "/bindings?$", status=409))
    with running(target, tmp_path, script) as workshop:
        apply(target, HELLO)
        workshop.wait_for_line("injected: 409")
        apply(target, HELLO, "next")
        target.wait_bound("next")


# The random scheduler

#: Lines of the tutorial's program in Go.
TUTORIAL_LINES = 222


def test_random_is_at_most_half_as_long_as_the_tutorials_program() -> None:
    assert len(RANDOM.read_text().splitlines()) <= TUTORIAL_LINES / 2


def test_random_says_in_one_line_why_it_cannot_start(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, RANDOM],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "KUBECONFIG": str(tmp_path / "missing")},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1] == (
        f"Error: KUBECONFIG: no such file: {tmp_path / 'missing'}"
    )
    assert "Traceback" not in ended.stderr


def test_random_writes_the_tutorials_log_and_event(target: Target, tmp_path: Path) -> None:
    create_node(target, "kind-control-plane")
    with running(target, tmp_path, *rigged("priorities.append(lambda node, pod: 47)")) as program:
        program.wait_for_line("New node is added.")
        pod = apply(target, RANDOM)["metadata"]
        message = "pod [default/nginx] is successfully scheduled to node kind-control-plane"
        (event,) = wait_for("the event", lambda: core_events(target, pod["uid"]))
        program.stop()
        assert program.messages == [
            "Start a scheduler",
            "Run is called",
            "New node is added. kind-control-plane",
            "found a pod to schedule: [default/nginx]",
            "calculated priorities: map[kind-control-plane:47]",
            "node kind-control-plane is chosen for Pod [default/nginx]",
            message,
        ]
    assert target.node_of("nginx") == "kind-control-plane"
    assert core_events(target, pod["uid"]) == [event], "and none in kube-scheduler's words"
    assert event["message"] == message
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Scheduled", 1)
    assert event["source"] == {"component": "random-scheduler"}
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["firstTimestamp"])
    assert event["involvedObject"] == {
        "kind": "Pod",
        "name": "nginx",
        "namespace": "default",
        "uid": pod["uid"],
    }
    assert event["metadata"]["generateName"] == "nginx-"
    assert event["metadata"]["name"].startswith("nginx-")


def core_events(target: Target, uid: str) -> list[Json]:
    found: list[Json] = target.api.get(CORE_EVENTS)["items"]
    return [event for event in found if event["involvedObject"].get("uid") == uid]


def test_random_as_it_is_places_every_pod_sooner_or_later(target: Target, tmp_path: Path) -> None:
    nodes = {"n1", "n2", "n3"}
    for name in nodes:
        create_node(target, name)
    names = [f"nginx-{number}" for number in range(8)]
    with running(target, tmp_path, RANDOM) as program:
        for name in names:
            apply(target, RANDOM, name)
        chosen = target.wait_bound(*names, timeout_s=60)
        program.stop()
        assert set(chosen.values()) <= nodes
        for name, node in chosen.items():
            where = program.messages.index(f"node {node} is chosen for Pod [default/{name}]")
            before = program.messages[where - 1]
            scores = dict(
                pair.split(":") for pair in before[len("calculated priorities: map[") : -1].split()
            )
            assert all(0 <= int(score) < 100 for score in scores.values())
            assert list(scores) == sorted(scores), "as Go prints a map"
            assert int(scores[node]) == max(map(int, scores.values())), before


THIRD_TIME_LUCKY = """
def third_time_lucky(node, pod):
    throws[pod.key] = throws.get(pod.key, 0) + 1
    return throws[pod.key] > 2
predicates.append(third_time_lucky)
priorities.append(lambda node, pod: 0)
"""


def test_random_tries_again_after_a_backoff_and_zero_is_a_score(
    target: Target, tmp_path: Path
) -> None:
    create_node(target, "n1")
    with running(target, tmp_path, *rigged(THIRD_TIME_LUCKY)) as program:
        apply(target, RANDOM)
        target.wait_bound("nginx")
        failed = "0/1 nodes are available: 1 node(s) didn't pass third_time_lucky."
        assert target.wait_event("nginx", "FailedScheduling")["note"] == failed
        program.wait_for_line("is successfully scheduled")
        program.stop()
        assert program.messages[-8:] == [
            "found a pod to schedule: [default/nginx]",
            f"cannot find node that fits pod {failed}",
            "found a pod to schedule: [default/nginx]",
            f"cannot find node that fits pod {failed}",
            "found a pod to schedule: [default/nginx]",
            "calculated priorities: map[n1:0]",
            "node n1 is chosen for Pod [default/nginx]",
            "pod [default/nginx] is successfully scheduled to node n1",
        ]


OWN_FUNCTIONS = """
predicates.append(lambda node, pod: node.name != "n4")
predicates.append(lambda node, pod: "run" in pod.metadata.labels)
priorities.append(lambda node, pod: {"n1": 99, "n2": 100, "n3": -5, "n4": 1000}[node.name])
priorities.append(lambda node, pod: {"n1": 100, "n2": 98, "n3": 0, "n4": 1000}[node.name])
"""


def test_random_takes_the_users_functions(target: Target, tmp_path: Path) -> None:
    """All predicates count; priorities are added up, whatever their size, and one point decides."""
    for name in ("n1", "n2", "n3", "n4"):
        create_node(target, name)
    with running(target, tmp_path, *rigged(OWN_FUNCTIONS)) as program:
        apply(target, RANDOM)
        assert target.wait_bound("nginx") == {"nginx": "n1"}
        program.wait_for_line("calculated priorities: map[n1:199 n2:198 n3:-5]")


def test_random_says_what_failed_and_goes_on(target: Target, tmp_path: Path) -> None:
    target.proxy.inject(Fault("POST", "/binding$", status=409))
    target.proxy.inject(Fault("POST", f"^{CORE_EVENTS}$", status=403))
    with running(target, tmp_path, *rigged("")) as program:
        apply(target, RANDOM)
        program.wait_for_line("cannot find node that fits pod failed to find schedulable nodes")
        create_node(target, "n1")
        target.wait_bound("nginx")
        program.wait_for_line("failed to emit scheduled event")
        program.stop()
        told = [line for line in program.messages if line.startswith("failed to")]
        assert told == [
            'failed to bind pod running Bind plugin "DefaultBinder": injected: 409',
            "failed to emit scheduled event injected: 403",
        ]
    assert bindings(target, "nginx") == 2


# Ten lines


def test_ten_lines_are_ten() -> None:
    lines = TEN_LINES.read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 10


def test_ten_lines_filter_and_score(target: Target, tmp_path: Path) -> None:
    for name in ("disk", "empty", "full"):
        create_node(target, name)
    for name in ("old", "older"):
        target.create_pods(name, schedulerName="nobody")
        target.bind(name, "full")
    with running(target, tmp_path, TEN_LINES) as program:
        target.create_pods("web", schedulerName="ssd-scheduler")
        condition = target.wait_condition("web", "False")
        assert condition["message"] == (
            "0/3 nodes are available: 3 node(s) had no SSD. no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
        )
        for name in ("full", "empty"):
            target.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"disk": "ssd"}}})
        nodes = target.wait_bound("web")
        target.create_pods("second", schedulerName="ssd-scheduler")
        assert target.wait_bound("second") == {"second": "empty"}
        assert nodes["web"] in ("full", "empty"), "whichever had its label first"
        program.stop()


@pytest.mark.parametrize("example", [HELLO, RANDOM])
def test_the_pod_asks_for_its_scheduler(example: Path) -> None:
    pod = yaml.safe_load((example.parent / "pod.yaml").read_text())
    assert f'"{pod["spec"]["schedulerName"]}"' in example.read_text()
