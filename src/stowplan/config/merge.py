"""Which plugins run at which extension point, in which order and with which weight.

Two steps, both kube-scheduler's: the user's plugin sets are laid over the default ones, then
MultiPoint is expanded to every point that its plugins implement. Pure functions over the
configuration; the framework calls them with what its registry knows, and instantiates the answer.

A default plugin that the registry does not have is left out. A plugin that the user names and the
registry does not have is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from stowplan.config.defaults import DEFAULT_MULTI_POINT, DEFAULT_PLUGINS, REMOVED_PLUGINS
from stowplan.config.fields import FieldError, duplicate, invalid, raise_errors
from stowplan.config.scheduler_plugins import why_unknown
from stowplan.config.types import POINTS, PluginRef, Plugins, PluginSet, Profile

Implements: TypeAlias = Callable[[str], Collection[str]]
PointPlugins: TypeAlias = dict[str, list[PluginRef]]

ALL: Final = "*"
_DEFAULT_NAMES: Final = frozenset(ref.name for ref in DEFAULT_MULTI_POINT)


class _Entry(NamedTuple):
    """An enabled plugin and the path where the user enabled it; defaults have no path."""

    ref: PluginRef
    path: str = ""


def resolve_points(
    plugins: Plugins,
    *,
    implements: Implements,
    known: Collection[str],
    path: str = "plugins",
) -> PointPlugins:
    """The plugins of every point in running order; ConfigError with every mistake."""
    errors: list[FieldError] = []
    points = _resolve(plugins, implements, known, path, errors)
    raise_errors(errors)
    return points


def resolve_profiles(
    profiles: Sequence[Profile],
    *,
    implements: Implements,
    known: Collection[str],
    where: str = "",
) -> dict[str, PointPlugins]:
    """`resolve_points` of all profiles by scheduler name, which must agree on the queue's order."""
    errors: list[FieldError] = []
    resolved = find_points(profiles, errors, implements=implements, known=known)
    raise_errors(errors, where=where)
    return resolved


def find_points(
    profiles: Sequence[Profile],
    errors: list[FieldError],
    *,
    implements: Implements,
    known: Collection[str],
) -> dict[str, PointPlugins]:
    """As `resolve_profiles`, with mistakes appended to `errors` and left out of the answer."""
    resolved: dict[str, PointPlugins] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}].plugins"
        resolved[profile.scheduler_name] = points = _resolve(
            profile.plugins, implements, known, path, errors
        )
        sorting = [ref.name for ref in points["queueSort"]]
        first = [ref.name for ref in resolved[profiles[0].scheduler_name]["queueSort"]]
        if sorting and first and sorting != first:
            detail = f'must be the same for all profiles, profiles[0] has "{first[0]}"'
            errors.append(invalid(f"{path}.queueSort", sorting[0], detail))
    return resolved


def defaults_left_out(known: Collection[str]) -> list[str]:
    """Default plugins that the registry does not have, in their order."""
    return [ref.name for ref in DEFAULT_MULTI_POINT if ref.name not in known]


def merge_defaults(plugins: Plugins) -> Plugins:
    """The user's sets laid over the default ones, as kube-scheduler prints its configuration."""
    custom = plugins.multi_point
    entries = _merge_set(DEFAULT_PLUGINS.multi_point, custom, "")
    enabled = tuple(entry.ref for entry in entries)
    disabled = tuple(PluginRef(ref.name) for ref in custom.disabled)
    # The other sets have no defaults, so the user's stand as they are.
    return replace(plugins, multi_point=PluginSet(enabled=enabled, disabled=disabled))


def _merge_set(default: PluginSet, custom: PluginSet, path: str) -> list[_Entry]:
    """Defaults that are not disabled, each replaced in place by the user's entry of that name;
    then the user's other entries. A name that the user repeats stays twice, to be refused later.
    """
    disabled = {ref.name for ref in custom.disabled}
    entries = [_Entry(ref, f"{path}.enabled[{i}]") for i, ref in enumerate(custom.enabled)]
    last_by_name = {entry.ref.name: entry for entry in entries}
    merged: list[_Entry] = []
    replacing: set[str] = set()
    if ALL not in disabled:
        for ref in default.enabled:
            if ref.name in disabled:
                continue
            entry = last_by_name.get(ref.name, _Entry(ref))
            if entry.path:
                replacing.add(entry.path)
            merged.append(entry)
    merged += [entry for entry in entries if entry.path not in replacing]
    return merged


