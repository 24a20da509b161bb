"""Plugin classes by name: the in-tree table and what other distributions bring.

A distribution offers plugins through the entry point group `stowplan.plugins`; the entry's name
does not matter, the class's `name` does. Two classes with one name are a mistake in the
environment's setup, and raise ConfigError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from stowplan.errors import ConfigError
from stowplan.framework.installed import installed_entry_points
from stowplan.framework.plugin import Plugin, points_of

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
        if not plugin.name:
            raise ConfigError(f"plugin class {plugin.__qualname__} has no name", where="plugins")
        known = self._classes.get(plugin.name)
        if known is not None and known is not plugin:
            raise ConfigError(
                f"two plugins are called {plugin.name!r}: "
                f"{known.__module__}.{known.__qualname__} and "
                f"{plugin.__module__}.{plugin.__qualname__}",
                where="plugins",
            )
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
            except Exception as problem:
                raise ConfigError(f"cannot be loaded: {problem}", where=where) from problem
            if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
                raise ConfigError("is not a plugin class", where=where)
            self.register(plugin)

    def get(self, name: str) -> type[Plugin]:
        return self._classes[name]

    def points(self, name: str) -> frozenset[str]:
        """Extension points of a known plugin."""
        return self._points[name]

    @property
    def names(self) -> Collection[str]:
        return self._classes.keys()
