"""An engine that holds the objects of a question, as informers would have brought them."""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS
from stowplan.clock import SystemClock
from stowplan.config.load import parse_object
from stowplan.config.types import API_VERSION, KIND
from stowplan.judge.live import LiveJudge
from stowplan.judge.objects import ReadOptions, read_objects
from stowplan.judge.verdicts import Steps
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers

Json: TypeAlias = dict[str, Any]


def live_engine(objects: list[Json], config: Json | None = None) -> Engine:
    pods: dict[str, Pod] = {}
    written = {"apiVersion": API_VERSION, "kind": KIND, **(config or {})}
    engine = build_engine(
        parse_object(written), clock=SystemClock(), rng=Random(0), lookup=pods.get
    )
    handlers = EventHandlers(engine)
    texts = [msgspec.Raw(msgspec.json.encode(each)) for each in objects]
    for _, thing in read_objects(texts, "objects", ReadOptions(check=False)):
        if thing.resource is PODS:
            pods[thing.struct.key] = thing.struct
            handlers.add_pod(thing.struct)
        elif thing.resource is NODES:
            handlers.add_node(thing.struct)
        elif thing.resource is not None:
            handlers.set_object(thing.resource, thing.struct)
    return engine


def finished(steps: Steps) -> Json:
    """The answer, whatever number of steps it takes."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        answer: Json = msgspec.json.decode(msgspec.json.encode(end.value))
        return answer


def ask(engine: Engine, question: Json, **options: Any) -> Json:
    judge = LiveJudge(engine, **options)
    try:
        return finished(judge.steps(msgspec.json.encode(question)))
    finally:
        judge.close()
