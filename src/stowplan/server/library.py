"""`stowplan.run(...)`: a scheduler from a few plugins, in one call.

import stowplan

@stowplan.filter
def on_ssd(pod, node):
    return node.labels.get("disk") == "ssd"

stowplan.run(on_ssd, scheduler_name="ssd-scheduler")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from stowplan.api.labels import subdomain_errors
from stowplan.api.objects import Node
from stowplan.config.load import default_config
from stowplan.config.types import (
    POINTS,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)
from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.logs import configure, get_logger, kv
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.outcome import Failure
from stowplan.server.serving import ServeOptions, run_until_signal

log = get_logger(__name__)

T = TypeVar("T")

_ESSENTIAL = ("PrioritySort", "SchedulingGates", "DefaultBinder")


def run(
    *plugins: type[Plugin],
    scheduler_name: str,
    defaults: bool = True,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str = "",
    leader_elect: bool = False,
    verbosity: int | None = 2,
    on_node: Callable[[Node], None] | None = None,
    on_failure: Callable[[Failure], None] | None = None,
    scheduled_event: bool = True,
) -> None:
    """Schedule the pods that ask for `scheduler_name`, until SIGTERM or Ctrl-C.

    The plugins join the default ones; with `defaults=False` they are all there is, beside sorting,
    gates and binding. `namespace` limits it to the pods of one namespace.

    `verbosity` is that of the log on standard error, 0 to 10; None leaves Python's logging alone.
    `on_node` is called with every node that joins the cluster, `on_failure` with every attempt to
    schedule or bind a pod that failed; what they raise is logged. `scheduled_event=False` writes no
    event `Scheduled`, for a plugin whose `post_bind` writes its own.

    An error that ends the scheduler, such as no cluster to connect to, is printed in one line and
    ends the program with SystemExit.
    """
    if verbosity is not None:
        configure(verbosity, "text")
    try:
        config, registry = profile_of(plugins, scheduler_name=scheduler_name, defaults=defaults)
        run_until_signal(
            ServeOptions(
                config=_with_election(config, LeaderElection(leader_elect=leader_elect)),
                registry=registry,
                kubeconfig=kubeconfig,
                context=context,
                namespace=namespace,
                on_node=_guarded(on_node),
                on_failure=_guarded(on_failure),
                scheduled_event=scheduled_event,
            )
        )
    except StowplanError as problem:
        for line in str(problem).splitlines() or [type(problem).__name__]:
            print(f"Error: {line}", file=sys.stderr)  # noqa: T201 - as the command line does
        raise SystemExit(problem.exit_code) from None


def profile_of(
    plugins: Iterable[type[Plugin]], *, scheduler_name: str, defaults: bool = True
) -> tuple[KubeSchedulerConfiguration, Registry]:
    """A configuration with one profile that has these plugins, and a registry that knows them."""
    registry = in_tree_registry()
    chosen = list(plugins)
    for plugin in chosen:
        registry.register(plugin)
    return config_with(chosen, scheduler_name=scheduler_name, defaults=defaults), registry


def config_with(
    plugins: Iterable[type[Plugin]], *, scheduler_name: str, defaults: bool = True
) -> KubeSchedulerConfiguration:
    """A configuration with one profile that has these plugins."""
    names = [plugin.name for plugin in plugins]
    disabled: tuple[PluginRef, ...] = ()
    if not defaults:
        disabled = (PluginRef("*"),)
        names = [name for name in _ESSENTIAL if name not in names] + names
    multi_point = PluginSet(enabled=tuple(PluginRef(name) for name in names), disabled=disabled)
    profile = Profile(scheduler_name=scheduler_name, plugins=Plugins(multi_point=multi_point))
    return replace(default_config(), profiles=(profile,))


def check_enabled(
    plugins: Iterable[type[Plugin]], config: KubeSchedulerConfiguration, *, where: str
) -> None:
    """Refuse a plugin of `--plugin` that no profile enables: it would do nothing."""
    enabled = {
        ref.name
        for profile in config.profiles
        for point in ("multiPoint", *POINTS)
        for ref in profile.plugins.at(point).enabled
    }
    for plugin in plugins:
        is_ours = plugin.__module__.startswith("stowplan.plugins.")
        if plugin.name not in enabled and not is_ours:
            raise ConfigError(
                f"no profile enables {plugin.name}. Fix: add it to"
                " profiles[0].plugins.multiPoint.enabled, or leave out the configuration",
                where=where,
            )


def _guarded(call: Callable[[T], None] | None) -> Callable[[T], None] | None:
    """The user's function, which must not stop the scheduler when it raises."""
    if call is None:
        return None

    def guarded(value: T) -> None:
        try:
            call(value)
        except Exception:
            log.exception("A function given to stowplan.run raised", extra=kv(function=repr(call)))

    return guarded


def _with_election(
    config: KubeSchedulerConfiguration, election: LeaderElection
) -> KubeSchedulerConfiguration:
    """Election with a lease by the scheduler's own name."""
    name = config.profiles[0].scheduler_name
    for reason in subdomain_errors(name) if election.leader_elect else ():
        raise ConfigError(
            f'"{name}" also names the Lease of leader election, but {reason}. '
            "Fix: another scheduler_name, or leader_elect=False",
            where="scheduler_name",
        )
    return replace(config, leader_election=replace(election, resource_name=name))
