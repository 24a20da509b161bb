"""The judge: a cluster's history does not matter, only what it holds; and no object breaks it."""

from __future__ import annotations

import copy
from random import Random
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from stowplan.judge import Judge, Stream, answer
from tests.examples import examples
from tests.parity.generate.case import key_of, line, random_case
from tests.unit.judge.malformed import GOOD

Json: TypeAlias = dict[str, Any]


def _other_version(thing: Json, others: list[Json], rng: Random) -> Json:
    """An object of the same name that says something else."""
    twins = [other for other in others if other["kind"] == thing["kind"]]
    other = copy.deepcopy(rng.choice(twins))
    other["metadata"] = {**other["metadata"]}
    for field in ("name", "namespace", "uid"):
        other["metadata"].pop(field, None)
        if field in thing["metadata"]:
            other["metadata"][field] = thing["metadata"][field]
    return other


def _history(objects: list[Json], rng: Random) -> list[Json]:
    """Lines that lead to these objects by detours."""
    steps: list[Json] = []
    for thing in objects:
        kind, namespace, name = key_of(thing)
        come: list[Json] = [{"apply": [thing]}]
        if rng.random() < 0.4:
            come.insert(0, {"apply": [_other_version(thing, objects, rng)]})
        if rng.random() < 0.3:
            gone = {"kind": kind, "namespace": namespace, "name": name}
            come[-1:] = [{"apply": [thing]}, {"delete": [gone]}, {"apply": [thing]}]
        steps.append({"steps": come})
    # Each object's own steps keep their order, everything else is shuffled.
    queues = [step["steps"] for step in steps]
    lines: list[Json] = []
    while queues:
        queue = rng.choice(queues)
        lines.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return lines


@given(seed=st.integers(0, 10**6), order=st.integers(0, 10**6))
@examples(60)
def test_history_does_not_matter(seed: int, order: int) -> None:
    question = line(random_case(seed))
    for thing in question["objects"]:
        if thing["kind"] == "Node":
            # An image's size is that of the node which reported it first, upstream as well.
            thing["status"].pop("images", None)
    rng = Random(order)
    cold = Judge(check=False).answer(question)
    stream = Stream(check=False)
    for change in _history(question["objects"], rng):
        if rng.random() < 0.3:
            # Asked on the way, so that there is something warm to go stale.
            change = {**change, "config": question["config"], "pod": question["pod"]}
        stream.answer(change)
    warm = stream.answer({key: question[key] for key in ("id", "config", "pod")})
    assert warm == cold


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "A b", "1", "-1", "1Gi", "In", "NoSchedule", "é", "x" * 300])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += _places(inner, (*path, index))
    return found


@given(data=st.data(), kind=st.sampled_from(sorted(GOOD)))
@examples(300)
def test_no_object_breaks_it(data: st.DataObject, kind: str) -> None:
    obj = copy.deepcopy(GOOD[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(obj)
        *way, last = data.draw(st.sampled_from(places))
        holder: Any = obj
        for step in way:
            holder = holder[step]
        holder[last] = data.draw(_values)
    objects = [GOOD["Node"], obj] if kind != "Node" else [obj]
    for defaults in (False, True):
        said = Judge(defaults=defaults).answer({"id": 1, "objects": objects, "pod": GOOD["Pod"]})
        assert not said.get("error", "").startswith("internal error"), said["error"]
        assert said["id"] == 1
        if "error" not in said:
            assert said.keys() >= {"id", "nodes"}
    assert "error" not in answer({"objects": [GOOD["Node"]], "pod": GOOD["Pod"]})
