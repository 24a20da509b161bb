"""kube-scheduler and Stowplan do the same work on one control plane; their metrics are compared.

Every difference is in `ABSENT` or `OTHER_SERIES`, with its reason. A row that no longer names a
difference fails the test, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.requeue_cluster import PODS, Cluster
from tests.e2e.schedulers import stowplan
from tests.e2e.scraping import ScrapedFamily, scrape
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
clientConnection: {kubeconfig: "{kubeconfig}"}
"""
PLAIN = 30
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


@dataclass
class Scrapes:
    """What both programs show after the same work; `standby`: Stowplan before it led."""

    upstream: dict[str, ScrapedFamily]
    ours: dict[str, ScrapedFamily]
    standby: dict[str, ScrapedFamily]


@pytest.fixture(scope="module")
def scrapes() -> Iterator[Scrapes]:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ControlPlane() as plane:
        leader = plane.start_scheduler(CONFIG, "--leader-elect=true")
        upstream = work(plane, f"{leader.url}/metrics")
        port = free_port()
        url = f"https://127.0.0.1:{port}/metrics"
        opened = "--authorization-always-allow-paths=/metrics"
        waits = "Attempting to acquire leader lease..."
        with stowplan(plane, CONFIG, f"--secure-port={port}", opened, started=waits):
            standby = scrape(url)
            leader.stop()
            yield Scrapes(upstream, work(plane, url), standby)


def work(plane: ControlPlane, url: str) -> dict[str, ScrapedFamily]:
    """Binds, a gate, a pod that waits for a node, a preemption and deletions."""
    cluster = Cluster(plane.api, Path(), "")

    def pod(name: str) -> Any:
        return plane.api.get(f"{PODS}/{name}")

    def wait_bound(name: str) -> None:
        wait_for(f"{name} to be bound", lambda: pod(name)["spec"].get("nodeName"))

    def delete(name: str) -> None:
        plane.api.delete(f"{PODS}/{name}", grace_seconds=0)

    cluster.node("n1", cpu="2")
    cluster.node("n2", cpu="2")
    for index in range(PLAIN):
        cluster.pod(f"plain-{index}")
        wait_bound(f"plain-{index}")
    cluster.pod("gated", schedulingGates=[{"name": "example.com/gate"}])
    huge = {"resources": {"requests": {"cpu": "64"}}}
    cluster.pod("huge", container=huge)
    wait_for("huge to be rejected", lambda: pod("huge")["status"]["conditions"])
    important = {"resources": {"requests": {"cpu": "1"}}}
    cluster.pod("important", container=important, priorityClassName="system-cluster-critical")

    def without_kubelets() -> bool:
        """Victims are gone at once; true when the pod that they made room for is bound."""
        for item in plane.api.get(PODS)["items"]:
            if "deletionTimestamp" in item["metadata"]:
                delete(item["metadata"]["name"])
        return "nodeName" in pod("important")["spec"]

    wait_for("important to be bound", without_kubelets)
    cluster.node("large", cpu="128")
    wait_bound("huge")
    delete("gated")
    delete("huge")
    bound = PLAIN + 2

    def complete() -> dict[str, ScrapedFamily] | None:
        found = scrape(url)
        # Some of kube-scheduler's series are written once a second.
        attempts = found["scheduler_pod_scheduling_attempts"].values.values()
        hints = found["scheduler_queueing_hint_execution_duration_seconds"]
        handled = found["scheduler_event_handling_duration_seconds"]
        is_complete = (
            sum(attempts) == bound
            and "NodeAdd" in hints.label_values("event")
            and "AssignedPodDelete" in handled.label_values("event")
        )
        return found if is_complete else None

    found = wait_for("complete metrics", complete)
    cluster.clean()
    return found


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
    assert upstream - explained == ours


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
