"""Warnings for settings that kube-scheduler accepts but that are probably mistakes.

A misspelt name in `disabled` or in `pluginConfig` silently has no effect, in kube-scheduler too.
Rejecting such a file would break files that work there, so it only causes a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.config.fields import FieldError
from stowplan.config.merge import ALL, Implements
from stowplan.config.plugin_args import PLUGIN_ARGS
from stowplan.config.scheduler_plugins import why_unknown
from stowplan.config.types import POINTS, KubeSchedulerConfiguration, Profile

_DEFAULTS: Final = frozenset(ref.name for ref in DEFAULT_MULTI_POINT)
#: Plugins of kube-scheduler's that ignore whatever arguments they are given.
WITHOUT_ARGS: Final = _DEFAULTS - PLUGIN_ARGS.keys()


def advice(
    config: KubeSchedulerConfiguration, *, implements: Implements, known: Collection[str]
) -> list[FieldError]:
    """Warnings about a configuration; `known` are the plugins that exist."""
    names = {*known, *_DEFAULTS}
    points_of = {name: implements(name) for name in known}
    return [
        warning
        for index, profile in enumerate(config.profiles)
        for warning in (
            *_of_arguments(f"profiles[{index}]", profile, names),
            *_of_disabled(f"profiles[{index}]", profile, names, points_of),
        )
    ]


def _of_arguments(path: str, profile: Profile, names: Collection[str]) -> Iterator[FieldError]:
    for index, entry in enumerate(profile.plugin_config):
        at = f"{path}.pluginConfig[{index}]"
        if entry.name not in names:
            hint = why_unknown(entry.name, names)
            yield FieldError(f"{at}.name", f'there is no plugin "{entry.name}"{hint}')
        elif entry.name in WITHOUT_ARGS and entry.args:
            yield FieldError(f"{at}.args", f"ignored, {entry.name} takes no arguments")


def _of_disabled(
    path: str, profile: Profile, names: Collection[str], points_of: Mapping[str, Collection[str]]
) -> Iterator[FieldError]:
    for point in (*POINTS, "multiPoint"):
        for index, ref in enumerate(profile.plugins.at(point).disabled):
            at = f"{path}.plugins.{point}.disabled[{index}].name"
            points = points_of.get(ref.name, ())
            if ref.name != ALL and ref.name not in names:
                hint = why_unknown(ref.name, names)
                yield FieldError(at, f'there is no plugin "{ref.name}" to disable{hint}')
            elif points and point not in (*points, "multiPoint"):
                has = ", ".join(each for each in POINTS if each in points)
                detail = f"{ref.name} does not implement {point}; it implements {has}"
                yield FieldError(at, f"has no effect: {detail}")
