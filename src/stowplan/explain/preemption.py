"""Whether preemption would help a pod that fits nowhere, and which pods it would evict.

DefaultPreemption itself is asked, on a handle of its own: nothing is evicted, counted or drawn from
the scheduler's random numbers. Other PostFilter plugins are not asked, because they might act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from stowplan.api.objects import Pod
from stowplan.cluster.work import DECISION_WORK, DecisionDeferred
from stowplan.explain.explanation import Preemption
from stowplan.framework.candidates import Victims
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.preempting import Preempting
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code
from stowplan.plugins.default_preemption.plugin import DefaultPreemption
from stowplan.scheduler.decision import Decision

#: About a second; beside scheduling less is left.
_SEARCH_WORK: Final = 20 * DECISION_WORK
#: Victims that are named.
_MOST_VICTIMS: Final = 20
_NAMED: Final = 3


def foretell(profile: Profile, decision: Decision) -> Preemption | None:
    """What preemption would do; None where the profile has none, or the pod fits somewhere."""
    cycle, diagnosis = decision.cycle, decision.diagnosis
    for plugin in profile.at("postFilter"):
        if isinstance(plugin, DefaultPreemption) and diagnosis is not None and len(cycle.table):
            return _foretell(plugin, cycle, diagnosis)
    return None


def _foretell(plugin: DefaultPreemption, cycle: Cycle, diagnosis: Diagnosis) -> Preemption:
    pod, table = cycle.pod, cycle.table
    rows = diagnosis.rows_of(Code.UNSCHEDULABLE).tolist()
    if not rows:
        return Preemption(
            text="Preemption does not help: evicting pods does not change what keeps it off nodes."
        )
    lower = (
        True for row in rows for each in table.pods[row].values() if each.priority < pod.priority
    )
    if not any(lower):  # found out without a search, which takes longer
        text = "no pod that stands in its way has a lower priority than"
        return Preemption(text=f"Preemption does not help: {text} {pod.priority}.")
    handle = replace(plugin.handle, rng=Random(0), preempting=Preempting())
    try:
        with cycle.table.work.at_most(_SEARCH_WORK):
            candidates, result = _asked(DefaultPreemption(plugin.args, handle), cycle, diagnosis)
    except DecisionDeferred:
        return Preemption(text="Preemption is not foretold: the search would take too long.")
    if result.eviction is None:
        return Preemption(text=_why_not(pod, result))
    node, victims = result.eviction.node, result.eviction.victims
    keys = tuple(pod.key for pod in victims)
    violations = candidates[node].violations
    some = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if keys[_NAMED:] else "")
    text = (
        "Preemption would place it: the next attempt would evict"
        f" {some}, of lower priority, from {node}"
    )
    if violations:
        text += ", against a PodDisruptionBudget"
    return Preemption(True, node, keys[:_MOST_VICTIMS], len(keys), violations, f"{text}.")


def _asked(
    plugin: DefaultPreemption, cycle: Cycle, diagnosis: Diagnosis
) -> tuple[Mapping[str, Victims], PostFilterResult]:
    """All nodes that could be cleared, and the plugin's choice."""
    steps = plugin.post_filter_steps(cycle, diagnosis)
    candidates: Mapping[str, Victims] = {}
    try:
        candidates = next(steps)
        while True:
            steps.send(candidates)
    except StopIteration as finished:
        result: PostFilterResult = finished.value
        return candidates, result


def _why_not(pod: Pod, result: PostFilterResult) -> str:
    if pod.spec.preemption_policy == "Never":
        return "It must not preempt pods of lower priority: its preemptionPolicy is Never."
    if "terminating" in result.status.message:
        node = pod.status.nominated_node_name
        return f"It has preempted pods on {node}, which are still terminating."
    if result.status.code is Code.ERROR:
        return f"Preemption fails: {result.status.message}."
    return (
        "Preemption does not help: it would not fit on any node even if all pods of lower priority"
        " were evicted."
    )
