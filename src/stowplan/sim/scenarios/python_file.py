"""A scenario in Python: a file with `async def scenario(cluster)`.

It may also have `config` (a file name, a mapping, or a KubeSchedulerConfiguration) and `plugins` (a
list of plugin classes or names), as a YAML scenario does. Called by `stowplan simulate`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.errors import ConfigError
from stowplan.framework.loading import load_module
from stowplan.framework.plugin import Plugin
from stowplan.sim.scenarios.scheduling import Scheduling, read_scheduling

if TYPE_CHECKING:
    from stowplan.sim.scenarios.cluster import Cluster


@dataclass(frozen=True, slots=True)
class PythonScenario:
    file: Path
    name: str
    about: str
    play: Callable[[Cluster], Awaitable[None]]
    scheduling: Scheduling
    seed: int | None = None


def read_python(file: Path, plugins: Sequence[type[Plugin]] = ()) -> PythonScenario:
    """ConfigError says what is wrong, and on which line."""
    module = load_module(file)
    play = getattr(module, "scenario", None)
    if play is None:
        raise ConfigError("has no `async def scenario(cluster)`", where=str(file))
    if not inspect.iscoroutinefunction(play):
        line = getattr(getattr(play, "__code__", None), "co_firstlineno", 0)
        raise ConfigError(
            "`scenario` must be a function made with `async def`",
            where=f"{file}:{line}" if line else str(file),
        )
    if len(inspect.signature(play).parameters) != 1:
        raise ConfigError(
            "`scenario` must take one argument, the cluster",
            where=f"{file}:{play.__code__.co_firstlineno}",
        )
    scheduling = read_scheduling(
        getattr(module, "config", None),
        getattr(module, "plugins", ()),
        folder=file.parent,
        where_config=f"{file}: config",
        where_plugins=f"{file}: plugins",
        more=plugins,
    )
    seed = getattr(module, "seed", None)
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise ConfigError("must be a whole number that is not negative", where=f"{file}: seed")
    about = (inspect.getdoc(play) or module.__doc__ or "").strip()
    return PythonScenario(file, file.stem, about, play, scheduling, seed)
