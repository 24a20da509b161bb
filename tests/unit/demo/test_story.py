"""The story: the same for the same seed, playable to its end, and never growing without bound."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest

from stowplan.demo.story import Cordon, CreatePod, DeletePod, OpenGate, Step, Story
from tests.unit.demo.rehearsal import Rehearsal


def created(steps: tuple[Step, ...] | list[Step]) -> dict[str, CreatePod]:
    return {step.pod.name: step for step in steps if isinstance(step, CreatePod)}


def test_same_seed_same_story() -> None:
    one, two, other = Story(7), Story(7), Story(8)
    assert (one.nodes, one.opening) == (two.nodes, two.opening)
    assert list(islice(one.waves(), 300)) == list(islice(two.waves(), 300))
    assert one.opening != other.opening


def test_the_opening_has_something_of_everything() -> None:
    story = Story(1)
    pods = created(story.opening)
    assert 40 <= len(pods) <= 60
    assert {step.pod.app for step in pods.values()} >= {"web", "api", "cache", "report", "trainer"}
    assert any(step.pod.is_critical for step in pods.values())
    assert any(step.pod.run_s for step in pods.values())
    (gated,) = (step for step in pods.values() if step.pod.gate)
    (opening,) = (step for step in story.opening if isinstance(step, OpenGate))
    assert opening.name == gated.pod.name
    assert opening.at > gated.at


def test_the_opening_takes_half_a_minute_at_most() -> None:
    for seed in range(20):
        story = Story(seed)
        assert all(a.at <= b.at for a, b in pairwise(story.opening))
        assert 15 <= story.opening_s <= 30


def test_one_pod_asks_for_more_than_any_node_has() -> None:
    story = Story(1)
    (huge,) = (step.pod for step in created(story.opening).values() if step.pod.stays_pending)
    assert huge.milli_cpu > max(node.cores for node in story.nodes) * 1000
    assert huge.memory_mi > max(node.memory_gi for node in story.nodes) * 1024


@pytest.mark.parametrize("seed", range(25))
def test_every_opening_finds_a_place_for_all_but_the_huge_pod(seed: int) -> None:
    story = Story(seed)
    rehearsal = Rehearsal(story)
    rehearsal.play()
    assert rehearsal.left == {"warehouse-1"}
    assert "trainer-2" in rehearsal.waited
    assert "audit-1" not in rehearsal.waited  # a gate keeps a pod from being tried at all
    cordoned = {node.name for node in story.nodes if node.is_cordoned}
    pool = {node.name for node in story.nodes if node.is_in_pool}
    pods = created(story.opening)
    for name, node in rehearsal.placements.items():
        assert node not in cordoned
        assert pods[name].pod.tolerates_pool or node not in pool


def test_one_node_is_not_enough_for_the_opening() -> None:
    rehearsal = Rehearsal(Story(1, nodes=1))
    rehearsal.play()
    assert len(rehearsal.left) > 5


@pytest.mark.parametrize("nodes", [1, 12, 36])
def test_waves_go_on_in_order_and_clean_up_after_themselves(nodes: int) -> None:
    story = Story(4, nodes=nodes)
    steps: list[Step] = [*story.opening, *islice(story.waves(), 3000)]
    assert all(a.at <= b.at for a, b in pairwise(steps))
    alive: dict[str, CreatePod] = {}
    gated: set[str] = set()
    cordoned = {node.name for node in story.nodes if node.is_cordoned}
    most = 0
    for step in steps:
        if isinstance(step, CreatePod):
            assert step.pod.name not in alive
            if step.pod.run_s is None:
                alive[step.pod.name] = step
            if step.pod.gate:
                gated.add(step.pod.name)
        elif isinstance(step, DeletePod):
            del alive[step.name]
        elif isinstance(step, OpenGate):
            gated.remove(step.name)
        else:
            (cordoned.add if step.is_on else cordoned.remove)(step.node)
        most = max(most, len(alive))
        assert len(cordoned) <= 1
        assert len(gated) <= 2
    assert most < 60 * max(1, nodes // 12)


def test_waves_bring_every_kind_of_step() -> None:
    steps = list(islice(Story(2).waves(), 500))
    assert {type(step) for step in steps} == {CreatePod, DeletePod, OpenGate, Cordon}
    apps = {step.pod.app for step in steps if isinstance(step, CreatePod)}
    assert apps >= {"web", "report", "transcode", "trainer", "audit"}
