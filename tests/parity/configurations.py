"""Configurations to ask with: the default profile, cut down to the plugins that we have."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.plugins.registry import IN_TREE

Json: TypeAlias = dict[str, Any]

GPU = "example.com/gpu"
STORAGE = "ephemeral-storage"

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


def configuration(arguments: Json, *, percentage: int = 100) -> str:
    """A default profile without the plugins that only upstream has, as text."""
    absent = [{"name": ref.name} for ref in DEFAULT_MULTI_POINT if ref.name not in OURS]
    kind = "kubescheduler.config.k8s.io/v1"
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"disabled": absent}},
        "pluginConfig": [
            {
                "name": name,
                "args": {"apiVersion": kind, "kind": f"{name}Args", **arguments[name]},
            }
            for name in arguments
            if name in OURS
        ],
    }
    return json.dumps(
        {
            "apiVersion": kind,
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": percentage,
            "profiles": [profile],
        }
    )
