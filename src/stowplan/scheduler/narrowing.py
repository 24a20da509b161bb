"""PreFilter: plugins look at the pod once, before any node, and may leave few nodes to look at.

Part of the cycle, and as pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.cluster.table import BoolArray
from stowplan.errors import PluginError, StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import as_status, describe
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.profile import Profile
from stowplan.framework.status import SKIP, Code, Status, unresolvable
from stowplan.scheduler.decision import Diagnosis


def pre_filter(
    profile: Profile, cycle: Cycle, diagnosis: Diagnosis
) -> tuple[Status | None, BoolArray]:
    """The rejection, if any, and the rows that are worth filtering."""
    table = cycle.table
    rejection: Status | None = None
    names: frozenset[str] | None = None
    narrowed_by: set[str] = set()
    watch = cycle.watch
    for plugin, method in profile.pre_filters:
        try:
            answer = method(cycle) if watch is None else watch.run(plugin, method, cycle)
        except StowplanError:
            raise
        except Exception as problem:
            raise PluginError(plugin, "PreFilter", describe(problem)) from problem
        if answer is None:
            continue
        if answer is SKIP:
            # Most plugins, for most pods.
            cycle.skip_filter.add(plugin)
            continue
        if isinstance(answer, PreFilterResult):
            if answer.nodes is not None:
                narrowed_by.add(plugin)
                names = answer.nodes if names is None else names & answer.nodes
                if not names:
                    rejection = unresolvable(_no_common_node(sorted(narrowed_by)))
                    break
            continue
        status = as_status(answer, plugin, "PreFilter")
        if status.is_skip:
            cycle.skip_filter.add(plugin)
        elif status.code is Code.UNSCHEDULABLE:
            # The rest still runs: making room by preemption needs what it computes.
            rejection = status.by(plugin)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            rejection = status.by(plugin)
            narrowed_by.clear()
            break
        elif not status.is_success:
            raise PluginError(plugin, "PreFilter", status.message)
    diagnosis.unschedulable_plugins.update(narrowed_by)
    candidates = table.valid
    if rejection is not None:
        diagnosis.reject(rejection)
        diagnosis.absent = rejection
        diagnosis.pre_filter_message = rejection.message
    elif names is not None:
        candidates = np.zeros(table.capacity, np.bool_)
        rows = [row for name in names if (row := table.live_row(name)) is not None]
        candidates[rows] = True
    return rejection, candidates


def _no_common_node(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
