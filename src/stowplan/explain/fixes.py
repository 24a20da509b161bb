"""`explain --fix`: the smallest changes that would place a pod, each tried by the real decision.

For each of the nearest nodes every obstacle has changes that remove it; one for each obstacle are a
plan. A plan is a fix only if the pod fits on some node once it is applied to the cluster,
which is then restored. The search is bounded by nodes, plans and time, and the cheapest fixes are
shown first. What no change of these kinds can cure (a missing claim, a broken plugin) has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Final

from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS
from stowplan.clock import Clock
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.work import DecisionDeferred
from stowplan.explain import (
    device_changes,
    evictions,
    node_changes,
    pod_changes,
    volume_changes,
)
from stowplan.explain.change import Change, Make, combined, with_spec
from stowplan.explain.explanation import Fix
from stowplan.explain.new_node import new_node
from stowplan.explain.obstacles import nearest_rows, objections
from stowplan.explain.reasoning import Explainer
from stowplan.framework.profile import Profile
from stowplan.judge.objects import Key, Thing, thing_of
from stowplan.scheduler.decision import Decision

#: Bounds of the search.
NEAREST: Final = 24
MOST_PLANS: Final = 60
SEARCH_S: Final = 2.0
MOST_FIXES: Final = 5
#: Fixes of one kind differ only in the node.
_MOST_ALIKE: Final = 2

#: What can be done about a plugin's objection to a node.
_CURES: Final[dict[str, tuple[Make, ...]]] = {
    "NodeUnschedulable": (node_changes.uncordon,),
    "TaintToleration": (pod_changes.tolerate, node_changes.remove_taints),
    "NodeAffinity": (node_changes.label_node,),
    "NodeResourcesFit": (pod_changes.lower_requests, evictions.make_room),
    "NodePorts": (evictions.free_ports,),
    "PodTopologySpread": (pod_changes.relax_spread, node_changes.label_for_spread),
    "InterPodAffinity": (pod_changes.relax_affinity, evictions.part_pods),
    "VolumeRestrictions": (evictions.free_claims,),
    "NodeVolumeLimits": (evictions.detach_volumes,),
    "VolumeBinding": (volume_changes.move_volumes,),
    "VolumeZone": (volume_changes.move_volumes,),
    "DynamicResources": (
        device_changes.free_devices,
        device_changes.relax_selector,
        device_changes.tolerate_device_taints,
        device_changes.ask_for_fewer,
    ),
}
#: Combinations that are tried for one node.
_MOST_COMBINED: Final = 8


def find_fixes(explainer: Explainer, thing: Thing, clock: Clock) -> tuple[Fix, ...]:
    """Up to `MOST_FIXES` changes that would place the pod, cheapest first."""
    found = proven_changes(explainer, thing, clock)
    return tuple(Fix(each.kind, each.text, node, each.command) for each, node in found)


def proven_changes(explainer: Explainer, thing: Thing, clock: Clock) -> list[tuple[Change, str]]:
    """The changes themselves, each with the node that the pod would go to."""
    deadline = clock.monotonic() + SEARCH_S
    found = []
    for tried in tried_changes(explainer, thing):
        if tried is not None:
            found.append(tried)
        if clock.monotonic() > deadline:
            break
    return found


def tried_changes(explainer: Explainer, thing: Thing) -> Iterator[tuple[Change, str] | None]:
    """The same in steps of one decision, without a limit of time; None: a step without a fix.

    After each step the cluster is as it was, and may change before the next.
    """
    with explainer.judged(thing) as decision:
        if decision.feasible_nodes:
            return
        catalog = explainer.cluster.cache.catalog
        plans = list(_plans(explainer.profile_for(thing.struct), decision, catalog))
    yield None
    found: list[Change] = []
    kinds: Counter[str] = Counter()
    for plan in sorted(plans, key=lambda each: each.cost)[:MOST_PLANS]:
        if len(found) == MOST_FIXES:
            break
        if kinds[plan.kind] == _MOST_ALIKE or any(plan.contains(each) for each in found):
            continue  # a smaller change does it
        node = _node_if_applied(explainer, thing, plan)
        while node:
            yield None
            for smaller in plan.smaller():
                enough = _node_if_applied(explainer, thing, smaller)
                if enough:
                    plan, node = smaller, enough
                    break
                yield None
            else:
                break
        if not node or kinds[plan.kind] == _MOST_ALIKE:
            yield None
        elif not any(plan.contains(each) for each in found):
            kinds[plan.kind] += 1
            found.append(plan)
            yield plan, node


def _plans(profile: Profile, decision: Decision, catalog: Catalog) -> Iterator[Change]:
    cycle, diagnosis = decision.cycle, decision.diagnosis
    if diagnosis is None:
        return
    if diagnosis.candidates is None and len(cycle.table):
        missing = device_changes.create_class(diagnosis)
        if missing is not None:
            yield missing
        return
    for row in nearest_rows(profile, diagnosis, NEAREST) if len(cycle.table) else ():
        plugins = {each.plugin for each in objections(profile, diagnosis, row)}
        if "NodeUnschedulable" in plugins:
            plugins.discard("TaintToleration")  # uncordoning removes the taint as well
        if {"VolumeBinding", "VolumeZone"} <= plugins:
            plugins.discard("VolumeZone")  # the same volume, moved once
        choices = [
            [made for make in _CURES.get(each, ()) if (made := make(cycle, row, catalog))]
            for each in sorted(plugins)
        ]
        for chosen in islice(product(*choices), _MOST_COMBINED) if choices else ():
            node = cycle.table.node(row)
            yield combined(cycle.pod, node, chosen) if len(chosen) > 1 else chosen[0]
    new = new_node(cycle, catalog)
    if new is not None:
        yield new


def _node_if_applied(explainer: Explainer, thing: Thing, plan: Change) -> str:
    """The node that the pod would go to; empty if it fits nowhere. The cluster is restored."""
    cluster = explainer.cluster
    victims = [thing_of(PODS, victim).key for victim in plan.victims]
    if any(key not in cluster.things for key in victims):
        return ""  # gone since the search began
    keys: list[Key] = []
    before: list[Thing | None] = []

    def remember(key: Key) -> None:
        keys.append(key)
        before.append(cluster.things.get(key))

    try:
        if plan.node is not None:
            changed = thing_of(NODES, plan.node)
            remember(changed.key)
            cluster.put(changed)
        for kind, item in plan.objects:
            other = thing_of(kind, item)
            remember(other.key)
            cluster.put(other)
        for key in victims:
            remember(key)
            cluster.remove(key)
        asked = thing if plan.pod is None else replace(thing, struct=_same_pod(thing, plan.pod))
        with explainer.judged(asked) as decision:
            return decision.node or ""
    except DecisionDeferred:
        return ""  # more work than the caller allows for one decision
    finally:
        for key, old in zip(keys, before, strict=True):
            if old is not None:
                cluster.put(old)
            else:
                cluster.remove(key)


def _same_pod(thing: Thing, changed: Pod) -> Pod:
    original: Pod = thing.struct
    return with_spec(changed, node_name=original.spec.node_name)
