"""Why a process does not schedule, for the JSON API and for the console."""

from __future__ import annotations

from stowplan.scheduler.process import SchedulerProcess


def why_idle(process: SchedulerProcess) -> str:
    """Why the process does not schedule; "" if it does."""
    elector = process.elector
    if process.scheduling.is_set():
        return ""
    if elector is None or elector.is_leader:
        return "this replica does not schedule yet: it has not read the cluster"
    if not elector.leader:
        return "this replica does not schedule: it is a standby, and has seen no leader yet"
    return (
        f"this replica does not schedule: it is a standby, and {elector.leader} holds the lease."
        " Fix: ask that replica"
    )
