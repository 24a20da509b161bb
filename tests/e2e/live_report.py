"""What two plays have in common and where they differ, for people to read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.e2e.live_play import KUBE_SCHEDULER, STOWPLAN, Play
from tests.e2e.live_stage import Outcome
from tests.e2e.parity import differences as places_that_differ

_COLUMN = 60
#: What a plugin says when it refuses a node or a pod.
_SAYINGS = {
    "SchedulingGates": "non-empty scheduling gates",
    "NodeUnschedulable": "node(s) were unschedulable",
    "TaintToleration": "node(s) had untolerated taint(s)",
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
    "NodePorts": "node(s) didn't have free ports",
    "NodeResourcesFit": "Insufficient cpu",
    "VolumeRestrictions": "node(s) had no available disk",
    "NodeVolumeLimits": "node(s) exceed max volume count",
    "VolumeBinding": "node(s) didn't find available persistent volumes to bind",
    "VolumeZone": "node(s) had no available volume zone",
    "PodTopologySpread": "node(s) didn't match pod topology spread constraints",
    "InterPodAffinity": "node(s) didn't match pod affinity rules",
    "NodeDeclaredFeatures": "node(s) didn't match Pod's required features",
}
#: Of an outcome, after the node; only the first difference is told.
_COMPARED = ("nominated", "evicted", "refusal", "status", "reason", "message", "events")
#: Default plugins whose work cannot be seen here, and why.
UNSEEN = {
    "PrioritySort": "pods that come one at a time are in no order",
    "NodeName": "a pod with a node name is never scheduled",
    "DynamicResources": "no pod of these workloads claims a device",
    "DefaultPreemption": "PostFilter plugins are off, unless preemption is asked for",
}


@dataclass(frozen=True)
class Difference:
    """One thing about one pod (or claim) that the two schedulers did differently."""

    subject: str
    what: str
    theirs: str
    ours: str


def differences(theirs: Play, ours: Play) -> list[Difference]:
    """In the order of the play: later ones may follow from the first."""
    found = [
        difference
        for name in theirs.pods
        for difference in _of_pod(name, theirs.pods[name], ours.pods[name])
    ]
    for name in theirs.woken:
        found += _of_pod(name, theirs.woken[name], ours.woken[name])
    for name in sorted(theirs.storage.keys() | ours.storage.keys()):
        found += _of_object(name, theirs.storage.get(name), ours.storage.get(name))
    return found


def _of_pod(name: str, theirs: Outcome, ours: Outcome) -> Iterable[Difference]:
    """Only the first: the events of pods with different fates cannot be the same."""
    if theirs.node != ours.node:
        yield Difference(name, "node", theirs.node or theirs.message, ours.node or ours.message)
        return
    for what in _COMPARED:
        left, right = getattr(theirs, what), getattr(ours, what)
        if left != right:
            yield Difference(name, what, str(left or "-"), str(right or "-"))
            return
    yield from _of_object(name, theirs.pod, ours.pod)
    for victim in sorted(theirs.victims.keys() | ours.victims.keys()):
        subject = f"{victim} (for {name})"
        yield from _of_object(subject, theirs.victims.get(victim), ours.victims.get(victim))


def _of_object(name: str, theirs: Any, ours: Any) -> Iterable[Difference]:
    """Both sides are in each line: `field: theirs != ours`."""
    for line in places_that_differ(theirs, ours):
        yield Difference(name, "object", line, "")


def table(found: list[Difference], theirs: Play, *, most: int = 12) -> str:
    """The differences side by side, and kube-scheduler's scores where two nodes were chosen."""
    lines = [
        f"{len(found)} differences; all after the first may be its consequences.",
        _row("", "", KUBE_SCHEDULER, STOWPLAN),
    ]
    for difference in found[:most]:
        columns = [
            textwrap.wrap(text, _COLUMN) or [""] for text in (difference.theirs, difference.ours)
        ]
        height = max(map(len, columns))
        left, right = (column + [""] * (height - len(column)) for column in columns)
        lines.append(_row(difference.subject, difference.what, left[0], right[0]))
        lines += [_row("", "", *more) for more in zip(left[1:], right[1:], strict=True)]
        if difference.what == "node":
            lines += _score_rows(theirs, difference)
    if len(found) > most:
        lines.append(f"... and {len(found) - most} more")
    return "\n".join(lines)


def _score_rows(theirs: Play, difference: Difference) -> Iterable[str]:
    """kube-scheduler's own scores of the two nodes, plugin by plugin."""
    for plugin, scores in theirs.scores.get(difference.subject, {}).items():
        left, right = scores.get(difference.theirs), scores.get(difference.ours)
        if left is not None and right is not None:
            yield _row("", f"  {plugin}", str(left), f"{right} (as {KUBE_SCHEDULER} scores it)")


def _row(subject: str, what: str, left: str, right: str) -> str:
    return f"{subject:12} {what:34} {left:{_COLUMN}}  {right}".rstrip()


def seen_plugins(play: Play) -> set[str]:
    """Plugins that refused something, or whose scores told two nodes apart."""
    messages = "\n".join(messages_of(play))
    seen = {plugin for plugin, saying in _SAYINGS.items() if saying in messages}
    for scores in play.scores.values():
        seen |= {plugin for plugin, given in scores.items() if len(set(given.values())) > 1}
    if any(outcome.node for outcome in play.pods.values()):
        seen.add("DefaultBinder")
    if any(outcome.evicted for outcome in play.pods.values()):
        seen.add("DefaultPreemption")
    return seen


def messages_of(play: Play) -> set[str]:
    """The distinct texts of refusal."""
    return {outcome.message for outcome in play.pods.values() if not outcome.node}


def preemptors_of(play: Play) -> list[Outcome]:
    """Pods for which others had to go."""
    return [outcome for outcome in play.pods.values() if outcome.has_preempted]


def summary(play: Play, found: list[Difference]) -> str:
    placed = [outcome for outcome in play.pods.values() if outcome.node]
    nodes = {outcome.node for outcome in placed}
    preemptors = preemptors_of(play)
    victims = sum(len(outcome.evicted) for outcome in preemptors)
    return (
        f"{len(placed)} pods placed on {len(nodes)} nodes, {len(play.pods) - len(placed)} refused "
        f"with {len(messages_of(play))} distinct messages, "
        f"{len(preemptors)} preemptions with {victims} victims, {len(found)} differences"
    )
