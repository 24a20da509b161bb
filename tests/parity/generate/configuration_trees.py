"""Random KubeSchedulerConfigurations, most of them wrong somewhere.

A tree is drawn from a table of fields, each with the values it may get and how often it is there at
all. Numbers, words and durations are mostly such as a reader might stumble over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.parity.generate.dice import Dice, Json

#: What a field gets: one of these values, a mapping of further fields, or what a function draws.
Draw: TypeAlias = Callable[[Dice], Any]

_NUMBERS = [0, 0, 1, 1, 2, 10, 50, 99, 100, 101, -1, 2**31, 2**63 - 1, "3", 3.0, 1.5, None, True]
_NAMES = ["", "a", "a b", "cpu", "memory", "example.com/gpu", "a/b/c", "/x", "kubernetes.io/x", 3]
_TIMES = ["0s", "1s", "-1s", "15s", "1m", "1.5h", "3", "x", 5, "1s1ms", "+5s", "1µs", ".5s", "5.s"]
_SWITCH = [True, False, None, "x"]
_VERBS = ["x", "", None]
_PLUGINS = [
    "NodeName", "NodeAffinity", "TaintToleration", "NodePorts", "NodeResourcesFit",
    "ImageLocality", "PrioritySort", "DefaultBinder", "SchedulingGates", "NodeUnschedulable",
    "Foo", "EBSLimits", "", "*",
]  # fmt: skip


def _one(values: list[Any]) -> Draw:
    return lambda dice: dice.choice(values)


def _list(draw: Draw, most: int = 2) -> Draw:
    return lambda dice: [draw(dice) for _ in range(dice.randint(0, most))]


def _tree(**fields: tuple[float, Draw]) -> Draw:
    """A mapping in which each field is there with its chance."""

    def draw(dice: Dice) -> Json:
        return {name: value(dice) for name, (chance, value) in fields.items() if dice.often(chance)}

    return draw


_resource = _tree(name=(0.9, _one(_NAMES)), weight=(0.5, _one(_NUMBERS)))
_point = _tree(utilization=(0.9, _one(_NUMBERS)), score=(0.8, _one(_NUMBERS)))
_shape = _tree(shape=(0.8, _list(_point, 3)))
_strategies = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "", "x", None]
_strategy = _tree(
    type=(0.9, _one(_strategies)),
    resources=(0.5, _list(_resource, 3)),
    requestedToCapacityRatio=(0.4, _shape),
)
_expression = _tree(
    key=(0.9, _one(["a", "a b", "metadata.name", "x.y/z", ""])),
    operator=(0.95, _one(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "X", ""])),
    values=(0.6, _list(_one(["a", "3", "a b", ""]), 3)),
)
_term = _tree(matchExpressions=(0.5, _list(_expression)), matchFields=(0.3, _list(_expression, 1)))
_preferred = _tree(weight=(0.9, _one([0, 1, 101, -1])), preference=(0.9, _term))
_affinity = _tree(
    requiredDuringSchedulingIgnoredDuringExecution=(
        0.5,
        _tree(nodeSelectorTerms=(0.9, _list(_term))),
    ),
    preferredDuringSchedulingIgnoredDuringExecution=(0.5, _list(_preferred)),
)
_constraint = _tree(
    maxSkew=(0.9, _one([0, 1, 2, -1, None])),
    topologyKey=(0.9, _one(["zone", "a b", "", None])),
    whenUnsatisfiable=(0.9, _one(["DoNotSchedule", "ScheduleAnyway", "X", "", None])),
    labelSelector=(0.2, _one([{}, None, {"matchLabels": {"a": "b"}}])),
    minDomains=(0.2, _one([0, 1, -1, None])),
)

_ARGUMENTS: dict[str, Draw] = {
    "DefaultPreemption": _tree(
        minCandidateNodesPercentage=(0.5, _one(_NUMBERS)),
        minCandidateNodesAbsolute=(0.5, _one(_NUMBERS)),
    ),
    "DynamicResources": _tree(
        filterTimeout=(0.5, _one(_TIMES)), bindingTimeout=(0.5, _one(_TIMES))
    ),
    "InterPodAffinity": _tree(
        hardPodAffinityWeight=(0.5, _one(_NUMBERS)),
        ignorePreferredTermsOfExistingPods=(0.5, _one(_SWITCH)),
    ),
    "NodeAffinity": _tree(addedAffinity=(0.9, _affinity)),
    "NodeResourcesBalancedAllocation": _tree(resources=(0.9, _list(_resource, 3))),
    "NodeResourcesFit": _tree(
        scoringStrategy=(0.7, _strategy),
        ignoredResources=(0.3, _list(_one(_NAMES))),
        ignoredResourceGroups=(0.3, _list(_one(_NAMES))),
    ),
    "PodTopologySpread": _tree(
        defaultingType=(0.5, _one(["System", "List", "", None, "x"])),
        defaultConstraints=(0.6, _list(_constraint)),
    ),
    "VolumeBinding": _tree(bindTimeoutSeconds=(0.5, _one(_NUMBERS)), shape=(0.2, _list(_point))),
    "NodeName": _tree(x=(0.5, _one(_NUMBERS))),
    "Foo": _tree(x=(0.5, _one(_NUMBERS))),
    "GCEPDLimits": _tree(),
}


def _plugin_config(dice: Dice) -> Json:
    name = dice.choice(list(_ARGUMENTS))
    args = _ARGUMENTS[name](dice)
    header = _tree(
        kind=(0.1, _one([f"{name}Args", "x", None, "NodeAffinityArgs"])),
        apiVersion=(0.1, _one(["kubescheduler.config.k8s.io/v1", "v1", None])),
        unknown=(0.03, _one(_NUMBERS)),
    )
    return {"name": name, "args": {**args, **header(dice)}}


_ref = _tree(name=(1, _one(_PLUGINS)), weight=(0.3, _one([0, 1, 5, -1, 100, None, 2**31 - 1])))
_set = (0.12, _tree(enabled=(0.5, _list(_ref)), disabled=(0.5, _list(_ref))))
_profile = _tree(
    schedulerName=(0.8, _one(["a", "b", "c", "d", None, ""])),
    percentageOfNodesToScore=(0.2, _one([0, 50, 100, 101, -1, None])),
    plugins=(
        0.4,
        _tree(
            multiPoint=_set, filter=_set, score=_set, queueSort=_set, bind=_set, preFilter=_set,
            permit=_set,
        ),
    ),
    pluginConfig=(0.7, _list(_plugin_config, 3)),
    unknown=(0.02, _one(_NUMBERS)),
)  # fmt: skip
_extender = _tree(
    urlPrefix=(0.5, _one(_VERBS)),
    filterVerb=(0.4, _one(_VERBS)),
    bindVerb=(0.4, _one(_VERBS)),
    prioritizeVerb=(0.4, _one(_VERBS)),
    preemptVerb=(0.4, _one(_VERBS)),
    weight=(0.5, _one([0, 1, -1, 5])),
    httpTimeout=(0.3, _one(_TIMES)),
    managedResources=(0.3, _list(_tree(name=(1, _one(_NAMES[:-1]))), 3)),
)

#: A whole configuration, without its header.
configuration: Draw = _tree(
    parallelism=(0.15, _one(_NUMBERS)),
    percentageOfNodesToScore=(0.15, _one(_NUMBERS)),
    podInitialBackoffSeconds=(0.1, _one(_NUMBERS)),
    podMaxBackoffSeconds=(0.1, _one(_NUMBERS)),
    leaderElection=(
        0.2,
        _tree(
            leaderElect=(0.4, _one(_SWITCH[:3])),
            leaseDuration=(0.3, _one(_TIMES)),
            renewDeadline=(0.3, _one(_TIMES)),
            retryPeriod=(0.3, _one(_TIMES)),
            resourceLock=(0.2, _one(["leases", "x", "", None])),
            resourceName=(0.2, _one(["", "x"])),
        ),
    ),
    clientConnection=(
        0.1,
        _tree(burst=(0.7, _one(_NUMBERS)), qps=(0.7, _one([0, 1.5, -3, "x", None]))),
    ),
    enableProfiling=(0.05, _one(_SWITCH)),
    delayCacheUntilActive=(0.05, _one(_SWITCH)),
    profiles=(0.8, _list(_profile)),
    extenders=(0.1, _list(_extender)),
)
