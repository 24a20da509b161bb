"""The rules a decoded configuration must keep, in kube-scheduler's order and words.

What needs the plugin registry (unknown plugins, points a plugin does not implement) is checked in
`merge.py`; arguments of plugins that are not kube-scheduler's are checked by the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from stowplan.api.labels import label_key_errors, namespace_errors, subdomain_errors
from stowplan.config.defaults import REMOVED_PLUGINS
from stowplan.config.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.config.plugin_args import read_args
from stowplan.config.types import (
    API_VERSION,
    POINTS,
    TIE_BREAKS,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    Profile,
)

# client-go refuses a renew deadline that the jittered retries could miss.
RETRY_JITTER: Final = 1.2


def validate(config: KubeSchedulerConfiguration) -> list[FieldError]:
    """Every broken rule; an empty list for a good configuration."""
    return list(_validate(config))


def _validate(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    if config.client_connection.burst < 0:
        burst = config.client_connection.burst
        yield invalid("clientConnection.burst", burst, "must be non-negative")
    if config.leader_election.leader_elect:
        yield from _validate_leader_election(config.leader_election)
    if config.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        yield invalid("parallelism", config.parallelism, detail)
    yield from _validate_profiles(config.profiles)
    yield from _validate_percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, maximum = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if maximum < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", maximum, detail)
    yield from _validate_extenders(config.extenders)


def _validate_leader_election(election: LeaderElection) -> Iterator[FieldError]:
    for field, value in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if value <= 0:
            yield invalid(f"leaderElection.{field}", value, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # Upstream shows the deadline here and not the lease.
        detail = "must be greater than `RenewDeadline`"
        yield invalid("leaderElection.leaseDuration", election.renew_deadline, detail)
    if election.renew_deadline <= RETRY_JITTER * election.retry_period:
        detail = f"must be greater than {RETRY_JITTER} times `RetryPeriod`"
        yield invalid("leaderElection.renewDeadline", election.renew_deadline, detail)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid("leaderElection.resourceLock", election.resource_lock, detail)
    # DIVERGES: a name that no Lease can have is refused. Upstream tries for ever to get that Lease.
    for field, name, errors_of, what in (
        ("resourceNamespace", election.resource_namespace, namespace_errors, "namespace"),
        ("resourceName", election.resource_name, subdomain_errors, "name"),
    ):
        path = f"leaderElection.{field}"
        if not name:
            yield required(path)
            continue
        fix = f"Fix: give the Lease another {what}, here or by --leader-elect-resource-{what}"
        for reason in errors_of(name):
            yield invalid(path, name, f"{reason}. {fix}")


def _validate_percentage(path: str, percentage: int | None) -> Iterator[FieldError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _validate_profiles(profiles: tuple[Profile, ...]) -> Iterator[FieldError]:
    if not profiles:
        yield required("profiles")
        return
    first_with: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        yield from _validate_profile(path, profile)
        name = profile.scheduler_name
        if name in first_with:
            other = f"profiles[{first_with[name]}].schedulerName"
            yield duplicate(f"{path}.schedulerName", other)
        first_with[name] = index
    yield from _validate_common_queue_sort(profiles)


def _validate_profile(path: str, profile: Profile) -> Iterator[FieldError]:
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName")
    yield from _validate_percentage(
        f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score
    )
    for point in (*POINTS, "multiPoint"):
        for index, ref in enumerate(profile.plugins.at(point).enabled):
            yield from _validate_not_removed(f"{path}.plugins.{point}.enabled[{index}]", ref.name)
    # DIVERGES: plugins at placementGenerate and placementScore are rejected. Upstream accepts some
    # but never calls them, because the feature is off; a setting without effect should not pass.
    for point in ("placementGenerate", "placementScore"):
        if profile.plugins.at(point).enabled:
            detail = "scheduling of pod groups by placement is not supported"
            yield forbidden(f"{path}.plugins.{point}", detail)
    yield from _validate_plugin_config(path, profile)
    yield from _validate_tie_break(path, profile)


def _validate_tie_break(path: str, profile: Profile) -> Iterator[FieldError]:
    if profile.tie_break not in TIE_BREAKS:
        yield not_supported(f"{path}.tieBreak", profile.tie_break, TIE_BREAKS)
    elif profile.tie_break_seed is not None and profile.tie_break != "random":
        yield forbidden(f"{path}.tieBreakSeed", 'is used only with tieBreak "random"')


def _validate_plugin_config(path: str, profile: Profile) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        entry_path = f"{path}.pluginConfig[{index}]"
        if entry.name in seen:
            yield duplicate(entry_path, entry.name)
        seen.add(entry.name)
        yield from _validate_not_removed(entry_path, entry.name)
        errors: list[FieldError] = []
        args = read_args(entry.name, entry.args, errors, path=f"{entry_path}.args")
        yield from errors
        if args is not None:
            yield from args.problems(f"{entry_path}.args")


def _validate_not_removed(path: str, name: str) -> Iterator[FieldError]:
    if name in REMOVED_PLUGINS:
        detail = (
            f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
        )
        yield invalid(path, name, detail)


def _validate_common_queue_sort(profiles: tuple[Profile, ...]) -> Iterator[FieldError]:
    """All profiles feed one queue, so they must order it alike."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(first.enabled), detail)
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            shown = msgspec.to_builtins(profile.plugins.queue_sort)
            detail = "must be the same for all profiles"
            yield invalid(f"profiles[{index}].plugins.queueSort", shown, detail)
        if first.enabled:
            name = first.enabled[0].name
            args = profile.plugin_args(name)
            if args != profiles[0].plugin_args(name):
                detail = "queueSort must be the same for all profiles"
                yield invalid(f"profiles[{index}].pluginConfig.args", args, detail)


def _validate_extenders(extenders: tuple[Extender, ...]) -> Iterator[FieldError]:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            yield invalid(f"{path}.weight", extender.weight, detail)
        for number, resource in enumerate(extender.managed_resources):
            name_path = f"{path}.managedResources[{number}].name"
            yield from _validate_extended_resource(name_path, resource.name)
            if resource.name in managed:
                yield invalid(name_path, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        shown = f"found {binders} extenders implementing bind"
        yield invalid("extenders", shown, "only one extender can implement bind")


def _validate_extended_resource(path: str, name: str) -> Iterator[FieldError]:
    """A qualified name outside Kubernetes' own domain, such as example.com/gpu."""
    reasons = label_key_errors(name)
    for reason in reasons:
        yield invalid(path, name, reason)
    is_native = "/" not in name or "kubernetes.io/" in name
    # As a quota the name gets the prefix "requests.", which must still fit into the domain.
    is_quota = name.startswith("requests.") or bool(label_key_errors(f"requests.{name}"))
    if not reasons and (is_native or is_quota):
        yield invalid(path, name, "is an invalid extended resource name")
