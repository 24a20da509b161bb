"""Builds an engine from configuration: registry, profiles, handles, cache and queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from stowplan.api.objects import Pod
from stowplan.clock import Clock, SystemClock
from stowplan.cluster.cache import ClusterCache
from stowplan.config import types as config_types
from stowplan.config.advice import WITHOUT_ARGS, advice
from stowplan.config.fields import FieldError, raise_errors
from stowplan.config.merge import find_points, merge_defaults
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError
from stowplan.framework.handle import Handle
from stowplan.framework.profile import Profile, build_profile
from stowplan.framework.registry import Registry
from stowplan.logs import V2, get_logger, kv
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.configured_extender import configured_extenders, ignored_resources
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.metrics import SchedulerMetrics

log = get_logger(__name__)


def build_engine(
    config: KubeSchedulerConfiguration,
    *,
    registry: Registry | None = None,
    clock: Clock | None = None,
    stopwatch_clock: Clock | None = None,
    observes_durations: bool = True,
    rng: Random | None = None,
    lookup: Callable[[str], Pod | None] | None = None,
    where: str = "",
    max_in_unschedulable_s: float = 300.0,
) -> Engine:
    """Wire everything that decides. ConfigError says what is wrong with the configuration.

    `stopwatch_clock` times plugins, to name slow ones. Default: `clock`; if that is virtual, give
    the real one. Without `observes_durations`, the metrics of extension points and of changes of
    the cluster stay empty: in virtual time they are all 0.
    """
    if registry is None:
        registry = in_tree_registry()
        registry.load_entry_points()
    clock = clock or SystemClock()
    rng = rng or Random()
    cache = ClusterCache()
    profiles, handles = build_profiles(
        config, cache, registry=registry, clock=clock, rng=rng, where=where
    )
    errors: list[FieldError] = []
    extenders = configured_extenders(config.extenders, errors)
    raise_errors(errors, where=where)
    for warning in advice(config, implements=registry.points, known=registry.names):
        log.warning(
            "A part of the configuration has no effect",
            extra=kv(field=warning.path, problem=warning.message),
        )
    for profile in config.profiles:
        _tell_what_is_missing(profile, registry)
        if log.isEnabledFor(V2):
            listed = profiles[profile.scheduler_name].listed()
            log.log(V2, "the scheduler starts to work with those plugins", extra=kv(Plugins=listed))
        seed = profiles[profile.scheduler_name].tie_break_seed
        if seed is not None:
            extra = kv(profile=profile.scheduler_name, seed=seed)
            log.info("One of several best nodes is drawn at random", extra=extra)
    engine = Engine(
        profiles,
        cache=cache,
        clock=clock,
        handles=handles,
        extenders=extenders,
        draw_seed=rng.getrandbits(63) if extenders else 0,
        metrics=SchedulerMetrics(),
        stopwatch_clock=stopwatch_clock,
        observes_durations=observes_durations,
        lookup=lookup,
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
        max_in_unschedulable_s=max_in_unschedulable_s,
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
    where: str = "",
) -> tuple[dict[str, Profile], dict[str, Handle]]:
    """Profiles by scheduler name, with plugins that look at this cluster, and their handles."""
    handles = {
        profile.scheduler_name: Handle(
            profile=profile.scheduler_name,
            table=cache.table,
            catalog=cache.catalog,
            clock=clock,
            rng=rng,
        )
        for profile in config.profiles
    }
    errors: list[FieldError] = []
    profiles = _make_profiles(config, registry, handles, errors)
    raise_errors(errors, where=where)
    return profiles, handles


def plugin_errors(config: KubeSchedulerConfiguration, registry: Registry) -> list[FieldError]:
    """Return the errors that `build_engine` would raise, except those of extenders.

    Lets `config check` report all errors at once; kube-scheduler finds these only at its start.
    """
    errors: list[FieldError] = []
    names = [profile.scheduler_name for profile in config.profiles]
    handles = {name: Handle(profile=name) for name in names}
    _make_profiles(config, registry, handles, errors)
    return errors


def _make_profiles(
    config: KubeSchedulerConfiguration,
    registry: Registry,
    handles: Mapping[str, Handle],
    errors: list[FieldError],
) -> dict[str, Profile]:
    """Every profile that could be made, by scheduler name; the rest is in `errors`."""
    points = find_points(config.profiles, errors, implements=registry.points, known=registry.names)
    profiles: dict[str, Profile] = {}
    ignored = ignored_resources(config.extenders)
    for index, profile in enumerate(config.profiles):
        name = profile.scheduler_name
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = config.percentage_of_nodes_to_score
        try:
            profiles[name] = build_profile(
                name,
                points[name],
                registry=registry,
                handle=handles[name],
                args=_arguments(profile, ignored),
                arg_paths=_argument_paths(index, profile),
                percentage_of_nodes_to_score=percentage,
                tie_break_seed=_tie_break_seed(profile, handles[name].rng),
            )
        except ConfigError as problem:
            errors += [FieldError("", line) for line in str(problem).split("\n")]
    return profiles


def _arguments(profile: config_types.Profile, ignored: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Raw arguments by plugin. Those of a plugin of kube-scheduler's that takes none are ignored,
    as there; `advice` tells. Resources that are an extender's affair are `ignored`.
    """
    arguments = {
        entry.name: profile.plugin_args(entry.name)
        for entry in profile.plugin_config
        if entry.name not in WITHOUT_ARGS
    }
    if ignored:
        fit = arguments.get("NodeResourcesFit", {})
        arguments["NodeResourcesFit"] = {**fit, "ignoredResources": list(ignored)}
    return arguments


def _argument_paths(index: int, profile: config_types.Profile) -> dict[str, str]:
    """Where each plugin's arguments stand; of two entries the first counts."""
    paths: dict[str, str] = {}
    for place, entry in enumerate(profile.plugin_config):
        paths.setdefault(entry.name, f"profiles[{index}].pluginConfig[{place}].args")
    return paths


def _tie_break_seed(profile: config_types.Profile, rng: Random) -> int | None:
    if profile.tie_break != "random":
        return None
    if profile.tie_break_seed is not None:
        return profile.tie_break_seed
    return rng.getrandbits(63)


def _tell_what_is_missing(profile: config_types.Profile, registry: Registry) -> None:
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
