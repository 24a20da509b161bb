"""The extender's HTTP routes: kube-scheduler's calls, health and metrics.

`serving` runs it behind an `HttpServer`. If an algorithm fails, filter and bind return the error in
a field, which kube-scheduler shows in the pod's events; prioritize and preempt have no such field,
so they return an error status. Invariant: a failing algorithm affects only its own request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs

import msgspec

from stowplan.api.extender_protocol import ExtenderPreemptionResult
from stowplan.clock import Clock
from stowplan.extender import metrics as shown
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.failures import Failures
from stowplan.extender.metrics import ServiceMetrics
from stowplan.extender.reading import (
    BadBody,
    ReceivedArgs,
    read_args,
    read_binding_args,
    read_preemption_args,
)
from stowplan.extender.threads import Threads
from stowplan.extender.writing import (
    everything_fits,
    failed_filter,
    write_binding_result,
    write_filter_result,
    write_preemption_result,
    write_priorities,
)
from stowplan.http.messages import PeerCertificate, Request, Response, error_response
from stowplan.http.parser import RequestHead
from stowplan.logs import get_logger

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from stowplan.extender.request_spans import RequestSpans

log = get_logger(__name__)

Handler: TypeAlias = Callable[[Request], Response | Awaitable[Response]]
#: None for well, else the reason.
Check: TypeAlias = Callable[[], str | None]
#: Whether a request may be asked; the second says that it came with a good certificate.
Gate: TypeAlias = Callable[[RequestHead, PeerCertificate | None], bool]

_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Route:
    handler: Handler
    #: Whether clients need no credentials for it.
    is_open: bool = False


@dataclass(slots=True)
class _Question:
    """One call of the algorithm: how it is asked, told, and told to have failed."""

    verb: str
    request: Request
    ask: Callable[[], Any]
    write: Callable[[Any], bytes]
    failed: Callable[[str], Response]


class Service:
    """A site (see `http.messages.Site`) around one algorithm."""

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        monitored_namespaces: tuple[str, ...] = (),
        gate: Gate | None = None,
        algorithm_timeout_s: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self.metrics = ServiceMetrics()
        #: Add to them before the first request. A check that fails makes /readyz fail; a note is
        #: only shown.
        self.ready_checks: dict[str, Check] = {}
        self.ready_notes: dict[str, Check] = {}
        #: Lines for /metrics of whatever runs beside the service.
        self.more_metrics: Callable[[], Iterable[str]] = tuple
        #: Traces the requests; None: they are not traced.
        self.spans: RequestSpans | None = None
        self._algorithm = algorithm
        self._failures = Failures(algorithm, clock)
        self._namespaces = frozenset(monitored_namespaces)
        self._gate = gate
        self._threads = Threads(algorithm_timeout_s)
        #: By path and method; `add_route` adds to them.
        self.routes: dict[str, dict[str, Route]] = {}
        for prefix in ("", "/api/scheduler"):
            self.add_route("POST", f"{prefix}/filter", self._filter)
            self.add_route("POST", f"{prefix}/prioritize", self._prioritize)
        self.add_route("POST", "/preempt", self._preempt)
        self.add_route("POST", "/bind", self._bind)
        self.add_route("GET", "/metrics", self._metrics)
        self.add_route("GET", "/api/scheduler/test", _hello, is_open=True)
        self.add_route("GET", "/status", lambda _: Response(b"true"), is_open=True)
        self.add_route("GET", "/healthz", lambda _: Response(b"ok", 200, _TEXT), is_open=True)
        self.add_route("GET", "/readyz", self._readyz, is_open=True)

    def add_route(self, method: str, path: str, handler: Handler, *, is_open: bool = False) -> None:
        """An open route is answered without credentials."""
        self.routes.setdefault(path, {})[method] = Route(handler, is_open)

    # What the server calls

    def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
        methods = self.routes.get(head.path)
        route = None if methods is None else _route(methods, head.method)
        gate = None if route is not None and route.is_open else self._gate
        if gate is not None and not gate(head, certificate):
            # Nor do strangers learn which paths there are.
            problem = "a client certificate or a bearer token is needed"
            return error_response(
                HTTPStatus.UNAUTHORIZED, problem, WWW_Authenticate='Bearer realm="stowplan"'
            )
        if methods is None:
            return error_response(HTTPStatus.NOT_FOUND, f"there is no {head.path} here")
        if route is None:
            allowed = ", ".join(sorted(methods))
            problem = f"{head.path} is not for {head.method}"
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, problem, Allow=allowed)
        if head.headers.get("content-encoding", "identity") != "identity":
            problem = "bodies with a Content-Encoding are not supported"
            return error_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
        return None

    def error(self, status: HTTPStatus, problem: str) -> Response:
        return error_response(status, problem)

    def refused(self, status: int) -> None:
        self.metrics.count_refused(status)

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        if self.spans is None or request.head.method != "POST":
            return self._answer(request)
        span = self.spans.begin(request.head)
        answer = self._answer(request)
        if not isinstance(answer, Response):
            return self._await_traced(span, answer)
        self.spans.end(span, answer.status)
        return answer

    async def _await_traced(self, span: Span, coming: Awaitable[Response]) -> Response:
        answer = await coming
        assert self.spans is not None
        self.spans.end(span, answer.status)
        return answer

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        route = _route(self.routes[request.head.path], request.head.method)
        assert route is not None, "refuse() was asked first"
        try:
            return route.handler(request)
        except BadBody as bad:
            return self._bad_body(bad)

    # The questions of kube-scheduler

    def _filter(self, request: Request) -> Response | Awaitable[Response]:
        args = self._read_args("filter", request)
        log.debug("[Filter] Trying to filter nodes for Pod %r", args.pod_name)
        if self._ignores(args.pod_namespace):
            log.debug("[Filter] Ignoring Pod %r : Different namespace!", args.pod_name)
            self.metrics.ignored["filter"] += 1
            return Response(everything_fits(args))

        def write(result: Any) -> bytes:
            log.debug("[Filter] Result: %r", result)
            return write_filter_result(args, result)

        return self._answer_with(
            _Question(
                "filter",
                request,
                lambda: self._algorithm.filter(args),
                write,
                lambda problem: Response(failed_filter(problem)),
            )
        )

    def _prioritize(self, request: Request) -> Response | Awaitable[Response]:
        args = self._read_args("prioritize", request)
        log.debug("[Prioritize-server] Trying to prioritize nodes for Pod %r", args.pod_name)
        if self._ignores(args.pod_namespace):
            log.debug("[Prioritize-server] Ignoring Pod %r : Different namespace!", args.pod_name)
            self.metrics.ignored["prioritize"] += 1
            return Response(b"[]")

        def write(result: Any) -> bytes:
            log.debug("[Prioritize-server] Result: %r", result)
            body, clamped = write_priorities(result)
            self.metrics.clamped_scores += clamped
            return body

        return self._answer_with(
            _Question(
                "prioritize", request, lambda: self._algorithm.prioritize(args), write, _failed
            )
        )

    def _preempt(self, request: Request) -> Response | Awaitable[Response]:
        self.metrics.requests["preempt"] += 1
        args = read_preemption_args(request.body)
        metadata = args.Pod.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else ""
        if self._ignores(str(namespace or "")):
            self.metrics.ignored["preempt"] += 1
            unchanged = ExtenderPreemptionResult(args.NodeNameToMetaVictims)
            return Response(write_preemption_result(unchanged))
        return self._answer_with(
            _Question(
                "preempt",
                request,
                lambda: self._algorithm.preempt(args),
                write_preemption_result,
                _failed,
            )
        )

    def _bind(self, request: Request) -> Response | Awaitable[Response]:
        self.metrics.requests["bind"] += 1
        args = read_binding_args(request.body)
        return self._answer_with(
            _Question(
                "bind",
                request,
                lambda: self._algorithm.bind(args),
                write_binding_result,
                lambda problem: Response(msgspec.json.encode({"Error": problem})),
            )
        )

    def _read_args(self, verb: str, request: Request) -> ReceivedArgs:
        self.metrics.requests[verb] += 1
        return read_args(request.body)

    def _ignores(self, namespace: str) -> bool:
        return bool(self._namespaces) and namespace not in self._namespaces

    # Asking the algorithm

    def _answer_with(self, question: _Question) -> Response | Awaitable[Response]:
        started = perf_counter()
        if self._algorithm.runs_in_thread:
            return self._await(question, self._threads.run(question.ask), started)
        try:
            result = question.ask()
        except (Exception, SystemExit) as error:
            return self._failure(question, error)
        if isawaitable(result):
            return self._await(question, self._threads.limit(result), started)
        return self._success(question, result, started)

    async def _await(self, question: _Question, coming: Awaitable[Any], started: float) -> Response:
        try:
            result = await coming
        except (Exception, SystemExit) as error:
            return self._failure(question, error)
        return self._success(question, result, started)

    def _success(self, question: _Question, result: Any, started: float) -> Response:
        asked = perf_counter()
        try:
            answer = Response(question.write(result))
        except Exception as error:
            return self._failure(question, error)
        verb = question.verb
        self.metrics.algorithm_seconds[verb].observe(asked - started)
        self.metrics.request_seconds[verb].observe(perf_counter() - question.request.arrived)
        return answer

    def _failure(self, question: _Question, error: BaseException) -> Response:
        if isinstance(error, BadBody):
            return self._bad_body(error)
        self.metrics.errors[question.verb] += 1
        problem = self._failures.report(question.verb, error)
        return question.failed(problem.encode("utf-8", "replace").decode())

    def _bad_body(self, bad: BadBody) -> Response:
        self.metrics.count_refused(HTTPStatus.BAD_REQUEST.value)
        return error_response(HTTPStatus.BAD_REQUEST, f"the body is not usable: {bad}")

    # Health and metrics

    def _metrics(self, _: Request) -> Response:
        try:
            registry = self._algorithm.get_metrics_registry()
        except Exception as error:
            self._failures.report("get_metrics_registry", error)
            registry = None
        body = shown.page(self.metrics, registry, self.more_metrics())
        return Response(body, 200, shown.CONTENT_TYPE)

    def _readyz(self, request: Request) -> Response:
        """Each check in one line; as in kube-scheduler, `?verbose` also shows those that passed,
        and `?exclude=NAME` leaves one out."""
        query = parse_qs(request.head.query, keep_blank_values=True)
        excluded = query.get("exclude", ())
        is_ready, is_shown, lines = True, "verbose" in query, []
        for name in dict.fromkeys((*self.ready_checks, *self.ready_notes)):
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = _run(self.ready_checks.get(name, _pass))
            note = _run(self.ready_notes.get(name, _pass))
            is_ready &= reason is None
            is_shown |= note is not None
            if reason is not None:
                lines.append(f"[-]{name} failed: {reason}")
            else:
                lines.append(f"[+]{name} ok" + (f": {note}" if note else ""))
        if is_ready and not is_shown:
            return Response(b"ok", 200, _TEXT)
        lines.append(f"readyz check {'passed' if is_ready else 'failed'}\n")
        text = "\n".join(lines).encode("utf-8", "replace")
        return Response(text, 200 if is_ready else HTTPStatus.SERVICE_UNAVAILABLE.value, _TEXT)


def _route(methods: dict[str, Route], method: str) -> Route | None:
    return methods.get("GET" if method == "HEAD" else method)


def _hello(_: Request) -> Response:
    log.debug("['/api/scheduler/test'] -> passed")
    return Response(b"Hello World", 200, _TEXT)


def _failed(problem: str) -> Response:
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, problem)


def _pass() -> None:
    return None


def _run(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        log.exception("A readiness check raised")
        return f"{type(error).__name__}: {error}"
