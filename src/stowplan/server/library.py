"""`stowplan.run(...)`: a scheduler from a few plugins, in one call.

import stowplan

@stowplan.filter
def on_ssd(pod, node):
    return node.labels.get("disk") == "ssd"

stowplan.run(on_ssd, scheduler_name="ssd-scheduler")
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stowplan.config.load import default_config
from stowplan.config.types import (
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)
from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.logs import configure
from stowplan.plugins.registry import in_tree_registry
from stowplan.server.serving import ServeOptions, run_until_signal

_ESSENTIAL = ("PrioritySort", "SchedulingGates", "DefaultBinder")


def run(
    *plugins: type[Plugin],
    scheduler_name: str,
    defaults: bool = True,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str = "",
    leader_elect: bool = False,
    verbosity: int = 2,
) -> None:
    """Serve pods that ask for `scheduler_name` until SIGTERM or Ctrl-C.

    The plugins join the default ones; with `defaults=False` they are all there is, beside sorting,
    gates and binding.
    """
    configure(verbosity, "text")
    config, registry = profile_of(plugins, scheduler_name=scheduler_name, defaults=defaults)
    run_until_signal(
        ServeOptions(
            config=_with_election(config, LeaderElection(leader_elect=leader_elect)),
            registry=registry,
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
        )
    )


def profile_of(
    plugins: Iterable[type[Plugin]], *, scheduler_name: str, defaults: bool = True
) -> tuple[KubeSchedulerConfiguration, Registry]:
    """A configuration with one profile that has these plugins, and a registry that knows them."""
    registry = in_tree_registry()
    chosen = list(plugins)
    for plugin in chosen:
        registry.register(plugin)
    names = [plugin.name for plugin in chosen]
    disabled: tuple[PluginRef, ...] = ()
    if not defaults:
        disabled = (PluginRef("*"),)
        names = [name for name in _ESSENTIAL if name not in names] + names
    multi_point = PluginSet(enabled=tuple(PluginRef(name) for name in names), disabled=disabled)
    profile = Profile(scheduler_name=scheduler_name, plugins=Plugins(multi_point=multi_point))
    config = default_config()
    return replace(config, profiles=(profile,)), registry


def _with_election(
    config: KubeSchedulerConfiguration, election: LeaderElection
) -> KubeSchedulerConfiguration:
    """Election with a lease by the scheduler's own name."""
    name = config.profiles[0].scheduler_name
    return replace(config, leader_election=replace(election, resource_name=name))
