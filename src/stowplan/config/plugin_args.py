"""Arguments of kube-scheduler's own plugins: fields, defaults and rules.

One struct for each `<Plugin>Args` kind of the configuration API. They are defined here, not in the
plugins, because a file's arguments are checked even if their plugin is disabled, and because
`config defaults` prints them without instantiating plugins. A plugin names its struct as `Args` and
gets a complete, valid instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.api.objects import NodeAffinity, TopologySpreadConstraint
from stowplan.config.args_rules import (
    affinity_problems,
    constraint_problems,
    label_name_problems,
    shape_problems,
    weight_problems,
)
from stowplan.config.decode import decode, encode_hook, without_nulls
from stowplan.config.durations import Duration
from stowplan.config.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.config.types import API_VERSION, TYPE_HEADER, Int32, Int64, Section
from stowplan.loader.json_text import load_json

A = TypeVar("A", bound="PluginArgs")


class PluginArgs(Section, frozen=True):
    """Base of arguments that have rules; plugins of other distributions may use it too."""

    def defaulted(self: A) -> A:
        """With the defaults that a field's own default cannot express."""
        return self

    def problems(self, path: str) -> Iterator[FieldError]:
        """The broken rules of defaulted arguments that stand at `path`."""
        yield from ()


class ResourceSpec(Section, frozen=True):
    """A resource that takes part in a score, and how much it counts. A weight of 0 means 1."""

    name: str = ""
    weight: Int64 = 0


