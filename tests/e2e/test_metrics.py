"""kube-scheduler and Stowplan do the same work on one control plane; their metrics are compared.

Every difference is in `ABSENT` or `OTHER_SERIES`, with its reason. A row that no longer names a
difference fails the test, too. A real Prometheus, which scrapes both, is asked every query of our
dashboard and rules, and of kubernetes-mixin's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from tests.e2e import mixin_queries
from tests.e2e.metrics_stage import MONITORING, OURS, UPSTREAM, Scrapes, both_programs
from tests.e2e.metrics_workload import PLAIN
from tests.e2e.scraping import ScrapedFamily, scrape
from tools.dashboard_panels import queries

pytestmark = pytest.mark.e2e

STATUS = "leader_election_master_status"
POINTS = "scheduler_framework_extension_point_duration_seconds"
PLUGINS = "scheduler_plugin_execution_duration_seconds"

#: Families of kube-scheduler that Stowplan does not have, by pattern, and why.
ABSENT = {
    "go_*": "the Go runtime",
    "aggregator_*": "kube-apiserver's aggregator, linked into every component; always 0",
    "apiserver_audit_*": "kube-apiserver's library; always 0 in kube-scheduler",
    "apiserver_envelope_*": "kube-apiserver's library; always 0 in kube-scheduler",
    "apiserver_storage_*": "kube-apiserver's library; always 0 in kube-scheduler",
    "apiserver_validation_*": "kube-apiserver's library; always 0 in kube-scheduler",
    "apiserver_webhooks_*": "kube-apiserver's library; always 0 in kube-scheduler",
    "cardinality_enforcement_*": "Go's registry of metrics about itself",
    "rest_client_exec_plugin_*": "ages of certificates from exec plugins are not kept",
    "rest_client_transport_*": "client-go's cache of transports; there is one client here",
    "scheduler_batch_*": "opportunistic batching; pods of one shape share cached columns instead",
    "scheduler_get_node_hint_*": "opportunistic batching",
    "scheduler_store_schedule_results_*": "opportunistic batching",
}
#: Series of kube-scheduler that Stowplan does not have: (family, label, pattern of its value).
OTHER_SERIES = {
    (POINTS, "extension_point", "Sign"): "signatures are computed where a cache asks for them",
    ("scheduler_goroutines", "operation", "[!b]*"): "decisions run in one thread",
    # On a busy machine kube-scheduler creates one of its events twice.
    ("rest_client_requests_total", "code", "40[49]"): "the first leader finds no lease",
}
#: Series that either program may have: a status can be patched while its pod changes or goes.
RACES = frozenset({(("code", "409"), ("method", "PATCH"))})
#: Queries of kubernetes-mixin without an answer, by pattern: who has none, and why.
NO_ANSWER = {
    "*: volume": ((UPSTREAM, OURS), "kube-scheduler 1.36 has no such metric"),
    "*: 3xx": ((UPSTREAM, OURS), "the API server does not redirect"),
    "Goroutines": ((OURS,), "the Go runtime"),
}
#: Rows of our dashboard that are about programs of ours.
OUR_ROWS = ("Stowplan only", "Extender", "Static scheduler")
#: Selectors of alerts that match nothing, and why.
NO_SERIES = {
    'stowplan_decision_checks_skipped_total{reason="error"}': "the check itself would have to fail",
}
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
SELECTOR = re.compile(
    r"\b((?:cluster_quantile:|scheduler_|stowplan_|wca_|schedule_request|rest_client_|leader_)[\w:]*"
    r"|up)(?![\w:(])(\{[^}]*\})?"
)
#: Families whose label values follow from the workload alone.
SAME_SERIES = (
    "scheduler_cache_size",
    "scheduler_event_handling_duration_seconds",
    POINTS,
    "scheduler_goroutines",
    "scheduler_pending_pods",
    "scheduler_plugin_evaluation_total",
    "scheduler_pod_scheduling_attempts",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_unschedulable_pods",
    "kubernetes_feature_enabled",
    "rest_client_requests_total",
    STATUS,
)


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrapes]:
    with both_programs(tmp_path_factory.mktemp("metrics")) as found:
        yield found


def test_every_family_has_the_same_type_labels_and_buckets(scrapes: Scrapes) -> None:
    unused = set(ABSENT)
    for name, upstream in scrapes.upstream.items():
        ours = scrapes.ours.get(name)
        if ours is None:
            reasons = {pattern for pattern in ABSENT if fnmatch(name, pattern)}
            assert reasons, f"{name} is missing, without a reason"
            unused -= reasons
            continue
        assert ours.kind == upstream.kind, name
        assert ours.labels == upstream.labels, name
        assert ours.bounds == upstream.bounds, name
    assert not unused, "these are no differences any more"


@pytest.mark.parametrize("family", SAME_SERIES)
def test_the_same_work_writes_the_same_series(family: str, scrapes: Scrapes) -> None:
    def series(found: dict[str, ScrapedFamily]) -> set[tuple[tuple[str, str], ...]]:
        # The address of the API server is no label to compare.
        return {
            tuple(sorted(pair for pair in labels if pair[0] != "host"))
            for labels in found[family].values
        }

    upstream, ours = series(scrapes.upstream), series(scrapes.ours)
    explained = {
        labels
        for labels in upstream - ours
        for name, label, pattern in OTHER_SERIES
        if name == family and fnmatch(dict(labels)[label], pattern)
    }
    assert upstream - explained - RACES == ours - RACES


def test_no_reason_for_other_series_is_stale(scrapes: Scrapes) -> None:
    for family, label, pattern in OTHER_SERIES:
        ours, upstream = scrapes.ours[family], scrapes.upstream[family]
        missing = upstream.label_values(label) - ours.label_values(label)
        assert any(fnmatch(value, pattern) for value in missing), (family, pattern)


@pytest.mark.parametrize(
    "point", ["Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind"]
)
def test_every_bound_pod_counts_once_at_the_points_of_binding(point: str, scrapes: Scrapes) -> None:
    for found in (scrapes.upstream, scrapes.ours):
        values = found[POINTS].values.items()
        counts = [count for labels, count in values if ("extension_point", point) in labels]
        assert counts == [PLAIN + 2]


def test_one_cycle_in_ten_times_each_plugin(scrapes: Scrapes) -> None:
    """kube-scheduler draws its cycles at random, so only ours are known."""
    timed = scrapes.ours[PLUGINS]
    assert {"PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Bind"} <= (
        timed.label_values("extension_point")
    )
    binds = [n for labels, n in timed.values.items() if ("plugin", "DefaultBinder") in labels]
    assert len(binds) == 1
    assert 0 < binds[0] <= (PLAIN + 2) / 5


def test_a_standby_says_that_it_does_not_lead(scrapes: Scrapes) -> None:
    labels = frozenset({("name", "kube-scheduler")})
    assert scrapes.standby[STATUS].values == {labels: 0.0}
    assert scrapes.ours[STATUS].values == {labels: 1.0}


def answers(query: str, cluster: str, scrapes: Scrapes) -> bool:
    """Whether Prometheus has had a number for it, with Grafana's variables in place."""
    variables = {"$cluster": cluster, "$job": ".+", "$instance": ".+", "$__rate_interval": "20s"}
    for variable, value in variables.items():
        query = query.replace(variable, value)
    return bool(scrapes.prometheus.values(query))


