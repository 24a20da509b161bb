"""Explanations over HTTPS: GET /v1/explain, /v1/pending and /v1/attempts.

`serving` adds them to `V1`. They read the scheduler's memory on the event loop, between decisions,
and only while this process schedules: a standby has no queue of its own to speak of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

import msgspec

from stowplan.config.fields import did_you_mean
from stowplan.errors import ApiError
from stowplan.explain.explanation import Comparison, Explanation
from stowplan.explain.live import LiveExplainer
from stowplan.explain.pending import Pending
from stowplan.explain.recorded import AttemptAnswer, Attempts
from stowplan.http.messages import JSON, Request, Response
from stowplan.scheduler.process import SchedulerProcess
from stowplan.server.health import query_of
from stowplan.server.standby import why_idle
from stowplan.server.status_response import status_response
from stowplan.server.v1 import V1, Json, errors

_REF: Final = "#/components/schemas/{name}"
#: Names of pods that a mistyped one is compared with, and by how many characters they differ.
_MOST_COMPARED: Final = 2_000
_MOST_TYPOS: Final = 3
_ONLY_WATCHED: Final = "; the scheduler does not watch finished pods"
_NAMES: Final = {
    "namespace": "the pod's namespace",
    "pod": "the pod's name",
    "attempt": "the number of the attempt, from 1",
}


def add_explain(v1: V1, process: SchedulerProcess) -> None:
    """Serve explanations of a process's pods."""
    explainer = LiveExplainer(process.engine, process.pods.store.get)
    answer = partial(_answer, process)

    async def explain(request: Request, values: Mapping[str, str]) -> Response:
        key = f"{values['namespace']}/{values['pod']}"
        nodes = query_of(request).get("node")
        if nodes:
            said = await answer(lambda: explainer.compare(key, nodes[-1]))
        else:
            said = await answer(lambda: explainer.explain(key))
        if said.status == HTTPStatus.NOT_FOUND and key not in process.pods.store:
            hint = await _hint(values["namespace"], values["pod"], process.pods.store)
            problem = f'pod "{key}" not found' + (hint or _ONLY_WATCHED)
            return status_response(HTTPStatus.NOT_FOUND, problem)
        return said

    async def pending(request: Request, _: Mapping[str, str]) -> Response:
        namespace = query_of(request).get("namespace", [""])[-1]
        return await answer(lambda: explainer.pending(namespace))

    async def attempts(_: Request, values: Mapping[str, str]) -> Response:
        return await answer(lambda: explainer.attempts(f"{values['namespace']}/{values['pod']}"))

    async def attempt(_: Request, values: Mapping[str, str]) -> Response:
        number = values["attempt"]
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            problem = f'attempt "{number}" is not a number'
            return status_response(HTTPStatus.BAD_REQUEST, problem)
        key = f"{values['namespace']}/{values['pod']}"
        return await answer(lambda: explainer.attempt(key, int(number)))

    kinds = (Explanation, Comparison, Pending, Attempts, AttemptAnswer)
    refs, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    shapes = dict(zip(kinds, refs, strict=True))
    node = _parameter("node", "query", "compare this node with the best one")
    namespace = _parameter("namespace", "query", "only pods of this namespace")
    for path, operation, summary, shape, queries in (
        (
            "/v1/explain/{namespace}/{pod}",
            explain,
            "Why a pod is pending, or where it is; with ?node=, what every plugin says of a node.",
            {"oneOf": [shapes[Explanation], shapes[Comparison]]},
            [node],
        ),
        ("/v1/pending", pending, "All pods that wait, by cause.", shapes[Pending], [namespace]),
        (
            "/v1/attempts/{namespace}/{pod}",
            attempts,
            "The recorded attempts of a pod.",
            shapes[Attempts],
            [],
        ),
        (
            "/v1/attempts/{namespace}/{pod}/{attempt}",
            attempt,
            "One attempt with reasons, scores and durations.",
            shapes[AttemptAnswer],
            [],
        ),
    ):
        v1.add("GET", path, operation, _described(path, summary, shape, queries), schemas)


async def _hint(namespace: str, name: str, pods: Collection[str]) -> str:
    """What may have been meant by a pod that is not there; compared beside scheduling."""
    elsewhere = next((key for key in pods if key.endswith(f"/{name}")), "")
    if elsewhere:
        return f'; there is one in the namespace "{elsewhere.partition("/")[0]}"'
    prefix = f"{namespace}/"
    sizes = range(len(prefix) + len(name) - _MOST_TYPOS, len(prefix) + len(name) + _MOST_TYPOS + 1)
    alike = (key for key in pods if len(key) in sizes and key.startswith(prefix))
    names = [key.removeprefix(prefix) for key in islice(alike, _MOST_COMPARED)]
    return await asyncio.to_thread(did_you_mean, name, names)


async def _answer(process: SchedulerProcess, ask: Callable[[], Any]) -> Response:
    if problem := why_idle(process):
        return status_response(HTTPStatus.SERVICE_UNAVAILABLE, problem, Retry_After="1")
    try:
        found = await process.loop.between_decisions(ask)
    except ApiError as error:
        return status_response(HTTPStatus(error.status), str(error))
    return Response(msgspec.json.encode(found) + b"\n", 200, JSON)


def _described(path: str, summary: str, shape: Json, queries: list[Json]) -> Json:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return {
        "operationId": "_".join(["get", path.split("/")[2], *names[2:]]),
        "summary": summary,
        "parameters": [*(_parameter(name, "path", _NAMES[name]) for name in names), *queries],
        "responses": {
            "200": {"description": "the answer", "content": {JSON: {"schema": shape}}},
            **errors(
                _404="there is no such pod, node or attempt",
                _409="the pod has a node, and ?node= asks where it could go",
                _503="this replica does not schedule, or the question is too expensive",
            ),
        },
    }


def _parameter(name: str, place: str, text: str) -> Json:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": text,
        "schema": {"type": "string"},
    }
