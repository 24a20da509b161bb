"""Steps of a YAML scenario, played in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.scenarios import EntryKind, Options, Outcome
from stowplan.sim.scenarios.files import Playable, Wishes, read_playables
from stowplan.sim.scenarios.history import history

Play = Callable[..., Outcome]


@pytest.fixture
def playable(tmp_path: Path) -> Callable[..., Playable]:
    def playable(text: str, wishes: Wishes | None = None) -> Playable:
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        (read,) = read_playables(file, wishes)
        return read

    return playable


@pytest.fixture
def play(playable: Callable[..., Playable]) -> Play:
    def play(text: str, **options: Any) -> Outcome:
        return playable(text).play("virtual", Options(**options))

    return play


def found(outcome: Outcome) -> list[tuple[bool, str]]:
    return [(each.is_met, each.found) for each in outcome.expectations]


def test_an_expectation_that_is_not_met_is_recorded_and_the_scenario_goes_on(play: Play) -> None:
    outcome = play(
        "steps:\n"
        "- create: {nodes: [{name: n1}], pods: [{name: a}]}\n"
        "- expect: [{pod: a, on: n2}, {pod: a, on: n1}]\n"
        "- say: still here\n"
    )
    assert not outcome.is_ok
    assert not outcome.problem
    assert found(outcome) == [(False, "on n1"), (True, "on n1")]
    assert outcome.expectations[0].where.endswith("scenario.yaml:3")
    assert outcome.entries[-1].text == "scenario: still here"


def test_pods_are_created_when_the_scheduler_knows_the_nodes(play: Play) -> None:
    outcome = play(
        "steps:\n- create: {pods: [{name: a, cpu: 1}], nodes: [{name: n1, cpu: 2}, {name: n2}]}\n"
    )
    assert outcome.placements == {"default/a": "n2"}
    assert [each.kind for each in outcome.entries].count(EntryKind.UNSCHEDULABLE) == 0


def test_without_settling_the_next_step_comes_at_once(play: Play) -> None:
    outcome = play(
        "plugins: [NodeNumber]\n"
        "cluster: {nodes: [{name: n5}]}\n"
        "steps:\n"
        "- {create: {pods: [{name: a}]}, settle: false}\n"
        "- expect: {pod: a, pending: true}\n"
        "- wait: quiet\n"
        "- expect: {pod: a, on: n5}\n"
    )
    assert outcome.is_ok, found(outcome)
    assert outcome.cluster_s >= 5.0


def test_patterns_mean_all_objects_that_match(play: Play) -> None:
    outcome = play(
        "cluster: {nodes: [{name: n$i, count: 3}]}\n"
        "steps:\n"
        "- cordon: n[12]\n"
        "- expect:\n"
        "  - {node: n0, unschedulable: false}\n"
        "  - {node: n1, unschedulable: true}\n"
        "  - {node: n2, unschedulable: true}\n"
        "- patch: {object: node/n*, with: {metadata: {labels: {seen: 'yes'}}}}\n"
        "- expect: {object: node/n2, has: {metadata: {labels: {seen: 'yes'}}}}\n"
        "- create: {pods: [{name: web, count: 3}]}\n"
        "- delete: {objects: pod/web-*, gracePeriod: 0s}\n"
        "- expect: {pods: web-*, gone: true}\n"
    )
    assert outcome.is_ok, found(outcome)


def test_waiting_ends_when_it_is_so_or_when_patience_ends(play: Play) -> None:
    outcome = play(
        "cluster: {nodes: [{name: n1, cpu: 1}]}\n"
        "steps:\n"
        "- create: {pods: [{name: job, cpu: 1, runFor: 30s}]}\n"
        "- wait: {until: {pod: job, phase: Succeeded}, timeout: 1m}\n"
        "- wait: {until: {pod: job, phase: Failed}, timeout: 5s}\n"
    )
    assert found(outcome) == [(True, "Succeeded"), (False, "not within 5 s: Succeeded")]
    assert 35 <= outcome.cluster_s < 40


def test_who_was_preempted_is_remembered(play: Play) -> None:
    outcome = play(
        "cluster: {nodes: [{name: n1, cpu: 1}]}\n"
        "steps:\n"
        "- create: {pods: [{name: low, cpu: 1, priority: 1}]}\n"
        "- create: {pods: [{name: high, cpu: 1, priority: 2}]}\n"
        "- expect: {pod: low, preempted: high, gone: true}\n"
        "- expect: {pod: high, preempted: true}\n"
    )
    assert found(outcome) == [(True, "default/low; gone"), (False, "no pod preempted it")]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("patch: {object: pod/none, with: {a: 1}}", 'step 1 (patch): pods "none" not found'),
        ("patch: {object: pod/none*, with: {a: 1}}", "there is no Pod that matches none*"),
        ("drain: none", "step 1 (drain): there is no node `none`"),
        ("create: {nodes: [{name: n1}]}", 'step 1 (create): nodes "n1" already exists'),
        (
            "create: {pods: [{name: a, priorityClassName: none}]}",
            "no PriorityClass with name none was found",
        ),
    ],
)
def test_what_the_server_refuses_is_a_mistake_of_the_file(
    play: Play, step: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        play(f"cluster: {{nodes: [{{name: n1}}]}}\nsteps:\n- {step}\n")
    assert message in str(refused.value)
    assert "scenario.yaml:3: step 1" in str(refused.value)


def test_a_cluster_that_never_rests_is_told_with_the_step(play: Play) -> None:
    outcome = play(
        "plugins: [NodeNumber]\n"
        "cluster: {nodes: [{name: n9}]}\n"
        "steps:\n- create: {pods: [{name: a}]}\n",
        patience_s=3.0,
    )
    assert "scenario.yaml:4: step 1 (create): the cluster did not become quiet" in outcome.problem
    assert not outcome.is_ok


def test_the_same_seed_gives_the_same_run(playable: Callable[..., Playable]) -> None:
    text = (
        "steps:\n"
        "- workload: {generate: {preset: small}}\n"
        "- create: {nodes: [{name: x-$i, count: 4}], pods: [{name: p, count: 9, cpu: 100m}]}\n"
    )
    runs = [
        playable(text, Wishes(seed=seed)).play("virtual", Options(seed=seed)) for seed in (1, 1, 2)
    ]
    first, again, other = ([(e.at, e.kind, e.subject, e.text) for e in r.entries] for r in runs)
    assert first == again
    assert first != other


def test_every_step_can_be_drawn(playable: Callable[..., Playable]) -> None:
    read = playable(
        "cluster: {nodes: [{name: n1}]}\n"
        "steps:\n- create: {pods: [{name: a, cpu: 1}]}\n- expect: {pod: a, on: n1}\n"
    )
    outcome = read.play("virtual", Options(draws=True))
    assert outcome.drawing is not None
    told = history(outcome.entries, outcome.drawing, outcome.cluster_s)
    assert [title for _, _, title in told["steps"]] == [
        "the cluster",
        "step 1: create pod a",
        "step 2: expect",
    ]
    assert told["nodes"] == [["n1", 4000, 32 * 1024, 0]]
    assert told["pods"][0][:4] == ["default/a", told["pods"][0][1], 1000, 0]
    # the node; the pod is created and bound
    assert [event[1:] for event in told["events"]] == [[4, 0], [0, 0], [1, 0, 0]]
    assert told["steps"][0][0] == 1
