"""Pods with resource claims on the real control plane, with kube-controller-manager."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.testing import (
    as_manifest,
    claim_template,
    device_request,
    pod,
    resource_claim,
)
from tests.e2e.device_kills import kill_schedulers
from tests.e2e.device_stage import GPU, DeviceStage, device_stage
from tests.e2e.schedulers import kube_scheduler, stowplan

pytestmark = pytest.mark.e2e

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "{kubeconfig}"}
"""


def on(number: int) -> str:
    """Only the devices of one node match, so that no tie is decided by chance."""
    return f'device.attributes["{GPU}"].node == {number}'


def above(amount: str) -> str:
    return f'device.capacity["{GPU}"].memory.compareTo(quantity("{amount}")) > 0'


MODEL_B = f'device.attributes["{GPU}"].model == "B"'
CLAIMS = [
    claim_template("one", device_request("gpu", "r", on(1))),
    claim_template(
        "pair",
        device_request("gpu", "r", on(0), count=2),
        constraints=[{"matchAttribute": f"{GPU}/model"}],
    ),
    claim_template(
        "either",
        device_request(
            name="r",
            first_available=[
                device_request(
                    "gpu",
                    "much",
                    on(2),
                    f'device.capacity["{GPU}"].memory.compareTo(quantity("9Gi")) > 0',
                ),
                device_request(
                    "gpu",
                    "some",
                    on(2),
                    f'device.capacity["{GPU}"].memory.compareTo(quantity("3Gi")) > 0',
                ),
            ],
        ),
    ),
    resource_claim("shared", device_request("gpu", "r", on(2), MODEL_B)),
]
PODS = [
    pod("a", claim_templates={"gpu": "one"}),
    pod("b", claim_templates={"gpu": "pair"}),
    pod("c", claim_templates={"gpu": "either"}),
    pod("d", claims={"gpu": "shared"}),
    pod("e", claims={"gpu": "shared"}, claim_templates={"more": "either"}),
    pod("f", claim_templates={"gpu": "one", "more": "one"}),
    pod("g", claim_templates={"gpu": "pair"}),
    pod("h"),
]


def played(stage: DeviceStage) -> dict[str, Any]:
    """Nodes of pods and devices of claims, one pod after the other."""
    for each in PODS:
        stage.add(as_manifest(each))
        if each.metadata.name != "e":  # the one device for it is taken
            stage.wait_bound(each.metadata.name)
    devices = {
        _name(claim): sorted(
            (result["request"], result["pool"], result["device"])
            for result in claim["status"]["allocation"]["devices"]["results"]
        )
        for claim in stage.claims()
        if "allocation" in claim["status"]
    }
    pods = stage.pods()
    pods.pop("h")  # chance decides
    stage.remove(*stage.pods())
    stage.wait_free()
    return {"pods": pods, "devices": devices}


def _name(claim: dict[str, Any]) -> str:
    """Without the random end."""
    owners = claim["metadata"].get("ownerReferences") or ()
    if not owners:
        return str(claim["metadata"]["name"])
    mark = claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"]
    return f"{owners[0]['name']}/{mark}"


@pytest.mark.timeout(400)
def test_the_same_pods_get_the_same_devices() -> None:
    with device_stage() as stage:
        stage.add(*CLAIMS)
        with kube_scheduler(stage.plane, CONFIG):
            theirs = played(stage)
        with stowplan(stage.plane, CONFIG):
            ours = played(stage)
    assert ours == theirs
    assert len(ours["devices"]) >= 7


@pytest.mark.timeout(400)
def test_a_scheduler_killed_between_reserve_and_bind_leaks_no_device() -> None:
    with device_stage(nodes=2, devices=2) as stage:
        assert kill_schedulers(stage, kills=4) == []
