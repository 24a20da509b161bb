"""The scheduler that a scenario asks for: a configuration, and plugins beside those in the tree.

Plugins are named as `NodeNumber` (one that is known), `package.module:Class`, or `my_file.py:Class`
beside the scenario. Without a configuration they join the default profile; with one they are only
made known, and it says where they take part. Used by `document` and `python_file`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stowplan.config.load import load_config, parse_object
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.errors import ConfigError
from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import plugin_errors
from stowplan.server.library import profile_of
from stowplan.sim.scenarios.modules import load_module

_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Scheduling:
    """`config` is None where the defaults apply."""

    config: KubeSchedulerConfiguration | None
    registry: Registry

    def with_config(self, file: str) -> Scheduling:
        """The same plugins under another configuration, such as the command line's."""
        return Scheduling(load_config(file, check=self._check()), self.registry)

    def _check(self) -> Any:
        return partial(plugin_errors, registry=self.registry)


def read_scheduling(
    config: object,
    plugins: object,
    *,
    folder: Path,
    where_config: str,
    where_plugins: str,
) -> Scheduling:
    """`config` is a file, a mapping, or None; `plugins` a list of texts and plugin classes."""
    registry = in_tree_registry()
    registry.load_entry_points()
    chosen = [
        _find_plugin(each, registry, folder, where_plugins)
        for each in _as_list(plugins, where_plugins)
    ]
    for plugin in chosen:
        registry.register(plugin)
    scheduling = Scheduling(None, registry)
    check = scheduling._check()
    if isinstance(config, KubeSchedulerConfiguration):
        return Scheduling(config, registry)
    if isinstance(config, str | Path) and config:
        return Scheduling(load_config(folder / config, check=check), registry)
    if isinstance(config, dict):
        tree = {"apiVersion": API_VERSION, "kind": KIND, **config}
        return Scheduling(parse_object(tree, where=where_config, check=check), registry)
    if config is not None:
        raise ConfigError("expected a file name or a mapping", where=where_config)
    if not chosen:
        return scheduling
    joined, _ = profile_of(chosen, scheduler_name=_SCHEDULER)
    return Scheduling(joined, registry)


def _as_list(plugins: object, where: str) -> Sequence[object]:
    if isinstance(plugins, str) or not isinstance(plugins, Iterable):
        raise ConfigError("expected a list, as in [NodeNumber, my.module:Plugin]", where=where)
    return list(plugins)


def _find_plugin(named: object, registry: Registry, folder: Path, where: str) -> type[Plugin]:
    if isinstance(named, str) and ":" not in named:
        if named not in registry.names:
            known = ", ".join(sorted(registry.names))
            raise ConfigError(
                f"there is no plugin `{named}`; write module:Class for one of your own, or one of"
                f" {known}",
                where=where,
            )
        return registry.get(named)
    found = _imported(named, folder, where) if isinstance(named, str) else named
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise ConfigError(f"`{named}` is not a plugin class", where=where)
    return found


def _imported(named: str, folder: Path, where: str) -> object:
    module_name, _, path = named.rpartition(":")
    if not module_name or not path:
        raise ConfigError(f"`{named}` is not of the form module:Class", where=where)
    if module_name.endswith(".py"):
        found: Any = load_module(folder / module_name)
    else:
        found = _import_module(module_name, folder, named, where)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise ConfigError(f"there is no {path} in {module_name}", where=where) from None
    return found


def _import_module(name: str, folder: Path, named: str, where: str) -> Any:
    """Also one that lies beside the scenario, as `python scenario.py` would find it."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except Exception as problem:
        raise ConfigError(
            f"`{named}` cannot be imported: {type(problem).__name__}: {problem}", where=where
        ) from None
    finally:
        sys.path.remove(str(folder))
