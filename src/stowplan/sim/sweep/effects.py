"""Warnings about what a sweep's file asks for and what has no effect: idle plugins, equal seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stowplan.config.merge import find_points
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.framework.registry import Registry


class Effects:
    """Collects the configurations of a sweep, and says what none of them uses."""

    def __init__(self, plugins: Mapping[str, str], registry: Registry) -> None:
        """`plugins` maps names of plugins to how the file writes them."""
        self._registry = registry
        self._idle = dict(plugins)
        self._has_configurations = False
        self._draws_ties = False

    def add(self, config: KubeSchedulerConfiguration) -> None:
        self._has_configurations = True
        self._draws_ties |= any(
            each.tie_break == "random" and each.tie_break_seed is None for each in config.profiles
        )
        if not self._idle:
            return
        profiles = find_points(
            config.profiles, [], implements=self._registry.points, known=self._registry.names
        )
        for points in profiles.values():
            for enabled in points.values():
                for each in enabled:
                    self._idle.pop(each.name, None)

    def warnings(self, *, seeds: int, without_seed: Sequence[str]) -> Iterator[str]:
        """`without_seed` are the names of workloads that are the same for every seed."""
        if self._has_configurations:
            for written in self._idle.values():
                yield (
                    f"{written} is enabled in no profile of any configuration."
                    " Fix: enable it in profiles[].plugins"
                )
        if seeds > 1 and without_seed and not self._draws_ties:
            are = "is" if len(without_seed) == 1 else "are"
            yield (
                f"{', '.join(without_seed)} {are} the same for every seed, and no configuration"
                " has `tieBreak: random`, so seeds differ only if preemption or a plugin draws"
                " random numbers. Fix: give one seed, or set profiles[].tieBreak"
            )
