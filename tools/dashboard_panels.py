"""The panels of the Grafana dashboard: rows, titles, units, queries and legends.

`tools.dashboard` writes the file; tests/e2e/test_metrics.py asks a real Prometheus every query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QUANTILES: Final = ("0.5", "0.9", "0.99")

ONE: Final = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
RATE: Final = "[$__rate_interval]"
#: The extender and the static scheduler are other jobs than the one that is chosen.
OTHER: Final = 'cluster=~"$cluster"'


@dataclass(frozen=True)
class Panel:
    """One panel; `targets` are (query, legend). A `stat` shows the last value."""

    title: str
    unit: str
    targets: tuple[tuple[str, str], ...]
    description: str = ""
    width: int = 8
    kind: str = "timeseries"


def rate(metric: str, by: str, more: str = "", where: str = ONE) -> str:
    return f"sum by ({by}) (rate({metric}{{{where}{more}}}{RATE}))"


def quantile(metric: str, of: str, by: str = "", more: str = "", where: str = ONE) -> str:
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({of}, {rate(f'{metric}_bucket', labels, more, where)})"


def quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    return tuple((quantile(metric, of), f"p{float(of) * 100:.0f}") for of in QUANTILES)


def stat(title: str, unit: str, query: str, legend: str = "", description: str = "") -> Panel:
    return Panel(title, unit, ((query, legend),), description, width=4, kind="stat")


def graph(title: str, unit: str, query: str, legend: str, description: str = "") -> Panel:
    return Panel(title, unit, ((query, legend),), description)


def small(title: str, unit: str, query: str, legend: str) -> Panel:
    return Panel(title, unit, ((query, legend),), width=6)


ATTEMPTS: Final = "scheduler_schedule_attempts_total"
POINTS: Final = "scheduler_framework_extension_point_duration_seconds"

#: Panels by the title of their row.
ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Overview": (
        stat("Instances up", "none", f"sum(up{{{ONE}}})"),
        stat(
            "Leader",
            "none",
            f"leader_election_master_status{{{ONE}}} == 1",
            "{{instance}}",
            "Empty if leader election is off.",
        ),
        stat(
            "Version", "none", f"group by (git_version) (kubernetes_build_info{{{ONE}}})",
            "{{git_version}}",
        ),
        stat("Pods scheduled", "ops", f'sum(rate({ATTEMPTS}{{{ONE}, result="scheduled"}}{RATE}))'),
        stat(
            "Pending pods",
            "none",
            f'sum(max by (cluster, queue) (scheduler_pending_pods{{{ONE}, queue!="gated"}}))',
            description="Without those that a scheduling gate holds.",
        ),
        stat(
            "Nodes", "none", f'max(scheduler_cache_size{{{ONE}, type="nodes"}})',
            description="In the scheduler's cache.",
        ),
    ),
    "Scheduling": (
        graph(
            "Attempts by result", "ops", rate(ATTEMPTS, "result"), "{{result}}",
            "unschedulable: no node fits; error: a plugin, an extender or the API server failed.",
        ),
        Panel(
            "Attempt latency", "s", quantiles("scheduler_scheduling_attempt_duration_seconds"),
            "One attempt, from the queue to the end of the binding.",
        ),
        Panel(
            "End-to-end latency", "s", quantiles("scheduler_pod_scheduling_sli_duration_seconds"),
            "From a pod's arrival in the queue to its binding, all attempts included.",
        ),
        Panel(
            "Decision latency", "s", quantiles("scheduler_scheduling_algorithm_duration_seconds"),
            "Filter and Score alone.",
        ),
        graph(
            "Latency by result (p99)",
            "s",
            quantile("scheduler_scheduling_attempt_duration_seconds", "0.99", "result"),
            "{{result}}",
        ),
        graph(
            "Attempts per pod",
            "none",
            f"{rate('scheduler_pod_scheduling_attempts_sum', 'job')}"
            f" / {rate('scheduler_pod_scheduling_attempts_count', 'job')}",
            "{{job}}",
            "Mean over the pods that were scheduled.",
        ),
    ),
    "Queues": (
        graph(
            "Pending pods", "none", f"max by (cluster, queue) (scheduler_pending_pods{{{ONE}}})",
            "{{cluster}} {{queue}}",
            "active: about to be tried; backoff: waits after a failure; unschedulable: fits "
            "nowhere; gated: has a scheduling gate.",
        ),
        graph(
            "Unschedulable pods by plugin",
            "none",
            f"max by (cluster, plugin) (scheduler_unschedulable_pods{{{ONE}}})",
            "{{cluster}} {{plugin}}",
            "A pod counts for every plugin that rejected it.",
        ),
        graph(
            "Pods that enter a queue",
            "ops",
            rate("scheduler_queue_incoming_pods_total", "queue, event"),
            "{{queue}} {{event}}",
        ),
        graph(
            "Pods scheduled after a flush",
            "ops",
            rate("scheduler_pod_scheduled_after_flush_total", "job"),
            "{{job}}",
            "They waited for podMaxInUnschedulablePodsDuration: no event caused a retry.",
        ),
        graph(
            "Queueing hints (p99)",
            "s",
            quantile("scheduler_queueing_hint_execution_duration_seconds", "0.99", "plugin"),
            "{{plugin}}",
        ),
        graph(
            "Event handling (p99)",
            "s",
            quantile("scheduler_event_handling_duration_seconds", "0.99", "event"),
            "{{event}}",
        ),
    ),
    "Extension points and plugins": (
        graph(
            "Extension points (p99)", "s", quantile(POINTS, "0.99", "extension_point"),
            "{{extension_point}}",
        ),
        graph(
            "Time spent per extension point",
            "percentunit",
            rate(f"{POINTS}_sum", "extension_point"),
            "{{extension_point}}",
            "100 %: it runs all the time.",
        ),
        graph(
            "Slowest plugins (p99)",
            "s",
            "topk(10, "
            + quantile(
                "scheduler_plugin_execution_duration_seconds", "0.99", "plugin, extension_point"
            )
            + ")",
            "{{plugin}} {{extension_point}}",
            "One attempt in ten is measured.",
        ),
        graph(
            "Plugin evaluations",
            "ops",
            rate("scheduler_plugin_evaluation_total", "plugin"),
            "{{plugin}}",
        ),
        Panel(
            "Preemption",
            "ops",
            (
                (rate("scheduler_preemption_attempts_total", "job"), "searches for victims"),
                (
                    rate("scheduler_preemption_goroutines_execution_total", "result"),
                    "evictions: {{result}}",
                ),
            ),
        ),
        Panel(
            "Victims and their eviction",
            "none",
            (
                (
                    f"{rate('scheduler_preemption_victims_sum', 'job')}"
                    f" / {rate('scheduler_preemption_victims_count', 'job')}",
                    "victims per preemption",
                ),
                (
                    quantile("scheduler_preemption_goroutines_duration_seconds", "0.99"),
                    "eviction, seconds (p99)",
                ),
            ),
        ),
    ),
    "API server": (
        graph(
            "Requests", "reqps", rate("rest_client_requests_total", "method, code"),
            "{{method}} {{code}}", "POST 201: bindings and events.",
        ),
        graph(
            "Request latency (p99)",
            "s",
            quantile("rest_client_request_duration_seconds", "0.99", "verb"),
            "{{verb}}",
        ),
        graph(
            "Client-side rate limit (p99)",
            "s",
            quantile("rest_client_rate_limiter_duration_seconds", "0.99", "verb"),
            "{{verb}}",
            "How long requests wait for --kube-api-qps and --kube-api-burst.",
        ),
        graph(
            "Bindings under way",
            "none",
            f'sum by (instance) (scheduler_goroutines{{{ONE}, operation="binding"}})',
            "{{instance}}",
        ),
        graph(
            "Leader", "none", f"leader_election_master_status{{{ONE}}}",
            "{{name}} {{instance}}", "1: holds the lease.",
        ),
        graph(
            "Cache", "none", f"max by (cluster, type) (scheduler_cache_size{{{ONE}}})",
            "{{cluster}} {{type}}",
        ),
    ),
    "Process": (
        small("Memory", "bytes", f"process_resident_memory_bytes{{{ONE}}}", "{{instance}}"),
        small("CPU", "none", f"rate(process_cpu_seconds_total{{{ONE}}}{RATE})", "{{instance}}"),
        small("Open files", "none", f"process_open_fds{{{ONE}}}", "{{instance}}"),
        Panel(
            "Clients of port 10259",
            "reqps",
            (
                (rate("authentication_attempts", "result"), "authentication: {{result}}"),
                (rate("authorization_attempts_total", "result"), "authorisation: {{result}}"),
            ),
            "Scrapes and probes, by result. failure and error are answered with 401, denied and "
            "no-opinion with 403.",
            width=6,
        ),
    ),
    "Stowplan only": (
        Panel(
            "Verified decisions",
            "ops",
            (
                (rate("stowplan_decision_checks_total", "profile"), "compared: {{profile}}"),
                (rate("stowplan_decision_mismatches_total", "profile"), "different: {{profile}}"),
                (
                    rate("stowplan_decision_checks_skipped_total", "reason"),
                    "not compared: {{reason}}",
                ),
            ),
            "Empty without --verify-decisions.",
        ),
        graph(
            "Plugins over 100 ms",
            "ops",
            rate("stowplan_slow_plugin_decisions_total", "plugin, profile"),
            "{{plugin}} {{profile}}",
            "Decisions in which one plugin took more than 100 ms.",
        ),
        Panel(
            "Expensive pods",
            "none",
            (
                (rate("stowplan_decisions_deferred_total", "profile"), "deferred/s: {{profile}}"),
                (
                    f"topk(5, stowplan_expensive_pod_work{{{ONE}}}) / 1e9",
                    "{{exported_namespace}}{{namespace}}/{{exported_pod}}{{pod}}",
                ),
            ),
            "Decisions that were interrupted in favour of other pods, and the work of the last "
            "attempt in billions of array elements.",
        ),
        Panel(
            "Events",
            "ops",
            (
                (rate("stowplan_events_written_total", "job"), "written"),
                (rate("stowplan_events_dropped_total", "job"), "dropped"),
            ),
        ),
        graph(
            "Lists", "none", f"max by (resource) (stowplan_lists_total{{{ONE}}})", "{{resource}}",
            "Complete lists since the start: 1, and 1 more for each watch that could not be "
            "resumed.",
        ),
        graph("Binding cycles", "none", f"stowplan_binds_in_flight{{{ONE}}}", "{{instance}}"),
    ),
    "Extender": (
        Panel(
            "Requests",
            "reqps",
            tuple(
                (rate(f"wca_scheduler_{verb}", "job", where=OTHER), f"{{{{job}}}} {verb}")
                for verb in ("filter", "prioritize", "preempt", "bind")
            ),
        ),
        graph(
            "Request latency (p99)",
            "s",
            quantile("wca_scheduler_request_duration_seconds", "0.99", "job, verb", where=OTHER),
            "{{job}} {{verb}}",
        ),
        graph(
            "Algorithm (p99)",
            "s",
            quantile("wca_scheduler_algorithm_duration_seconds", "0.99", "job, verb", where=OTHER),
            "{{job}} {{verb}}",
        ),
        Panel(
            "Failures",
            "ops",
            (
                (rate("wca_scheduler_errors", "job, verb", where=OTHER), "{{job}} {{verb}}"),
                (
                    rate("wca_scheduler_refused_requests", "job, code", where=OTHER),
                    "{{job}} refused: {{code}}",
                ),
                (rate("wca_scheduler_clamped_scores", "job", where=OTHER), "{{job}} clamped"),
            ),
        ),
        Panel(
            "Data",
            "none",
            (
                (
                    f"min by (job, instance) (wca_scheduler_kubeapi_synced{{{OTHER}}})",
                    "{{instance}} API server",
                ),
                (
                    f"min by (job, instance) (wca_scheduler_prometheus_up{{{OTHER}}})",
                    "{{instance}} Prometheus",
                ),
            ),
            "1: current. Empty for algorithms without data providers.",
        ),
    ),
    "Static scheduler": (
        graph(
            "Binding requests",
            "none",
            f"sum by (scheduler) (schedule_request_total{{{OTHER}}})",
            "{{scheduler}}",
            "Totals: every pod has a series of its own, so rates would miss most of them.",
        ),
        graph(
            "Bound pods",
            "none",
            f"sum by (scheduler) (schedule_request_success_total{{{OTHER}}})",
            "{{scheduler}}",
        ),
        graph(
            "Failures",
            "none",
            "sum by (scheduler, http_status, reason) "
            f"(schedule_request_failure_total{{{OTHER}}})",
            "{{scheduler}} {{http_status}} {{reason}}",
        ),
    ),
}  # fmt: skip


def queries() -> dict[str, str]:
    """Every query, by row, panel and letter."""
    return {
        f"{row}: {panel.title}, {letter}": query
        for row, panels in ROWS.items()
        for panel in panels
        for letter, (query, _) in zip("ABCDEF", panel.targets, strict=False)
    }
