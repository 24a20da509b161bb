"""Plugin classes by name: the in-tree table and what other distributions bring.

A distribution offers plugins through the entry point group `stowplan.plugins`; the entry's name
does not matter, the class's `name` does. Two classes with one name raise a ConfigError that says
where both are, unless they are one class that was loaded twice: the later one is then used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from stowplan.errors import ConfigError
from stowplan.framework.installed import installed_entry_points
from stowplan.framework.loading import check_class, is_loaded_twice, load_error, place_of
from stowplan.framework.misspelt import misspelt, misspelt_attributes
from stowplan.framework.parameters import wrong_parameters
from stowplan.framework.plugin import Plugin, points_of
from stowplan.plugin_failures import defined_at

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "stowplan.plugins"


class Registry:
    """Known plugin classes."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._classes: dict[str, type[Plugin]] = {}
        self._points: dict[str, frozenset[str]] = {}
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: type[Plugin]) -> None:
        """Make a plugin class known under its name."""
        check_class(plugin, where="plugins")
        if not plugin.name:
            raise ConfigError(
                f"plugin class {plugin.__qualname__} has no name. Fix: add"
                f' `name = "{plugin.__name__}"` to it ({place_of(plugin)})',
                where="plugins",
            )
        known = self._classes.get(plugin.name)
        if known is not None and known is not plugin and not is_loaded_twice(known, plugin):
            raise ConfigError(
                f"two plugins are called {plugin.name!r}: {known.__qualname__} in"
                f" {place_of(known)} and {plugin.__qualname__} in {place_of(plugin)}."
                " Fix: change the `name` of one of them",
                where="plugins",
            )
        _check_members(plugin)
        points = points_of(plugin)
        if not points:
            raise ConfigError(
                f"plugin {plugin.name!r} implements no extension point", where="plugins"
            )
        self._classes[plugin.name] = plugin
        self._points[plugin.name] = points

    def load_entry_points(self, entries: Iterable[EntryPoint] | None = None) -> None:
        """Register the plugins that installed distributions offer."""
        found = installed_entry_points(ENTRY_POINT_GROUP) if entries is None else entries
        for entry in found:
            where = f"entry point {entry.name} = {entry.value}"
            try:
                plugin = entry.load()
            except (Exception, SystemExit) as problem:
                raise ConfigError(str(load_error(problem, entry.module)), where=where) from None
            self.register(check_class(plugin, where=where))

    def get(self, name: str) -> type[Plugin]:
        return self._classes[name]

    def points(self, name: str) -> frozenset[str]:
        """Extension points of a known plugin."""
        return self._points[name]

    @property
    def names(self) -> Collection[str]:
        return self._classes.keys()


def _check_members(plugin: type[Plugin]) -> None:
    """Raise ConfigError for a member that the framework ignores, or cannot call."""
    if plugin.__module__.startswith("stowplan."):
        return  # the project's own tests check these
    for what, found in (
        ("a method {!r}, which is never called", misspelt(plugin)),
        ("an attribute {!r}, which is never read", misspelt_attributes(plugin)),
    ):
        for member, meant in found:
            raise ConfigError(
                f"plugin {plugin.name!r} has {what.format(member)} ({place_of(plugin)})."
                f" Fix: call it {meant!r}, or '_{member}' if it is meant for the plugin itself",
                where="plugins",
            )
    for function, wanted in wrong_parameters(plugin):
        raise ConfigError(wanted, where=defined_at(function).strip(" ()"))
