"""Devices in the testing kit's cluster and in scenarios: claims are made, allocated, freed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from stowplan.cli.simulate import simulate
from stowplan.testing import (
    MemoryCluster,
    claim_template,
    device_class,
    device_request,
    resource_claim,
    resource_slice,
)

GPU = "gpu.example.com"
SCENARIO = """
name: one device for two pods
cluster:
  nodes: [{name: n1}, {name: n2}]
  objects:
  - apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu}
    spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
  - apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: n2}
    spec:
      driver: gpu.example.com
      nodeName: n2
      pool: {name: n2, generation: 1, resourceSliceCount: 1}
      devices: [{name: d0}]
  - apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: one, namespace: default}
    spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
steps:
- create: {pods: [{name: a, resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]}]}
- expect: {pod: a, on: n2}
- create: {pods: [{name: b, resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]}]}
- expect: {pod: b, pending: cannot allocate all claims}
- delete: {objects: [pod/a]}
- expect: {pod: b, on: n2}
"""


def test_pods_share_and_wait_for_devices() -> None:
    with MemoryCluster() as cluster:
        for name in ("n1", "n2"):
            cluster.add_node(name)
        cluster.add(device_class("gpu", driver=GPU))
        cluster.add(resource_slice(GPU, 2, node="n1", attributes={"model": "A"}))
        cluster.add(resource_claim("shared", device_request("gpu", "r")))
        cluster.add(claim_template("own", "gpu"))
        for name in ("a", "b"):
            cluster.add_pod(name, claims={"gpu": "shared"})
        cluster.add_pod("c", claim_templates={"gpu": "own"})
        assert [cluster.node_of(name) for name in "abc"] == ["n1", "n1", "n1"]
        cluster.add_pod("d", claim_templates={"gpu": "own"})
        assert cluster.node_of("d") == ""
        waiting = cluster.waits("d")
        assert waiting is not None
        assert waiting.plugins == ("DynamicResources",)
        cluster.remove_pod("c")
        cluster.clock.advance(30)
        assert cluster.node_of("d") == "n1"


def test_a_scenario_with_devices(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(SCENARIO)
    done = CliRunner().invoke(simulate, [str(file)])
    assert done.exit_code == 0, done.output
    assert "3 expectations met" in done.output
