"""The binding cycle of a pod, in its own task: wait for Permit, then PreBind, Bind, PostBind.

Invariant: every placement ends bound once or queued again, whatever the API server or a plugin
does. A binding request without a clear response may have taken effect, or may take effect later. It
is retried until the response is definite, and the pod stays assumed until then. If a retry could do
harm (extenders, plugins that do not declare otherwise), the pod is looked up instead. Only lost
leadership leaves a placement unfinished: the process ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from stowplan.api.objects import Pod
from stowplan.api.paging import is_older
from stowplan.api.resources import PODS
from stowplan.api.verbs import SchedulerApi
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    ExtenderError,
    Forbidden,
    LeadershipLost,
    PluginError,
    ServerError,
    StowplanError,
    Throttled,
    Unauthorized,
)
from stowplan.framework.forms import as_status
from stowplan.framework.status import SKIP, SUCCESS, Code, Status, error
from stowplan.framework.waiting import WaitingPod
from stowplan.logs import V2, Plain, get_logger, kv
from stowplan.plugin_failures import describe, plugin_error
from stowplan.scheduler.attempt_trace import AttemptTrace
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.reporter import Reporter
from stowplan.scheduler.stillness import Stillness

log = get_logger(__name__)

#: After these it is not known whether the pod is bound.
_UNCLEAR = (Conflict, ServerError, Throttled, ApiUnavailable, TimeoutError)
#: Pauses before a binding without a clear answer is sent again, or its pod looked up again.
_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)
#: So often a pause looks whether a watch has shown the pod bound.
_LOOK_S = 0.1
#: Pods that another scheduler may bind before it is worth a warning: a former leader's last ones.
_FEW_BY_OTHERS = 5


class Binder:
    """Runs binding cycles."""

    def __init__(
        self,
        engine: Engine,
        client: SchedulerApi,
        reporter: Reporter,
        stillness: Stillness | None = None,
        extenders: ExtenderClient | None = None,
    ) -> None:
        self._engine = engine
        self._client = client
        self._reporter = reporter
        self._stillness = stillness or Stillness()
        self._extenders = extenders
        #: Bindings that the API server refuses without a definite answer: each is the trouble of
        #: its own pod, for which others need not wait.
        self.refused = 0
        self._bound_by_others = 0
        self.on_refused: Callable[[], None] = lambda: None

    async def run(self, placement: Placement) -> None:
        """Take a placement to its end."""
        try:
            status = await self._bind(placement)
        except asyncio.CancelledError:
            # Only a process that is going down cancels; what it leaves behind, a restart finds.
            raise
        except LeadershipLost as problem:
            # Going down, too. Another leader may have given the place away, so nothing is undone
            # on the strength of what we know.
            log.warning(
                "Not binding pod: no longer leading",
                extra=kv(pod=placement.pod.key, node=placement.node, err=str(problem)),
            )
            return
        except Exception as problem:
            log.exception("Binding cycle broke", extra=kv(pod=placement.pod.key))
            status = error(describe(problem))
        if status.is_success:
            self._succeeded(placement)
            await self._post_bind(placement)
            if placement.queued.trace is not None:
                self._engine.finished(placement)
        else:
            self._stillness.do(self._failed, placement, status)

    async def _bind(self, placement: Placement) -> Status:
        began = self._engine.clock.monotonic()
        pre_bind, status = self._pre_flight(placement)
        verdict = SKIP if status.is_success and not pre_bind else status
        self._observe("PreBindPreFlight", verdict, placement, began)
        if not status.is_success:
            return status
        await self._reporter.fall_silent(placement.pod)
        if pre_bind or placement.waiting is not None:
            # Binding will take a while, so publish the node for observers such as an autoscaler.
            await self._reporter.expected(placement)
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement, placement.waiting)
            if not status.is_success:
                return status
        self._engine.permitted(placement)
        if pre_bind:
            busy = self._pre_bind_unless_preempted(placement, pre_bind)
            status = await self._timed("PreBind", placement, busy)
            if not status.is_success:
                return status
        else:
            self._observe("PreBind", SUCCESS, placement, self._engine.clock.monotonic())
        by_extender = await self._bind_by_extender(placement)
        if by_extender is not None:
            return by_extender
        return await self._timed("Bind", placement, self._run_bind_plugins(placement))

    async def _timed(self, point: str, placement: Placement, work: Awaitable[Status]) -> Status:
        """Wait for an extension point and count how long it takes."""
        began, status = self._engine.clock.monotonic(), error("")
        try:
            status = await work
            return status
        finally:
            self._observe(point, status, placement, began)

    def _observe(self, point: str, status: Status, placement: Placement, began: float) -> None:
        now, label = self._engine.clock.monotonic(), status.code.label
        self._engine.metrics.point_ended(point, label, placement.profile.name, now - began)
        queued = placement.queued
        if queued.trace is not None:
            queued.trace.point(point, label, began, now)
        if (record := queued.record) is not None and record.durations is not None:
            record.durations[point] = now - began

    # Permit

    async def _wait_on_permit(self, placement: Placement, waiting: WaitingPod) -> Status:
        """Until every plugin allows the pod, or one rejects it or runs out of patience."""
        clock = self._engine.clock
        started = clock.monotonic()
        decided = asyncio.Event()
        waiting.on_decided = decided.set
        try:
            while waiting.status is None:
                try:
                    async with asyncio.timeout(max(0.0, waiting.next_deadline - clock.monotonic())):
                        await decided.wait()
                except TimeoutError:
                    waiting.expire(clock.monotonic())
        finally:
            self._engine.handles[placement.profile.name].waiting.remove(placement.pod.uid)
        now, label = clock.monotonic(), waiting.status.code.label
        self._engine.metrics.permit_wait_duration.at(label).observe(now - started)
        if (trace := placement.queued.trace) is not None:
            trace.point("WaitOnPermit", label, started, now)
        if (record := placement.queued.record) is not None and record.durations is not None:
            record.durations["WaitOnPermit"] = now - started
        return waiting.status

    # PreBind, Bind, PostBind

    def _pre_flight(self, placement: Placement) -> tuple[list[Any], Status]:
        """The PreBind plugins that have something to do for this pod."""
        busy: list[Any] = []
        for plugin in placement.profile.at("preBind"):
            ask = getattr(plugin, "pre_bind_pre_flight", None)
            try:
                answer = ask(*placement.arguments) if ask is not None else None
                status = as_status(answer, plugin.name, "PreBindPreFlight", ask)
            except Exception as problem:
                return [], self._broken(plugin, "PreBindPreFlight", problem)
            if status.is_success:
                busy.append(plugin)
            elif not status.is_skip:
                return [], error(str(PluginError(plugin.name, "PreBindPreFlight", status.message)))
        return busy, SUCCESS

    async def _pre_bind_unless_preempted(self, placement: Placement, plugins: list[Any]) -> Status:
        """Until PreBind has ended, a more important pod may still take the place."""
        reasons: list[str] = []
        task = asyncio.ensure_future(self._pre_bind(placement, plugins))

        def cancel(message: str) -> None:
            reasons.append(message)
            task.cancel()

        self._engine.pre_binding[placement.pod.uid] = cancel
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            if not reasons:
                raise
            return error(reasons[0])
        finally:
            self._engine.pre_binding.pop(placement.pod.uid, None)

    async def _pre_bind(self, placement: Placement, plugins: list[Any]) -> Status:
        for plugin in plugins:
            try:
                status = await _ask(plugin, "pre_bind", "PreBind", placement)
            except LeadershipLost:
                raise
            except Exception as problem:
                return self._broken(plugin, "PreBind", problem)
            if not status.is_success:
                # After Permit a refusal is an error: nothing but time can help.
                return error(str(PluginError(plugin.name, "PreBind", status.message)))
        return SUCCESS

    async def _bind_by_extender(self, placement: Placement) -> Status | None:
        """The first extender that binds and is interested goes before all plugins; None: none."""
        if self._extenders is None:
            return None
        for extender in self._engine.extenders:
            if not extender.binds or not extender.is_interested(placement.pod):
                continue
            try:
                trace = placement.queued.trace
                await self._extenders.bind(extender, placement.pod, placement.node, trace)
            except ExtenderError as problem:
                if not extender.is_ignorable:
                    # It may have bound the pod, and failed to say so.
                    return await self._look(placement, error(str(problem)))
                log.info(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    extra=kv(extender=extender.name, err=str(problem)),
                )
                continue
            return SUCCESS
        return None

    async def _run_bind_plugins(self, placement: Placement) -> Status:
        """The first plugin that does not skip binds."""
        for plugin in placement.profile.at("bind"):
            try:
                status = await _ask(plugin, "bind", "Bind", placement)
            except LeadershipLost:
                raise
            except Exception as problem:
                if not isinstance(problem, _UNCLEAR):
                    return self._broken(plugin, "Bind", problem)
                if plugin.bind_is_idempotent:
                    return await self._settle(plugin, placement, problem)
                # A conflict says that this request did nothing: whose did?
                placement.is_bound_by_other = isinstance(problem, Conflict)
                return await self._look(placement, self._broken(plugin, "Bind", problem))
            if status.is_skip:
                continue
            return _bound_by(plugin, status)
        return error("no Bind plugin took the pod")

    async def _post_bind(self, placement: Placement) -> None:
        began = self._engine.clock.monotonic()
        for plugin in placement.profile.at("postBind"):
            try:
                await _ask(plugin, "post_bind", "PostBind", placement)
            except Exception as problem:
                self._engine.failures.report(
                    "PostBind failed; the pod is bound anyway",
                    problem,
                    plugin=plugin.name,
                    pod=placement.pod.key,
                )
        self._observe("PostBind", SUCCESS, placement, began)

    # No clear answer

    async def _settle(self, plugin: Any, placement: Placement, problem: Exception) -> Status:
        """Send a binding again until the answer is definite.

        That the pod is not bound now proves nothing: a request of which the connection broke may
        arrive when its place was given away long ago.

        DIVERGES: kube-scheduler gives the place away after any error.
        """
        node, may_arrive = placement.node, False
        for attempt in count():
            failure = self._broken(plugin, "Bind", problem)
            may_arrive |= _may_arrive(problem)
            settled = await self._definite(placement, problem, failure, may_arrive=may_arrive)
            if settled is not None:
                return settled
            if attempt == 0:
                log.warning(
                    "Binding got no definite answer, sending it again",
                    extra=kv(pod=placement.pod.key, node=node, err=failure.message),
                )
            elif attempt == len(_AGAIN_S):
                self._reporter.unanswered(placement, failure.message)
            is_refused = isinstance(problem, ApiError)
            await self._pause(attempt, placement if may_arrive else None, is_refused=is_refused)
            if may_arrive and self._is_confirmed(placement):
                return SUCCESS
            if self._engine.cache.table.live_row(node) is None:
                # The API server would bind the pod all the same. Its place is worth nothing now.
                return await self._look(placement, failure)
            try:
                return _bound_by(plugin, await _ask(plugin, "bind", "Bind", placement))
            except LeadershipLost:
                raise
            except Exception as again:
                problem = again
        raise AssertionError("unreachable")

    async def _definite(
        self, placement: Placement, problem: Exception, failure: Status, *, may_arrive: bool
    ) -> Status | None:
        """What the answer to a binding means; None if it must be sent again.

        `may_arrive`: an earlier request, or this one, may have taken effect or may yet.
        """
        if isinstance(problem, Conflict) or (isinstance(problem, Forbidden) and may_arrive):
            try:
                found = await self._find(placement.pod)
            except (ApiError, ApiUnavailable, TimeoutError):
                return None
            # A conflict may be with a request of our own that was never answered.
            placement.is_bound_by_other = not may_arrive
            settled = self._seen(placement, found, failure)
            if settled.is_success or placement.is_lost or not may_arrive:
                return settled
            # Not bound, but pods that are leaving cannot be any more; and what is forbidden now is
            # forbidden to a request that arrives later.
            is_over = isinstance(problem, Forbidden) or (found is not None and found.is_terminating)
            return settled if is_over else None
        if isinstance(problem, _UNCLEAR) or (isinstance(problem, Unauthorized) and may_arrive):
            return None
        return failure

    async def _pause(
        self, attempt: int, doubted: Placement | None = None, *, is_refused: bool
    ) -> None:
        """Wait before the next try, or until a watch shows that the `doubted` one took effect."""
        if is_refused:
            self.refused += 1
            self.on_refused()
        now = asyncio.get_running_loop().time
        until = now() + _AGAIN_S[min(attempt, len(_AGAIN_S) - 1)]
        try:
            while (left_s := until - now()) > 0:
                if doubted is not None and self._is_confirmed(doubted):
                    break
                await asyncio.sleep(left_s if doubted is None else min(left_s, _LOOK_S))
        finally:
            self.refused -= is_refused

    def _is_confirmed(self, placement: Placement) -> bool:
        """True if the API server has said, in a list or a watch, that the pod is on its node."""
        cache, uid = self._engine.cache, placement.pod.uid
        return cache.node_of(uid) == placement.node and not cache.is_assumed(uid)

    async def _look(self, placement: Placement, failure: Status) -> Status:
        """Find out whether a binding took effect that was not clearly answered."""
        for attempt in count():
            try:
                return self._seen(placement, await self._find(placement.pod), failure)
            except (Unauthorized, Forbidden):
                return failure
            except (ApiError, ApiUnavailable, TimeoutError):
                await self._pause(attempt, is_refused=False)
        raise AssertionError("unreachable")

    def _seen(self, placement: Placement, found: Pod | None, failure: Status) -> Status:
        """What became of a placement; warn if other schedulers bind our pods again and again."""
        is_same = found is not None and found.uid == placement.pod.uid
        if placement.is_bound_by_other and is_same and found is not None and found.spec.node_name:
            self._bound_by_others += 1
            if self._bound_by_others > _FEW_BY_OTHERS:
                log.warning(
                    "Another scheduler serves the same pods. Fix: give each its own schedulerName",
                    extra=kv(
                        pod=placement.pod.key,
                        node=found.spec.node_name,
                        profile=placement.profile.name,
                        refusedBindings=self._bound_by_others,
                    ),
                )
        return _seen(placement, found, failure)

    async def _find(self, pod: Pod) -> Pod | None:
        """Fetch the current pod by name, with a list: the role may allow list but not get.

        A list that is older than the pod says nothing about it: the pod would seem to be gone.
        """
        found = await self._client.list_all(
            PODS,
            namespace=pod.metadata.namespace,
            field_selector=f"metadata.name={pod.metadata.name}",
        )
        if found.undecodable:
            raise ApiUnavailable(f"pod {pod.key} cannot be read")
        if is_older(found.resource_version, pod.metadata.resource_version):
            raise ApiUnavailable(f"pod {pod.key}: the API server's list is older than the pod")
        return next(iter(found.items), None)

    # The end

    def _broken(self, plugin: Any, point: str, problem: Exception) -> Status:
        """A plugin raised. What the API server said is said again; all else is a defect."""
        if isinstance(problem, StowplanError) and not isinstance(problem, PluginError):
            return error(str(PluginError(plugin.name, point, str(problem))))
        failure = plugin_error(plugin.name, point, problem)
        self._engine.failures.report("Plugin broke", failure, plugin=plugin.name, point=point)
        return error(str(failure))

    def _succeeded(self, placement: Placement) -> None:
        self._engine.bound(placement)
        if not placement.is_bound_by_other:
            self._reporter.bound(placement)
        if log.isEnabledFor(V2):
            decision = placement.decision
            log.log(
                V2,
                "Successfully bound pod to node",
                extra=kv(
                    pod=placement.pod.key,
                    node=Plain(placement.node),
                    evaluatedNodes=decision.evaluated_nodes,
                    feasibleNodes=decision.feasible_nodes,
                ),
            )

    def _failed(self, placement: Placement, status: Status) -> None:
        failure: Failure = self._engine.bind_failed(placement, status)
        log.warning(
            "Failed to bind pod",
            extra=kv(pod=placement.pod.key, node=placement.node, err=status.message),
        )
        self._reporter.failed(failure)


def _may_arrive(problem: Exception) -> bool:
    """Whether a binding that was answered so may have taken effect, or may later."""
    if isinstance(problem, ApiUnavailable):
        return problem.maybe_done
    return isinstance(problem, ServerError | TimeoutError)


def _bound_by(plugin: Any, status: Status) -> Status:
    if status.is_success:
        return SUCCESS
    return error(str(PluginError(plugin.name, "Bind", status.message)))


def _seen(placement: Placement, current: Pod | None, failure: Status) -> Status:
    """What became of a placement, going by the pod of that name as it is now."""
    pod, node = placement.pod, placement.node
    if current is None or current.uid != pod.uid:
        placement.is_lost = True
        return failure
    if current.spec.node_name == node:
        log.info(
            "Pod is bound to the node although the binding request failed",
            extra=kv(pod=pod.key, node=node, answer=failure.message),
        )
        return SUCCESS
    placement.is_lost = bool(current.spec.node_name)
    return failure


async def _ask(plugin: Any, method: str, point: str, placement: Placement) -> Status:
    """Call a binding point, and measure it if the decision was sampled or is traced."""
    trace: AttemptTrace | None = placement.queued.trace
    watch = placement.decision.cycle.watch
    observe = None if watch is None else watch.observe
    if trace is not None:
        now = trace.clock.monotonic
    elif watch is not None and observe is not None:
        now = watch.now
    else:
        return await _answer(plugin, method, point, placement)
    began, label = now(), Code.ERROR.label
    try:
        status = await _answer(plugin, method, point, placement)
        label = status.code.label
        return status
    finally:
        ended = now()
        if observe is not None:
            observe(plugin.name, point, label, ended - began)
        if trace is not None:
            trace.plugin(plugin.name, label, began, ended)


async def _answer(plugin: Any, method: str, point: str, placement: Placement) -> Status:
    """The answer of a binding point, which may be a coroutine function."""
    ask = getattr(plugin, method)
    answer = ask(*placement.arguments)
    if inspect.isawaitable(answer):
        answer = await answer
    return as_status(answer, plugin.name, point, ask)
