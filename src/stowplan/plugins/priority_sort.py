"""PrioritySort: higher priority first, then the pod that was queued first."""

from __future__ import annotations

from stowplan.framework.plugin import Plugin
from stowplan.queue.pod import QueuedPod


class PrioritySort(Plugin):
    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Smaller is popped first."""
        return (-queued.pod.priority, queued.timestamp)
