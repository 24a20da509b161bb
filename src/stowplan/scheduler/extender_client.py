"""The client of extenders: HTTP POST on kept-alive connections, one pool for each extender.

The loop performs the cycle's requests with it; the binder lets extenders bind. Invariants: whatever
an extender does or fails to do becomes an answer within its httpTimeout, and errors have
kube-scheduler's wording as far as possible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import quote, urlsplit

from stowplan.api import extender_codec as codec
from stowplan.api.extender_protocol import MAX_SCORE
from stowplan.api.guarded import WriteGuard
from stowplan.api.lanes import JSON, Lanes
from stowplan.api.no_answer import NO_ANSWER
from stowplan.api.objects import Pod
from stowplan.cluster.table import NodeTable
from stowplan.errors import ExtenderError
from stowplan.http.client import BrokenOff, ClientResponse, Disconnected, NotConnected
from stowplan.http.connecting import basic_authorization
from stowplan.loader.json_text import UNREADABLE
from stowplan.logs import V5, get_logger, kv
from stowplan.scheduler.attempt_trace import AttemptTrace
from stowplan.scheduler.configured_extender import ConfiguredExtender
from stowplan.scheduler.extender_requests import (
    Answer,
    Extender,
    Failed,
    FilterAnswer,
    FilterRequest,
    PreemptAnswer,
    PreemptRequest,
    PrioritizeAnswer,
    PrioritizeRequest,
    Request,
)
from stowplan.scheduler.whole_objects import WholeObjects

log = get_logger(__name__)

T = TypeVar("T")

_MAX_NODE_SCORE = 100
#: More than the nodes of any cluster; a longer answer is an error.
_MAX_ANSWER = 512 * 1024 * 1024


class ExtenderClient:
    """Sends the cycle's requests and bindings to extenders.

    `table` finds nodes by name; `whole` has the complete objects to send. Only a binding changes
    the cluster, so only bindings pass the `guard`.
    """

    def __init__(
        self,
        extenders: Sequence[ConfiguredExtender],
        table: NodeTable,
        whole: WholeObjects,
        *,
        guard: WriteGuard | None = None,
    ) -> None:
        self._lines = {extender: _Line(extender) for extender in extenders}
        self._table = table
        self._whole = whole
        self._guard = guard

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    async def answer(self, request: Request, trace: AttemptTrace | None = None) -> Answer:
        """Perform a request of the cycle; failures become `Failed`."""
        if isinstance(request, PrioritizeRequest):
            asked = [self._prioritize(extender, request, trace) for extender in request.extenders]
            return PrioritizeAnswer(await asyncio.gather(*asked))
        try:
            if isinstance(request, FilterRequest):
                return await self._filter(request, trace)
            return await self._preempt(request, trace)
        except Exception as problem:
            return Failed(_text_of(problem))

    async def _filter(self, request: FilterRequest, trace: AttemptTrace | None) -> Answer:
        line = self._line(request.extender)
        settings = line.extender.settings
        result = await line.ask(
            settings.filter_verb,
            self._about_nodes(line, request),
            partial(codec.decode_filter_result, names_were_sent=settings.node_cache_capable),
            trace,
        )
        if result.Error:
            return Failed(result.Error)
        return FilterAnswer(result.NodeNames, result.FailedNodes, result.FailedAndUnresolvableNodes)

    async def _prioritize(
        self, extender: Extender, request: PrioritizeRequest, trace: AttemptTrace | None
    ) -> Mapping[str, int] | None:
        line = self._line(extender)
        settings = line.extender.settings
        try:
            priorities = await line.ask(
                settings.prioritize_verb,
                self._about_nodes(line, request),
                codec.decode_priorities,
                trace,
            )
        except Exception as problem:
            log.log(
                V5,
                "Failed to run extender's priority function. No score given by this extender.",
                extra=kv(err=_text_of(problem), pod=request.pod.key, extender=extender.name),
            )
            return None
        scores: dict[str, int] = {}
        for each in priorities:
            scaled = each.Score * settings.weight * (_MAX_NODE_SCORE // MAX_SCORE)
            scores[each.Host] = scores.get(each.Host, 0) + scaled
        return scores

    def _about_nodes(self, line: _Line, request: FilterRequest | PrioritizeRequest) -> bytes:
        pod = self._whole.pod(request.pod)
        if line.extender.settings.node_cache_capable:
            return codec.encode_args(pod, names=request.nodes, nodes=())
        rows = (self._table.live_row(name) for name in request.nodes)
        nodes = [self._table.nodes[row] for row in rows if row is not None]
        return codec.encode_args(
            pod, names=None, nodes=[self._whole.node(node) for node in nodes if node is not None]
        )

    async def _preempt(self, request: PreemptRequest, trace: AttemptTrace | None) -> Answer:
        line = self._line(request.extender)
        pod = self._whole.pod(request.pod)
        if line.extender.settings.node_cache_capable:
            body = codec.encode_meta_victims(
                pod,
                {
                    node: ([info.pod.uid for info in victims.pods], victims.violations)
                    for node, victims in request.victims.items()
                },
            )
        else:
            body = codec.encode_victims(
                pod,
                {
                    node: ([self._whole.pod(info.pod) for info in victims.pods], victims.violations)
                    for node, victims in request.victims.items()
                },
            )
        result = await line.ask(
            line.extender.settings.preempt_verb, body, codec.decode_preemption_result, trace
        )
        return PreemptAnswer(
            {
                node: ([pod.UID for pod in victims.Pods], victims.NumPDBViolations)
                for node, victims in result.NodeNameToMetaVictims.items()
            }
        )

    async def bind(
        self,
        extender: ConfiguredExtender,
        pod: Pod,
        node: str,
        trace: AttemptTrace | None = None,
    ) -> None:
        """Let the extender bind the pod. After an ExtenderError the pod may be bound or not."""
        metadata = pod.metadata
        result = await self._line(extender).ask(
            extender.settings.bind_verb,
            codec.encode_binding(metadata.name, metadata.namespace, pod.uid, node),
            codec.decode_binding_result,
            trace,
            is_repeatable=False,
            guard=self._guard,
        )
        if result.Error:
            raise ExtenderError(result.Error)

    def _line(self, extender: Extender) -> _Line:
        assert isinstance(extender, ConfiguredExtender)
        return self._lines[extender]


class _Line:
    """The connections to one extender."""

    def __init__(self, extender: ConfiguredExtender) -> None:
        self.extender = extender
        settings = extender.settings
        self._url = settings.url_prefix.rstrip("/")
        server_name = settings.tls_config.server_name if settings.tls_config else ""
        # DIVERGES: connections go straight. Upstream heeds the environment's proxy, and follows
        # redirects.
        self._lanes = Lanes(self._url, [("User-Agent", "stowplan")], tls_server_name=server_name)
        self._authorization = basic_authorization(self._url)

    def close(self) -> None:
        self._lanes.close()

    async def ask(
        self,
        verb: str,
        body: bytes,
        read: Callable[[bytes], T],
        trace: AttemptTrace | None,
        *,
        is_repeatable: bool = True,
        guard: WriteGuard | None = None,
    ) -> T:
        """POST and decode the answer's body; ExtenderError for every failure."""
        if trace is None:
            return await self._ask(verb, body, read, "", is_repeatable, guard)
        with trace.request(verb, f"{self._url}/{verb}") as traceparent:
            return await self._ask(verb, body, read, traceparent, is_repeatable, guard)

    async def _ask(
        self,
        verb: str,
        body: bytes,
        read: Callable[[bytes], T],
        traceparent: str,
        is_repeatable: bool,
        guard: WriteGuard | None,
    ) -> T:
        url = f"{self.extender.name.rstrip('/')}/{verb}"
        timeout_s = float(self.extender.settings.http_timeout)
        if guard is not None:
            timeout_s = min(timeout_s, guard.timeout_s)
        status, content = 0, b""
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._post(verb, body, traceparent, is_repeatable, guard)
                status = answer.status
                content = await answer.read(_MAX_ANSWER)
        except NO_ANSWER as problem:
            if not status:
                raise ExtenderError(f'Post "{url}": {self._why(problem)}') from problem
            if status == 200:
                raise ExtenderError(_why_no_more(problem)) from problem
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            return read(content)
        except UNREADABLE as problem:
            raise ExtenderError(f"{url}: the answer cannot be read: {problem}") from problem

    async def _post(
        self,
        verb: str,
        body: bytes,
        traceparent: str,
        is_repeatable: bool,
        guard: WriteGuard | None,
    ) -> ClientResponse:
        try:
            return await self._send(verb, body, traceparent, guard)
        except Disconnected:
            if not is_repeatable:
                raise
            # The extender may end an idle connection at the very moment when it is used.
            return await self._send(verb, body, traceparent, guard)

    async def _send(
        self, verb: str, body: bytes, traceparent: str, guard: WriteGuard | None
    ) -> ClientResponse:
        return await self._lanes.ask(
            "",
            "POST",
            f"/{quote(verb, safe='/?=&%')}",
            authorization=self._authorization,
            tls=self.extender.tls,
            body=body,
            content_type=JSON,
            accept=JSON,
            unpacks=True,
            traceparent=traceparent,
            guard=guard.check if guard is not None else None,
        )

    def _why(self, problem: BaseException) -> str:
        """Go's texts for the most frequent failures."""
        if isinstance(problem, TimeoutError):
            return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        if isinstance(problem, NotConnected) and problem.__cause__ is not None:
            problem = problem.__cause__
            if isinstance(problem, ConnectionRefusedError):
                address = urlsplit(self._url).netloc.rpartition("@")[2]
                return f"dial tcp {address}: connect: connection refused"
        if isinstance(problem, Disconnected):
            return "EOF"
        return " ".join(str(problem).split()) or type(problem).__name__


def _why_no_more(problem: BaseException) -> str:
    """Go's texts for an answer that breaks off."""
    if isinstance(problem, TimeoutError):
        return (
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        )
    if isinstance(problem, BrokenOff):
        return "unexpected EOF"
    return " ".join(str(problem).split()) or type(problem).__name__


def _text_of(problem: Exception) -> str:
    """The text of a failure. A defect of ours fails the attempt, never the process."""
    if not isinstance(problem, ExtenderError):
        log.error("A request to an extender failed", exc_info=problem)
    return str(problem) or type(problem).__name__
