"""The binding cycle of a pod, in its own task: wait for Permit, then PreBind, Bind, PostBind.

Invariant: every placement ends bound once or queued again, whatever the API server or a plugin
does. A binding request without a clear response may have taken effect, or may take effect later. It
is retried until the response is definite (`binding_retries`), and the pod stays assumed until then.
If a retry could do harm (extenders, plugins that do not declare otherwise), the pod is looked up
instead. Only lost leadership leaves a placement unfinished: the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from stowplan.api.verbs import SchedulerApi
from stowplan.errors import Conflict, ExtenderError, LeadershipLost, PluginError
from stowplan.framework.forms import as_status
from stowplan.framework.status import SKIP, SUCCESS, Status, error
from stowplan.framework.waiting import WaitingPod
from stowplan.logs import V2, Plain, get_logger, kv
from stowplan.plugin_failures import describe
from stowplan.scheduler.binding_points import bound_by, broken, call_plugin
from stowplan.scheduler.binding_retries import UNCLEAR, BindingRetries
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.reporter import Reporter
from stowplan.scheduler.stillness import Stillness

log = get_logger(__name__)

#: PreBind may take so long before the pod's node is published.
_PUBLISH_S = 5.0


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
        self._reporter = reporter
        self._stillness = stillness or Stillness()
        self._extenders = extenders
        self.retries = BindingRetries(engine, client, reporter)

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
        engine, is_timed = self._engine, self._is_timed(placement)
        began = engine.clock.monotonic() if is_timed else 0.0
        pre_bind, status = self._pre_flight(placement)
        if is_timed:
            verdict = SKIP if status.is_success and not pre_bind else status
            self._observe("PreBindPreFlight", verdict, placement, began)
        if not status.is_success:
            return status
        await self._reporter.fall_silent(placement.pod)
        is_quick = all(plugin.pre_bind_is_quick for plugin in pre_bind)
        if placement.waiting is not None or not is_quick:
            # Binding will take a while, so publish the node for observers such as an autoscaler.
            await self._reporter.expected(placement)
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement, placement.waiting)
            if not status.is_success:
                return status
        engine.permitted(placement)
        if pre_bind:
            busy = self._pre_bind_unless_preempted(placement, pre_bind)
            if is_quick and placement.waiting is None:
                busy = self._published_late(placement, busy)
            status = await self._timed("PreBind", placement, busy)
            if not status.is_success:
                return status
        elif is_timed:
            self._observe("PreBind", SUCCESS, placement, engine.clock.monotonic())
        by_extender = await self._bind_by_extender(placement)
        if by_extender is not None:
            return by_extender
        return await self._timed("Bind", placement, self._run_bind_plugins(placement))

    def _is_timed(self, placement: Placement) -> bool:
        """Whether something shows how long the extension points of this pod take."""
        queued = placement.queued
        is_kept = queued.trace is not None or queued.record is not None
        return is_kept or self._engine.observes_durations

    async def _timed(self, point: str, placement: Placement, work: Awaitable[Status]) -> Status:
        """Wait for an extension point and count how long it takes."""
        if not self._is_timed(placement):
            return await work
        began, status = self._engine.clock.monotonic(), error("")
        try:
            status = await work
            return status
        finally:
            self._observe(point, status, placement, began)

    def _observe(self, point: str, status: Status, placement: Placement, began: float) -> None:
        queued = placement.queued
        now, label = self._engine.clock.monotonic(), status.code.label
        self._engine.metrics.point_ended(point, label, placement.profile.name, now - began)
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
                return [], broken(self._engine.failures, plugin, "PreBindPreFlight", problem)
            if status.is_success:
                busy.append(plugin)
            elif not status.is_skip:
                return [], error(str(PluginError(plugin.name, "PreBindPreFlight", status.message)))
        return busy, SUCCESS

    async def _published_late(self, placement: Placement, busy: Awaitable[Status]) -> Status:
        """Wait for PreBind, and publish the node if that takes long.

        DIVERGES: kube-scheduler publishes the node of every pod that PreBind plugins work for.
        Where all of them are quick, as with device claims, the binding shows it a moment later.
        """
        loop = asyncio.get_running_loop()
        published: list[asyncio.Task[None]] = []

        def publish() -> None:
            published.append(loop.create_task(self._reporter.expected(placement)))

        timer = loop.call_later(_PUBLISH_S, publish)
        try:
            return await busy
        finally:
            timer.cancel()
            if published:  # It must not arrive after the binding.
                await asyncio.wait(published)

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
                status = await call_plugin(plugin, "pre_bind", "PreBind", placement)
            except LeadershipLost:
                raise
            except Exception as problem:
                return broken(self._engine.failures, plugin, "PreBind", problem)
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
                    return await self.retries.look(placement, error(str(problem)))
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
                status = await call_plugin(plugin, "bind", "Bind", placement)
            except LeadershipLost:
                raise
            except Exception as problem:
                if not isinstance(problem, UNCLEAR):
                    return broken(self._engine.failures, plugin, "Bind", problem)
                if plugin.bind_is_idempotent:
                    return await self.retries.settle(plugin, placement, problem)
                # A conflict says that this request did nothing: whose did?
                placement.is_bound_by_other = isinstance(problem, Conflict)
                failure = broken(self._engine.failures, plugin, "Bind", problem)
                return await self.retries.look(placement, failure)
            if status.is_skip:
                continue
            return bound_by(plugin, status)
        return error("no Bind plugin took the pod")

    async def _post_bind(self, placement: Placement) -> None:
        is_timed = self._is_timed(placement)
        began = self._engine.clock.monotonic() if is_timed else 0.0
        for plugin in placement.profile.at("postBind"):
            try:
                await call_plugin(plugin, "post_bind", "PostBind", placement)
            except Exception as problem:
                self._engine.failures.report(
                    "PostBind failed; the pod is bound anyway",
                    problem,
                    plugin=plugin.name,
                    pod=placement.pod.key,
                )
        if is_timed:
            self._observe("PostBind", SUCCESS, placement, began)

    # The end

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
