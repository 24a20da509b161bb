"""POST /v1/decide: what the running scheduler would decide about a pod, without scheduling it.

`serving` adds it to the API. Questions are answered by `judge.live` in steps, on the event loop of
the scheduler: the table has one thread. Invariants: after each slice of work the scheduler gets at
least as much time; one request is worked on at a time; bodies, questions, answers and time are
limited, and so is the number of requests that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from stowplan.config.fields import did_you_mean
from stowplan.errors import StowplanError
from stowplan.framework.registry import Registry
from stowplan.http.messages import JSON, Request, Response
from stowplan.scheduler.process import SchedulerProcess
from stowplan.server.decide_schema import DECIDE, DETAILS, MAX_QUESTIONS, SCHEMAS
from stowplan.server.health import query_of
from stowplan.server.status_response import status_response
from stowplan.server.v1 import V1

if TYPE_CHECKING:
    from stowplan.judge.live import LiveJudge
    from stowplan.judge.verdicts import Steps

Json: TypeAlias = dict[str, Any]

#: Work at a time, and the whole request, pauses included.
_SLICE_S: Final = 0.002
MAX_SECONDS: Final = 30.0
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
#: Requests that wait while another is worked on.
MAX_WAITING: Final = 8
_TOO_LONG: Final = (
    f"the answer takes more than {MAX_ANSWER_BYTES} bytes. Fix: ask fewer questions at a time, or"
    " with ?detail=summary"
)
_FALSE_OR_TRUE: Final = ("false", "true")


def add_decide(v1: V1, process: SchedulerProcess, registry: Registry | None) -> None:
    """Add the operation; configurations of questions may name the plugins of `registry`."""
    v1.add("POST", "/v1/decide", DecideApi(process, registry), DECIDE, SCHEMAS)


@dataclass(slots=True)
class _Refusal(Exception):
    status: HTTPStatus
    message: str


class DecideApi:
    """The operation."""

    def __init__(self, process: SchedulerProcess, registry: Registry | None) -> None:
        self._process = process
        self._registry = registry
        self._turn = asyncio.Lock()
        self._waiting = 0
        #: The scheduler has the time until then.
        self._resume_at = 0.0

    async def __call__(self, request: Request, _: Mapping[str, str]) -> Response:
        try:
            options = _options(request)
            if not self._process.is_synced():
                raise _Refusal(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "the scheduler has not read the cluster yet; see /readyz",
                )
            if self._waiting > MAX_WAITING:
                raise _Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many questions wait; try again")
            deadline = perf_counter() + MAX_SECONDS
            self._waiting += 1
            try:
                async with self._turn:
                    return await self._answered(bytes(request.body), options, deadline)
            finally:
                self._waiting -= 1
        except _Refusal as refusal:
            is_busy = refusal.status in (
                HTTPStatus.TOO_MANY_REQUESTS,
                HTTPStatus.SERVICE_UNAVAILABLE,
            )
            retry = {"Retry_After": "1"} if is_busy else {}
            return status_response(refusal.status, refusal.message, **retry)

    async def _answered(self, body: bytes, options: Json, deadline: float) -> Response:
        # Loaded with the first question: it brings the API server's validation.
        from stowplan.judge.lines import list_of, take_apart
        from stowplan.judge.live import LiveJudge

        try:
            parts = take_apart(body, 1)
            questions = list_of(parts, "questions")
        except StowplanError as problem:
            raise _Refusal(HTTPStatus.BAD_REQUEST, str(problem)) from None
        with closing(LiveJudge(self._process.engine, registry=self._registry, **options)) as judge:
            if "questions" not in parts:
                answer = await self._run(judge.steps(body), deadline)
                if "error" in answer:
                    raise _Refusal(HTTPStatus.BAD_REQUEST, answer["error"])
                encoded = msgspec.json.encode(answer)
                if len(encoded) > MAX_ANSWER_BYTES:
                    raise _Refusal(HTTPStatus.BAD_REQUEST, _TOO_LONG)
                return Response(encoded, 200, JSON)
            if refused := _batch_problem(parts, len(questions)):
                raise _Refusal(HTTPStatus.BAD_REQUEST, refused)
            texts = [bytes(each) for each in questions]
            return Response(await self._batch(judge, texts, deadline), 200, JSON)

    async def _batch(self, judge: LiveJudge, questions: list[bytes], deadline: float) -> bytes:
        answers: list[bytes] = []
        size = 0
        for number, text in enumerate(questions, 1):
            try:
                answer = await self._run(judge.steps(text, number), deadline)
            except _Refusal as refusal:
                answer = judge.refused(text, number, refusal.message)
            encoded = msgspec.json.encode(answer)
            if size + len(encoded) > MAX_ANSWER_BYTES:
                encoded = msgspec.json.encode(judge.refused(text, number, _TOO_LONG))
            size += len(encoded)
            answers.append(encoded)
        return b'{"answers":[' + b",".join(answers) + b"]}"

    async def _run(self, steps: Steps, deadline: float) -> Json:
        """Run the steps of a question, a slice at a time."""
        with closing(steps):
            while perf_counter() < deadline:
                answer = await self._slice(steps)
                if answer is not None:
                    return answer
        problem = f"not answered within the {MAX_SECONDS:g} s of a request"
        raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, problem)

    async def _slice(self, steps: Steps) -> Json | None:
        """Run some steps when no decision is under way; None if they have not ended."""
        await asyncio.sleep(max(0.0, self._resume_at - perf_counter()))

        def work() -> Json | None:
            began = perf_counter()
            try:
                while perf_counter() < began + _SLICE_S:
                    next(steps)
                return None
            except StopIteration as finished:
                answer: Json = finished.value
                return answer
            finally:
                now = perf_counter()
                self._resume_at = now + (now - began)

        return await self._process.loop.between_decisions(work)


def _batch_problem(parts: Mapping[str, msgspec.Raw], count: int) -> str | None:
    if bytes(parts["questions"]) == b"null":
        return "questions: expected a list, got null"
    others = [name for name in parts if name != "questions"]
    if others:
        return f"{others[0]}: Forbidden beside questions. Fix: put it into each question"
    if count > MAX_QUESTIONS:
        return f"questions: Too many: {count}: must have at most {MAX_QUESTIONS} items"
    return None


def _options(request: Request) -> Json:
    """The options of `LiveJudge` that a request asks for."""
    media, _, _ = request.head.headers.get("content-type").partition(";")
    if media.strip().lower() != JSON:
        problem = f"the Content-Type must be {JSON}"
        raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
    known = {"detail": DETAILS, "defaults": _FALSE_OR_TRUE}
    chosen = {name: values[0] for name, values in known.items()}
    for name, given in query_of(request).items():
        if name not in known:
            hint = did_you_mean(name, known) or f" (known here: {', '.join(known)})"
            raise _Refusal(HTTPStatus.BAD_REQUEST, f"?{name[:40]}: unknown parameter{hint}")
        if len(given) > 1 or given[0] not in known[name]:
            problem = f"?{name}: expected one of {', '.join(known[name])}"
            raise _Refusal(HTTPStatus.BAD_REQUEST, problem)
        chosen[name] = given[0]
    return {"brief": chosen["detail"] == "summary", "defaults": chosen["defaults"] == "true"}
