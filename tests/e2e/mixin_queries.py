"""The queries of kubernetes-mixin's scheduler dashboard and recording rules, as of 2026.

https://github.com/kubernetes-monitoring/kubernetes-mixin: dashboards/scheduler.libsonnet and
rules/kube_scheduler.libsonnet, with the default selectors. Its alerts are about `up` alone.
`$cluster`, `$instance` and `$__rate_interval` are Grafana's variables.
"""

from __future__ import annotations

from typing import Final

_JOB: Final = 'job="kube-scheduler"'
_ONE: Final = f'cluster="$cluster", {_JOB}, instance=~"$instance"'
_RATE: Final = "[$__rate_interval]"
_DURATIONS: Final = {
    "e2e": "scheduler_scheduling_attempt_duration_seconds",
    "binding": "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduling algorithm": "scheduler_scheduling_algorithm_duration_seconds",
    "volume": "scheduler_volume_scheduling_duration_seconds",
}
_BY: Final = "by (cluster, instance"
_REQUEST: Final = "rest_client_request_duration_seconds_bucket"

DASHBOARD: Final = {
    "Up": f'sum(up{{cluster="$cluster", {_JOB}}})',
    **{
        f"Scheduling Rate: {name}": f"sum(rate({metric}_count{{{_ONE}}}{_RATE})) {_BY})"
        for name, metric in _DURATIONS.items()
    },
    **{
        f"Scheduling latency 99th Quantile: {name}": (
            f"histogram_quantile(0.99, sum(rate({metric}_bucket{{{_ONE}}}{_RATE})) {_BY}, le))"
        )
        for name, metric in _DURATIONS.items()
    },
    **{
        f"Kube API Request Rate: {digit}xx": (
            f'sum(rate(rest_client_requests_total{{{_ONE}, code=~"{digit}.."}}{_RATE}))'
        )
        for digit in "2345"
    },
    **{
        f"{verb.capitalize()} Request Latency 99th Quantile": (
            f'histogram_quantile(0.99, sum(rate({_REQUEST}{{{_ONE}, verb="{verb}"}}{_RATE})) '
            "by (verb, le))"
        )
        for verb in ("POST", "GET")
    },
    "Memory": f"process_resident_memory_bytes{{{_ONE}}}",
    "CPU usage": f"rate(process_cpu_seconds_total{{{_ONE}}}{_RATE})",
    "Goroutines": f"go_goroutines{{{_ONE}}}",
}
#: The names that the rules record; rules.yaml records the same.
RECORDED: Final = tuple(
    f"cluster_quantile:{metric}:histogram_quantile"
    for name, metric in _DURATIONS.items()
    if name != "volume"
)
