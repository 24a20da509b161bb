"""What exactly keeps a pod away from one node: every plugin's objection, with its numbers.

A scheduling attempt stops at the first filter that refuses a node. Here all filters are asked, so
that removing one obstacle does not only reveal the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.errors import StowplanError
from stowplan.explain import device_details, node_details, pod_details, volume_details
from stowplan.explain.explanation import NodeAnswer
from stowplan.explain.facts import Obstacle
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.profile import Profile

#: How many of a pod's objections to list for one node.
_MOST: Final = 8
#: How many objections one of these plugins counts for.
_DISTANCE: Final = {"NodeAffinity": 10, "NodeName": 100}
#: Adds what is behind the reason, in words and as data.
_Detail: TypeAlias = Callable[[Cycle, int, Obstacle, Catalog], Obstacle]


def nearest_rows(profile: Profile, diagnosis: Diagnosis, count: int) -> list[int]:
    """The rows that lack least: fewest objections first, then the smallest share that is short.

    A node that the pod's selector does not mean is further away than any that it means.
    """
    cycle = diagnosis.cycle
    table = cycle.table
    rows = table.live_rows
    objections = np.zeros(table.capacity, np.int32)
    if diagnosis.candidates is not None:
        objections[rows] += ~diagnosis.candidates[rows]
    for step in profile.filters:
        if step.name in cycle.skip_filter:
            continue
        verdicts = np.zeros(table.capacity, np.int32)
        try:
            step.fill(cycle, rows, verdicts)
        except StowplanError:
            continue  # the reason is in the decision
        objections[rows] += (verdicts[rows] != 0) * _DISTANCE.get(step.name, 1)
    order = np.lexsort((rows, _shortage(cycle, rows), objections[rows]))
    return [int(row) for row in rows[order[:count]]]


def _shortage(cycle: Cycle, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How much of the pod's largest shortfall is missing on each row, as a share of its request."""
    table = cycle.table
    worst = np.zeros(len(rows), np.float64)
    for name, amount in cycle.info.request:
        if amount > 0:
            free = table.resources.offered(name)[rows] - table.resources.held(name)[rows]
            np.maximum(worst, (amount - free) / amount, out=worst)
    return worst


def obstacles_of(profile: Profile, diagnosis: Diagnosis, row: int) -> NodeAnswer:
    """A node with everything that speaks against it, and the details of each objection."""
    found = objections(profile, diagnosis, row)
    cycle = diagnosis.cycle
    detailed = tuple(_detailed(profile, cycle, row, each) for each in found)
    return NodeAnswer(cycle.table.names[row], detailed)


def objections(profile: Profile, diagnosis: Diagnosis, row: int) -> list[Obstacle]:
    """Everything that speaks against a node."""
    cycle = diagnosis.cycle
    found: list[Obstacle] = []
    if diagnosis.candidates is not None and not diagnosis.candidates[row]:
        status = diagnosis.absent
        found.append(Obstacle(status.plugin, status.message or "excluded by PreFilter"))
    for step in profile.filters:
        if step.name in cycle.skip_filter:
            continue
        try:
            status = step.status_of_row(cycle, row)
        except StowplanError as problem:
            found.append(Obstacle(step.name, str(problem)))
            continue
        if not status.is_success:
            reason = ", ".join(list(status.reasons)[:_MOST])
            found.append(Obstacle(step.name, reason))
    if not found and row in diagnosis.overrides:
        status = diagnosis.overrides[row]
        found.append(Obstacle(status.plugin, status.message))
    return found


def detail_on(profile: Profile, cycle: Cycle, row: int, plugin: str) -> Obstacle:
    """What is behind one plugin's objection to a row."""
    return _detailed(profile, cycle, row, Obstacle(plugin, ""))


def _detailed(profile: Profile, cycle: Cycle, row: int, found: Obstacle) -> Obstacle:
    add = _DETAILS.get(found.plugin)
    if add is None:
        return found
    try:
        return add(cycle, row, found, profile.plugins[found.plugin].handle.catalog)
    except (StowplanError, ValueError):
        return found  # an object that the plugin cannot read either; the reason says so


_DETAILS: Final[dict[str, _Detail]] = {
    "NodeResourcesFit": node_details.resources,
    "NodeUnschedulable": node_details.cordon,
    "TaintToleration": node_details.taints,
    "NodeAffinity": node_details.selector,
    "NodePorts": node_details.ports,
    "InterPodAffinity": pod_details.affinity,
    "PodTopologySpread": pod_details.spread,
    "DynamicResources": device_details.devices,
    "VolumeBinding": volume_details.binding,
    "VolumeZone": volume_details.zone,
    "NodeVolumeLimits": volume_details.limits,
    "VolumeRestrictions": volume_details.restrictions,
}
