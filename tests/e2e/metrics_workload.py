"""The work that each scheduler does in tests of metrics, from plain pods to things that fail."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from stowplan.lab.controlplane import ControlPlane
from tests.e2e.requeue_cluster import PODS, Cluster
from tests.e2e.scraping import ScrapedFamily
from tests.prometheus import Prometheus
from tests.waiting import wait_for

Families = dict[str, ScrapedFamily]

PLAIN = 30
#: Pods that ask for it are the extender's business, too.
JUDGED = "example.com/judged"
#: Pods whose names begin so cannot be bound, and the extender fails for them.
BROKEN = "broken"
#: Names of the schedulers beside the one whose metrics are compared.
STATIC, SLOW = "static-test", "slow-test"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
ATTEMPTS = "scheduler_schedule_attempts_total"


class Workload:
    """The work of one scheduler; `scrape` reads its metrics, `label` is its `cluster`."""

    def __init__(
        self,
        plane: ControlPlane,
        scrape: Callable[[], Families],
        prometheus: Prometheus,
        label: str,
    ) -> None:
        self._api = plane.api
        self._cluster = Cluster(plane.api, Path(), "")
        self._scrape = scrape
        self._prometheus = prometheus
        self._label = label

    def work(self) -> Families:
        """Binds, a gate, a pod that waits for a node, a preemption and deletions."""
        cluster = self._cluster
        cluster.node("n1", cpu="2")
        cluster.node("n2", cpu="2")
        for index in range(PLAIN):
            cluster.pod(f"plain-{index}")
            self._wait_bound(f"plain-{index}")
        cluster.pod("gated", schedulingGates=[{"name": "example.com/gate"}])
        cluster.pod("huge", container=_requests(cpu="64"))
        wait_for("huge to be rejected", lambda: self._pod("huge")["status"]["conditions"])
        # Each node has 1.5 of 2 CPUs in use, 0.1 by each pod.
        self._preempt("important", cpu="1", victims=5)
        cluster.node("large", cpu="128")
        self._wait_bound("huge")
        self._delete("gated")
        self._delete("huge")
        bound = PLAIN + 2

        def complete() -> Families | None:
            found = self._scrape()
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

    def trouble(self) -> None:
        """A second preemption, a binding that fails, an extender that fails, a touched lease.

        A series that begins with its first event has a rate only after the second.
        """
        cluster = self._cluster
        mine = f'cluster="{self._label}", job="kube-scheduler"'
        first = "scheduler_preemption_goroutines_duration_seconds_count"
        self._wait_stored(f"{first}{{{mine}}} > 0")
        cluster.node("n1", cpu="2")
        cluster.pod("victim", container=_requests(cpu="2"))
        self._wait_bound("victim")
        self._preempt("important", cpu="2", victims=1)
        self._delete("important")
        cluster.pod("judged", container=_requests(cpu="1m", **{JUDGED: "1"}))
        self._wait_bound("judged")
        cluster.pod(f"{BROKEN}-filter", container=_requests(cpu="1m", **{JUDGED: "1"}))
        cluster.pod(f"{BROKEN}-bind")
        # Its next renewal is a conflict, after which the leader reads the lease.
        self._api.patch(LEASE, {"metadata": {"annotations": {"example.com/by": self._label}}})
        self._wait_stored(f'sum({ATTEMPTS}{{{mine}, result="error"}}) > 1')
        self._wait_stored(f'sum(rest_client_requests_total{{{mine}, code="409"}}) > 0')
        self._pods_until_plugins_are_timed(mine)
        cluster.clean()

    def _pods_until_plugins_are_timed(self, mine: str) -> None:
        """kube-scheduler times one attempt in ten, at random, so the number needed varies."""
        timed = f"scheduler_plugin_execution_duration_seconds_count{{{mine}}}"
        names = (f"more-{number}" for number in count())

        def seen() -> bool:
            self._cluster.pod(next(names), container=_requests(cpu="1m"))
            return bool(self._prometheus.now(f"increase({timed}[10s]) > 0"))

        wait_for("plugins to be timed", seen)

    def others(self, extender_url: str) -> None:
        """Work for the static scheduler, the one with a slow plugin, and junk for the extender."""
        cluster = self._cluster
        pins = {f"rf.scheduler.{STATIC}.default/{name}": "" for name in ("fine", BROKEN)}
        cluster.node("n1", labels={**pins, "rack": "1"})
        cluster.pod("fine", schedulerName=STATIC)
        cluster.pod(BROKEN, schedulerName=STATIC)
        self._wait_bound("fine")
        cluster.pod("slow", schedulerName=SLOW)
        self._wait_bound("slow")
        # A decision that is checked by another decision, but not if an extender was asked.
        cluster.pod("judged", schedulerName=SLOW, container=_requests(cpu="1m", **{JUDGED: "1"}))
        self._wait_bound("judged")
        # Each of them is a look at the labels of all nodes: 50 ms of work are over before the last.
        racks = [{"key": "rack", "operator": "NotIn", "values": [f"x{i}"]} for i in range(6_000)]
        terms = {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in racks]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        cluster.pod("expensive", schedulerName=SLOW, affinity=affinity)
        connection = http.client.HTTPConnection(extender_url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/filter", "junk")
        assert connection.getresponse().status == 400
        connection.close()
        for metric in (
            "stowplan_decisions_deferred_total",
            "wca_scheduler_refused_requests",
            "schedule_request_failure_total",
        ):
            # Rates need two samples, and the last program to be asked might be stopped after one.
            twice = f"min(count_over_time({metric}[20s])) > 1"
            self._wait_stored(f"sum({metric}) > 0 and {twice}")
        cluster.clean()

    def _preempt(self, name: str, *, cpu: str, victims: int) -> None:
        """Victims are gone at once, as there are no kubelets, but not before all are chosen.

        Otherwise it would be luck whether the preemptor is held back when the first is gone.
        """
        self._cluster.pod(
            name, container=_requests(cpu=cpu), priorityClassName="system-cluster-critical"
        )

        def evicted() -> list[str] | None:
            pods = [item["metadata"] for item in self._api.get(PODS)["items"]]
            found = [pod["name"] for pod in pods if "deletionTimestamp" in pod]
            return found if len(found) >= victims else None

        for victim in wait_for(f"{victims} victims", evicted):
            self._delete(victim)
        self._wait_bound(name)

    def _wait_stored(self, query: str) -> None:
        wait_for(f"Prometheus to have {query}", lambda: self._prometheus.now(query))

    def _wait_bound(self, name: str) -> None:
        wait_for(f"{name} to be bound", lambda: self._pod(name)["spec"].get("nodeName"))

    def _pod(self, name: str) -> Any:
        return self._api.get(f"{PODS}/{name}")

    def _delete(self, name: str) -> None:
        self._api.delete(f"{PODS}/{name}", grace_seconds=0)


def _requests(**amounts: str) -> dict[str, Any]:
    limits = {name: amount for name, amount in amounts.items() if "/" in name}
    return {"resources": {"requests": amounts, "limits": limits}}
