"""From a Policy file to a KubeSchedulerConfiguration that kube-scheduler reads today.

Predicates become the plugins that filter in their place, priorities those that score, with their
weights; the pairs are those of kube-scheduler 1.22, the last release that read both kinds of file.
Extenders are copied unchanged. Every field that the new format cannot express, or that has another
meaning there, is reported: nothing is dropped silently. Called by `stowplan config migrate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stowplan.config.decode import encode_hook
from stowplan.config.defaults import DEFAULT_SCHEDULER_NAME
from stowplan.config.fields import FieldError, did_you_mean, raise_errors
from stowplan.config.load import parse_object
from stowplan.config.policy import (
    CapacityRatio,
    LabelsPresence,
    Policy,
    Predicate,
    Priority,
    read_policy,
    weight_errors,
)
from stowplan.config.types import API_VERSION, KIND
from stowplan.loader.json_text import load_json

_FIT: Final = "NodeResourcesFit"
_AFFINITY: Final = "NodeAffinity"
_SPREAD: Final = "PodTopologySpread"
_POD_AFFINITY: Final = "InterPodAffinity"
_LIMITS: Final = "NodeVolumeLimits"
_TAINTS: Final = "TaintToleration"

#: Which plugins filter as a predicate did.
FILTERS: Final[dict[str, tuple[str, ...]]] = {
    "GeneralPredicates": (_FIT, "NodeName", "NodePorts", _AFFINITY),
    "PodFitsResources": (_FIT,),
    "HostName": ("NodeName",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "MatchNodeSelector": (_AFFINITY,),
    "PodToleratesNodeTaints": (_TAINTS,),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "MaxCSIVolumeCountPred": (_LIMITS,),
    # In-tree volumes are CSI volumes now, and limited like those.
    "MaxEBSVolumeCount": (_LIMITS,),
    "MaxGCEPDVolumeCount": (_LIMITS,),
    "MaxAzureDiskVolumeCount": (_LIMITS,),
    "MaxCinderVolumeCount": (_LIMITS,),
    "MatchInterPodAffinity": (_POD_AFFINITY,),
    "EvenPodsSpread": (_SPREAD,),
    # A node in such a condition has a taint that says so.
    "CheckNodeCondition": (_TAINTS,),
    "CheckNodeMemoryPressure": (_TAINTS,),
    "CheckNodeDiskPressure": (_TAINTS,),
    "CheckNodePIDPressure": (_TAINTS,),
}
#: These two ran whatever a Policy said.
_ALWAYS: Final = ("PodToleratesNodeTaints", "CheckNodeUnschedulable")

_STRATEGY: Final = {
    "LeastRequestedPriority": "LeastAllocated",
    "MostRequestedPriority": "MostAllocated",
}
_SPREADS_ALL: Final = ("SelectorSpreadPriority", "ServiceSpreadingPriority")
#: Which plugin scores as a priority did.
SCORES: Final[dict[str, str]] = {
    "LeastRequestedPriority": _FIT,
    "MostRequestedPriority": _FIT,
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "NodeAffinityPriority": _AFFINITY,
    "TaintTolerationPriority": _TAINTS,
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": _POD_AFFINITY,
    "EvenPodsSpreadPriority": _SPREAD,
    "SelectorSpreadPriority": _SPREAD,
    "ServiceSpreadingPriority": _SPREAD,
}
_GONE: Final = {
    "EqualPriority": "gave every node the same, so nothing is lost without it",
    "NodePreferAvoidPodsPriority": "was removed in 1.24 with its annotation; taint such nodes with "
    "effect PreferNoSchedule",
    "ResourceLimitsPriority": "was removed in 1.20, and nothing took its place",
}
_FILTERING: Final = tuple(dict.fromkeys(name for names in FILTERS.values() for name in names))
_SCORING: Final = tuple(dict.fromkeys(SCORES.values()))


def migrate_policy(text: str, *, where: str) -> tuple[dict[str, Any], list[FieldError]]:
    """The configuration, and what is not in it or not the same; an invalid Policy raises."""
    policy, notes = read_policy(text, where=where)
    raise_errors(weight_errors(policy), where=where)
    migration = _Migration(policy, notes)
    tree: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    profile = migration.profile()
    if profile:
        tree["profiles"] = [{"schedulerName": DEFAULT_SCHEDULER_NAME, **profile}]
    if policy.extenders:
        encoded = msgspec.json.encode(policy.extenders, enc_hook=encode_hook)
        tree["extenders"] = load_json(encoded)
    # Its rules for extenders and arguments were the same ones.
    parse_object(tree, where=where)
    return tree, notes


class _Migration:
    """One Policy on its way; `notes` grows by what is lost."""

    def __init__(self, policy: Policy, notes: list[FieldError]) -> None:
        self._policy = policy
        self._notes = notes
        self._arguments: dict[str, dict[str, Any]] = {}

    def profile(self) -> dict[str, Any]:
        policy = self._policy
        filters = self._filters(policy.predicates)
        scores = self._scores(policy.priorities)
        if policy.hard_pod_affinity_symmetric_weight:
            weight = policy.hard_pod_affinity_symmetric_weight
            self._arguments[_POD_AFFINITY] = {"hardPodAffinityWeight": weight}
        if policy.always_check_all_predicates:
            self._note(
                "alwaysCheckAllPredicates",
                "no counterpart: only the first plugin that rejects a node is reported",
            )
        profile: dict[str, Any] = {}
        plugins = _plugin_sets(filters, scores)
        if plugins:
            profile["plugins"] = plugins
        if self._arguments:
            profile["pluginConfig"] = [
                {"name": name, "args": args} for name, args in self._arguments.items()
            ]
        return profile

    def _note(self, path: str, message: str) -> None:
        self._notes.append(FieldError(path, message))

    def _filters(self, predicates: tuple[Predicate, ...] | None) -> set[str] | None:
        """The plugins that are to filter, or None for the defaults."""
        if predicates is None:
            return None
        wanted = {plugin for name in _ALWAYS for plugin in FILTERS[name]}
        for index, predicate in enumerate(predicates):
            path = f"predicates[{index}]"
            argument = predicate.argument
            if predicate.name in FILTERS:
                wanted.update(FILTERS[predicate.name])
            elif argument is not None and argument.labels_presence is not None:
                wanted.add(_AFFINITY)
                self._require_labels(path, argument.labels_presence)
            elif argument is not None and argument.service_affinity is not None:
                labels = ", ".join(argument.service_affinity.labels)
                self._note(
                    f"{path}.argument.serviceAffinity",
                    f"no counterpart, left out; give such pods a podAffinity for {labels}",
                )
            else:
                self._unknown(path, "predicate", predicate.name, FILTERS)
        return wanted

    def _require_labels(self, path: str, presence: LabelsPresence) -> None:
        """Every pod gets a node affinity for (or against) the labels."""
        operator = "Exists" if presence.presence else "DoesNotExist"
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        fresh: dict[str, Any] = {
            "addedAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": []}]}}
        }
        args = self._arguments.setdefault(_AFFINITY, fresh)
        (term,) = args["addedAffinity"][required]["nodeSelectorTerms"]
        term["matchExpressions"] += [
            {"key": label, "operator": operator} for label in presence.labels
        ]
        self._note(
            f"{path}.argument.labelsPresence",
            "became the addedAffinity of NodeAffinity, which also minds what pods say themselves",
        )

    def _scores(self, priorities: tuple[Priority, ...] | None) -> dict[str, int] | None:
        """The plugins that are to score and their weights, or None for the defaults."""
        if priorities is None:
            self._note(
                "priorities",
                "not in the file: today's default plugins score. Their weights are 3 for "
                f"{_TAINTS}, 2 for {_AFFINITY}, {_SPREAD} and {_POD_AFFINITY}, 1 for the others; "
                "a Policy had 2 for EvenPodsSpreadPriority and 1 for the others",
            )
            return None
        weights: dict[str, int] = {}
        for index, priority in enumerate(priorities):
            path = f"priorities[{index}]"
            argument = priority.argument
            plugin = SCORES.get(priority.name)
            if plugin == _FIT:
                self._score_by_room(path, priority, {"type": _STRATEGY[priority.name]}, weights)
            elif plugin is not None:
                weights.setdefault(plugin, priority.weight)
            elif priority.name in _GONE:
                self._note(path, f'"{priority.name}" {_GONE[priority.name]}')
            elif argument is None:
                self._unknown(path, "priority", priority.name, SCORES)
            elif argument.requested_to_capacity_ratio_arguments is not None:
                ratio = argument.requested_to_capacity_ratio_arguments
                self._score_by_room(path, priority, _ratio_strategy(ratio), weights)
            elif argument.label_preference is not None:
                label = argument.label_preference.label
                self._note(
                    f"{path}.argument.labelPreference",
                    f"no counterpart, left out; give pods a preferred nodeAffinity for {label}",
                )
            elif argument.service_anti_affinity is not None:
                label = argument.service_anti_affinity.label
                self._note(
                    f"{path}.argument.serviceAntiAffinity",
                    f"no counterpart, left out; give pods a topologySpreadConstraint for {label}",
                )
            else:
                self._unknown(path, "priority", priority.name, SCORES)
        self._spread(priorities, weights)
        return weights

    def _score_by_room(
        self, path: str, priority: Priority, strategy: dict[str, Any], weights: dict[str, int]
    ) -> None:
        """One plugin scores by free room now, in one way."""
        if _FIT in weights:
            self._note(
                path,
                f'"{priority.name}" left out: {_FIT} has one scoringStrategy, which an earlier '
                "priority has chosen",
            )
            return
        weights[_FIT] = priority.weight
        if strategy != {"type": "LeastAllocated"}:
            self._arguments[_FIT] = {"scoringStrategy": strategy}

    def _spread(self, priorities: tuple[Priority, ...], weights: dict[str, int]) -> None:
        """Two priorities became one plugin: for constraints of pods, and for pods without any."""
        by_name = {priority.name: (i, priority.weight) for i, priority in enumerate(priorities)}
        own = by_name.get("EvenPodsSpreadPriority")
        others = [by_name[name] for name in _SPREADS_ALL if name in by_name]
        if own is not None:
            weights[_SPREAD] = own[1]
            if not others:
                # Without it pods that have no constraints would be spread, too.
                self._arguments[_SPREAD] = {"defaultingType": "List"}
        for index, weight in others:
            if own is not None and weight != own[1]:
                self._note(
                    f"priorities[{index}].weight",
                    f"{weight} left out: {_SPREAD} has one weight, that of EvenPodsSpreadPriority",
                )

    def _unknown(self, path: str, kind: str, name: str, known: dict[str, Any]) -> None:
        hint = did_you_mean(name, known)
        self._note(path, f'no plugin is known for the {kind} "{name}", left out{hint}')


def _ratio_strategy(ratio: CapacityRatio) -> dict[str, Any]:
    strategy: dict[str, Any] = {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {
            "shape": [
                {"utilization": point.utilization, "score": point.score} for point in ratio.shape
            ]
        },
    }
    if ratio.resources:
        strategy["resources"] = [
            {"name": resource.name, "weight": resource.weight or 1} for resource in ratio.resources
        ]
    return strategy


def _plugin_sets(filters: set[str] | None, scores: dict[str, int] | None) -> dict[str, Any]:
    """Default plugins switched off where the Policy had nothing like them, and the weights.

    Plugins that no Policy could know of (SchedulingGates, DynamicResources, ...) stay: features of
    pods that were not there would be ignored without them.
    """
    off: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys((*_FILTERING, *_SCORING)):
        for point in _points_off(name, filters, scores):
            off.setdefault(point, []).append({"name": name})
    sets: dict[str, Any] = {point: {"disabled": names} for point, names in off.items()}
    if scores:
        weighed = [{"name": name, "weight": weight} for name, weight in scores.items()]
        sets["score"] = {"enabled": weighed, **sets.get("score", {})}
    return sets


def _points_off(
    name: str, filters: set[str] | None, scores: dict[str, int] | None
) -> Iterator[str]:
    unfiltered = filters is not None and name not in filters
    unscored = scores is not None and name not in scores
    # Out entirely, if nothing is left for it to do.
    if (unfiltered or name not in _FILTERING) and (unscored or name not in _SCORING):
        yield "multiPoint"
        return
    if unfiltered and name in _FILTERING:
        yield from ("preFilter", "filter")
    if unscored and name in _SCORING:
        yield from ("preScore", "score")
