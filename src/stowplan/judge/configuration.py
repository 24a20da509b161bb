"""Configurations of lines: read once, kept by their text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

from stowplan.api.objects import Pod
from stowplan.config.load import parse_object
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.errors import ConfigError
from stowplan.framework.profile import Profile
from stowplan.framework.registry import Registry
from stowplan.judge.lines import decode, json_type
from stowplan.judge.refusal import Refused
from stowplan.plugins.registry import in_tree_registry


@cache
def default_registry() -> Registry:
    """What ships with Stowplan and what is installed beside it."""
    registry = in_tree_registry()
    registry.load_entry_points()
    return registry


@lru_cache(maxsize=256)
def read_config(text: bytes) -> KubeSchedulerConfiguration:
    """A line's `config`; what it is need not be said."""
    raw = decode(text)
    if not isinstance(raw, dict):
        raise Refused(f"config: expected an object, got {json_type(text)}")
    for name, value in (("apiVersion", API_VERSION), ("kind", KIND)):
        if raw.get(name) is None:
            raw[name] = value
    try:
        config = parse_object(raw)
    except ConfigError as problem:
        raise config_refused(problem) from None
    if config.extenders:
        raise Refused(
            "config: extenders: Forbidden: no extender is asked here; leave them out to see what"
            " the plugins decide"
        )
    return config


def config_refused(problem: ConfigError) -> Refused:
    """Every mistake of a configuration, each with its path."""
    return Refused("; ".join(f"config: {line}" for line in str(problem).splitlines()))


def choose_profile(profiles: Mapping[str, Profile], pod: Pod) -> Profile:
    """The profile that a pod asks for; where there is no choice, or it says nothing, the first."""
    name = pod.spec.scheduler_name
    if len(profiles) == 1 or not name:
        return next(iter(profiles.values()))
    profile = profiles.get(name)
    if profile is None:
        known = ", ".join(profiles)
        raise Refused(
            f'pod: spec.schedulerName: Invalid value: "{name}": no profile has that name (there'
            f" are {known})"
        )
    return profile
