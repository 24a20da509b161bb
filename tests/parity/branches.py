"""What random cases must have shown of every plugin, and what an answer shows.

A hit is a pair: the plugin and something that the oracle's answer says of it, such as a code with a
reason, or that its scores tell nodes apart. `MUST` lists the hits without which a run proves too
little; a plugin that we do not have yet is not asked for. What must stay true: a hit that is not on
the list fails a run as well, because then the list is not complete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.framework.plugin import points_of
from stowplan.plugins.registry import IN_TREE
from tests.parity.features import EXPECTED, FEATURES
from tests.parity.generate.configurations import OURS
from tests.parity.generate.dice import Json

Hit: TypeAlias = tuple[str, str]
Hits: TypeAlias = Counter[Hit]

CYCLE = "the cycle"
U = "Unschedulable"
UAU = "UnschedulableAndUnresolvable"
ERROR = "an error ends the cycle"
APART = "scores tell nodes apart"
ALIKE = "scores are alike"
ZERO = "scores 0"
SKIPPED = "scores are skipped"
_SCORED = [APART, ALIKE, ZERO]

MUST: dict[str, list[str]] = {
    CYCLE: [
        "one best node",
        "several best nodes",
        "one feasible node",
        "no feasible node",
        "PreFilter leaves nodes out",
        "PreFilter rejects the pod",
        "evicting pods would make room",
        "evicting pods would violate budgets",
    ],
    "NodeUnschedulable": [f"{UAU}: node(s) were unschedulable"],
    "NodeName": [f"{UAU}: node(s) didn't match the requested node name"],
    "TaintToleration": [f"{UAU}: node(s) had untolerated taint(s)", *_SCORED, ERROR],
    "NodeAffinity": [
        f"PreFilter {UAU}: pod affinity terms conflict",
        f"{UAU}: node(s) didn't match scheduler-enforced node affinity",
        f"{UAU}: node(s) didn't match Pod's node affinity/selector",
        *_SCORED,
        SKIPPED,
    ],
    "NodePorts": [f"{U}: node(s) didn't have free ports for the requested pod ports", ERROR],
    "NodeResourcesFit": [
        f"{U}: Too many pods",
        f"{UAU}: Too many pods",
        *(
            f"{code}: Insufficient {name}"
            for code in (U, UAU)
            for name in ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
        ),
        f"{UAU}: Insufficient example.com/nic",
        f"{U}: several reasons",
        f"{UAU}: several reasons",
        *_SCORED,
        ERROR,
    ],
    "VolumeRestrictions": [
        f'PreFilter {UAU}: persistentvolumeclaim "..." not found',
        f"{U}: node(s) had no available disk",
        f"{U}: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod",
        ERROR,
    ],
    "NodeVolumeLimits": [
        f'{UAU}: looking up PVC ...: persistentvolumeclaim "..." not found',
        f"{U}: node(s) exceed max volume count",
        ERROR,
    ],
    "VolumeBinding": [
        f"PreFilter {UAU}: waiting for ephemeral volume controller to create the "
        'persistentvolumeclaim "..."',
        f'PreFilter {UAU}: persistentvolumeclaim "..." not found',
        f'PreFilter {UAU}: persistentvolumeclaim "..." bound to non-existent persistentvolume'
        ' "..."',
        f'PreFilter {UAU}: persistentvolumeclaim "..." is being deleted',
        f"PreFilter {UAU}: pod has unbound immediate PersistentVolumeClaims",
        f"{UAU}: node(s) didn't match PersistentVolume's node affinity",
        f"{UAU}: node(s) didn't find available persistent volumes to bind",
        f"{UAU}: node(s) did not have enough free storage",
        f"PreFilter {UAU}: PVC ... was not created for pod ... (pod is not owner)",
        f"{UAU}: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ERROR,
        SKIPPED,
    ],
    "VolumeZone": [
        f"PreFilter {UAU}: PersistentVolume had no name",
        f'PreFilter {UAU}: persistentvolumeclaim "..." not found',
        f"PreFilter {UAU}: PersistentVolumeClaim had no pv name and storageClass name",
        f'PreFilter {UAU}: storageclass.storage.k8s.io "..." not found',
        f'PreFilter {UAU}: persistentvolume "..." not found',
        f"{UAU}: node(s) had no available volume zone",
    ],
    "PodTopologySpread": [
        f"{U}: node(s) didn't match pod topology spread constraints",
        f"{UAU}: node(s) didn't match pod topology spread constraints (missing required label)",
        *_SCORED,
        SKIPPED,
        ERROR,
    ],
    "InterPodAffinity": [
        f"PreFilter {UAU}: parsing pod",
        f"{UAU}: node(s) didn't match pod affinity rules",
        f"{U}: node(s) didn't match pod anti-affinity rules",
        f"{U}: node(s) didn't satisfy existing pods anti-affinity rules",
        *_SCORED,
        SKIPPED,
        ERROR,
    ],
    "DynamicResources": [ALIKE, ZERO, ERROR],
    "NodeResourcesBalancedAllocation": [APART, ALIKE, SKIPPED],
    "ImageLocality": _SCORED,
    "NodeDeclaredFeatures": [f"{UAU}: node(s) didn't match Pod's required features", ERROR],
}

#: Points without which another point of the plugin fails the pod.
UNPREPARED: set[tuple[str, str]] = {
    ("NodePorts", "preFilter"),
    ("NodeResourcesFit", "preFilter"),
    ("VolumeRestrictions", "preFilter"),
    ("VolumeBinding", "preFilter"),
    ("PodTopologySpread", "preFilter"),
    ("InterPodAffinity", "preFilter"),
    ("DynamicResources", "preFilter"),
    ("NodeDeclaredFeatures", "preFilter"),
    ("TaintToleration", "preScore"),
    ("PodTopologySpread", "preScore"),
    ("InterPodAffinity", "preScore"),
}
#: So seldom that only a long run is asked for them.
RARE: set[Hit] = {
    ("NodeVolumeLimits", ERROR),
    *((plugin, ERROR) for plugin, _ in UNPREPARED),
    (
        "VolumeBinding",
        f"{UAU}: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    ),
    ("VolumeBinding", f"PreFilter {UAU}: PVC ... was not created for pod ... (pod is not owner)"),
    ("VolumeZone", f'PreFilter {UAU}: storageclass.storage.k8s.io "..." not found'),
    ("VolumeZone", f"PreFilter {UAU}: PersistentVolume had no name"),
    (
        "VolumeZone",
        f"PreFilter {UAU}: PersistentVolumeClaim had no pv name and storageClass name",
    ),
    ("NodeResourcesFit", ZERO),
    ("PodTopologySpread", "decides with default constraints, List"),
    ("PodTopologySpread", "decides with no selector"),
}
#: Too seldom to ask for: PreScore, which would have skipped, is disabled.
POSSIBLE: set[Hit] = {
    ("NodeResourcesBalancedAllocation", ZERO),
    ("VolumeBinding", ZERO),
    ("VolumeBinding", ALIKE),
}
#: Rare hits are demanded of runs with so many cases. Some come about 3 times in 10,000 cases, so
#: a shorter run would miss one by chance.
LONG_RUN = 50_000

_SCORERS = {plugin.name for plugin in IN_TREE if "score" in points_of(plugin)} & {
    ref.name for ref in DEFAULT_MULTI_POINT
}
_NAMED = re.compile(r'"[^"]*"')
#: What follows is upstream's explanation of what a label may look like.
_EXPLAINED = re.compile(r"(parsing pod): .*")
_RUNNING = re.compile(r'running (?:Score plugins: plugin )?\w* ?(?:plugin )?"(\w+)"')
_KEY = re.compile(r"\b(default|prod|test)/[\w.-]+")


def missing(hits: Hits, cases: int = LONG_RUN) -> list[Hit]:
    """What must be hit by so many cases and was not."""
    return [hit for hit in expected() if not hits[hit] and (cases >= LONG_RUN or hit not in RARE)]


def unexpected(hits: Hits) -> list[Hit]:
    """What was hit and is not on the list."""
    known = {*expected(), *POSSIBLE}
    return sorted(hit for hit in hits if hit not in known)


def expected() -> list[Hit]:
    return [
        (plugin, what)
        for plugin, whats in MUST.items()
        if plugin in OURS or plugin == CYCLE
        for what in [*whats, *map(_decided_with, EXPECTED.get(plugin, ()))]
    ]


def observe(config: Json, pod: Json, answer: Json) -> Iterator[Hit]:
    """What an answer of the oracle's shows; each thing once."""
    if "error" in answer:
        yield _plugin_of(answer["error"]), ERROR
        return
    if rejected := answer.get("prefilter"):
        yield CYCLE, "PreFilter rejects the pod"
        yield from _reasons(rejected, "PreFilter ")
        return
    shown = set(_filtered(answer["nodes"]))
    profile = _profile(config, pod)
    if scores := answer.get("scores"):
        yield CYCLE, "several best nodes" if len(answer["best"]) > 1 else "one best node"
        if len(scores) == 1:
            yield CYCLE, "one feasible node"
        shown.update(_scored(profile, scores))
    elif answer["nodes"]:
        yield CYCLE, "no feasible node"
        room = answer.get("choice", {}).get("room", {}).get("candidates", {})
        if room:
            yield CYCLE, "evicting pods would make room"
        if any(cost.get("violations") for cost in room.values()):
            yield CYCLE, "evicting pods would violate budgets"
    yield from shown
    yield from _features(profile, pod, shown)


