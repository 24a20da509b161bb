"""Configurations of lines, cached by their text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from random import Random
from typing import Any

from stowplan.api.objects import Pod
from stowplan.api.resources import DEVICE_TAINT_RULES, Resource
from stowplan.clock import SystemClock
from stowplan.cluster.cache import ClusterCache
from stowplan.config.feature_gates import FeatureGates
from stowplan.config.load import parse_object
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.config.written import written_config
from stowplan.errors import ConfigError
from stowplan.framework.profile import Profile
from stowplan.framework.registry import Registry
from stowplan.judge.lines import decode, json_type
from stowplan.judge.refusal import QuestionRefused, listed
from stowplan.plugins.registry import in_tree_registry
from stowplan.redaction import redact
from stowplan.scheduler.assembly import build_profiles


@cache
def default_registry(gates: FeatureGates | None = None) -> Registry:
    """The plugins that ship with Stowplan and those of installed distributions."""
    registry = in_tree_registry(gates)
    registry.load_entry_points()
    return registry


class Configuration:
    """A line's configuration: its profiles, made once as patterns for the clusters to come."""

    def __init__(self, config: KubeSchedulerConfiguration, registry: Registry) -> None:
        self._patterns, _ = build_profiles(
            config, ClusterCache(), registry=registry, clock=SystemClock(), rng=Random(0)
        )
        self._config = config
        self._known = registry.names

    def written(self) -> dict[str, Any]:
        """The whole configuration as kube-scheduler writes it, without secrets."""
        written: dict[str, Any] = redact(written_config(self._config, self._known))
        return written

    def serves(self, pod: Pod) -> bool:
        """True if a pod would be in this scheduler's queue; one without a schedulerName would."""
        return not pod.spec.scheduler_name or pod.spec.scheduler_name in self._patterns

    def looked_up(self) -> list[Resource[Any]]:
        """The kinds besides nodes and pods that some plugin reads."""
        plugins = [each for profile in self._patterns.values() for each in profile.plugins.values()]
        return list(dict.fromkeys(kind for plugin in plugins for kind in plugin.looks_up))

    def ignores(self, kind: Resource[Any]) -> bool:
        """Whether decisions leave a kind out of account because its feature gate is off."""
        return kind is DEVICE_TAINT_RULES and kind not in self.looked_up()

    def profile_for(self, pod: Pod) -> Profile:
        """A pattern: a cluster makes its own of it (`GivenCluster.settle`)."""
        return profile_for(self._patterns, pod)


def profile_for(profiles: Mapping[str, Profile], pod: Pod) -> Profile:
    """The profile that a pod asks for; where there is no choice, or it says nothing, the first."""
    name = pod.spec.scheduler_name
    if len(profiles) == 1 or not name:
        return next(iter(profiles.values()))
    profile = profiles.get(name)
    if profile is None:
        raise QuestionRefused(
            f'pod: spec.schedulerName: Invalid value: "{name}": no profile has that name'
            f" (there are {', '.join(profiles)})"
        )
    return profile


@lru_cache(maxsize=256)
def read_config(text: bytes, registry: Registry) -> Configuration:
    """`parse_config`, cached."""
    return parse_config(text, registry)


def parse_config(text: bytes, registry: Registry) -> Configuration:
    """Read a line's `config`; apiVersion and kind are optional."""
    raw = decode(text)
    if not isinstance(raw, dict):
        raise QuestionRefused(f"config: expected an object, got {json_type(text)}")
    for name, value in (("apiVersion", API_VERSION), ("kind", KIND)):
        if raw.get(name) is None:
            raw[name] = value
    try:
        config = parse_object(raw)
        if config.extenders:
            raise ConfigError(
                "Forbidden: no extender is asked here; leave them out to see what the plugins"
                " decide",
                where="extenders",
            )
        return Configuration(config, registry)
    except ConfigError as problem:
        lines = str(problem).splitlines()
        raise QuestionRefused(listed([f"config: {line}" for line in lines])) from None