class UtilizationShapePoint(Section, frozen=True):
    """Score (0 to 10) at a utilization (0 to 100)."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Section, frozen=True):
    shape: tuple[UtilizationShapePoint, ...] = ()


CPU_AND_MEMORY: Final = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


class ScoringStrategy(Section, frozen=True):
    allowed_types: ClassVar = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")

    # Only a strategy as a whole has a default: one that is written must say its type.
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


LEAST_ALLOCATED: Final = ScoringStrategy(type="LeastAllocated", resources=CPU_AND_MEMORY)


class DefaultConstraint(TopologySpreadConstraint, frozen=True):
    """A constraint without a default for maxSkew, which only the API server fills in, for pods."""

    max_skew: Int32 = 0


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def problems(self, path: str) -> Iterator[FieldError]:
        percentage, absolute = (
            self.min_candidate_nodes_percentage,
            self.min_candidate_nodes_absolute,
        )
        at_percentage = f"{path}.minCandidateNodesPercentage"
        at_absolute = f"{path}.minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield invalid(at_percentage, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(at_absolute, absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            same_time = "cannot be zero at the same time as"
            yield invalid(at_percentage, percentage, f"{same_time} minCandidateNodesAbsolute")
            yield invalid(at_absolute, absolute, f"{same_time} minCandidateNodesPercentage")


class DynamicResourcesArgs(PluginArgs, frozen=True):
    filter_timeout: Duration = Duration(10)
    binding_timeout: Duration = Duration(600)

    def problems(self, path: str) -> Iterator[FieldError]:
        if self.filter_timeout < 0:
            yield invalid(f"{path}.filterTimeout", self.filter_timeout, "must be zero or positive")
        if self.binding_timeout < 1:
            detail = "must be at least 1 second"
            yield invalid(f"{path}.bindingTimeout", self.binding_timeout, detail)


class InterPodAffinityArgs(PluginArgs, frozen=True):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self, path: str) -> Iterator[FieldError]:
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")


class NodeAffinityArgs(PluginArgs, frozen=True):
    added_affinity: NodeAffinity | None = None

    def problems(self, path: str) -> Iterator[FieldError]:
        if self.added_affinity is not None:
            yield from affinity_problems(f"{path}.addedAffinity", self.added_affinity)


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    resources: tuple[ResourceSpec, ...] = ()

    def defaulted(self) -> NodeResourcesBalancedAllocationArgs:
        return replace(self, resources=_complete(self.resources))

    def problems(self, path: str) -> Iterator[FieldError]:
        seen: set[str] = set()
        for index, resource in enumerate(self.resources):
            at = f"{path}.resources[{index}]"
            if resource.name in seen:
                yield duplicate(f"{at}.name", resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(f"{at}.weight", resource.weight, "must be 1")


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = LEAST_ALLOCATED

    def defaulted(self) -> NodeResourcesFitArgs:
        strategy = self.scoring_strategy
        return replace(
            self,
            scoring_strategy=replace(strategy, resources=_complete(strategy.resources)),
        )

    def problems(self, path: str) -> Iterator[FieldError]:
        for index, name in enumerate(self.ignored_resources):
            yield from label_name_problems(f"{path}.ignoredResources[{index}]", name)
        for index, group in enumerate(self.ignored_resource_groups):
            at = f"{path}.ignoredResourceGroups[{index}]"
            if "/" in group:
                yield invalid(at, group, "resource group name can't contain '/'")
            yield from label_name_problems(at, group)
        yield from self._strategy_problems(f"{path}.scoringStrategy")

    def _strategy_problems(self, path: str) -> Iterator[FieldError]:
        strategy = self.scoring_strategy
        if strategy.type not in ScoringStrategy.allowed_types:
            yield not_supported(f"{path}.type", strategy.type, ScoringStrategy.allowed_types)
        yield from weight_problems(
            f"{path}.resources", [(each.name, each.weight) for each in strategy.resources]
        )
        ratio, at = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if strategy.type != "RequestedToCapacityRatio":
            if ratio is not None:
                yield forbidden(at, "must be nil when type is not RequestedToCapacityRatio")
        elif ratio is None:
            yield required(at, "must be specified when type is RequestedToCapacityRatio")
        else:
            points = [(point.utilization, point.score) for point in ratio.shape]
            yield from shape_problems(f"{at}.shape", points)


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    allowed_types: ClassVar = ("System", "List")

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = "System"

    def defaulted(self) -> PodTopologySpreadArgs:
        return replace(self, defaulting_type=self.defaulting_type or "System")

    def problems(self, path: str) -> Iterator[FieldError]:
        kind, at = self.defaulting_type, f"{path}.defaultingType"
        if kind not in self.allowed_types:
            yield not_supported(at, kind, self.allowed_types)
        elif kind == "System" and self.default_constraints:
            yield invalid(at, kind, "when .defaultConstraints are not empty")
        yield from constraint_problems(f"{path}.defaultConstraints", self.default_constraints)


class VolumeBindingArgs(PluginArgs, frozen=True):
    bind_timeout_seconds: Int64 = 600
    # Belongs to the alpha feature StorageCapacityScoring, and must not be set without it.
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def problems(self, path: str) -> Iterator[FieldError]:
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(f"{path}.bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        if self.shape is not None:
            detail = (
                "unexpected field `shape`, remove it or turn on the feature gate "
                "StorageCapacityScoring"
            )
            yield invalid(f"{path}.shape", msgspec.to_builtins(self.shape), detail)


#: The struct of every default plugin that takes arguments; the kind is the plugin's name + "Args".
PLUGIN_ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}


def read_args(
    plugin: str, raw: object, errors: list[FieldError], *, path: str
) -> PluginArgs | None:
    """The arguments of a default plugin, defaults filled in; what cannot be read goes to `errors`.

    None also for a plugin that is not kube-scheduler's or takes no arguments.
    """
    if plugin not in PLUGIN_ARGS:
        return None
    fields = raw
    if isinstance(raw, dict):
        for header, expected in (("apiVersion", API_VERSION), ("kind", f"{plugin}Args")):
            if (raw.get(header) or expected) != expected:
                errors.append(invalid(f"{path}.{header}", raw[header], f'expected "{expected}"'))
        fields = {key: value for key, value in raw.items() if key not in TYPE_HEADER}
    kind = PLUGIN_ARGS[plugin]
    args = decode(without_nulls(fields, kind), kind, errors, path=path)
    return args.defaulted() if args is not None else None


def written_args(plugin: str, args: PluginArgs) -> dict[str, Any]:
    """Arguments as kube-scheduler writes them: with their type, empty fields left out."""
    tree = load_json(msgspec.json.encode(args, enc_hook=encode_hook))
    return {"apiVersion": API_VERSION, "kind": f"{plugin}Args", **_without_empty(tree)}


def _without_empty(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {
            key: _without_empty(value)
            for key, value in tree.items()
            if value is not None and value != []
        }
    if isinstance(tree, list):
        return [_without_empty(item) for item in tree]
    return tree


def _complete(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """None at all means cpu and memory, and a weight of 0 means 1."""
    chosen = tuple(replace(each, weight=each.weight or 1) for each in resources)
    return chosen or CPU_AND_MEMORY
