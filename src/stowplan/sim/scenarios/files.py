"""Read a file to play: a YAML scenario, a Python one, or workloads.

`read_playables` is called by `stowplan simulate` and by tests; each `Playable` is ready for
`run_scenario`. All errors in the file are reported before anything is started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stowplan.errors import ConfigError
from stowplan.framework.loading import find_plugins
from stowplan.framework.plugin import Plugin
from stowplan.plugins.registry import in_tree_registry
from stowplan.server.library import check_enabled
from stowplan.sim.scenarios.cluster import Cluster
from stowplan.sim.scenarios.document import is_performance_config, read_scenario
from stowplan.sim.scenarios.python_file import read_python
from stowplan.sim.scenarios.run import Options, run_scenario
from stowplan.sim.scenarios.scheduling import Scheduling, read_scheduling
from stowplan.sim.scenarios.steps import Player
from stowplan.sim.scenarios.timeline import Outcome
from stowplan.sim.scenarios.workload_cluster import workload_options, workload_scenario
from stowplan.workloads.fields import read_yaml
from stowplan.workloads.load import find_performance_config, read_workloads, select
from stowplan.workloads.model import Workload

if TYPE_CHECKING:
    from stowplan.sim.scenarios.trace_play import TraceProgress

TRACE_SUFFIXES: Final = frozenset({".csv", ".jsonl", ".ndjson"})


@dataclass(slots=True)
class Playable:
    """One thing to play, with how its cluster must be set up."""

    name: str
    scenario: Callable[[Cluster], Awaitable[None]]
    prepare: Callable[[Options], Options]
    about: str = ""
    #: The file's own options.
    seed: int | None = None
    #: How many pods it creates; 0: not known.
    pods: int = 0

    def play(self, on: str, options: Options) -> Outcome:
        """ConfigError if the API server refused what the file asked for."""
        outcome = run_scenario(self.scenario, on=on, options=self.prepare(options))
        if isinstance(self.scenario, Player) and self.scenario.mistake is not None:
            raise self.scenario.mistake
        return outcome


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options that override the file's."""

    seed: int | None = None
    config_file: str | None = None
    #: Which workloads, where there are several.
    pattern: str = "*"
    labels: Sequence[str] = ()
    on_progress: Callable[[TraceProgress], None] | None = None
    #: Plugins besides the file's own, as `file.py:Class` or `module:Class`.
    plugins: Sequence[str] = ()

    def find_plugins(self) -> list[type[Plugin]]:
        """Load the plugins; files are those of the current folder."""
        registry = in_tree_registry()
        registry.load_entry_points()
        return find_plugins(self.plugins, registry, folder=Path(), where="--plugin")

    def refuse_choice_of_workloads(self, file: Path) -> None:
        """Raise ConfigError if one was made: the file is a single scenario."""
        if self.pattern != "*" or self.labels:
            option = "--label" if self.labels else "--workload"
            raise ConfigError(
                f"{option} chooses among the workloads of a performance-config.yaml, and this is "
                f"a scenario. Fix: leave out {option}",
                where=str(file),
            )


def read_playables(file: Path, wishes: Wishes | None = None) -> list[Playable]:
    """ConfigError says what is wrong with the file, and where."""
    wishes = wishes or Wishes()
    if file.suffix == ".py":
        wishes.refuse_choice_of_workloads(file)
        return [_python(file, wishes)]
    if (not file.suffix and not file.exists()) or file.is_dir():
        # One of upstream's, by the name of its folder.
        return _workloads(find_performance_config(str(file)), wishes)
    if TRACE_SUFFIXES.intersection(file.suffixes):
        raise ConfigError(
            "is not a scenario. A trace is played by a scenario: "
            f"`workload: {{trace: {file.name}}}` is a step of one; see docs/traces.md",
            where=str(file),
        )
    document = read_yaml(file)
    if is_performance_config(document):
        return _workloads(file, wishes)
    wishes.refuse_choice_of_workloads(file)
    return [_yaml(file, document, wishes)]


def _yaml(file: Path, document: object, wishes: Wishes) -> Playable:
    plugins = wishes.find_plugins()
    read = read_scenario(file, document, plugins)
    player = Player(read, seed=wishes.seed, on_progress=wishes.on_progress)
    prepare = _prepared(file, read.scheduling, wishes, plugins)
    return Playable(read.name, player, prepare, read.about, read.seed, read.pods)


def _python(file: Path, wishes: Wishes) -> Playable:
    plugins = wishes.find_plugins()
    read = read_python(file, plugins)
    prepare = _prepared(file, read.scheduling, wishes, plugins)
    return Playable(read.name, read.play, prepare, read.about, read.seed)


def _prepared(
    file: Path, scheduling: Scheduling, wishes: Wishes, plugins: Sequence[type[Plugin]]
) -> Callable[[Options], Options]:
    if wishes.config_file is not None:
        scheduling = scheduling.with_config(wishes.config_file)
    if scheduling.config is not None:
        check_enabled(plugins, scheduling.config, where=wishes.config_file or str(file))
    return partial(replace, config=scheduling.config, registry=scheduling.registry)


def _workloads(file: Path, wishes: Wishes) -> list[Playable]:
    chosen = select(read_workloads(file), wishes.pattern, labels=wishes.labels)
    playable = [workload for workload in chosen if not workload.cannot_play]
    if not playable:
        first = chosen[0]
        raise ConfigError(f"{first.title} cannot be played: {first.cannot_play}", where=str(file))
    plugins = wishes.find_plugins()
    scheduling = read_scheduling(
        wishes.config_file,
        plugins,
        folder=Path(),
        where_config="--config",
        where_plugins="--plugin",
    )
    scheduled = _prepared(file, scheduling, Wishes(), plugins)

    def prepare(workload: Workload, options: Options) -> Options:
        return workload_options(workload, scheduled(options))

    return [
        Playable(
            workload.title,
            workload_scenario(workload),
            partial(prepare, workload),
            pods=workload.pods,
        )
        for workload in playable
    ]
