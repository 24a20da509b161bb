"""One profile: a scheduler name and its plugins, instantiated and sorted by extension point.

Built once at start from resolved configuration (`config.merge`). One instance of a plugin serves
all of its points. The scheduling cycle calls `pre_filter`, `feasible`, `pre_score` and `best`,
which hide how plugins run and what is cached; the binding cycle reads the lists of plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.config.decode import decode, without_nulls
from stowplan.config.fields import FieldError, raise_errors
from stowplan.config.plugin_args import PluginArgs
from stowplan.config.types import POINTS, PluginRef
from stowplan.errors import ConfigError
from stowplan.framework.best import find_best, pre_score
from stowplan.framework.columns import ColumnCache
from stowplan.framework.feasible import find_feasible
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.nominees import NomineeCache
from stowplan.framework.plugin import Plugin
from stowplan.framework.pre_filter import pre_filter
from stowplan.framework.registry import Registry
from stowplan.framework.score_sheet import LatestScores
from stowplan.framework.shapes import Shapes
from stowplan.plugin_failures import describe

#: All nodes are looked at unless the configuration says otherwise.
DEFAULT_PERCENTAGE = 100


class Profile:
    """The plugins that serve one `schedulerName`."""

    # What the scheduling cycle calls. Each is a module of its own.
    pre_filter = pre_filter
    feasible = find_feasible
    pre_score = pre_score
    best = find_best

    def __init__(
        self,
        name: str,
        points: Mapping[str, Sequence[tuple[Plugin, int]]],
        *,
        percentage_of_nodes_to_score: int = DEFAULT_PERCENTAGE,
        tie_break_seed: int | None = None,
        columns: ColumnCache | None = None,
    ) -> None:
        self.name = name
        self._configured = points
        #: None: ties go by the order of upstream's heap; else they are drawn at random from it.
        self.tie_break_seed = tie_break_seed
        #: Upstream's meaning: 100 is all nodes, 0 a share that shrinks as the cluster grows.
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.columns = columns if columns is not None else ColumnCache()
        self.shapes = Shapes(self.columns)
        self.nominees = NomineeCache()
        self.latest_scores = LatestScores()
        self._points = {point: [p for p, _ in points.get(point, ())] for point in POINTS}
        #: Names and methods, ready to be called for every pod.
        self.pre_filters = [(p.name, p.pre_filter) for p in self.at("preFilter")]
        self.pre_scores = [(p.name, p.pre_score) for p in self.at("preScore")]
        self.filters = [
            FilterStep(p, self._unprepared(p, "filter")) for p, _ in points.get("filter", ())
        ]
        self.scores = [
            ScoreStep(p, weight or 1, self._unprepared(p, "score"))
            for p, weight in points.get("score", ())
        ]
        self.plugins: dict[str, Plugin] = {
            plugin.name: plugin for point in points.values() for plugin, _ in point
        }

    def _unprepared(self, plugin: Plugin, point: str) -> str:
        """Why a point of the plugin fails: the profile disables what prepares it; else empty."""
        for need in plugin.needs:
            if need.point == point and plugin not in self._points[need.prepared_by]:
                return need.failure
        return ""

    def twin(self, plugins: Mapping[str, Plugin], columns: ColumnCache) -> Profile:
        """The same profile with other instances of its plugins, by name."""
        return Profile(
            self.name,
            {
                point: [(plugins[plugin.name], weight) for plugin, weight in chosen]
                for point, chosen in self._configured.items()
            },
            percentage_of_nodes_to_score=self.percentage_of_nodes_to_score,
            tie_break_seed=self.tie_break_seed,
            columns=columns,
        )

    def listed(self) -> dict[str, Any]:
        """The plugins of every extension point with their weights, as kube-scheduler logs them."""
        return {
            point[0].upper() + point[1:]: {
                "Enabled": [
                    {"Name": plugin.name, "Weight": weight if point == "score" else 0}
                    for plugin, weight in self._configured.get(point, ())
                ]
                or None,
                "Disabled": None,
            }
            for point in POINTS
        }

    def drop_caches(self) -> None:
        """Forget every column and what was made of them."""
        self.columns = ColumnCache(self.columns.limit_bytes)
        self.shapes = Shapes(self.columns)
        self.nominees = NomineeCache()

    def at(self, point: str) -> list[Any]:
        """Plugins of an extension point, in running order."""
        return self._points[point]


def build_profile(
    name: str,
    points: Mapping[str, Sequence[PluginRef]],
    *,
    registry: Registry,
    handle: Handle,
    args: Mapping[str, dict[str, Any]] | None = None,
    arg_paths: Mapping[str, str] | None = None,
    file: str = "",
    percentage_of_nodes_to_score: int = DEFAULT_PERCENTAGE,
    tie_break_seed: int | None = None,
) -> Profile:
    """Instantiate a profile's plugins. ConfigError names every wrong field.

    `arg_paths` are the paths of the plugins' arguments in `file`, for messages.
    """
    instances: dict[str, Plugin] = {}
    problems: list[str] = []
    for plugin in dict.fromkeys(ref.name for refs in points.values() for ref in refs):
        raw = (args or {}).get(plugin, {})
        path = (arg_paths or {}).get(plugin, "")
        try:
            instances[plugin] = make_plugin(registry.get(plugin), raw, handle, path=path, file=file)
        except ConfigError as problem:
            # Go on, to report the next plugin's errors as well.
            problems += str(problem).split("\n")
    if problems:
        raise ConfigError("\n".join(problems))
    built = {
        point: [(instances[ref.name], ref.weight) for ref in refs] for point, refs in points.items()
    }
    return Profile(
        name,
        built,
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        tie_break_seed=tie_break_seed,
    )


def make_plugin(
    plugin: type[Plugin],
    raw_args: Mapping[str, Any],
    handle: Handle | None = None,
    *,
    path: str = "",
    file: str = "",
) -> Plugin:
    """Construct a plugin from untyped arguments, checked against its own `Args`.

    `path` and `file` say where the arguments stand, for messages.
    """
    own_path = f"pluginConfig[{plugin.name}].args"
    path = path or own_path
    where = f"{file}: {path}" if file else path
    if plugin.Args is None:
        if raw_args:
            raise ConfigError(f"plugin {plugin.name} takes no arguments", where=where)
        return plugin(None, handle)
    errors: list[FieldError] = []
    args = decode(without_nulls(dict(raw_args), plugin.Args), plugin.Args, errors, path=path)
    if isinstance(args, PluginArgs):
        args = args.defaulted()
        errors += args.problems(path)
    raise_errors(errors, where=file)
    try:
        return plugin(args, handle)
    except ConfigError as problem:
        # A plugin knows its own fields, not the position of its arguments in a file.
        place = problem.where.replace(own_path, where, 1)
        # One that found several mistakes begins each line with its path instead.
        lines = problem.message.replace(own_path, where)
        raise ConfigError(lines, where=place) from None
    except Exception as problem:
        raise ConfigError(describe(problem), where=where) from problem
