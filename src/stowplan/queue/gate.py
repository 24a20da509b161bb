"""Run the PreEnqueue plugins for a pod, and remember the ones to run again.

Called by the scheduling queue only. A gated pod waits for an event that its gating plugin
registered. A plugin that raised may have no such event, so it is run again after a delay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stowplan.clock import Clock
from stowplan.errors import PluginError
from stowplan.logs import V4, get_logger, kv
from stowplan.plugin_failures import PluginFailures
from stowplan.queue.pod import QueuedPod

log = get_logger(__name__)

PreEnqueue: TypeAlias = Callable[[QueuedPod], tuple[str, str] | None]
"""None if the pod may enter, else (plugin that keeps it out, why). `gating_plugin` of the pod is
the one that did so last: it is asked first."""

GATE_RETRY_S = 10.0
UNKNOWN_PLUGIN = "PreEnqueue"  # what keeps a pod out when an error does not name its plugin


class Gate:
    def __init__(self, pre_enqueue: PreEnqueue, clock: Clock, failures: PluginFailures) -> None:
        self._pre_enqueue = pre_enqueue
        self._failures = failures
        self._clock = clock
        self._retries: dict[str, float] = {}  # pod key -> when; the delay is fixed, so in order

    def admits(self, queued: QueuedPod) -> bool:
        """If not, the plugin that refused is among the pod's rejectors."""
        self._retries.pop(queued.key, None)
        try:
            refusal = self._pre_enqueue(queued)
        except Exception as error:
            plugin = error.plugin if isinstance(error, PluginError) else queued.gating_plugin
            refusal = (plugin or UNKNOWN_PLUGIN, str(error))
            self._retries[queued.key] = self._clock.monotonic() + GATE_RETRY_S
            self._failures.report(
                "A PreEnqueue plugin raised; the pod stays out until it is asked again",
                error,
                plugin=refusal[0],
                pod=queued.key,
                retry_in_s=GATE_RETRY_S,
            )
        if refusal is None:
            queued.gating_plugin = queued.gating_message = ""
            return True
        queued.gating_plugin, queued.gating_message = refusal
        log.log(
            V4,
            "Status after running PreEnqueue plugin",
            extra=kv(pod=queued.key, plugin=refusal[0], status=refusal[1]),
        )
        if queued.gating_plugin not in queued.pending_plugins:
            queued.unschedulable_plugins.add(queued.gating_plugin)
        return False

    def still_refuses(self, queued: QueuedPod) -> bool:
        """Whether the plugin that keeps a gated pod out does so now; if not, `admits` has more to
        say."""
        try:
            refusal = self._pre_enqueue(queued)
        except Exception:
            return False
        if refusal is None or refusal[0] != queued.gating_plugin:
            return False
        self._retries.pop(queued.key, None)
        queued.gating_message = refusal[1]
        return True

    def forget(self, key: str) -> None:
        self._retries.pop(key, None)

    def next_retry(self) -> float | None:
        return next(iter(self._retries.values()), None)

    def due(self) -> list[str]:
        """Keys of the pods to ask for again."""
        now = self._clock.monotonic()
        due: list[str] = []
        for key, when in self._retries.items():
            if when > now:
                break
            due.append(key)
        return due
