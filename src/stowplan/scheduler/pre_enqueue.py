"""PreEnqueue: which plugin, if any, keeps a pod out of the active queue.

Called by the queue whenever a pod could become active.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from stowplan.clock import Clock
from stowplan.framework.forms import as_status, call
from stowplan.framework.profile import Profile
from stowplan.framework.status import SUCCESS, Code
from stowplan.logs import get_logger, kv
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.attempt_metrics import AttemptMetrics

log = get_logger(__name__)


class PreEnqueue:
    """Runs the PreEnqueue plugins of all profiles."""

    def __init__(
        self, profiles: Mapping[str, Profile], metrics: AttemptMetrics, clock: Clock
    ) -> None:
        self._profiles = profiles
        self._metrics = metrics
        self._clock = clock

    def run(self, queued: QueuedPod) -> tuple[str, str] | None:
        """The first plugin that keeps the pod out, and why; None admits it."""
        profile = self._profiles[queued.scheduler_name]
        plugins = profile.at("preEnqueue")
        if queued.gating_plugin:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != queued.gating_plugin)
        watch = self._metrics.pre_enqueue_watch()
        began = self._clock.monotonic()
        try:
            for plugin in plugins:
                ask = plugin.pre_enqueue
                if watch is not None:
                    ask = partial(watch.run, plugin.name, "PreEnqueue", ask)
                answer = call(ask, plugin.name, "PreEnqueue", queued.pod)
                if answer is None:
                    continue
                status = as_status(answer, plugin.name, "PreEnqueue", plugin.pre_enqueue)
                if status.code is Code.ERROR:
                    log.error(
                        "Unexpected error running PreEnqueue plugin",
                        extra=kv(pod=queued.key, plugin=plugin.name, err=status.message),
                    )
                if not status.is_success:
                    return plugin.name, status.message
            return None
        finally:
            # kube-scheduler's label is always Success here, also for a pod that is kept out.
            self._metrics.point_ended("PreEnqueue", SUCCESS, profile, began)
