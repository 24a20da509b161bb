"""A question to a running scheduler has the answer that `stowplan decide` gives on its objects."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from stowplan.judge import Judge
from stowplan.scheduler.outcome import Placement
from tests.examples import examples
from tests.parity.generate.case import line, random_case
from tests.unit.judge.live_engine import ask, live_engine

Json: TypeAlias = dict[str, Any]


def without_warnings(said: Json) -> Json:
    return {key: value for key, value in said.items() if key != "warnings"}


@given(seed=st.integers(0, 10**6))
@examples(25)
def test_live_copied_and_given_clusters_answer_alike(seed: int) -> None:
    question = line(random_case(seed)) | {"id": "x"}
    expected = Judge().answer(question)
    if "error" in expected:
        return
    engine = live_engine(question["objects"], question["config"])
    live = {"id": "x", "pod": question["pod"]}
    assert without_warnings(ask(engine, live)) == expected
    assert without_warnings(ask(engine, live)) == expected  # with warm caches
    copied = without_warnings(ask(engine, live | {"apply": [], "config": question["config"]}))
    for node in question["objects"]:
        if node["kind"] == "Node" and node.get("status", {}).get("images"):
            break  # an image's size is that of the node which reported it first
    else:
        assert copied == expected
    assert without_warnings(ask(engine, question)) == expected
    # A summary counts the same nodes.
    brief = ask(engine, live, brief=True)
    verdicts = [each["code"] for each in expected["nodes"].values()]
    if "prefilter" not in expected:
        assert brief["feasible"] == verdicts.count("Success")
        refused = sum(each["nodes"] for each in brief["rejected"])
        assert refused == len(verdicts) - brief["feasible"]
    assert brief.get("best") == (sorted(expected["best"])[:10] if "best" in expected else None)


@given(seed=st.integers(0, 10**6))
@examples(10)
def test_questions_change_no_decision(seed: int) -> None:
    """Two engines get the same pods; one is asked between the attempts."""
    case, other = line(random_case(seed)), line(random_case(seed + 1))
    if "error" in Judge().answer(case) or "error" in Judge().answer(other):
        return
    pods = [
        {**case["pod"], "apiVersion": "v1", "kind": "Pod"},
        {**other["pod"], "apiVersion": "v1", "kind": "Pod"},
    ]
    for number, pod in enumerate(pods):
        pod["metadata"] = {"namespace": "default", "name": f"asked-{number}"} | {
            key: value for key, value in pod["metadata"].items() if key in ("labels", "namespace")
        }
    questions: list[Json] = [
        {"pod": other["pod"]},
        {"pod": case["pod"], "apply": other["objects"][:3]},
        other,
    ]
    outcomes = []
    for is_asked in (False, True):
        engine = live_engine(case["objects"] + pods, case["config"])
        seen: list[str] = []
        while True:
            if is_asked:
                for question in questions:
                    ask(engine, question)
            outcome = engine.attempt()
            if outcome is None:
                break
            where = outcome.node if isinstance(outcome, Placement) else outcome.message
            seen.append(f"{outcome.pod.key} {where}")
        outcomes.append((seen, engine.cursor, engine.turn, engine.cache.placements()))
    assert outcomes[0] == outcomes[1]
