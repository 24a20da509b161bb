"""Reserve and Permit: the synchronous points between choosing a node and binding to it.

What a plugin raises here is left in `cycle.failures`, for the engine to log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.api.objects import Pod
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import as_status
from stowplan.framework.profile import Profile
from stowplan.framework.status import SUCCESS, Status, error, wait
from stowplan.framework.waiting import MAX_WAIT_S, WaitingPod
from stowplan.plugin_failures import plugin_error

_WAITING = "one or more plugins asked to wait and no plugin rejected pod"


def run_reserve(profile: Profile, cycle: Cycle, pod: Pod, node: str) -> Status:
    """Let plugins set aside what the pod will need; the first that fails ends it."""
    for plugin in profile.at("reserve"):
        if not hasattr(plugin, "reserve"):
            continue
        try:
            answer = _timed(plugin.reserve, plugin.name, "Reserve", cycle, pod, node)
            if answer is None:
                continue
            status = as_status(answer, plugin.name, "Reserve", plugin.reserve)
        except Exception as problem:
            return _broken(cycle, plugin.name, "Reserve", problem)
        if not status.is_success:
            return _worded(status.by(plugin.name), "Reserve")
    return SUCCESS


def run_unreserve(profile: Profile, cycle: Cycle, pod: Pod, node: str) -> None:
    """Undo Reserve in reverse order; plugins must bear being asked without having reserved."""
    for plugin in reversed(profile.at("reserve")):
        if hasattr(plugin, "unreserve"):
            try:
                _timed(plugin.unreserve, plugin.name, "Unreserve", cycle, pod, node)
            except Exception as problem:
                # The pod is queued again all the same.
                _broken(cycle, plugin.name, "Unreserve", problem)


def run_permit(
    profile: Profile, cycle: Cycle, pod: Pod, node: str, *, now: float
) -> tuple[Status, WaitingPod | None]:
    """Ask Permit plugins; with Wait comes the pod's handle, which they can allow or reject."""
    plugins = profile.at("permit")
    if not plugins:
        return SUCCESS, None
    deadlines: dict[str, float] = {}
    reasons: list[str] = []
    for plugin in plugins:
        try:
            answer = _timed(plugin.permit, plugin.name, "Permit", cycle, pod, node)
            answer, patience_s = answer if isinstance(answer, tuple) else (answer, MAX_WAIT_S)
            status = as_status(answer, plugin.name, "Permit", plugin.permit)
            if status.is_wait:
                deadlines[plugin.name] = now + min(patience_s, MAX_WAIT_S)
        except Exception as problem:
            return _broken(cycle, plugin.name, "Permit", problem), None
        if status.is_wait:
            reasons += status.reasons
        elif not status.is_success:
            return _worded(status.by(plugin.name), "Permit"), None
    if not deadlines:
        return SUCCESS, None
    return wait(*reasons, _WAITING), WaitingPod(pod, node, deadlines, started=now)


def _timed(
    method: Callable[..., Any], plugin: str, point: str, cycle: Cycle, pod: Pod, node: str
) -> Any:
    if cycle.watch is None:
        return method(cycle, pod, node)
    return cycle.watch.run(plugin, point, method, cycle, pod, node)


def _broken(cycle: Cycle, plugin: str, point: str, problem: Exception) -> Status:
    failure = plugin_error(plugin, point, problem)
    cycle.failures.append(failure)
    return error(str(failure))


def _worded(status: Status, point: str) -> Status:
    """Rejections keep their reasons; anything else is an error that names the plugin."""
    if status.is_rejected:
        return status
    return error(str(PluginError(status.plugin, point, status.message))).by(status.plugin)
