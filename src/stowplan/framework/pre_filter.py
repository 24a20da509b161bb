"""PreFilter: plugins look at the pod once, before any node; they may reject it or name a few nodes.

The cycle calls it as `Profile.pre_filter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stowplan.cluster.table import BoolArray
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.forms import as_status, failure_of
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.status import SKIP, Code, Status, unresolvable
from stowplan.plugin_failures import describe

if TYPE_CHECKING:
    from stowplan.framework.profile import Profile


def pre_filter(
    profile: Profile, cycle: Cycle, diagnosis: Diagnosis
) -> tuple[Status | None, BoolArray | None]:
    """The rejection, if any, and the only rows left to Filter; None: PreFilter left all nodes."""
    table = cycle.table
    rejection: Status | None = None
    names: frozenset[str] | None = None
    narrowed_by: set[str] = set()
    watch = cycle.watch
    for plugin, method in profile.pre_filters:
        try:
            if watch is None:
                answer = method(cycle)
            else:
                answer = watch.run(plugin, "PreFilter", method, cycle)
        except PluginError:
            raise
        except Exception as problem:
            raise PluginError(plugin, "PreFilter", describe(problem)) from problem
        if answer is None:
            continue
        if answer is SKIP:
            # The common case.
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
        status = as_status(answer, plugin, "PreFilter", method)
        if status.is_skip:
            cycle.skip_filter.add(plugin)
        elif status.code is Code.UNSCHEDULABLE:
            # The other plugins still run: preemption needs what they compute.
            rejection = status.by(plugin)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            rejection = status.by(plugin)
            narrowed_by.clear()
            break
        elif not status.is_success:
            raise failure_of(plugin, "PreFilter", status)
    diagnosis.unschedulable_plugins.update(narrowed_by)
    if rejection is not None:
        diagnosis.reject(rejection)
        diagnosis.absent = rejection
        diagnosis.pre_filter_message = rejection.message
        return rejection, None
    if names is None:
        return None, None
    narrowed = np.zeros(table.capacity, np.bool_)
    narrowed[[row for name in names if (row := table.live_row(name)) is not None]] = True
    return None, narrowed


def _no_common_node(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
