"""PostFilter: no node fits the pod, so plugins may make room for it.

Part of the cycle, and as pure: the result names the effects, and the loop carries them out.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from stowplan.errors import PluginError, StowplanError
from stowplan.framework.candidates import Candidates, PostFilterSteps
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.forms import as_status, call
from stowplan.framework.plugin import Effect, PostFilterResult
from stowplan.framework.status import Code, Status, error
from stowplan.plugin_failures import describe
from stowplan.scheduler.extender_requests import Answer, Extender, Request
from stowplan.scheduler.extender_victims import ask_about_victims


def make_room(
    plugins: Sequence[Any],
    cycle: Cycle,
    diagnosis: Diagnosis,
    extenders: Sequence[Extender] = (),
) -> Generator[Request, Answer, PostFilterResult]:
    """Ask one plugin after the other; the reasons of all that could not help come together."""
    reasons: list[str] = []
    nominated_node: str | None = None
    effect: Effect | None = None
    for plugin in plugins:
        result = yield from _ask(plugin, cycle, diagnosis, extenders)
        effect = effect or result.effect
        status = result.status
        if not status.is_rejected or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            # Success, "never" and an error end it, and speak for themselves alone.
            nominated_node = None if status.code is Code.ERROR else result.nominated_node
            return PostFilterResult(status, nominated_node, result.eviction, effect)
        reasons += status.reasons
        if result.nominated_node is not None:
            nominated_node = result.nominated_node
    status = Status(Code.UNSCHEDULABLE, tuple(reasons))
    return PostFilterResult(status, nominated_node, effect=effect)


def _ask(
    plugin: Any, cycle: Cycle, diagnosis: Diagnosis, extenders: Sequence[Extender]
) -> Generator[Request, Answer, PostFilterResult]:
    """A plugin that breaks here does not change that, and why, the pod fits nowhere."""
    try:
        if extenders and hasattr(plugin, "post_filter_steps"):
            return (yield from _ask_step_by_step(plugin, cycle, diagnosis, extenders))
        ask = plugin.post_filter
        if cycle.watch is not None:
            ask = partial(cycle.watch.run, plugin.name, "PostFilter", ask)
        answer = call(ask, plugin.name, "PostFilter", cycle, diagnosis)
        if isinstance(answer, PostFilterResult):
            return answer
        return PostFilterResult(as_status(answer, plugin.name, "PostFilter", plugin.post_filter))
    except StowplanError as problem:
        if isinstance(problem, PluginError):
            cycle.failures.append(problem)
        return PostFilterResult(error(str(problem)))


def _ask_step_by_step(
    plugin: Any, cycle: Cycle, diagnosis: Diagnosis, extenders: Sequence[Extender]
) -> Generator[Request, Answer, PostFilterResult]:
    """Whatever the plugin has in mind, extenders hear of it before it chooses."""
    steps: PostFilterSteps = plugin.post_filter_steps(cycle, diagnosis)
    left: Candidates | Status | None = None
    while True:
        try:
            candidates = next(steps) if left is None else steps.send(left)
        except StopIteration as finished:
            result: PostFilterResult = finished.value
            return result
        except Exception as problem:
            raise PluginError(plugin.name, "PostFilter", describe(problem)) from problem
        left = yield from ask_about_victims(extenders, candidates, cycle)
