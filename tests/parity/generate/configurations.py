"""Configurations to ask with: the default profile and variations of it.

All are cut down to the plugins that we have, on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.framework.plugin import points_of
from stowplan.plugins.registry import IN_TREE
from tests.parity.generate.dice import Dice, Json
from tests.parity.generate.nodes import GPU, STORAGE
from tests.parity.generate.themes import Theme

VERSION = "kubescheduler.config.k8s.io/v1"
DEFAULT_SCHEDULER = "default-scheduler"
#: The name of the other profile, where there are two.
SECOND_SCHEDULER = "second-scheduler"
OURS = {plugin.name for plugin in IN_TREE}
#: Plugins of kube-scheduler's default profile that we have too.
SHARED = [ref.name for ref in DEFAULT_MULTI_POINT if ref.name in OURS]

_RESOURCES = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
_WITH_GPU = [*_RESOURCES, {"name": GPU, "weight": 2}]
_SHAPE = [
    {"utilization": 0, "score": 9},
    {"utilization": 33, "score": 2},
    {"utilization": 100, "score": 7},
]
#: Arguments to try besides none, by plugin.
ARGUMENTS: list[Json] = [
    {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": _WITH_GPU}}},
    {
        "NodeResourcesFit": {
            "scoringStrategy": {"type": "LeastAllocated", "resources": _WITH_GPU},
            "ignoredResources": [GPU],
            "ignoredResourceGroups": ["nowhere.example"],
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", STORAGE, GPU)]
        },
    },
    {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _WITH_GPU,
                "requestedToCapacityRatio": {"shape": _SHAPE},
            },
            "ignoredResourceGroups": ["example.com"],
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": GPU, "weight": 1}, {"name": "cpu", "weight": 1}]
        },
    },
    {
        "NodeAffinity": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 40,
                        "preference": {
                            "matchExpressions": [
                                {"key": "disk", "operator": "In", "values": ["ssd"]}
                            ]
                        },
                    }
                ],
            }
        }
    },
]


#: Changes to the plugins of a profile, by extension point.
_ARRANGEMENTS: list[Json] = [
    # Whoever is named at a point comes first there, so others get to object first.
    {"filter": ["NodeResourcesFit", "InterPodAffinity"], "score": ["ImageLocality"]},
    {"filter": ["PodTopologySpread", "NodeAffinity"], "weights": {"TaintToleration": 7}},
    {"weights": {"ImageLocality": 100, "NodeResourcesFit": 3, "PodTopologySpread": 9}},
    {"without": ["TaintToleration", "NodeResourcesBalancedAllocation"]},
    {"without": ["NodeResourcesFit", "NodePorts"]},
    {"only scored by": ["NodeResourcesFit", "InterPodAffinity"]},
]


#: Points of a scheduling cycle and plugins that have them. One that is disabled by itself may
#: leave another point of the plugin without what it needs: see test_disabled_points.py.
_PLACES = [
    (point, plugin.name)
    for plugin in IN_TREE
    if plugin.name in SHARED
    for point in points_of(plugin)
    if point in ("preFilter", "filter", "preScore", "score")
]


def configuration(
    profiles: list[Json] | None = None, *, arguments: Json | None = None, percentage: int = 100
) -> Json:
    """A KubeSchedulerConfiguration; of one profile with these arguments if none are given."""
    return {
        "apiVersion": VERSION,
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": percentage,
        "profiles": profiles or [profile(arguments or {})],
    }


def profile(
    arguments: Json, arrangement: Json | None = None, *, name: str = DEFAULT_SCHEDULER
) -> Json:
    """A profile without the plugins that only upstream has."""
    return {
        "schedulerName": name,
        "plugins": _plugins(arrangement or {}),
        "pluginConfig": [
            {
                "name": plugin,
                "args": {"apiVersion": VERSION, "kind": f"{plugin}Args", **arguments[plugin]},
            }
            for plugin in arguments
            if plugin in OURS
        ],
    }


def _plugins(arrangement: Json) -> Json:
    absent = [ref.name for ref in DEFAULT_MULTI_POINT if ref.name not in OURS]
    weights = {
        name: weight for name, weight in arrangement.get("weights", {}).items() if name in OURS
    }
    disabled = [*absent, *arrangement.get("without", ())]
    plugins: Json = {"multiPoint": {"disabled": _named(disabled)}}
    if weights:
        # One that is enabled by name takes the place of the default.
        plugins["multiPoint"]["enabled"] = [
            {"name": name, "weight": weight} for name, weight in weights.items()
        ]
    for point, name in arrangement.get("disabled at", {}).items():
        plugins[point] = {"disabled": _named([name])}
    for point in ("filter", "score"):
        if first := [name for name in arrangement.get(point, ()) if name in OURS]:
            plugins[point] = {"enabled": _named(first)}
    if only := [name for name in arrangement.get("only scored by", ()) if name in OURS]:
        plugins["score"] = {"disabled": _named(["*"]), "enabled": _named(only)}
    return plugins


def _named(names: list[str]) -> list[Json]:
    return [{"name": name} for name in names]


def random_configuration(dice: Dice, themes: Sequence[Theme]) -> Json:
    """One profile or two, with arguments and arrangements of their own."""
    names = [DEFAULT_SCHEDULER]
    if dice.often(0.15):
        names.append(SECOND_SCHEDULER)
    return configuration(
        [
            profile(random_arguments(dice, themes), _arrangement(dice, themes), name=name)
            for name in names
        ]
    )


def _arrangement(dice: Dice, themes: Sequence[Theme]) -> Json | None:
    """Mostly none."""
    for theme in themes:
        if theme.without and dice.often(0.3):
            return {"without": list(dice.choice(theme.without))}
    if dice.often(0.06):
        return {"disabled at": dict([dice.choice(_PLACES)])}
    return dice.choice(_ARRANGEMENTS) if dice.often(0.3) else None


def random_arguments(dice: Dice, themes: Sequence[Theme]) -> Json:
    """Arguments by plugin; more often than not there are none."""
    arguments: Json = dict(dice.choice(ARGUMENTS)) if dice.often(0.5) else {}
    for theme in themes:
        if theme.arguments and dice.often(0.6):
            arguments |= dice.choice(theme.arguments)
    return arguments
