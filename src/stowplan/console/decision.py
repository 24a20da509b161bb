"""One pod: its explanation, and a matrix of nodes and plugins.

The rows are the best nodes, or the nearest ones where none fits; the pod's own node is always
among them. Nothing is decided here: `explain` judges all nodes, and this reads its judgement.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stowplan.api.objects import Pod
from stowplan.cluster.work import DECISION_WORK
from stowplan.console.mirror import ClusterMirror
from stowplan.explain.explanation import NodeAnswer
from stowplan.explain.obstacles import nearest_rows, obstacles_of
from stowplan.explain.recorded import chosen_attempt
from stowplan.framework.profile import Profile
from stowplan.judge.objects import Thing
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine

_MOST_NODES: Final = 16
#: Of a pod that fits somewhere: so many of the nodes that do not take it.
_REFUSING: Final = 6
_MOST_ATTEMPTS: Final = 20


def explain_pod(mirror: ClusterMirror, engine: Engine | None, thing: Thing) -> dict[str, Any]:
    """What the page of one pod shows.

    Beside a scheduler the work is limited as that of a decision is; ServerError above the limit.
    """
    with mirror.limited(
        DECISION_WORK if engine is not None else None,
        "The pod is too expensive to explain beside scheduling. Parts are cached now: reload"
        f" the page, or run: stowplan explain {thing.name} -n {thing.namespace}",
    ):
        return _explained(mirror, engine, thing)


def _explained(mirror: ClusterMirror, engine: Engine | None, thing: Thing) -> dict[str, Any]:
    explainer = mirror.explainer
    said: dict[str, Any] = msgspec.to_builtins(explainer.explain(thing))
    pod = thing.struct
    if pod.is_finished or pod.is_terminating:
        return {"explanation": said, "matrix": None, "attempts": _attempts(engine, pod)}
    profile = explainer.profile_for(pod)
    with explainer.judged(thing) as decision:
        matrix = _matrix(profile, decision, pod.spec.node_name)
    return {"explanation": said, "matrix": matrix, "attempts": _attempts(engine, pod)}


def _attempts(engine: Engine | None, pod: Pod) -> list[dict[str, Any]]:
    """The recorded attempts of a pod, newest first; without a ledger there are none."""
    if engine is None or engine.ledger is None:
        return []
    kept = [each for each in engine.ledger.of_pod(pod.key) if each.uid == pod.uid]
    shown = kept[-_MOST_ATTEMPTS:][::-1]
    return [msgspec.to_builtins(each.read(is_whole=False)) for each in shown]


def recorded_attempt(engine: Engine | None, key: str, number: int) -> dict[str, Any] | None:
    """An attempt with all that the ledger has of it; NotFound if it is not there."""
    if engine is None or engine.ledger is None:
        return None
    entries = engine.ledger.of_pod(key)
    numbered = [each.read(is_whole=each.attempt == number) for each in entries]
    said: dict[str, Any] = msgspec.to_builtins(chosen_attempt(key, numbered, number))
    return said


def _matrix(profile: Profile, decision: Decision, own: str) -> dict[str, Any] | None:
    diagnosis, table = decision.diagnosis, decision.cycle.table
    scores = decision.scores
    best = scores.top(_MOST_NODES - _REFUSING) if scores is not None else []
    answers = [NodeAnswer(each.node, (), each.total, each.by_plugin) for each in best]
    winner = best[0].node if best else ""
    if diagnosis is not None and diagnosis.candidates is not None:
        fitting = set(scores.rows.tolist()) if scores is not None else set()
        own_row = table.live_row(own)
        rows = nearest_rows(profile, diagnosis, _MOST_NODES + len(fitting))
        if own_row is not None:
            rows = list(dict.fromkeys([own_row, *rows]))
            if scores is not None and own_row in fitting and own not in {a.node for a in answers}:
                score = scores.of(own_row)
                answers.append(NodeAnswer(own, (), score.total, score.by_plugin))
        refusing = [row for row in rows if row not in fitting]
        answers += (
            obstacles_of(profile, diagnosis, row) for row in refusing[: _MOST_NODES - len(answers)]
        )
    return {
        "winner": winner,
        "filters": [step.name for step in profile.filters],
        "scores": [step.name for step in profile.scores],
        "nodes": [msgspec.to_builtins(each) for each in answers],
    }
