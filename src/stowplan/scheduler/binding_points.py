"""Calls of the plugins at PreBind, Bind and PostBind: awaited, measured, their errors described."""

from __future__ import annotations

import inspect
from typing import Any

from stowplan.errors import PluginError, StowplanError
from stowplan.framework.forms import as_status
from stowplan.framework.status import SUCCESS, Code, Status, error
from stowplan.plugin_failures import PluginFailures, plugin_error
from stowplan.scheduler.attempt_trace import AttemptTrace
from stowplan.scheduler.outcome import Placement


async def call_plugin(plugin: Any, method: str, point: str, placement: Placement) -> Status:
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


def bound_by(plugin: Any, status: Status) -> Status:
    """The status of a Bind plugin that did not skip."""
    if status.is_success:
        return SUCCESS
    return error(str(PluginError(plugin.name, "Bind", status.message)))


def broken(failures: PluginFailures, plugin: Any, point: str, problem: Exception) -> Status:
    """The status of a plugin that raised. Errors of the API server pass; others are defects."""
    if isinstance(problem, StowplanError) and not isinstance(problem, PluginError):
        return error(str(PluginError(plugin.name, point, str(problem))))
    failure = plugin_error(plugin.name, point, problem)
    failures.report("Plugin broke", failure, plugin=plugin.name, point=point)
    return error(str(failure))