def _plugin_of(error: str) -> str:
    found = _RUNNING.match(error)
    return found[1] if found else CYCLE


def _filtered(nodes: Json) -> Iterator[Hit]:
    for said in nodes.values():
        if said["code"] == "ExcludedByPreFilter":
            yield CYCLE, "PreFilter leaves nodes out"
        elif said["code"] != "Success":
            yield from _reasons(said)


def _reasons(said: Json, point: str = "") -> Iterator[Hit]:
    plugin, code, reasons = said.get("plugin", CYCLE), said["code"], said["reasons"]
    for reason in reasons:
        yield plugin, f"{point}{code}: {_generalised(reason)}"
    if len(reasons) > 1 and plugin == "NodeResourcesFit":
        yield plugin, f"{code}: several reasons"


def _generalised(reason: str) -> str:
    """Without the names of this case."""
    return _EXPLAINED.sub(r"\1", _KEY.sub("...", _NAMED.sub('"..."', reason)))


def _profile(config: Json, pod: Json) -> Json:
    name = pod["spec"]["schedulerName"]
    found: Json = next(each for each in config["profiles"] if each["schedulerName"] == name)
    return found


def _features(profile: Json, pod: Json, shown: set[Hit]) -> set[Hit]:
    """What the plugins that had a say may have looked at."""
    silent = (ALIKE, ZERO, SKIPPED)
    spoke = {plugin for plugin, what in shown if plugin in FEATURES and what not in silent}
    arguments = {each["name"]: each["args"] for each in profile.get("pluginConfig", ())}
    return {
        (plugin, _decided_with(feature))
        for plugin in spoke
        for feature in FEATURES[plugin](pod["spec"], arguments.get(plugin, {}))
    }


def _decided_with(feature: str) -> str:
    return f"decides with {feature}"


def _scored(profile: Json, scores: Json) -> Iterator[Hit]:
    columns: dict[str, list[int]] = {}
    for by_plugin in scores.values():
        for plugin, score in by_plugin.items():
            columns.setdefault(plugin, []).append(score)
    for plugin, values in columns.items():
        if len(values) > 1:
            yield plugin, APART if len(set(values)) > 1 else ALIKE
        if 0 in values:
            yield plugin, ZERO
    for plugin in _enabled_scorers(profile) - columns.keys():
        yield plugin, SKIPPED


def _enabled_scorers(profile: Json) -> set[str]:
    plugins = profile.get("plugins", {})
    score = plugins.get("score", {})
    if any(each["name"] == "*" for each in score.get("disabled", ())):
        return {each["name"] for each in score.get("enabled", ())}
    disabled = {
        each["name"]
        for point in ("multiPoint", "score")
        for each in plugins.get(point, {}).get("disabled", ())
    }
    return _SCORERS - disabled
