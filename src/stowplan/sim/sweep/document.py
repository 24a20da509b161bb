"""Reads the file of a sweep and creates its tasks. docs/sweep.md is the reference of the format.

Everything is validated before the first task: a mistake is a ConfigError with file, line and field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from stowplan.config.load import parse_object, parse_tree, read_text
from stowplan.config.types import API_VERSION, KIND
from stowplan.errors import ConfigError
from stowplan.framework.loading import find_plugin
from stowplan.framework.registry import Registry
from stowplan.present.tables import counted
from stowplan.recording.folder import SUFFIX, files_in
from stowplan.scheduler.assembly import plugin_errors
from stowplan.sim.results.files import read_prices
from stowplan.sim.scenarios.manifests import plain
from stowplan.sim.scenarios.scheduling import read_scheduling
from stowplan.sim.sweep.dependencies import answers
from stowplan.sim.sweep.effects import Effects
from stowplan.sim.sweep.inputs import check_workload
from stowplan.sim.sweep.parameters import (
    MOST,
    SEARCH,
    Parameter,
    read_parameter,
    read_samples,
)
from stowplan.sim.sweep.places import with_value
from stowplan.sim.sweep.tasks import (
    Kind,
    Task,
    Workload,
    check_file,
    inputs_of,
    make_task,
    plugin_hash,
    text_of,
)
from stowplan.sim.traces.layout import find_layout, layout_names
from stowplan.sim.traces.model import ReadCounts
from stowplan.workloads.fields import Fields, read_yaml

_FIELDS: Final = (
    "name", "workloads", "configurations", "parameters", "search", "seeds", "plugins", "prices",
)  # fmt: skip
_KINDS: Final[tuple[Kind, ...]] = ("scenario", "trace", "recording")
_WORKLOAD: Final[Mapping[Kind, tuple[str, ...]]] = {
    "scenario": ("workload",),
    "trace": ("nodes", "columns", "nodeColumns", "limit", "reschedule"),
    "recording": ("nodes", "reschedule"),
}


@dataclass(frozen=True, slots=True)
class Sweep:
    """The contents of a sweep's file."""

    name: str
    parameters: tuple[str, ...]
    tasks: tuple[Task, ...]
    #: Sentences about what has no effect: equal samples, plugins in no profile, equal seeds.
    warnings: tuple[str, ...] = ()
    #: Broken rows and gaps of each workload's trace or recording, with its path.
    readings: Sequence[tuple[Path, ReadCounts]] = ()


def _name_of(workload: Path) -> str:
    """The default name of a workload: of a file without its ending, of a folder with it."""
    if workload.is_dir():
        return workload.resolve().name if workload.name in ("", "..") else workload.name
    return Path(workload.name.removesuffix(".gz")).stem


def _has_other_names(kind: Kind, folder: Path) -> bool:
    """Whether a folder has recordings, and none under a name that a recorder gives in folders."""
    return kind == "recording" and answers(
        lambda: any(folder.glob(f"*{SUFFIX}")) and not files_in(folder)
    )


def read_sweep(file: Path) -> Sweep:
    """Read and validate a file. Raises ConfigError with file, line and field."""
    return _Reader(file).read()


