"""/metrics' text, read back with Prometheus' own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import stowplan
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.metrics import Exposition
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench

# Name, type, labels and bucket bounds as `curl /metrics` of kube-scheduler 1.36 shows them.
UPSTREAM = {
    "scheduler_schedule_attempts_total": ("counter", {"result", "profile"}, ""),
    "scheduler_scheduling_attempt_duration_seconds": (
        "histogram",
        {"result", "profile"},
        "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 "
        "16.384 +Inf",
    ),
    "scheduler_pod_scheduling_attempts": ("histogram", set[str](), "1 2 4 8 16 +Inf"),
    "scheduler_preemption_victims": ("histogram", set[str](), "1 2 4 8 16 32 64 +Inf"),
    "scheduler_event_handling_duration_seconds": (
        "histogram",
        {"event"},
        "0.0001 0.0002 0.0004 0.0008 0.0016 0.0032 0.0064 0.0128 0.0256 0.0512 0.1024 0.2048 +Inf",
    ),
    "scheduler_plugin_execution_duration_seconds": (
        "histogram",
        {"plugin", "extension_point", "status"},
        "1e-05 1.5000000000000002e-05 2.2500000000000005e-05 3.375000000000001e-05 "
        "5.062500000000001e-05 7.593750000000002e-05 0.00011390625000000003 "
        "0.00017085937500000006 0.0002562890625000001 0.00038443359375000017 "
        "0.0005766503906250003 0.0008649755859375004 0.0012974633789062506 "
        "0.0019461950683593758 0.0029192926025390638 0.004378938903808595 0.006568408355712893 "
        "0.009852612533569338 0.014778918800354007 0.02216837820053101 +Inf",
    ),
    "rest_client_response_size_bytes": (
        "histogram",
        {"verb", "host"},
        "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07 +Inf",
    ),
    "kubernetes_build_info": (
        "gauge",
        {"build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version"}
        | {"major", "minor", "platform"},
        "",
    ),
    "version_info": ("gauge", {"binary", "component", "emulation", "min_compat"}, ""),
    "process_virtual_memory_max_bytes": ("gauge", set[str](), ""),
    "process_network_receive_bytes_total": ("counter", set[str](), ""),
}


def samples_of(metrics: SchedulerMetrics) -> dict[str, tuple[str, list[Sample]]]:
    text = Exposition(metrics).text().decode()
    return {
        family.name: (family.type, family.samples)
        for family in text_string_to_metric_families(text)
    }


def test_series_look_as_upstreams() -> None:
    """What an engine has observed itself; a live comparison is in tests/e2e/test_metrics.py."""
    bench = Bench(nodes=[node("n1")])
    bench.create(pod("web"))
    placement = bench.placed()
    bench.engine.permitted(placement)
    bench.engine.bound(placement)
    metrics = bench.engine.metrics
    metrics.requests.ended("GET", "server", 0.1, 0, 100)
    families = samples_of(metrics)
    for name, (kind, labels, bounds) in UPSTREAM.items():
        # The parser takes _total off a counter's family name.
        shown_kind, samples = families[name.removesuffix("_total")]
        assert shown_kind == kind, name
        assert {label for s in samples for label in s.labels} - {"le"} == labels, name
        shown = dict.fromkeys(s.labels["le"] for s in samples if s.name.endswith("_bucket"))
        assert " ".join(shown) == bounds, name


def test_values() -> None:
    metrics = SchedulerMetrics()
    metrics.attempt_ended("scheduled", "p", 0.004)
    metrics.attempt_ended("scheduled", "p", 30)
    metrics.lists.read = lambda: {("pods",): 2}
    families = samples_of(metrics)
    values = {
        (s.name, s.labels.get("le", "")): s.value
        for name in (
            "scheduler_schedule_attempts",
            "scheduler_scheduling_attempt_duration_seconds",
            "stowplan_lists",
        )
        for s in families[name][1]
    }
    duration = "scheduler_scheduling_attempt_duration_seconds"
    assert values["scheduler_schedule_attempts_total", ""] == 2
    assert values[f"{duration}_bucket", "0.002"] == 0
    assert values[f"{duration}_bucket", "0.004"] == 1
    assert values[f"{duration}_bucket", "16.384"] == 1
    assert values[f"{duration}_bucket", "+Inf"] == 2
    assert values[f"{duration}_count", ""] == 2
    assert values[f"{duration}_sum", ""] == 30.004
    assert values["stowplan_lists_total", ""] == 2


def test_the_process_and_the_version_are_shown() -> None:
    families = samples_of(SchedulerMetrics())
    assert families["process_resident_memory_bytes"][1][0].value > 0
    assert families["stowplan_build_info"][1][0].labels == {"version": stowplan.__version__}
