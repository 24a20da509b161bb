"""The plugin under test: where it is, how instances of it are made, and the clusters to try it on.

A plugin is named as `module:Class` or `file.py:Class`. Loading a file that starts a scheduler by
`stowplan.run(...)` at its end does not start one.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import stowplan
from stowplan.clock import VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.table import NodeTable
from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import make_plugin
from stowplan.testing.plugin_checks.cases import Case, make_case
from stowplan.testing.plugin_checks.vocabulary import Words, words_of

#: Random clusters that each check looks at.
CASES = 24
#: Seconds that one check may take; a check of an ordinary plugin takes a few.
LIMIT_S = 60.0


class CheckFailed(AssertionError):
    """A check failed: the mistake, and how to mend it."""

    def __init__(self, mistake: str, mend: str) -> None:
        super().__init__(f"{mistake}\nTo mend it: {mend}")
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
    place, separator, attribute = spec.rpartition(":")
    if not separator or not place or not attribute:
        raise ConfigError(
            "is no plugin; write module:Class or path/to/file.py:Class", where=repr(spec)
        )
    with _nothing_starts():
        module = _load_file(place) if place.endswith(".py") else _load_module(place, spec)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        classes = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin
        ]
        there = f"it has {', '.join(classes)}" if classes else "it has no plugin at all"
        raise ConfigError(f"{place} has no {attribute}; {there}", where=repr(spec))
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise ConfigError(
            f"is {type(found).__name__}, not a plugin class: derive it from stowplan.Plugin, or"
            " decorate the function with @stowplan.filter or @stowplan.score",
            where=repr(spec),
        )
    return Subject(found, args, spec=spec, **options)


def _load_module(name: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise ConfigError(
                f"there is no module {name}; is it installed, or its folder in PYTHONPATH?",
                where=repr(spec),
            ) from None
        raise ConfigError(_told(problem), where=name) from problem
    except Exception as problem:
        raise ConfigError(_told(problem), where=name) from problem


def _load_file(path: str) -> ModuleType:
    file = Path(path).resolve()
    name = f"stowplan_checked_{file.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(file):
        return known
    found = spec_from_file_location(name, file)
    if found is None or found.loader is None or not file.is_file():
        raise ConfigError("there is no such file", where=path)
    module = module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[name]
        raise ConfigError(_told(problem), where=path) from problem
    return module


def _told(problem: Exception) -> str:
    """An exception while loading, with the line that it came from."""
    if isinstance(problem, SyntaxError):
        return f"line {problem.lineno}: {problem.msg}"
    if isinstance(problem, StowplanError):
        return str(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"cannot be imported: {type(problem).__name__}: {problem}{where}"


@contextmanager
def _nothing_starts() -> Iterator[None]:
    """`stowplan.run` at the end of a file does nothing while it is loaded."""
    missing = object()
    before = vars(stowplan).get("run", missing)
    vars(stowplan)["run"] = lambda *_plugins, **_options: None
    try:
        yield
    finally:
        if before is missing:
            del vars(stowplan)["run"]
        else:
            vars(stowplan)["run"] = before
