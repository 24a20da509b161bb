"""Pod for pod, the decisions of kube-scheduler: node, condition, event.

kube-scheduler 1.36 and `stowplan run` get the same configuration file and the same scenario, one
after the other on one real API server of their own (pods that others left pending would be placed
too, at moments that nobody can foresee); everything that either of them wrote must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.live_play import SHARED
from tests.e2e.node_fact_scenarios import features, host_ports, images
from tests.e2e.parity import differences
from tests.e2e.scheduler_play import Json, Step, condition_of, stage
from tests.e2e.scheduler_scenarios import GPU, NIC, PRIORITY_CLASSES, Scenarist, waking
from tests.e2e.schedulers import kube_scheduler, stowplan

pytestmark = pytest.mark.e2e

#: The default profile without what Stowplan does not have, and without preemption: pods that no
#: kubelet starts have no start time, so upstream's choice of victims is chance. The live parity
#: run has it, with start times.
_PLUGINS = """
    plugins:
      multiPoint:
        disabled: [{name: "*"}]
        enabled:
""" + "".join(
    f"        - {{name: {ref.name}, weight: {ref.weight}}}\n"
    for ref in DEFAULT_MULTI_POINT
    if ref.name in SHARED and ref.name != "DefaultPreemption"
)
#: Profiles by name, and what each says beside its plugins.
_PROFILES = {
    "default-scheduler": "",
    "most": f"""
    pluginConfig:
    - name: NodeResourcesFit
      args:
        ignoredResources: ["{NIC}"]
        scoringStrategy:
          type: MostAllocated
          resources:
          - {{name: cpu, weight: 3}}
          - {{name: memory, weight: 1}}
          - {{name: {GPU}, weight: 5}}
""",
    "ratio": f"""
    pluginConfig:
    - name: NodeResourcesFit
      args:
        ignoredResourceGroups: ["other.example.com"]
        scoringStrategy:
          type: RequestedToCapacityRatio
          resources:
          - {{name: cpu, weight: 2}}
          - {{name: memory}}
          - {{name: ephemeral-storage, weight: 7}}
          requestedToCapacityRatio:
            shape:
            - {{utilization: 10, score: 9}}
            - {{utilization: 55, score: 2}}
            - {{utilization: 90, score: 7}}
    - name: NodeResourcesBalancedAllocation
      args:
        resources: [{{name: cpu}}, {{name: memory}}, {{name: ephemeral-storage}}, {{name: {GPU}}}]
""",
    "added": """
    pluginConfig:
    - name: NodeAffinity
      args:
        addedAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: pool, operator: NotIn, values: [c]}]
            - matchExpressions: [{key: gen, operator: Gt, values: ["5"]}]
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 4
            preference:
              matchExpressions: [{key: example.com/disk, operator: In, values: [ssd]}]
""",
    "sampled": """
    percentageOfNodesToScore: 30
""",
}
_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 1
percentageOfNodesToScore: 100
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: "{kubeconfig}"
  qps: 5000
  burst: 5000
profiles:
""" + "".join(f"  - schedulerName: {name}{_PLUGINS}{more}" for name, more in _PROFILES.items())

#: (profile, steps): every scenario is played to a scheduler that has played those before it.
_SCENARIOS: dict[str, Callable[[], tuple[str, list[Step]]]] = {
    "least": lambda: ("default-scheduler", Scenarist(1).steady(nodes=12, pods=70)),
    "most": lambda: ("most", Scenarist(2).steady(nodes=12, pods=50)),
    "ratio": lambda: ("ratio", Scenarist(3).steady(nodes=12, pods=50)),
    "churn": lambda: ("default-scheduler", Scenarist(4).churn(nodes=8, rounds=8, pods=6)),
    "sampled": lambda: ("sampled", Scenarist(5).sampled(nodes=130, pods=25)),
    "selecting": lambda: ("default-scheduler", Scenarist(6, selecting=True).steady(12, 60)),
    "added": lambda: ("added", Scenarist(7, selecting=True).steady(12, 40)),
    "relabelled": lambda: ("default-scheduler", Scenarist(8, selecting=True).churn(8, 8, 6)),
    "narrowed": lambda: ("sampled", Scenarist(9, selecting=True).sampled(130, 25)),
    "ports": lambda: ("default-scheduler", host_ports()),
    "images": lambda: ("default-scheduler", images()),
    "features": lambda: ("default-scheduler", features()),
    "waking": lambda: ("default-scheduler", waking()),
}


async def play(plane: ControlPlane) -> dict[str, Json]:
    """What came of every scenario."""
    results: dict[str, Json] = {}
    for title, scenario in _SCENARIOS.items():
        profile, steps = scenario()
        ca_file = str(plane.certificate_authority)
        async with stage(plane.url, ca_file, plane.admin_token, profile) as here:
            shown = await here.play(steps)
            results[title] = {
                "steps": {
                    f"{number} {step}": what
                    for number, (step, what) in enumerate(zip(steps, shown, strict=True))
                    if what is not None
                },
                "events": await here.events(_wanted(steps, shown)),
            }
    return results


def _wanted(steps: list[Step], shown: list[Any]) -> set[tuple[str, str]]:
    """The events that must be there, by pod and reason."""
    wanted = set()
    for step, pod in zip(steps, shown, strict=True):
        if pod is not None:
            condition = condition_of(pod) or {}
            if pod["spec"].get("nodeName"):
                wanted.add((step.name, "Scheduled"))
            elif condition.get("reason") != "SchedulingGated":
                wanted.add((step.name, "FailedScheduling"))
    return wanted


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    require_binaries("etcd", "kube-apiserver", "kube-scheduler")
    with ControlPlane() as plane:
        for name, value in PRIORITY_CLASSES.items():
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            plane.api.create(path, {"metadata": {"name": name}, "value": value})
        yield plane


async def test_every_decision_is_kube_schedulers(plane: ControlPlane) -> None:
    # Opportunistic batching does nothing in the default profile, but would in one without
    # PodTopologySpread: there it saves work by not looking at all nodes.
    with kube_scheduler(plane, _CONFIG, "--feature-gates=OpportunisticBatching=false"):
        theirs = await play(plane)
    with stowplan(plane, _CONFIG, "-v=4"):
        ours = await play(plane)
    found = [
        line for title in _SCENARIOS for line in differences(theirs[title], ours[title], title)
    ]
    assert not found, "left is kube-scheduler, right is stowplan:\n" + "\n".join(found)
    _check_that_the_scenarios_say_something(theirs)


def _check_that_the_scenarios_say_something(results: dict[str, Json]) -> None:
    """Equal is not enough if nothing was decided."""
    pods = [pod for result in results.values() for pod in result["steps"].values()]
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    reasons = {(condition_of(pod) or {}).get("message", "") for pod in pods}
    assert len(bound) > 150
    assert len({pod["spec"]["nodeName"] for pod in bound}) > 40
    assert len(pods) - len(bound) > 40
    for reason in (
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        f"Insufficient {GPU}",
        "Too many pods",
        "node(s) had untolerated taint(s)",
        "node(s) were unschedulable",
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't match scheduler-enforced node affinity",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "pod affinity terms conflict",
        "node(s) didn't have free ports for the requested pod ports",
        "node(s) didn't match Pod's required features",
        "no new claims to deallocate",
    ):
        assert any(reason in message for message in reasons), reason
