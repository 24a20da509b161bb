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

from stowplan.api.client import ApiClient
from stowplan.api.resources import PODS
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    Forbidden,
    NotFound,
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
from stowplan.scheduler.reporter import Reporter

log = get_logger(__name__)

#: After these nobody knows whether the binding took effect.
_UNCLEAR = (Conflict, ServerError, Throttled, ApiUnavailable, TimeoutError)
#: Pauses between looking up a pod whose binding got no clear answer.
_LOOK_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class Binder:
    """Runs binding cycles."""

    def __init__(self, engine: Engine, client: ApiClient, reporter: Reporter) -> None:
        self._engine = engine
        self._client = client
        self._reporter = reporter

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
            self._failed(placement, status)

    async def _bind(self, placement: Placement) -> Status:
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement, placement.waiting)
            if not status.is_success:
                return status
        self._engine.permitted(placement)
        status = await self._pre_bind(placement)
        return await self._run_bind_plugins(placement) if status.is_success else status

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

    async def _pre_bind(self, placement: Placement) -> Status:
        for plugin in placement.profile.at("preBind"):
            try:
                status = await _ask(plugin, "pre_bind", "PreBind", placement)
            except Exception as problem:
                return _broken(plugin, "PreBind", problem)
            if not status.is_success:
                # After Permit a refusal is an error: nothing but time can help.
                return error(str(PluginError(plugin.name, "PreBind", status.message)))
        return SUCCESS

    async def _run_bind_plugins(self, placement: Placement) -> Status:
        """The first plugin that does not skip binds."""
        for plugin in placement.profile.at("bind"):
            try:
                status = await _ask(plugin, "bind", "Bind", placement)
            except Exception as problem:
                failure = _broken(plugin, "Bind", problem)
                if isinstance(problem, _UNCLEAR):
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
                current = await self._client.get(
                    PODS, pod.metadata.name, namespace=pod.metadata.namespace
                )
            except (NotFound, Unauthorized, Forbidden):
                return failure
            except (ApiError, ApiUnavailable, TimeoutError):
                await asyncio.sleep(_LOOK_AGAIN_S[min(attempt, len(_LOOK_AGAIN_S) - 1)])
                continue
            if current.uid == pod.uid and current.spec.node_name == node:
                log.info(
                    "Binding had taken effect although its answer was lost",
                    extra=kv(pod=pod.key, node=node, answer=failure.message),
                )
                return SUCCESS
            return failure
        raise AssertionError("unreachable")

    # The end

    def _succeeded(self, placement: Placement) -> None:
        self._engine.bound(placement)
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
    answer = getattr(plugin, method)(placement.decision.cycle, placement.pod, placement.node)
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
