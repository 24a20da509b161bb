"""The scheduler that a scenario asks for: a configuration, and plugins beside those in the tree.

Plugins are named as `NodeNumber` (one that is known), `package.module:Class`, or `my_file.py:Class`
beside the scenario. Without a configuration they join the default profile; with one they are only
made known, and it says where they take part. Used by `document` and `python_file`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stowplan.config.feature_gates import FeatureGates
from stowplan.config.load import load_config, parse_object
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.errors import ConfigError
from stowplan.framework.loading import find_plugin
from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import plugin_errors
from stowplan.server.library import check_enabled, config_with

_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Scheduling:
    """`config` is None where the defaults apply."""

    config: KubeSchedulerConfiguration | None
    registry: Registry
    #: Plugins that were named beside the configuration.
    plugins: tuple[type[Plugin], ...] = ()

    def with_config(self, file: str) -> Scheduling:
        """The same plugins under another configuration, such as the command line's."""
        return replace(self, config=load_config(file, check=self._check()))

    def check_enabled(self, *, where: str) -> None:
        """Raise ConfigError if no profile enables one of the plugins: it would do nothing."""
        if self.config is not None:
            check_enabled(self.plugins, self.config, where=where)

    def _check(self) -> Any:
        return partial(plugin_errors, registry=self.registry)


def read_scheduling(
    config: object,
    plugins: object,
    *,
    folder: Path,
    where_config: str,
    where_plugins: str,
    more: Sequence[type[Plugin]] = (),
    gates: FeatureGates | None = None,
) -> Scheduling:
    """`config` is a file, a mapping, or None; `plugins` a list of texts and plugin classes.

    `more` are plugins of the command line. Without `gates` all have their defaults.
    """
    registry = in_tree_registry(gates)
    registry.load_entry_points()
    chosen = [
        find_plugin(each, registry, folder=folder, where=where_plugins)
        for each in _as_list(plugins, where_plugins)
    ]
    chosen += more
    for plugin in chosen:
        registry.register(plugin)
    scheduling = Scheduling(None, registry, tuple(chosen))
    check = scheduling._check()
    if isinstance(config, KubeSchedulerConfiguration):
        return replace(scheduling, config=config)
    if isinstance(config, str | Path) and config:
        return replace(scheduling, config=load_config(folder / config, check=check))
    if isinstance(config, dict):
        tree = {"apiVersion": API_VERSION, "kind": KIND, **config}
        return replace(scheduling, config=parse_object(tree, where=where_config, check=check))
    if config is not None:
        raise ConfigError("expected a file name or a mapping", where=where_config)
    if not chosen:
        return scheduling
    return replace(scheduling, config=config_with(chosen, scheduler_name=_SCHEDULER))


def _as_list(plugins: object, where: str) -> Sequence[object]:
    if isinstance(plugins, str) or not isinstance(plugins, Iterable):
        raise ConfigError("expected a list, as in [NodeNumber, my.module:Plugin]", where=where)
    return list(plugins)
