"""The binding cycle: wait for Permit, PreBind, Bind, PostBind; one task a pod.

What must stay true: every placement ends bound once or queued again, whatever the API server or a
plugin does. A binding request without a clear answer may have taken effect, so the pod is looked
up before anything else is done with it, for as long as that takes.
"""

from __future__ import annotations

import asyncio
import inspect
from itertools import count
from typing import Any

from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.api.verbs import SchedulerApi
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    ExtenderError,
    Forbidden,
    PluginError,
    ServerError,
    StowplanError,
    Throttled,
    Unauthorized,
)
from stowplan.framework.forms import as_status, describe
from stowplan.framework.status import SUCCESS, Status, error
from stowplan.framework.waiting import WaitingPod
from stowplan.logs import V2, get_logger, kv
from stowplan.scheduler.engine import Engine, Failure, Placement
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.reporter import Reporter
from stowplan.scheduler.stillness import Stillness

log = get_logger(__name__)

#: After these nobody knows whether the binding took effect.
_UNCLEAR = (Conflict, ServerError, Throttled, ApiUnavailable, TimeoutError)
#: Pauses between looking up a pod whose binding got no clear answer.
_LOOK_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)


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

    async def run(self, placement: Placement) -> None:
        """Take a placement to its end."""
        try:
            status = await self._bind(placement)
        except asyncio.CancelledError:
            # Only a process that is going down cancels; what it leaves behind, a restart finds.
            raise
        except Exception as problem:
            log.exception("Binding cycle broke", extra=kv(pod=placement.pod.key))
            status = error(describe(problem))
        if status.is_success:
            self._succeeded(placement)
            await self._post_bind(placement)
        else:
            self._stillness.do(self._failed, placement, status)

    async def _bind(self, placement: Placement) -> Status:
        pre_bind, status = self._pre_flight(placement)
        if not status.is_success:
            return status
        await self._reporter.fall_silent(placement.pod)
        if pre_bind or placement.waiting is not None:
            # It will take a while: whoever looks (an autoscaler) should know where the pod goes.
            await self._reporter.expected(placement)
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement, placement.waiting)
            if not status.is_success:
                return status
        self._engine.permitted(placement)
        if pre_bind:
            status = await self._pre_bind_unless_preempted(placement, pre_bind)
            if not status.is_success:
                return status
        by_extender = await self._bind_by_extender(placement)
        return await self._run_bind_plugins(placement) if by_extender is None else by_extender

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
        waited = clock.monotonic() - started
        self._engine.metrics.permit_wait_duration.at(waiting.status.code.label).observe(waited)
        return waiting.status

    # PreBind, Bind, PostBind

    def _pre_flight(self, placement: Placement) -> tuple[list[Any], Status]:
        """The PreBind plugins that have something to do for this pod."""
        busy: list[Any] = []
        for plugin in placement.profile.at("preBind"):
            ask = getattr(plugin, "pre_bind_pre_flight", None)
            try:
                answer = ask(*placement.arguments) if ask is not None else None
                status = as_status(answer, plugin.name, "PreBindPreFlight")
            except Exception as problem:
                return [], _broken(plugin, "PreBindPreFlight", problem)
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
            except Exception as problem:
                return _broken(plugin, "PreBind", problem)
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
                await self._extenders.bind(extender, placement.pod, placement.node)
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
            except Exception as problem:
                failure = _broken(plugin, "Bind", problem)
                if isinstance(problem, _UNCLEAR):
                    # A conflict says that this request did nothing: whose did?
                    placement.is_bound_by_other = isinstance(problem, Conflict)
                    return await self._look(placement, failure)
                return failure
            if status.is_skip:
                continue
            if not status.is_success:
                return error(str(PluginError(plugin.name, "Bind", status.message)))
            return SUCCESS
        return error("no Bind plugin took the pod")

    async def _post_bind(self, placement: Placement) -> None:
        for plugin in placement.profile.at("postBind"):
            try:
                await _ask(plugin, "post_bind", "PostBind", placement)
            except Exception:
                log.exception(
                    "PostBind failed; the pod is bound all the same",
                    extra=kv(plugin=plugin.name, pod=placement.pod.key),
                )

    # No clear answer

    async def _look(self, placement: Placement, failure: Status) -> Status:
        """Find out whether a binding took effect that was not clearly answered."""
        pod, node = placement.pod, placement.node
        for attempt in count():
            try:
                current = await self._find(pod)
            except (Unauthorized, Forbidden):
                return failure
            except (ApiError, ApiUnavailable, TimeoutError):
                await asyncio.sleep(_LOOK_AGAIN_S[min(attempt, len(_LOOK_AGAIN_S) - 1)])
                continue
            if current is None:
                placement.is_lost = True
                return failure
            if current.uid == pod.uid and current.spec.node_name == node:
                log.info(
                    "Pod is bound to the node although the request was not answered so",
                    extra=kv(pod=pod.key, node=node, answer=failure.message),
                )
                return SUCCESS
            placement.is_lost = current.uid != pod.uid or bool(current.spec.node_name)
            return failure
        raise AssertionError("unreachable")

    async def _find(self, pod: Pod) -> Pod | None:
        """The pod of that name as it is now; by a list of one, for whoever may list may not get."""
        found = await self._client.list_all(
            PODS,
            namespace=pod.metadata.namespace,
            field_selector=f"metadata.name={pod.metadata.name}",
        )
        if found.undecodable:
            raise ApiUnavailable(f"pod {pod.key} cannot be read")
        return next(iter(found.items), None)

    # The end

    def _succeeded(self, placement: Placement) -> None:
        self._engine.bound(placement)
        if not placement.is_bound_by_other:
            self._reporter.bound(placement)
        decision = placement.decision
        log.log(
            V2,
            "Successfully bound pod to node",
            extra=kv(
                pod=placement.pod.key,
                node=placement.node,
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


async def _ask(plugin: Any, method: str, point: str, placement: Placement) -> Status:
    """Call a binding point, which may be a coroutine function."""
    answer = getattr(plugin, method)(*placement.arguments)
    if inspect.isawaitable(answer):
        answer = await answer
    return as_status(answer, plugin.name, point)


def _broken(plugin: Any, point: str, problem: Exception) -> Status:
    """A plugin raised. What the API server said is said again; all else is a defect."""
    if isinstance(problem, PluginError):
        return error(str(problem))
    if isinstance(problem, StowplanError):
        return error(str(PluginError(plugin.name, point, str(problem))))
    log.error("Plugin broke", exc_info=problem, extra=kv(plugin=plugin.name, point=point))
    return error(str(PluginError(plugin.name, point, describe(problem))))