@pytest.mark.parametrize("cluster", [UPSTREAM, OURS])
@pytest.mark.parametrize("panel", mixin_queries.DASHBOARD)
def test_the_dashboard_of_kubernetes_mixin(panel: str, cluster: str, scrapes: Scrapes) -> None:
    without = [clusters for pattern, (clusters, _) in NO_ANSWER.items() if fnmatch(panel, pattern)]
    expected = not any(cluster in clusters for clusters in without)
    assert answers(mixin_queries.DASHBOARD[panel], cluster, scrapes) == expected


@pytest.mark.parametrize("cluster", [UPSTREAM, OURS])
@pytest.mark.parametrize("name", queries())
def test_our_dashboard(name: str, cluster: str, scrapes: Scrapes) -> None:
    if cluster == OURS or not name.startswith(OUR_ROWS):
        assert answers(queries()[name], cluster, scrapes)


@pytest.mark.parametrize("cluster", [UPSTREAM, OURS])
@pytest.mark.parametrize("name", mixin_queries.RECORDED)
def test_the_rules_record_quantiles(name: str, cluster: str, scrapes: Scrapes) -> None:
    for quantile in ("0.5", "0.9", "0.99"):
        assert answers(f'{name}{{cluster="$cluster", quantile="{quantile}"}}', cluster, scrapes)


def test_prometheus_evaluates_every_rule(scrapes: Scrapes) -> None:
    groups = scrapes.prometheus.ask("rules")["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    assert len(found) == len(RULES)
    assert {rule["name"]: rule.get("lastError") for rule in found if rule["health"] != "ok"} == {}


@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES if "alert" in rule])
def test_the_series_of_alerts_exist(alert: str, scrapes: Scrapes) -> None:
    """An alert's own answer is empty while all is well; what it looks at must not be."""
    (rule,) = [rule for rule in RULES if rule.get("alert") == alert]
    selectors = {f"{name}{labels}" for name, labels in SELECTOR.findall(rule["expr"])}
    assert selectors
    for selector in selectors:
        has_series = bool(scrapes.prometheus.values(selector))
        assert has_series == (selector not in NO_SERIES), selector


def test_prometheus_gets_in_with_the_rights_of_the_shipped_rbac(scrapes: Scrapes) -> None:
    """Over HTTPS; neither scheduler opens /metrics to clients without a token."""
    for cluster in (UPSTREAM, OURS):
        assert 1.0 in scrapes.prometheus.values(f'up{{job="kube-scheduler", cluster="{cluster}"}}')
    with pytest.raises(HTTPError, match="403"):
        scrape(scrapes.our_url)
