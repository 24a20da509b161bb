"""What waits to be scheduled, and why."""

from stowplan.queue.nominator import Nominator
from stowplan.queue.pod import PendingCounts, PendingPods, QueuedPod
from stowplan.queue.queue import SchedulingQueue

__all__ = ["Nominator", "PendingCounts", "PendingPods", "QueuedPod", "SchedulingQueue"]
