"""What the scheduler counts, as plain integers: kube-scheduler's series and a few of our own.

The hot path holds on to children (`metrics.framework_extension_point_duration.at("Filter",
"Success", profile)`) and adds to them: no locks, no label lookup, no library. `server.metrics`
reads them at each scrape. Everything here belongs to the event loop's thread.

Names, labels and buckets are kube-scheduler 1.36's, so that its dashboards and alerts keep working.
"""

from __future__ import annotations

from typing import Final

from stowplan.config.kubernetes_version import ShownVersions
from stowplan.scheduler.device_metrics import DeviceMetrics
from stowplan.scheduler.metric_families import (
    Family,
    Histogram,
    Kind,
    Labels,
    Source,
    Value,
    exponential,
)
from stowplan.scheduler.metrics_filter import MetricsFilter
from stowplan.scheduler.request_metrics import RequestMetrics

#: Pods that needed more attempts than this share one label value.
MOST_ATTEMPTS_SHOWN: Final = 15


class SchedulerMetrics:
    """Every series of the process; `all()` is what a scrape shows."""

    def __init__(self) -> None:
        self._all: list[Family[Value] | Family[Histogram] | Source] = []
        #: What a scrape leaves out; None: nothing.
        self.shown: MetricsFilter | None = None
        self.versions = ShownVersions()
        #: Give it to the client of the API server.
        self.requests = RequestMetrics()
        #: What DynamicResources counts.
        self.devices = DeviceMetrics()
        self._declare_attempts()
        self._declare_framework()
        self._declare_queue_and_cache()
        self._declare_preemption()
        self._declare_process()

    def _declare_attempts(self) -> None:
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts_total",
            "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a "
            "pod could not be scheduled, 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self.scheduling_attempt_duration = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            exponential(0.001, 2, 15),
        )
        self.scheduling_algorithm_duration = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Scheduling algorithm latency in seconds",
            (),
            exponential(0.001, 2, 15),
        )
        self.pod_scheduling_sli_duration = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] From the time a pod enters the queue until it is scheduled, which may take "
            "several attempts.",
            ("attempts",),
            exponential(0.01, 2, 20),
        )
        self.pod_scheduling_attempts = self._histogram(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] Number of attempts to successfully schedule a pod.",
            (),
            exponential(1, 2, 5),
        )
        self.pod_scheduled_after_flush = self._counter(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Number of pods that were scheduled after a retry without an event, because "
            "they had waited for podMaxInUnschedulablePodsDuration. If it grows, a plugin may have "
            "failed to ask for an event.",
            (),
        )

        self.decisions_deferred = self._counter(
            "stowplan_decisions_deferred_total",
            "Times that a scheduling decision was interrupted because it had spent its share of "
            "work, to go on after other pods.",
            ("profile",),
        )
        self.slow_plugins = self._counter(
            "stowplan_slow_plugin_decisions_total",
            "Decisions in which one plugin took more than 100 ms, by plugin; counted where a "
            "profile has plugins that are not part of Stowplan.",
            ("plugin", "profile"),
        )
        self.expensive_pod_work = self._source(
            "stowplan_expensive_pod_work",
            "gauge",
            "Work of the last attempt of pods whose decisions were deferred, in array elements of "
            "about a nanosecond. Only the last 16 such pods are shown.",
            ("namespace", "pod"),
        )

        self.decision_checks = self._counter(
            "stowplan_decision_checks_total",
            "Decisions that --verify-decisions made a second time on a rebuilt cluster.",
            ("profile",),
        )
        self.decision_mismatches = self._counter(
            "stowplan_decision_mismatches_total",
            "Checked decisions that differed from the decision on the rebuilt cluster. Each one is "
            "a defect: of a cache, or of a plugin that reads more than it declares.",
            ("profile",),
        )
        self.decision_checks_skipped = self._counter(
            "stowplan_decision_checks_skipped_total",
            "Decisions due for a check that were not checked: they ask an extender "
            "('extender'), take too much work ('expensive'), or the check failed ('error').",
            ("reason",),
        )

    def _declare_framework(self) -> None:
        self.framework_extension_point_duration = self._histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            exponential(0.0001, 2, 12),
        )
        self.plugin_execution_duration = self._histogram(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Duration for running a plugin at a specific extension point (sampled).",
            ("plugin", "extension_point", "status"),
            exponential(0.00001, 1.5, 20),
        )
        self.plugin_evaluation = self._counter(
            "scheduler_plugin_evaluation_total",
            "[BETA] Number of attempts to schedule pods by each plugin and the extension point "
            "(only PreFilter, Filter, PreScore, and Score).",
            ("plugin", "extension_point", "profile"),
        )
        self.permit_wait_duration = self._histogram(
            "scheduler_permit_wait_duration_seconds",
            "[BETA] Duration of waiting on permit.",
            ("result",),
            exponential(0.001, 2, 15),
        )

    def _declare_queue_and_cache(self) -> None:
        self.pending_pods = self._source(
            "scheduler_pending_pods",
            "gauge",
            "[STABLE] Number of pending pods, by the queue type: active, backoff, unschedulable "
            "(tried and failed), gated (never tried).",
            ("queue",),
        )
        self.queue_incoming_pods = self._source(
            "scheduler_queue_incoming_pods_total",
            "counter",
            "[STABLE] Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
        )
        self.inflight_events = self._source(
            "scheduler_inflight_events",
            "gauge",
            "[ALPHA] Number of events currently tracked in the scheduling queue.",
            ("event",),
        )
        self.queueing_hint_execution_duration = self._histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Duration for running a queueing hint function of a plugin.",
            ("plugin", "event", "hint"),
            exponential(0.00001, 1.5, 20),
        )
        self.event_handling_duration = self._histogram(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Event handling latency in seconds.",
            ("event",),
            exponential(0.0001, 2, 12),
        )
        self.unschedulable_pods = self._source(
            "scheduler_unschedulable_pods",
            "gauge",
            "[BETA] Number of unschedulable pods by plugin name. A pod counts for every plugin "
            "that rejected it, so the sum over plugins means nothing.",
            ("plugin", "profile"),
        )
        self.cache_size = self._source(
            "scheduler_cache_size",
            "gauge",
            "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            ("type",),
        )

    def _declare_preemption(self) -> None:
        self.preemption_victims = self._histogram(
            "scheduler_preemption_victims",
            "[STABLE] Number of selected preemption victims",
            (),
            exponential(1, 2, 7),
        )
        self.preemption_attempts = self._source(
            "scheduler_preemption_attempts_total",
            "counter",
            "[STABLE] Total preemption attempts in the cluster till now",
            (),
        )
        self.preemption_duration = self._histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Duration in seconds of evicting the victims of a preemption.",
            ("result",),
            exponential(0.01, 2, 20),
        )
        self.preemptions = self._counter(
            "scheduler_preemption_goroutines_execution_total",
            "[ALPHA] Number of preemptions that were carried out.",
            ("result",),
        )

    def _declare_process(self) -> None:
        self.feature_enabled = self._source(
            "kubernetes_feature_enabled",
            "gauge",
            "[BETA] This metric records the data about the stage and enablement of a k8s feature. "
            "1 only for features that Stowplan has, or that are other components' own.",
            ("name", "stage"),
        )
        self.leader_election_master_status = self._gauge(
            "leader_election_master_status",
            "[ALPHA] 1 if this process holds the lease 'name', 0 if it is a backup.",
            ("name",),
        )
        self.goroutines = self._source(
            "scheduler_goroutines",
            "gauge",
            "[BETA] Number of running tasks split by the work they do. Only binding has tasks of "
            "its own: decisions run one at a time.",
            ("operation",),
        )
        self.binds_in_flight = self._source(
            "stowplan_binds_in_flight", "gauge", "Binding cycles that have not ended yet.", ()
        )
        self.events_written = self._source(
            "stowplan_events_written_total", "counter", "Events that reached the API server.", ()
        )
        self.events_dropped = self._source(
            "stowplan_events_dropped_total", "counter", "Events given up on.", ()
        )
        self.spans_exported = self._source(
            "stowplan_spans_exported_total",
            "counter",
            "Spans that the collector took. Only where OTEL_EXPORTER_OTLP_ENDPOINT is set.",
            (),
        )
        self.spans_dropped = self._source(
            "stowplan_spans_dropped_total",
            "counter",
            "Spans that did not reach the collector: the queue was full ('queue_full'), or the "
            "collector did not take them ('export_failed').",
            ("reason",),
        )
        self.ledger_bytes = self._source(
            "stowplan_ledger_bytes", "gauge", "Memory of the ledger of attempts.", ()
        )
        self.ledger_dropped = self._source(
            "stowplan_ledger_file_dropped_total",
            "counter",
            "Attempts that could not be written to the file of --ledger.",
            (),
        )
        self.recording = self._source(
            "stowplan_recording", "gauge", "1 while --record writes a recording.", ()
        )
        self.recording_failures = self._source(
            "stowplan_recording_failures_total",
            "counter",
            "How often recording ended by itself and had to be started again.",
            (),
        )
        self.recording_dropped = self._source(
            "stowplan_recording_dropped_total",
            "counter",
            "Attempts that could not be handed to the recording.",
            (),
        )
        self.lists = self._source(
            "stowplan_lists_total",
            "counter",
            "Complete lists read, by resource: one at the start, more after watches that could "
            "not be resumed.",
            ("resource",),
        )

    def include(self, *families: Family[Value] | Family[Histogram]) -> None:
        """Show families that are counted elsewhere, too."""
        self._all += families

    def all(self) -> tuple[Family[Value] | Family[Histogram] | Source, ...]:
        return (*self._all, *self.devices.all(), *self.requests.all())

    # What an attempt writes in one go

    def attempt_ended(self, result: str, profile: str, seconds: float) -> None:
        """`result` is scheduled, unschedulable or error."""
        self.schedule_attempts.at(result, profile).value += 1
        self.scheduling_attempt_duration.at(result, profile).observe(seconds)

    def point_ended(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of an extension point have run for a pod."""
        self.framework_extension_point_duration.at(point, status, profile).observe(seconds)

    def plugin_ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin ran in a sampled cycle."""
        self.plugin_execution_duration.at(plugin, point, status).observe(seconds)

    def hint_ran(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A plugin said whether an event may help a pod: Queue, QueueSkip or Error."""
        self.queueing_hint_execution_duration.at(plugin, event, hint).observe(seconds)

    def pod_scheduled(self, attempts: int, seconds_since_first_queued: float) -> None:
        self.pod_scheduling_attempts.at().observe(attempts)
        shown = str(attempts) if attempts < MOST_ATTEMPTS_SHOWN else f"{MOST_ATTEMPTS_SHOWN}+"
        self.pod_scheduling_sli_duration.at(shown).observe(seconds_since_first_queued)

    # Declaring

    def _counter(self, name: str, help_text: str, labels: Labels) -> Family[Value]:
        return self._keep(Family(name, "counter", help_text, labels, Value))

    def _gauge(self, name: str, help_text: str, labels: Labels) -> Family[Value]:
        return self._keep(Family(name, "gauge", help_text, labels, Value))

    def _histogram(
        self, name: str, help_text: str, labels: Labels, bounds: tuple[float, ...]
    ) -> Family[Histogram]:
        family = Family(name, "histogram", help_text, labels, lambda: Histogram(bounds))
        self._all.append(family)
        return family

    def _keep(self, family: Family[Value]) -> Family[Value]:
        self._all.append(family)
        return family

    def _source(self, name: str, kind: Kind, help_text: str, labels: Labels) -> Source:
        source = Source(name, kind, help_text, labels)
        self._all.append(source)
        return source
