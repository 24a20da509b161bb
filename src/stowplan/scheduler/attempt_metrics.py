"""What scheduling attempts add to the metrics: extension points, plugins, evaluations.

Called by the engine on the path of every pod. Extension points are observed for each pod, single
plugins for one pod in `SAMPLE_EVERY`, and slow plugins of users always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan.clock import Clock
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import Profile
from stowplan.framework.status import LABELS, Status
from stowplan.framework.stopwatch import Stopwatch
from stowplan.scheduler.attempt_trace import AttemptTrace
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.expensive import ExpensiveDecisions
from stowplan.scheduler.metric_families import Value
from stowplan.scheduler.metrics import SchedulerMetrics

#: One cycle in so many measures each plugin by itself, as upstream samples 10 % of its cycles.
SAMPLE_EVERY: Final = 10


class AttemptMetrics:
    """Times extension points and plugins, and counts what plugins were asked."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        metrics: SchedulerMetrics,
        expensive: ExpensiveDecisions,
        *,
        clock: Clock,
        stopwatch_clock: Clock,
        observes_durations: bool = True,
    ) -> None:
        self._metrics = metrics
        self._expensive = expensive
        self._clock = clock
        self._observes_durations = observes_durations
        self._stopwatch_clock = stopwatch_clock
        self._cycles = 0
        self._enqueued = 0
        #: Of the profiles whose slow plugins are reported.
        self._watches = {
            name: Stopwatch(stopwatch_clock)
            for name, profile in profiles.items()
            if not all(map(_is_ours, profile.plugins.values()))
        }
        #: By name of the profile.
        self.evaluations = {
            name: Evaluations(profile, metrics) for name, profile in profiles.items()
        }

    def point_ended(
        self,
        point: str,
        status: Status,
        profile: Profile,
        began: float,
        trace: AttemptTrace | None = None,
        kept: dict[str, float] | None = None,
    ) -> float:
        """Count an extension point, and keep its seconds; returns the time at which it ended."""
        if not self._observes_durations and trace is None and kept is None:
            return began
        now = self._clock.monotonic()
        durations = self._metrics.framework_extension_point_duration
        durations.at(point, LABELS[status.code], profile.name).observe(now - began)
        if trace is not None:
            trace.point(point, LABELS[status.code], began, now)
        if kept is not None:
            kept[point] = now - began
        return now

    def watch(self, profile: str) -> Stopwatch | None:
        """Times the plugins of the next decision; None: it is neither sampled nor reported."""
        self._cycles += 1
        if self._observes_durations and self._cycles % SAMPLE_EVERY == 1:
            return self._sampling_watch()
        watch = self._watches.get(profile)
        if watch is not None:
            watch.clear()
        return watch

    def pre_enqueue_watch(self) -> Stopwatch | None:
        """Times the PreEnqueue plugins of the next pod; None: it is not sampled."""
        self._enqueued += 1
        is_sampled = self._observes_durations and self._enqueued % SAMPLE_EVERY == 1
        return self._sampling_watch() if is_sampled else None

    def _sampling_watch(self) -> Stopwatch:
        return Stopwatch(self._stopwatch_clock, self._metrics.plugin_ran)

    def report_slow_plugins(self, cycle: Cycle, profile: Profile) -> None:
        """Log and count plugins that took too long since the last report."""
        watch = cycle.watch
        if watch is not None and watch.has_slow and profile.name in self._watches:
            self._expensive.plugins_took(watch.seconds, cycle.pod.key, profile.name)
            watch.clear()


class Evaluations:
    """Counts how often the plugins of a profile were asked; those that skipped were not.

    As upstream, Filter counts each node that was searched and Score each feasible node.
    """

    def __init__(self, profile: Profile, metrics: SchedulerMetrics) -> None:
        self._counts: list[tuple[str, str, Value]] = [
            (spoken, plugin.name, metrics.plugin_evaluation.at(plugin.name, spoken, profile.name))
            for point in ("preFilter", "filter", "preScore", "score")
            for spoken in (point[0].upper() + point[1:],)
            for plugin in profile.at(point)
        ]
        #: Skipped plugins, and whether nodes were scored -> the counters to increment.
        self._chosen: dict[
            tuple[frozenset[str], frozenset[str], bool], tuple[list[Value], ...]
        ] = {}

    def count(self, decision: Decision) -> None:
        """Add the evaluations of one decision."""
        skip_filter = frozenset(decision.cycle.skip_filter)
        skip_score = frozenset(decision.cycle.skip_score)
        has_scored = decision.sheet is not None
        chosen = self._chosen.get((skip_filter, skip_score, has_scored))
        if chosen is None:
            asked = [
                (point, count)
                for point, name, count in self._counts
                if name not in (skip_filter if "Filter" in point else skip_score)
                and (has_scored or "Filter" in point)
            ]
            chosen = self._chosen[skip_filter, skip_score, has_scored] = (
                [count for point, count in asked if point.startswith("Pre")],
                [count for point, count in asked if point == "Filter"],
                [count for point, count in asked if point == "Score"],
            )
        each_pod, each_searched, each_feasible = chosen
        for count in each_pod:
            count.value += 1
        for count in each_searched:
            count.value += decision.evaluated_nodes
        for count in each_feasible:
            count.value += decision.feasible_nodes


def _is_ours(plugin: Plugin) -> bool:
    return type(plugin).__module__.startswith("stowplan.plugins.")
