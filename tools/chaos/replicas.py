"""Two schedulers that compete for one lease, each behind a fault proxy of its own.

The game kills, freezes and wakes them; `revive` starts those again that have ended, as a kubelet
does. Stowplan and kube-scheduler run with the same times of the lease.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from stowplan.lab.bench.contestants import compile_modules, environment, kube_scheduler_config
from stowplan.lab.controlplane import ControlPlane, find_binary
from stowplan.lab.controlplane.processes import ServerProcess
from stowplan.lab.faults import FaultProxy
from tools.chaos.clocked_scheduler import write_offset

LEASE_S, RENEW_S, RETRY_S = 4.0, 2.5, 0.5
SCHEDULERS = ("stowplan", "kube-scheduler")
_ROOT = Path(__file__).resolve().parent.parent.parent
#: What the log of each says when it begins to lead.
LEADS = {"stowplan": '"Scheduling"', "kube-scheduler": "Successfully acquired lease"}


@dataclass
class Replica:
    """One of the two; its process changes over time."""

    number: int
    proxy: FaultProxy
    process: ServerProcess | None = None
    starts: int = 0
    is_frozen: bool = False
    _leads: bool = False
    _read: int = 0

    def leads(self, marker: str) -> bool:
        """Whether the running process has become leader; one that stops leading ends."""
        if self.process is not None and not self._leads:
            with self.process.log.open("rb") as log:
                log.seek(self._read)
                text = log.read()
            self._leads = marker.encode() in text
            # A line may be half written.
            self._read += max(0, text.rfind(b"\n"))
        return self._leads

    def begins(self, process: ServerProcess) -> None:
        self.process = process
        self.starts += 1
        self.is_frozen = self._leads = False
        self._read = 0


class Replicas:
    """Both of them."""

    def __init__(
        self,
        plane: ControlPlane,
        proxies: list[FaultProxy],
        scheduler: str,
        logs: Path,
        source: Path | None,
    ) -> None:
        self._plane = plane
        self._scheduler = scheduler
        self._logs = logs
        self._environment = environment() | {"PYTHONPATH": str(_ROOT)}
        if source is not None:
            self._environment["PYTHONPATH"] = f"{source}{os.pathsep}{_ROOT}"
        self._clock = logs / "clock-offset"
        write_offset(self._clock, 0.0)
        self.all = [Replica(number, proxy) for number, proxy in enumerate(proxies)]
        #: Processes that ended without having been killed: leadership lost, or a crash.
        self.ended_by_themselves = 0
        #: Whether a leader was ever recognised by its log; else faults were aimed in the dark.
        self.has_led = False
        compile_modules()

    @property
    def has_jumping_clock(self) -> bool:
        """kube-scheduler reads the kernel's clock without libc, out of reach of a test."""
        return self._scheduler == "stowplan"

    def jump(self, seconds: float) -> None:
        write_offset(self._clock, seconds)

    def leader(self) -> Replica | None:
        marker = LEADS[self._scheduler]
        found = next((r for r in self.all if not r.is_frozen and r.leads(marker)), None)
        self.has_led = self.has_led or found is not None
        return found

    def choose(self, number: int) -> Replica:
        """The leader four times out of five, else the other."""
        leader = self.leader() or self.all[number % 2]
        return leader if number % 5 else self.all[1 - leader.number]

    def revive(self) -> None:
        """Start what has ended."""
        for replica in self.all:
            if replica.process is None or not replica.process.running:
                if replica.process is not None and not replica.process.stopped:
                    self.ended_by_themselves += 1
                self._start(replica)

    def kill(self, replica: Replica) -> None:
        if replica.process is not None:
            replica.process.stop(grace=0)

    def freeze(self, replica: Replica) -> None:
        if replica.process is not None and replica.process.running:
            os.kill(replica.process.pid, signal.SIGSTOP)
            replica.is_frozen = True

    def wake(self, replica: Replica) -> None:
        if replica.is_frozen and replica.process is not None and replica.process.running:
            os.kill(replica.process.pid, signal.SIGCONT)
        replica.is_frozen = False

    def stop(self) -> None:
        for replica in self.all:
            self.wake(replica)
            if replica.process is not None:
                replica.process.stop(grace=10.0)

    def logs_text(self) -> str:
        files = sorted(self._logs.glob("scheduler-*.log"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def _start(self, replica: Replica) -> None:
        kubeconfig = self._logs / f"proxy-{replica.number}.kubeconfig"
        kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: chaos\n"
            f"clusters: [{{name: chaos, cluster: {{server: '{replica.proxy.url}'}}}}]\n"
            "users: [{name: chaos, user: {}}]\n"
            "contexts: [{name: chaos, context: {cluster: chaos, user: chaos}}]\n"
        )
        lease = [
            "--leader-elect=true",
            f"--leader-elect-lease-duration={LEASE_S:g}s",
            f"--leader-elect-renew-deadline={RENEW_S:g}s",
            f"--leader-elect-retry-period={RETRY_S:g}s",
            "--leader-elect-resource-namespace=default",
            "--leader-elect-resource-name=chaos",
        ]
        program: list[str | Path]
        if self._scheduler == "stowplan":
            module = "tools.chaos.clocked_scheduler"
            program = [sys.executable, "-m", module, self._clock, "run", "--port=0", "-v=2"]
            program += [f"--kubeconfig={kubeconfig}"]
        else:
            config = self._logs / f"kube-scheduler-{replica.number}.yaml"
            config.write_text(kube_scheduler_config(kubeconfig))
            program = [find_binary("kube-scheduler"), f"--config={config}", "--secure-port=0"]
            program += ["-v=2"]
        log = self._logs / f"scheduler-{replica.number}-{replica.starts + 1:04}.log"
        replica.begins(ServerProcess(log.stem, [*program, *lease], log, "", self._environment))
