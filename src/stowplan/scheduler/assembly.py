"""Builds an engine from configuration: registry, profiles, handles, cache and queue."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from stowplan.api.objects import Pod
from stowplan.clock import Clock, SystemClock
from stowplan.cluster.cache import ClusterCache
from stowplan.config.merge import merge_defaults, resolve_profiles
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.framework.handle import Handle
from stowplan.framework.profile import Profile, build_profile
from stowplan.framework.registry import Registry
from stowplan.logs import get_logger, kv
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.metrics import SchedulerMetrics

log = get_logger(__name__)


def build_engine(
    config: KubeSchedulerConfiguration,
    *,
    registry: Registry | None = None,
    clock: Clock | None = None,
    rng: Random | None = None,
    client: Any = None,
    lookup: Callable[[str], Pod | None] | None = None,
    where: str = "",
) -> Engine:
    """Wire everything that decides. ConfigError says what is wrong with the configuration."""
    if registry is None:
        registry = in_tree_registry()
        registry.load_entry_points()
    clock = clock or SystemClock()
    rng = rng or Random()
    cache = ClusterCache()
    profiles, handles = build_profiles(
        config, cache, registry=registry, clock=clock, rng=rng, client=client, where=where
    )
    for profile in config.profiles:
        left_out = [
            ref.name
            for ref in merge_defaults(profile.plugins).multi_point.enabled
            if ref.name not in registry.names
        ]
        if left_out:
            log.warning(
                "Pods are placed without these default plugins: they do not exist yet",
                extra=kv(profile=profile.scheduler_name, plugins=left_out),
            )
    engine = Engine(
        profiles,
        cache=cache,
        clock=clock,
        handles=handles,
        metrics=SchedulerMetrics(),
        lookup=lookup,
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
    )
    for handle in handles.values():
        handle.activate = engine.queue.activate
    return engine


def build_profiles(
    config: KubeSchedulerConfiguration,
    cache: ClusterCache,
    *,
    registry: Registry,
    clock: Clock,
    rng: Random,
    client: Any = None,
    where: str = "",
) -> tuple[dict[str, Profile], dict[str, Handle]]:
    """The configuration's profiles and their plugins' handles, by scheduler name."""
    points = resolve_profiles(
        config.profiles, implements=registry.points, known=registry.names, where=where
    )
    profiles: dict[str, Profile] = {}
    handles: dict[str, Handle] = {}
    for index, profile in enumerate(config.profiles):
        name = profile.scheduler_name
        handle = Handle(
            profile=name,
            table=cache.table,
            catalog=cache.catalog,
            clock=clock,
            rng=rng,
            client=client,
        )
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = config.percentage_of_nodes_to_score
        profiles[name] = build_profile(
            name,
            points[name],
            registry=registry,
            handle=handle,
            args={entry.name: profile.plugin_args(entry.name) for entry in profile.plugin_config},
            arg_paths={
                entry.name: f"profiles[{index}].pluginConfig[{place}].args"
                for place, entry in enumerate(profile.plugin_config)
            },
            file=where,
            percentage_of_nodes_to_score=percentage,
        )
        handles[name] = handle
    return profiles, handles
