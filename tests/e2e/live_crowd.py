"""The mixture of the live comparison with preemption: nodes too full, and pods of many priorities.

No two budgets cover the same pod, and the play gives every pod a start time of its own: where
budgets overlap or two nodes are equally good, kube-scheduler itself leaves the outcome to chance.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tests.e2e.live_mixture import Mixture
from tests.e2e.live_storage import Request
from tests.e2e.live_traits import APPS, NAMESPACES

Json = dict[str, Any]


class Crowd(Mixture):
    """Larger pods, most of them with a priority; some are protected by budgets."""

    priority_classes: ClassVar = {
        "urgent": {"value": 1000},
        "high": {"value": 100},
        "polite": {"value": 500, "preemptionPolicy": "Never"},
        "modest": {"value": 10},
        "lazy": {"value": -5},
        "idle": {"value": -1000, "preemptionPolicy": "Never"},
    }
    with_priority: ClassVar = 0.75
    #: Victims stay until the play lets them go.
    grace_s: ClassVar = 30
    cpu: ClassVar = ["50m", "200m", "300m", "0.5", "1", "1200m", "1500m"]
    memory: ClassVar = ["64Mi", "512Mi", "1Gi", "1500M", "2Gi", "3Gi"]

    def _workloads(self) -> None:
        super()._workloads()
        for namespace in NAMESPACES:
            protected = self._dice.sample(APPS, 2)
            for app, allowed in zip(protected, self._dice.sample([0, 1, 2, 5], 2), strict=True):
                self._budget(namespace, app, {"matchLabels": {"app": app}}, allowed)
            # To a scheduler it covers nobody, though to the API it covers everybody.
            self._budget(namespace, "everybody", {}, 0)

    def _budget(self, namespace: str, name: str, selector: Json, allowed: int) -> None:
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        self._post(path, name, spec={"minAvailable": 1, "selector": selector})
        # Nobody is there who would count.
        status: Json = {
            "disruptionsAllowed": allowed,
            "currentHealthy": allowed + 1,
            "desiredHealthy": 1,
            "expectedPods": allowed + 1,
            # The API server has let these go: they are not counted a second time.
            "disruptedPods": {
                f"pod-{self._dice.randint(0, 200)}": "2026-01-01T00:00:00Z" for _ in range(10)
            },
        }
        self._storage.requests.append(Request(f"{path}/{name}/status", {"status": status}, "PATCH"))

    def _pod(self, number: int) -> Json:
        pod = super()._pod(number)
        if _names_its_node(pod):
            # It is tried once: each attempt moves the place where the search for nodes begins, and
            # how often a pod is tried while its victims go is a matter of timing.
            pod["spec"]["priorityClassName"] = "idle"
        elif pod["spec"].get("priorityClassName") in ("urgent", "high") and self._dice.often(0.4):
            _make_large(pod)
        return pod


def _make_large(pod: Json) -> None:
    """One victim is seldom enough for it."""
    resources = pod["spec"]["containers"][0]["resources"]
    if "resources" not in pod["spec"]:
        resources["requests"] |= {"cpu": "3", "memory": "3Gi"}
        resources["limits"].pop("cpu", None)


def _names_its_node(pod: Json) -> bool:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return any(
        field["operator"] == "In"
        for term in required.get("nodeSelectorTerms", ())
        for field in term.get("matchFields", ())
    )
