"""The embedded API server's workload controllers beside kube-controller-manager's own.

The same Deployments, ReplicaSets, StatefulSets and Jobs must end in the same pods, owners and
statuses. KWOK plays the kubelets of the real control plane.
"""

from __future__ import annotations

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from tests.e2e.controllers_beside import assert_same, embedded, real
from tests.e2e.workload_cases import CASES, NODE, World

pytestmark = pytest.mark.e2e

SIZE = {"cpu": "99", "memory": "999Gi", "pods": "999"}
NODE_BODY = {"metadata": {"name": NODE}, "status": {"capacity": SIZE, "allocatable": SIZE}}
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,job-controller,"
    "garbage-collector-controller"
)


@pytest.mark.timeout(240)
async def test_workloads_end_as_with_kube_controller_manager() -> None:
    server = ApiServer(
        kubelet=KubeletOptions(start_delay_s=0.05, stop_delay_s=0.05, job_run_s=0.3),
        workloads=WorkloadControllerOptions(),
    )
    async with real(CONTROLLERS, kwok=True) as theirs, embedded(server) as ours:
        for session in (theirs, ours):
            async with session.post("/api/v1/nodes", json=NODE_BODY) as answer:
                assert answer.status == 201, await answer.text()
        await assert_same(CASES, World, ours, theirs)
