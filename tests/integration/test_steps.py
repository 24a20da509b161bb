"""The seven steps of the mini-kube-scheduler as programs: what each adds, and what it lacks yet.

They are the solutions of lessons 10 to 16, under names of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from stowplan.lab.faults import Fault
from stowplan.learn.course import Course
from tests.integration.target import NAMESPACE, Target
from tests.integration.test_examples import EXAMPLES, Program, running

STEPS = sorted((EXAMPLES / "steps").glob("step*.py"))
Start: TypeAlias = Callable[[int], AbstractContextManager[Program]]


@pytest.fixture
def start(target: Target, tmp_path: Path) -> Start:
    """Runs a step by its number."""

    @contextmanager
    def begin(number: int) -> Iterator[Program]:
        with running(target, tmp_path, STEPS[number - 1]) as program:
            yield program

    return begin


def cordoned(target: Target, *names: str) -> None:
    target.create_nodes(*names, unschedulable=True)


def test_there_are_seven_and_none_is_long() -> None:
    assert [step.name[:5] for step in STEPS] == [f"step{number}" for number in range(1, 8)]
    for step in STEPS:
        assert len(step.read_text().splitlines()) < 310, step.name


def test_a_step_is_the_solution_of_its_lesson() -> None:
    solutions = [lesson.solution for lesson in Course().lessons if lesson.track == "framework"]
    assert [step.resolve() for step in STEPS] == solutions


@pytest.mark.parametrize("number", range(1, 8))
def test_every_step_binds_a_pod_to_the_only_node(number: int, target: Target, start: Start) -> None:
    target.create_nodes("node0")
    with start(number) as program:
        target.create_pods("pod1")
        assert target.wait_bound("pod1") == {"pod1": "node0"}
        program.wait_for_line(f"minischeduler: pod {NAMESPACE}/pod1 will be bound to node node0")
        target.create_pods("theirs", schedulerName="somebody-else")
        target.create_pods("pod2")
        target.wait_bound("pod2")
        assert target.node_of("theirs") == ""


def test_step_1_asks_nobody(target: Target, start: Start) -> None:
    cordoned(target, "node0")
    with start(1):
        target.create_pods("pod1")
        assert target.wait_bound("pod1") == {"pod1": "node0"}


@pytest.mark.parametrize("number", range(2, 8))
def test_from_step_2_on_filters_are_heard(number: int, target: Target, start: Start) -> None:
    cordoned(target, "node1", "node2", "node3")
    target.create_nodes("node0")
    with start(number):
        target.create_pods("pod1", "pod2")
        assert set(target.wait_bound("pod1", "pod2").values()) == {"node0"}


@pytest.mark.parametrize("number", range(3, 8))
def test_from_step_3_on_the_best_node_is_taken(number: int, target: Target, start: Start) -> None:
    target.create_nodes("node0", "node1", "node2")
    with start(number) as program:
        target.create_pods("pod1", "pod2", "pod0")
        assert target.wait_bound("pod0", "pod1", "pod2") == {
            "pod0": "node0",
            "pod1": "node1",
            "pod2": "node2",
        }
        program.wait_for_line(f"minischeduler: scores for pod {NAMESPACE}/pod1: {{")


@pytest.mark.parametrize("number", [5, 6, 7])
def test_from_step_5_on_a_held_pod_keeps_nobody_waiting(
    number: int, target: Target, start: Start
) -> None:
    target.create_nodes("node0", "node9")
    with start(number) as program:
        target.create_pods("pod9")
        program.wait_for_line(f"minischeduler: pod {NAMESPACE}/pod9 is held by {{'NodeNumber'}}")
        target.create_pods("pod0")
        target.wait_bound("pod0")
        assert target.node_of("pod9") == ""


def test_step_6_remembers_who_refused_a_pod_and_waits(target: Target, start: Start) -> None:
    cordoned(target, "node1", "node2")
    with start(6) as program:
        target.create_pods("pod1")
        program.wait_for_line(f"pod {NAMESPACE}/pod1 is unschedulable by {{'NodeUnschedulable'}}")
        target.create_nodes("node10")
        target.create_pods("pod0")
        target.wait_bound("pod0")
        assert target.node_of("pod1") == "", "news of nodes come with step 7"


def test_step_6_tries_a_failed_bind_again(target: Target, start: Start) -> None:
    target.create_nodes("node0")
    with start(6) as program:
        target.proxy.inject(Fault("POST", "/binding", status=500))
        target.create_pods("pod0")
        target.wait_bound("pod0")
        program.wait_for_line(f"pod {NAMESPACE}/pod0 comes back 1 s after it failed")


@pytest.mark.parametrize("change", ["new node", "uncordon"])
def test_step_7_brings_a_pod_back(change: str, target: Target, start: Start) -> None:
    """The scenario of the original: all nodes cordoned, a pod, and then one more node."""
    names = [f"node{number}" for number in range(9)]
    cordoned(target, *names)
    with start(7) as program:
        target.create_pods("pod1")
        program.wait_for_line(f"pod {NAMESPACE}/pod1 is unschedulable by")
        if change == "new node":
            target.create_nodes("node10")
            assert target.wait_bound("pod1") == {"pod1": "node10"}
        else:
            target.api.patch("/api/v1/nodes/node8", {"spec": {"unschedulable": False}})
            assert target.wait_bound("pod1") == {"pod1": "node8"}