class _Reader:
    def __init__(self, file: Path) -> None:
        self._file = file
        #: Workers may run in another folder.
        self._folder = file.resolve().parent
        document = read_yaml(file)
        if not isinstance(document, dict):
            raise ConfigError("expected a mapping with `workloads`", where=str(file))
        self._fields = Fields(file, document, "sweep", _FIELDS)
        self._search = self._fields.inner("search", SEARCH)
        self._readings: list[tuple[Path, ReadCounts]] = []
        #: Names of workloads that are the same for every seed.
        self._without_seed: list[str] = []

    def read(self) -> Sweep:
        fields = self._fields
        written = fields.texts("plugins")
        named = [self._plugin(each) for each in written]
        where_plugins = fields.where("plugins")
        registry = read_scheduling(
            None,
            named,
            folder=self._folder,
            where_config="",
            where_plugins=where_plugins,
        ).registry
        classes = [
            find_plugin(each, registry, folder=self._folder, where=where_plugins) for each in named
        ]
        names_of_plugins = [each.name for each in classes]
        effects = Effects(dict(zip(names_of_plugins, written, strict=True)), registry)
        plugins = {each: plugin_hash(each, self._folder) for each in named}
        workloads = [self._workload(each, plugins) for each in fields.items("workloads")]
        self._once([each.name for each in workloads], "workloads")
        bases = self._bases()
        parameters = [
            read_parameter(self._file, name, value)
            for name, value in fields.table("parameters", dict).items()
        ]
        prices = {}
        if "prices" in fields:
            try:
                prices = read_prices(self._file.parent / fields.text("prices"))
            except ConfigError as problem:
                raise ConfigError(f"{problem}", where=fields.where("prices")) from None
        samples, seeds = read_samples(self._search, parameters), self._seeds()
        number = len(bases) * len(samples) * len(workloads) * len(seeds)
        if number > MOST:
            fields.fail(f"asks for {number:,} tasks, and {MOST:,} are allowed")
        tasks: dict[str, Task] = {}
        for name, base in bases:
            for sample in samples:
                config = self._config(name, base, parameters, sample, registry, effects)
                for workload, seed in product(workloads, seeds):
                    task = make_task(
                        workload, name, sample, seed, config, plugins, prices, str(self._folder)
                    )
                    tasks.setdefault(task.key, task)
        warnings = [*self._repetitions(parameters, samples, seeds)]
        warnings += [
            f"{self._file}: {text}"
            for text in effects.warnings(seeds=len(set(seeds)), without_seed=self._without_seed)
        ]
        return Sweep(
            fields.text("name") or self._file.stem,
            tuple(each.name for each in parameters),
            tuple(tasks.values()),
            tuple(warnings),
            self._readings,
        )

    def _repetitions(
        self, parameters: Sequence[Parameter], samples: Sequence[Any], seeds: Sequence[int]
    ) -> Iterator[str]:
        """Warnings about equal values, samples and seeds."""
        listed: list[tuple[str, str, str, Sequence[Any]]] = [
            ("parameters", f"parameter {each.name}", "values", each.values) for each in parameters
        ]
        if "random" in self._search:
            listed = [("search", "`search`", "samples", samples)]
        for field, subject, noun, values in [*listed, ("seeds", "`seeds`", "values", seeds)]:
            different = len(set(map(text_of, values)))
            if different < len(values):
                yield (
                    f"{self._fields.where(field)}: {subject} has {len(values):,} {noun}, but"
                    f" {counted(different, 'distinct one')}; each runs once"
                )

    # Workloads

    def _workload(self, written: Any, plugins: Collection[str]) -> Workload:
        any_kind = {name for names in _WORKLOAD.values() for name in names}
        known = ("name", *_KINDS, *sorted(any_kind))
        fields = Fields(self._file, written, "workload", known)
        kinds = [kind for kind in _KINDS if kind in fields]
        if len(kinds) != 1:
            found = f", and has {' and '.join(kinds)}" if kinds else ""
            fields.fail(f"needs one of {', '.join(_KINDS)}, each with a file{found}")
        (kind,) = kinds
        for name in sorted(any_kind - set(_WORKLOAD[kind])):
            if name in fields:
                fields.fail(f"`{name}` does not go with `{kind}`", at=name)
        file = self._file.parent / fields.required_text(kind)
        nodes = self._file.parent / fields.text("nodes") if "nodes" in fields else None
        columns, node_columns = (self._layout(fields, name) for name in ("columns", "nodeColumns"))
        try:
            inputs = inputs_of(kind, file, nodes, (columns, node_columns))
        except ConfigError as problem:
            more = ". Or list its files as workloads" if _has_other_names(kind, file) else ""
            raise ConfigError(f"{problem}{more}", where=fields.where(kind)) from None
        workload = Workload(
            name=fields.text("name") or _name_of(file),
            kind=kind,
            file=str(file.resolve()),
            nodes="" if nodes is None else str(nodes.resolve()),
            workload=fields.text("workload", "*"),
            columns=columns,
            node_columns=node_columns,
            limit=fields.whole("limit") if "limit" in fields else None,
            reschedule=fields.flag("reschedule"),
            inputs=inputs,
        )
        try:
            reading, has_seed = check_workload(workload, plugins)
        except ConfigError as problem:
            raise ConfigError(f"{problem}", where=fields.where(kind)) from None
        self._readings.append((Path(workload.file), reading))
        if not has_seed:
            self._without_seed.append(workload.name)
        return workload

    def _layout(self, fields: Fields, name: str) -> str:
        """The path of a file with a layout, or the name of a built-in one."""
        written = fields.text(name)
        if not written or written in layout_names():
            return written
        path = self._folder / written
        if not answers(path.is_file):
            fields.fail(
                f"`{name}`: {written!r:.80} is neither a file nor one of the built-in layouts"
                f" {', '.join(layout_names())}. Fix: correct the path; it is relative to the folder"
                " of the sweep's file",
                at=name,
            )
        try:
            find_layout(str(path))
        except ConfigError as problem:
            raise ConfigError(f"{problem}", where=fields.where(name)) from None
        return str(path)

    # Configurations

    def _bases(self) -> list[tuple[str, dict[str, Any] | None]]:
        if "configurations" not in self._fields:
            return [("", None)]
        bases: list[tuple[str, dict[str, Any] | None]] = []
        for written in self._fields.items("configurations"):
            fields = Fields(self._file, written, "configuration", ("name", "config"))
            config = fields.value("config")
            if isinstance(config, str):
                path = self._file.parent / config
                try:
                    text = read_text(path)
                except ConfigError as problem:
                    raise ConfigError(f"{problem}", where=fields.where("config")) from None
                tree = parse_tree(text, str(path), [])
                name = fields.text("name") or path.stem
            else:
                tree, name = plain(config), fields.required_text("name")
            if not isinstance(tree, dict):
                fields.fail(
                    "`config` must be a file with a KubeSchedulerConfiguration, or the"
                    " configuration itself"
                )
            bases.append((name, tree))
        self._once([name for name, _ in bases], "configurations")
        return bases

    def _config(
        self,
        name: str,
        base: dict[str, Any] | None,
        parameters: list[Parameter],
        sample: Mapping[str, Any],
        registry: Registry,
        effects: Effects,
    ) -> dict[str, Any] | None:
        if base is None and not parameters:
            return None
        tree: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, **(base or {})}
        if not tree.get("profiles"):
            tree["profiles"] = [{"schedulerName": "default-scheduler"}]
        for parameter in parameters:
            for place in parameter.places:
                try:
                    tree = with_value(tree, place, sample[parameter.name])
                except ValueError as problem:
                    where = self._fields.where("parameters")
                    raise ConfigError(f"{parameter.name}: {problem}", where=where) from None
        chosen = [f"{key}={text_of(value)}" for key, value in sample.items()]
        where = ", ".join([f"{self._file}: configuration {name}".rstrip(), *chosen])
        check = partial(plugin_errors, registry=registry)
        effects.add(parse_object(tree, where=where, check=check))
        return tree

    # The rest

    def _seeds(self) -> list[int]:
        written = self._fields.value("seeds")
        if written is None:
            return [0]
        if isinstance(written, int) and written > MOST:
            self._fields.fail(f"asks for {written:,} seeds, and {MOST:,} are allowed", at="seeds")
        seeds = list(range(written)) if isinstance(written, int) else written
        is_right = isinstance(seeds, list) and all(
            isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds
        )
        if not is_right or not seeds or isinstance(written, bool):
            self._fields.fail("`seeds` must be a list of whole numbers, or how many", at="seeds")
        return list(seeds)

    def _plugin(self, named: str) -> str:
        """The name of a plugin, with an absolute path."""
        place, colon, path = named.rpartition(":")
        if not place.endswith(".py"):
            return named
        file = self._folder / place
        try:
            check_file(file)
        except ConfigError as problem:
            raise ConfigError(f"{problem}", where=self._fields.where("plugins")) from None
        return f"{file.resolve()}{colon}{path}"

    def _once(self, names: list[str], field: str) -> None:
        found: set[str] = set()
        for name in names:
            if name in found:
                self._fields.fail(
                    f"two {field} are called {name}. Fix: give each a `name`", at=field
                )
            found.add(name)
