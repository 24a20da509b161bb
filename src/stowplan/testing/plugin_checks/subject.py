"""The plugin under test: where it is, how instances of it are made, and the clusters to try it on.

A plugin is named as `module:Class` or `file.py:Class` (`framework.loading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from stowplan.clock import VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.table import NodeTable
from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.loading import find_plugin
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import make_plugin
from stowplan.framework.registry import Registry
from stowplan.testing.plugin_checks.cases import Case, make_case
from stowplan.testing.plugin_checks.vocabulary import Words, words_of

#: Random clusters that each check looks at.
CASES = 24
#: Seconds that one check may take; a check of an ordinary plugin takes a few.
LIMIT_S = 60.0


class CheckFailed(AssertionError):
    """A check failed: the mistake, and how to mend it."""

    def __init__(self, mistake: str, mend: str) -> None:
        super().__init__(f"{mistake}\nFix: {mend}")
        self.mistake = mistake
        self.mend = mend


#: What comes out of a plugin's mistakes; those that are a check's own affair are a `CheckFailed`.
BREAKS = (StowplanError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class NotApplicable(Exception):
    """The check has nothing to look at in this plugin; says why."""


class _Untouchable:
    """`handle.client` where a plugin must not use it."""

    def __init__(self, noted: list[str]) -> None:
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        self._noted.append(f"handle.client.{name}")
        raise RuntimeError(f"handle.client.{name} was used outside the binding points")


@dataclass
class CaseCluster:
    """The cluster of a case, and the handle of the plugin that reads it."""

    cache: ClusterCache = field(default_factory=ClusterCache)
    clock: VirtualClock = field(default_factory=VirtualClock)
    rng: Random = field(default_factory=lambda: Random(7))
    #: What a plugin did through its handle.
    used: list[str] = field(default_factory=list)

    @property
    def table(self) -> NodeTable:
        return self.cache.table

    @cached_property
    def handle(self) -> Handle:
        def noting(name: str) -> Any:
            return lambda *_args, **_options: self.used.append(f"handle.{name}")

        return Handle(
            table=self.cache.table,
            catalog=self.cache.catalog,
            clock=self.clock,
            rng=self.rng,
            client=_Untouchable(self.used),
            activate=noting("activate"),
            call_later=noting("call_later"),
            record=noting("record"),
        )


class Subject:
    """A plugin class with arguments, and everything that checks need to try it."""

    def __init__(
        self,
        plugin: type[Plugin],
        args: Mapping[str, Any] | None = None,
        *,
        spec: str = "",
        cases: int = CASES,
        seed: int = 0,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.plugin = plugin
        self.args: dict[str, Any] = dict(args or {})
        #: How another process finds the class.
        self.spec = spec or f"{plugin.__module__}:{plugin.__qualname__}"
        #: How many clusters it is tried on.
        self.count = cases
        self._seed = seed
        #: How long one check may take, and the check that found the plugin to be too slow for more.
        self.limit_s = limit_s
        self.stuck_in = ""

    @property
    def name(self) -> str:
        return self.plugin.name or self.plugin.__name__

    @cached_property
    def words(self) -> Words:
        return words_of(self.plugin, self.args)

    @property
    def cases(self) -> list[Case]:
        """The test cases, built at each access because a plugin may have modified them."""
        return [make_case(self._seed + index, self.words) for index in range(self.count)]

    def make(self, cluster: CaseCluster, args: Mapping[str, Any] | None = None) -> Plugin:
        """An instance that looks at a cluster."""
        return make_plugin(self.plugin, self.args if args is None else args, cluster.handle)

    def on(self, case: Case, *, reversed_nodes: bool = False) -> tuple[CaseCluster, Plugin]:
        """A fresh cluster of a case and a fresh instance that looks at it."""
        cluster = CaseCluster()
        # The instance first: those that follow the catalog or the table hear of everything.
        plugin = self.make(cluster)
        case.fill(cluster.cache, reversed_nodes=reversed_nodes)
        return cluster, plugin


def load_subject(spec: str, args: Mapping[str, Any] | None = None, **options: Any) -> Subject:
    """The plugin of `module:Class` or `file.py:Class`; ConfigError says what is wrong with it."""
    if ":" not in spec and not spec.endswith(".py"):
        raise ConfigError(
            "is not a plugin; write module:Class or path/to/file.py:Class", where=repr(spec)
        )
    found = find_plugin(spec, Registry(), folder=Path(), where=repr(spec))
    return Subject(found, args, spec=spec, **options)
