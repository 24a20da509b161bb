"""Freezes the leader of two schedulers past its lease, again and again, and audits the outcome.

    python -m tools.freeze --freezes 50

Two `stowplan run` processes compete for one lease on a real etcd and kube-apiserver. In each round
the leader is stopped (SIGSTOP) while it has pods to place and believes that there is room: in the
middle of a burst of arrivals, or when full nodes were just emptied and waiting pods are about to be
tried again. More important pods arrive; the other process takes over and fills the nodes; the first
is woken (SIGCONT). At the end every revision is read from etcd and audited: no pod may be bound
twice, or to a node that has no room for it. `--source` runs the schedulers from another checkout's
`src`, to see whether this finds what it looks for.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stowplan.audit import APISERVER_FLAGS, Options, audit_history, etcd_history
from stowplan.audit.text import report_text
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError
from stowplan.lab.controlplane.processes import ServerProcess

_PODS = "/api/v1/namespaces/default/pods"
_NODES = 4
_NODE_MILLI = 2000
_POD_MILLI = 250
_ROOM = _NODES * _NODE_MILLI // _POD_MILLI
_PATIENCE_S = 90.0
#: Leaders are killed before they have written their events, and pods wait where nodes are full.
_ASKED = Options(ignore=frozenset({"no-event", "pending"}))


@dataclass
class Settings:
    freezes: int
    seed: int
    source: Path | None
    lease_duration_s: float
    renew_deadline_s: float
    retry_period_s: float


@dataclass
class Scheduler:
    """One process; its log says what it did."""

    process: ServerProcess
    number: int

    @property
    def log(self) -> str:
        return self.process.log.read_text(errors="replace")

    @property
    def leads(self) -> bool:
        return '"Scheduling"' in self.log

    def count_binds(self) -> int:
        return self.log.count('"Successfully bound pod to node"')

    def count_refused(self) -> int:
        return self.log.count('"Not binding pod: no longer leading"')


@dataclass
class Report:
    freezes: int = 0
    binds: dict[int, int] = field(default_factory=dict)
    binds_after_waking: int = 0
    #: By the lease guard.
    refused: int = 0
    ended: int = 0
    went_on: int = 0
    lost_by_themselves: int = 0


class Game:
    """The rounds."""

    def __init__(self, plane: ControlPlane, settings: Settings) -> None:
        self._plane = plane
        self._settings = settings
        self._rng = random.Random(settings.seed)
        self._started = 0
        self._made = 0
        self.report = Report()

    def play(self) -> Report:
        self._prepare()
        leader = self._start()
        standby = self._start()
        while self.report.freezes < self._settings.freezes:
            leader, standby = self._in_order(leader, standby)
            leader, standby = self._round(leader, standby)
        for scheduler in (leader, standby):
            self._end(scheduler)
        return self.report

    def _prepare(self) -> None:
        api = self._plane.api
        offers = {"cpu": f"{_NODE_MILLI}m", "memory": "16Gi", "pods": "110"}
        for number in range(_NODES):
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{number}"},
                "status": {"capacity": offers, "allocatable": offers},
            }
            api.create("/api/v1/nodes", node)
        api.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
                "preemptionPolicy": "Never",
            },
        )

    def _round(self, leader: Scheduler, standby: Scheduler) -> tuple[Scheduler, Scheduler]:
        self._rng.choice((self._freeze_while_pods_arrive, self._freeze_while_pods_wait))(leader)
        before = leader.count_binds()
        for _ in range(_ROOM):
            self._create_pod("high")
        _wait("the standby to lead", lambda: standby.leads)
        _wait("the nodes to be full", self._is_full)
        os.kill(leader.process.pid, signal.SIGCONT)
        self._watch_it_end(leader, before)
        self._clear()
        return standby, self._start()

    def _freeze_while_pods_arrive(self, leader: Scheduler) -> None:
        moment = self._rng.randrange(1, _ROOM)
        for number in range(_ROOM):
            self._create_pod()
            if number == moment:
                os.kill(leader.process.pid, signal.SIGSTOP)

    def _freeze_while_pods_wait(self, leader: Scheduler) -> None:
        for _ in range(2 * _ROOM):
            self._create_pod()
        _wait("the nodes to be full", self._is_full)
        self._clear(lambda pod: "nodeName" in pod["spec"])
        # Those that failed just now are tried again a second later.
        time.sleep(self._rng.uniform(0.0, 0.3))
        os.kill(leader.process.pid, signal.SIGSTOP)

    def _watch_it_end(self, leader: Scheduler, before: int) -> None:
        deadline = time.monotonic() + 10.0
        while leader.process.running and time.monotonic() < deadline:
            time.sleep(0.05)
        self.report.freezes += 1
        self.report.binds_after_waking += leader.count_binds() - before
        self.report.refused += leader.count_refused()
        if leader.process.running:
            self.report.went_on += 1
        else:
            self.report.ended += 1
        self._end(leader)
        report = self.report
        print(
            f"{report.freezes}/{self._settings.freezes} freezes:"
            f" {report.binds_after_waking} binds after waking, {report.refused} refused",
            flush=True,
        )

    def _in_order(self, leader: Scheduler, standby: Scheduler) -> tuple[Scheduler, Scheduler]:
        """A leader that leads and a standby that waits, whatever a slow machine did to them."""
        while True:
            both = [leader, standby]
            for index, each in enumerate(both):
                if not each.process.running:
                    self.report.lost_by_themselves += 1
                    self._end(each)
                    both[index] = self._start()
            leader, standby = sorted(both, key=lambda each: not each.leads)
            if leader.leads and leader.process.running and standby.process.running:
                return leader, standby
            time.sleep(0.1)

    # Pods

    def _create_pod(self, priority: str = "") -> None:
        self._made += 1
        container = {
            "name": "main",
            "image": "example.test/main:1",
            "resources": {"requests": {"cpu": f"{_POD_MILLI}m"}},
        }
        spec: dict[str, Any] = {"containers": [container]}
        if priority:
            spec["priorityClassName"] = priority
        name = f"p{self._made}"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self._plane.api.create(_PODS, pod)

    def _is_full(self) -> bool:
        pods = self._plane.api.get(_PODS)["items"]
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods) >= _ROOM

    def _clear(self, matches: Callable[[dict[str, Any]], bool] = lambda pod: True) -> None:
        for pod in filter(matches, self._plane.api.get(_PODS)["items"]):
            name = pod["metadata"]["name"]
            try:
                self._plane.api.raw("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0")
            except ApiError as error:
                if error.status != 404:
                    raise

    # Schedulers

    def _start(self) -> Scheduler:
        self._started += 1
        settings = self._settings
        environment = dict(os.environ)
        if settings.source is not None:
            environment["PYTHONPATH"] = str(settings.source)
        process = ServerProcess(
            f"scheduler-{self._started}",
            [
                sys.executable,
                "-m",
                "stowplan",
                "run",
                f"--kubeconfig={self._plane.kubeconfig}",
                "--port=0",
                "-v=2",
                f"--leader-elect-lease-duration={settings.lease_duration_s:g}s",
                f"--leader-elect-renew-deadline={settings.renew_deadline_s:g}s",
                f"--leader-elect-retry-period={settings.retry_period_s:g}s",
                "--leader-elect-resource-namespace=default",
                "--leader-elect-resource-name=freeze",
            ],
            self._plane.directory / "logs" / f"scheduler-{self._started}.log",
            environment=environment,
        )
        return Scheduler(process, self._started)

    def _end(self, scheduler: Scheduler) -> None:
        scheduler.process.stop(grace=0)
        self.report.binds[scheduler.number] = scheduler.count_binds()


def _wait(what: str, look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_PATIENCE_S:g} s in vain for {what}")
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--freezes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", type=Path, help="run the schedulers from this src directory")
    parser.add_argument("--lease-duration", type=float, default=4.0, metavar="SECONDS")
    parser.add_argument("--renew-deadline", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--retry-period", type=float, default=0.5, metavar="SECONDS")
    given = parser.parse_args()
    settings = Settings(
        given.freezes,
        given.seed,
        given.source,
        given.lease_duration,
        given.renew_deadline,
        given.retry_period,
    )
    with ControlPlane(apiserver_flags=APISERVER_FLAGS) as plane:
        report = Game(plane, settings).play()
        audited = audit_history(etcd_history(plane.etcd_url), options=_ASKED)
    print(report_text(audited), end="")
    print(
        f"{report.freezes} freezes;"
        f" {sum(report.binds.values())} binds by {len(report.binds)} processes"
        f" ({', '.join(str(count) for _, count in sorted(report.binds.items()))}),"
        f" {report.binds_after_waking} by leaders after waking, {report.refused} refused;"
        f" {report.ended} of them ended, {report.went_on} went on,"
        f" {report.lost_by_themselves} processes ended without having been frozen"
    )
    return 1 if audited.findings else 0


if __name__ == "__main__":
    sys.exit(main())
