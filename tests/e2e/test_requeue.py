"""Pods that wait come back when it helps, and only then: schedulers on the real API server.

The whole matrix is played on virtual time (tests/unit/scheduler/requeue); here a covering set
shows that the same holds from the API server's watch to the binding, and that kube-scheduler
agrees with every row of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.requeue_cluster import Cluster
from tests.e2e.requeue_rows import POD, ROWS, Row
from tests.e2e.schedulers import kube_scheduler, stowplan

pytestmark = pytest.mark.e2e

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "{kubeconfig}"}
"""


@pytest.fixture(scope="module", params=["stowplan", "kube-scheduler"])
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane of its own: what waits here must not be helped by other tests."""
    if request.param == "stowplan":
        require_binaries("etcd", "kube-apiserver", "kubectl")
        with ControlPlane() as plane, stowplan(plane, CONFIG, "-v=4") as log:
            yield Cluster(plane.api, log, "Unable to schedule pod; no fit; waiting")
        return
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ControlPlane() as plane, kube_scheduler(plane, CONFIG, "-v=2") as log:
        yield Cluster(plane.api, log, "Unable to schedule pod; no fit; waiting")


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.clean()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_waiting_pod_comes_back_when_it_helps_and_only_then(row: Row, cluster: Cluster) -> None:
    earlier = cluster.failures(POD)
    row.scene(cluster)
    row.waits(cluster)
    cluster.wait_rejected(POD, row.message)
    failures = cluster.failures(POD)
    assert (failures > earlier) == bool(row.message)

    row.in_vain(cluster)
    assert cluster.stays(POD) == failures

    row.helps(cluster)
    cluster.wait_bound(POD)
    assert cluster.failures(POD) == failures