def _resolve(
    plugins: Plugins,
    implements: Implements,
    known: Collection[str],
    path: str,
    errors: list[FieldError],
) -> PointPlugins:
    def usable(point: str) -> list[_Entry]:
        entries = _merge_set(DEFAULT_PLUGINS.at(point), plugins.at(point), f"{path}.{point}")
        errors.extend(
            invalid(f"{entry.path}.name", entry.ref.name, _why_unknown(entry.ref.name, known))
            for entry in entries
            # What was removed has been refused before, with a better reason.
            if entry.path and entry.ref.name not in {*known, *REMOVED_PLUGINS}
        )
        return [entry for entry in entries if entry.ref.name in known]

    multi_point = usable("multiPoint")
    twice: set[str] = set()
    resolved: PointPlugins = {}
    for point in POINTS:
        specific: dict[str, _Entry] = {}
        for entry in usable(point):
            if point not in implements(entry.ref.name):
                has = ", ".join(p for p in POINTS if p in implements(entry.ref.name))
                detail = f"does not implement {point}; it implements {has or 'no point'}"
                errors.append(invalid(f"{entry.path}.name", entry.ref.name, detail))
            elif entry.ref.name in specific:
                errors.append(duplicate(f"{entry.path}.name", entry.ref.name))
            else:
                specific[entry.ref.name] = entry
        disabled = {ref.name for ref in plugins.at(point).disabled}
        expanding = [
            entry
            for entry in multi_point
            if point in implements(entry.ref.name) and not {ALL, entry.ref.name} & disabled
        ]
        resolved[point] = _in_order(specific, expanding, twice, errors, scoring=point == "score")
        if point == "score":
            scoring = [e for e in multi_point if "score" in implements(e.ref.name)]
            _check_weights([*specific.values(), *scoring], errors)
    _check_required(resolved, path, errors)
    return resolved


def _why_unknown(name: str, known: Collection[str]) -> str:
    if name in _DEFAULT_NAMES:
        return "Stowplan does not have this plugin of kube-scheduler yet"
    hint = why_unknown(name, known) or f" (there are {', '.join(sorted(known))})"
    return f"no such plugin{hint}"


def _in_order(
    specific: dict[str, _Entry],
    expanding: list[_Entry],
    twice: set[str],
    errors: list[FieldError],
    *,
    scoring: bool,
) -> list[PluginRef]:
    """First the MultiPoint plugins that the point itself names again, in the point's order; then
    the other MultiPoint plugins; then the rest of the point's own.
    """
    again = {entry.ref.name for entry in expanding if entry.ref.name in specific}
    only_multi: dict[str, _Entry] = {}
    for entry in expanding:
        name = entry.ref.name
        if name in again:
            continue
        if name not in only_multi:
            only_multi[name] = entry
        elif name not in twice:
            twice.add(name)
            errors.append(duplicate(f"{entry.path}.name", name))
    ordered = [entry for name, entry in specific.items() if name in again]
    ordered += only_multi.values()
    ordered += [entry for name, entry in specific.items() if name not in again]
    # The point's own weight rules even where it says none: that is 1, not MultiPoint's weight.
    return [PluginRef(e.ref.name, (e.ref.weight or 1) if scoring else 0) for e in ordered]


def _check_weights(entries: Sequence[_Entry], errors: list[FieldError]) -> None:
    """kube-scheduler's test that totals cannot overflow also fails when a total below zero is to
    be added to: a negative weight is refused unless it comes last.
    """
    total = 0
    culprit: _Entry | None = None
    seen: set[str] = set()
    for entry in entries:
        if entry.ref.name in seen:
            continue
        seen.add(entry.ref.name)
        if total < 0 and culprit is not None:
            detail = (
                "must not be negative; kube-scheduler refuses it with `total score of Score plugins"
                " could overflow`"
            )
            errors.append(invalid(f"{culprit.path}.weight", culprit.ref.weight, detail))
            return
        total += entry.ref.weight or 1
        if entry.ref.weight < 0:
            culprit = entry


def _check_required(resolved: PointPlugins, path: str, errors: list[FieldError]) -> None:
    if len(resolved["queueSort"]) != 1:
        names = [ref.name for ref in resolved["queueSort"]]
        detail = f"exactly one queue sort plugin is required, but {len(names)} are enabled"
        errors.append(invalid(f"{path}.queueSort", names, detail))
    if not resolved["bind"]:
        errors.append(invalid(f"{path}.bind", [], "at least one bind plugin is needed"))
