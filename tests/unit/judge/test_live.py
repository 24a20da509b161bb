"""Questions about a running scheduler: their limits, and what is left of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import pytest

from stowplan.api.objects import Node
from stowplan.judge import live, verdicts
from stowplan.judge.live import LiveJudge
from stowplan.scheduler.configured_extender import ConfiguredExtender
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from tests.unit.judge.live_engine import ask, finished, live_engine

Json: TypeAlias = dict[str, Any]


def node(number: int, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": {"zone": f"z{number % 3}", **labels}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str = "web", cpu: str = "3", **fields: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **fields},
    }


def picky() -> Json:
    """A pod whose terms take work: a counter for each."""
    terms = [
        {"labelSelector": {"matchLabels": {"app": f"a{number}"}}, "topologyKey": "zone"}
        for number in range(40)
    ]
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return pod(affinity={"podAntiAffinity": rules})


@pytest.fixture
def engine() -> Engine:
    return live_engine([node(number) for number in range(30)])


def steps_and_answer(engine: Engine, question: Json) -> tuple[int, Json]:
    steps = LiveJudge(engine).steps(msgspec.json.encode(question))
    for count in range(1000):
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
    raise AssertionError("endless")


def test_expensive_questions_go_on_in_the_next_step(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = live_engine([node(number) for number in range(30)])
    steps, expected = steps_and_answer(fresh, {"pod": picky()})
    assert (steps, expected["best"][0]) == (3, "n0")  # read, decided, scored
    monkeypatch.setattr(live, "DECISION_WORK", fresh.cache.table.work.spent // 4)
    steps, answer = steps_and_answer(engine, {"pod": picky()})
    assert 3 < steps < live.MOST_DEFERRALS
    assert answer == expected


def test_an_answer_about_many_nodes_is_put_together_in_pieces_of_one_moment(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the scheduler does to the table in between."""
    tainted = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    handlers = EventHandlers(engine)
    for number in range(10):
        made = msgspec.convert({**node(100 + number), "spec": tainted}, Node)
        handlers.add_node(made)
    _, expected = steps_and_answer(engine, {"pod": pod()})
    assert len(expected["nodes"]) == 40
    assert len(expected["scores"]) == 30
    monkeypatch.setattr(verdicts, "PIECE", 5)
    steps = LiveJudge(engine).steps(msgspec.json.encode({"pod": pod()}))
    count, answer = 0, Json()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer = end.value
            break
        count += 1
        if count > 1:  # from the decision on
            handlers.delete_node(engine.cache.table.node(int(engine.cache.table.order[0])))
    # Read, decided; 40 nodes and 10 of them again, 30 with scores: by fives.
    assert count == 2 + 10 + 6
    assert answer == expected


@pytest.mark.parametrize("question", [{}, {"objects": [node(1)]}, {"apply": []}])
def test_endless_questions_are_given_up(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, question: Json
) -> None:
    monkeypatch.setattr(live, "DECISION_WORK", 0)
    _, answer = steps_and_answer(engine, {"pod": picky(), **question})
    assert answer["error"].startswith("the question was given up after two seconds of work. Fix:")
    # The scheduler's own decisions are not limited by what is left of it.
    engine.cache.table.work.spend(10**12)


def test_a_question_that_is_left_halfway_limits_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DECISION_WORK", 1)
    steps = LiveJudge(engine).steps(msgspec.json.encode({"pod": picky()}))
    next(steps)
    next(steps)
    steps.close()
    engine.cache.table.work.spend(10**12)


def test_hypothetical_clusters_are_limited(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_OBJECTS", 29)
    monkeypatch.setattr(live, "MOST_COPIED", 29)
    objects = [node(number) for number in range(30)]
    said = ask(engine, {"pod": pod(), "objects": objects})
    assert said["error"] == "objects: Too many: must have at most 29"
    said = ask(engine, {"pod": pod(), "apply": []})
    assert said["error"].startswith(
        "apply, delete and config need a copy of the cluster, which has 30 objects"
    )
    assert "best" in ask(engine, {"pod": pod()})


def test_a_nominated_pod_does_not_block_itself() -> None:
    waiting = pod("web", schedulerName="default-scheduler") | {
        "status": {"nominatedNodeName": "n0"}
    }
    engine = live_engine([node(0), waiting])
    assert ask(engine, {"pod": pod("web")})["best"] == ["n0"]
    assert ask(engine, {"pod": pod("web"), "apply": []})["best"] == ["n0"]
    other = ask(engine, {"pod": pod("other")})
    assert other["nodes"]["n0"]["reasons"] == ["Insufficient cpu"]
    assert ask(engine, {"pod": pod("other"), "apply": []})["nodes"] == other["nodes"]


def test_changes_are_undone_whatever_moves(engine: Engine) -> None:
    """A UID moves to another name and back, a question is abandoned, another one fails."""
    standing = pod("standing", nodeName="n0")
    standing["metadata"]["uid"] = "u"
    engine = live_engine([node(0), standing])
    renamed = pod("renamed", cpu="1", nodeName="n0")
    renamed["metadata"]["uid"] = "u"
    twins = [pod("a", nodeName="n0"), pod("b", nodeName="n0")]
    for twin in twins:
        twin["metadata"]["uid"] = "twin"
    gone = [{"kind": "Pod", "name": "standing"}]
    judge = LiveJudge(engine)

    def answer(question: Json) -> Json:
        return finished(judge.steps(msgspec.json.encode({"pod": pod()} | question)))

    assert "best" not in answer({"apply": []})
    assert answer({"delete": gone, "apply": [renamed]})["best"] == ["n0"]
    assert "metadata.uid: Duplicate value" in answer({"delete": gone, "apply": twins})["error"]
    halfway = judge.steps(msgspec.json.encode({"pod": pod(), "delete": gone}))
    next(halfway)
    next(halfway)
    halfway.close()
    assert "best" not in answer({"apply": []})
    judge.close()
    assert engine.cache.pod_count == 1


def test_extenders_are_not_called(engine: Engine) -> None:
    assert "warnings" not in ask(engine, {"pod": pod()})
    engine.extenders = (object.__new__(ConfiguredExtender),)
    assert ask(engine, {"pod": pod()})["warnings"] == [
        "extenders are not called: they may reject nodes that fit here, or prefer others"
    ]


def test_a_scheduler_name_that_is_not_served_is_a_warning(engine: Engine) -> None:
    warning = (
        'pod: spec.schedulerName: this scheduler does not serve "other" and would ignore the pod;'
        " answered as for default-scheduler"
    )
    questions: list[Json] = [{}, {"apply": []}]
    for changes in questions:
        said = ask(engine, {"pod": pod(schedulerName="other"), **changes})
        assert "best" in said
        assert said["warnings"] == [warning]
        served = ask(engine, {"pod": pod(schedulerName="default-scheduler"), **changes})
        assert "warnings" not in served


def test_what_the_api_server_would_complain_about_is_a_warning(engine: Engine) -> None:
    asked = pod()
    asked["spec"]["nodeSelektor"] = {}
    assert ask(engine, {"pod": asked})["warnings"] == [
        'pod: Pod default/web: unknown field "spec.nodeSelektor"'
    ]
