"""Reserve and Permit: the synchronous points between choosing a node and binding to it."""

from __future__ import annotations

from stowplan.api.objects import Pod
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import as_status, describe
from stowplan.framework.profile import Profile
from stowplan.framework.status import SUCCESS, Status, error, wait
from stowplan.framework.waiting import MAX_WAIT_S, WaitingPod
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_WAITING = "one or more plugins asked to wait and no plugin rejected pod"


def run_reserve(profile: Profile, cycle: Cycle, pod: Pod, node: str) -> Status:
    """Let plugins set aside what the pod will need; the first that fails ends it."""
    for plugin in profile.at("reserve"):
        if not hasattr(plugin, "reserve"):
            continue
        try:
            status = as_status(plugin.reserve(cycle, pod, node), plugin.name, "Reserve")
        except Exception as problem:
            return _broken(plugin.name, "Reserve", problem)
        if not status.is_success:
            return _worded(status.by(plugin.name), "Reserve")
    return SUCCESS


def run_unreserve(profile: Profile, cycle: Cycle, pod: Pod, node: str) -> None:
    """Undo Reserve in reverse order; plugins must bear being asked without having reserved."""
    for plugin in reversed(profile.at("reserve")):
        if hasattr(plugin, "unreserve"):
            try:
                plugin.unreserve(cycle, pod, node)
            except Exception:
                log.exception(
                    "Unreserve failed; the pod is queued again all the same",
                    extra=kv(plugin=plugin.name, pod=pod.key),
                )


def run_permit(
    profile: Profile, cycle: Cycle, pod: Pod, node: str, *, now: float
) -> tuple[Status, WaitingPod | None]:
    """Ask Permit plugins; with Wait comes the pod's handle, which they can allow or reject."""
    deadlines: dict[str, float] = {}
    reasons: list[str] = []
    for plugin in profile.at("permit"):
        try:
            answer = plugin.permit(cycle, pod, node)
            answer, patience_s = answer if isinstance(answer, tuple) else (answer, MAX_WAIT_S)
            status = as_status(answer, plugin.name, "Permit")
            if status.is_wait:
                deadlines[plugin.name] = now + min(patience_s, MAX_WAIT_S)
        except Exception as problem:
            return _broken(plugin.name, "Permit", problem), None
        if status.is_wait:
            reasons += status.reasons
        elif not status.is_success:
            return _worded(status.by(plugin.name), "Permit"), None
    if not deadlines:
        return SUCCESS, None
    return wait(*reasons, _WAITING), WaitingPod(pod, node, deadlines, started=now)


def _broken(plugin: str, point: str, problem: Exception) -> Status:
    log.error("Plugin broke", exc_info=problem, extra=kv(plugin=plugin, point=point))
    if not isinstance(problem, PluginError):
        problem = PluginError(plugin, point, describe(problem))
    return error(str(problem))


def _worded(status: Status, point: str) -> Status:
    """Rejections keep their reasons; anything else is an error that names the plugin."""
    if status.is_rejected:
        return status
    return error(str(PluginError(status.plugin, point, status.message))).by(status.plugin)
