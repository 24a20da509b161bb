"""Defaults that a struct's field default cannot express, and upstream's default plugins.

`fill_absent` works on the raw tree, where absent and zero still differ; `replace_zeros` on the
structs, for the fields whose zero value Go takes as "not set".
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from stowplan.config.types import (
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

# kube-scheduler 1.36's default profile with its default feature gates, in its order.
DEFAULT_MULTI_POINT: Final[tuple[PluginRef, ...]] = (
    PluginRef("SchedulingGates"),
    PluginRef("PrioritySort"),
    PluginRef("NodeUnschedulable"),
    PluginRef("NodeName"),
    PluginRef("TaintToleration", 3),
    PluginRef("NodeAffinity", 2),
    PluginRef("NodePorts"),
    PluginRef("NodeResourcesFit", 1),
    PluginRef("VolumeRestrictions"),
    PluginRef("NodeVolumeLimits"),
    PluginRef("VolumeBinding"),
    PluginRef("VolumeZone"),
    PluginRef("PodTopologySpread", 2),
    PluginRef("InterPodAffinity", 2),
    # Before DefaultPreemption: freeing an idle claim is kinder than evicting a pod.
    PluginRef("DynamicResources", 2),
    PluginRef("DefaultPreemption"),
    PluginRef("NodeResourcesBalancedAllocation", 1),
    PluginRef("ImageLocality", 1),
    PluginRef("DefaultBinder"),
    PluginRef("NodeDeclaredFeatures"),
)
#: Names of plugins that kube-scheduler once had, and refuses with a sentence of their own.
REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
DEFAULT_PLUGINS: Final = Plugins(multi_point=PluginSet(enabled=DEFAULT_MULTI_POINT))


def fill_absent(raw: dict[str, Any]) -> dict[str, Any]:
    """The raw tree with the defaults that depend on other fields; `raw` is left as it is."""
    filled = dict(raw)
    profiles = filled.get("profiles")
    if profiles is None or profiles == []:
        profiles = [{}]
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict):
        # Only a single profile gets a name: with several, each must say which pods it serves.
        profiles = [{"schedulerName": DEFAULT_SCHEDULER_NAME, **profiles[0]}]
    filled["profiles"] = profiles
    if "enableProfiling" in filled:
        filled.setdefault("enableContentionProfiling", filled["enableProfiling"])
    return filled


def replace_zeros(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Zero means "not set" for these fields, as Go cannot tell the two apart."""
    election, connection = config.leader_election, config.client_connection
    unset_election, unset_connection = LeaderElection(), ClientConnection()
    return replace(
        config,
        leader_election=replace(
            election,
            lease_duration=election.lease_duration or unset_election.lease_duration,
            renew_deadline=election.renew_deadline or unset_election.renew_deadline,
            retry_period=election.retry_period or unset_election.retry_period,
            resource_lock=election.resource_lock or unset_election.resource_lock,
            resource_name=election.resource_name or unset_election.resource_name,
            resource_namespace=election.resource_namespace or unset_election.resource_namespace,
        ),
        client_connection=replace(
            connection,
            content_type=connection.content_type or unset_connection.content_type,
            qps=connection.qps or unset_connection.qps,
            burst=connection.burst or unset_connection.burst,
        ),
        extenders=tuple(
            replace(extender, http_timeout=extender.http_timeout or Extender().http_timeout)
            for extender in config.extenders
        ),
    )


def default_config() -> KubeSchedulerConfiguration:
    """What applies when no file is given."""
    return KubeSchedulerConfiguration(profiles=(Profile(scheduler_name=DEFAULT_SCHEDULER_NAME),))
