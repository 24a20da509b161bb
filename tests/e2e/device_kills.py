"""Kills a scheduler between Reserve and Bind, again and again, and looks for lost devices.

    python -m tests.e2e.device_kills --kills 50

Each kill hits a new pod with a claim of its own: when the claim's allocation arrives, or when it is
written and the binding arrives, neither of which gets through. Devices are scarce, so pods that are
gone must have given theirs back. In the end every pod must be bound, the audit of etcd's history
must find nothing, every event that was due must be there, and no device may be left when all pods
are gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stowplan.audit import Finding, audit_history, etcd_history
from stowplan.lab.faults import Fault, FaultProxy
from stowplan.testing import as_manifest, claim_template, pod
from tests.e2e.device_stage import PATIENCE_S, DeviceStage, device_stage
from tests.waiting import wait_for
from tools.chaos.announcements import Announcements

#: Pods that hold a device at a time; there are as many devices.
_MOST_PODS = 4
_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"""


def kill_schedulers(
    stage: DeviceStage, kills: int, progress: Callable[[str], None] = lambda text: None
) -> list[Finding]:
    """The findings of the audit; AssertionError if a pod is not bound, or a device is not free."""
    plane = stage.plane
    stage.add(claim_template("one", "gpu"))
    with FaultProxy(
        plane.url, token=plane.admin_token, ca_file=plane.certificate_authority
    ) as proxy:
        kubeconfig = plane.directory / "through-proxy.kubeconfig"
        kubeconfig.write_text(_KUBECONFIG.format(url=proxy.url, token=plane.admin_token))
        alive: list[str] = []
        for number in range(kills):
            name = f"p{number}"
            if len(alive) >= _MOST_PODS - 1:
                stage.remove(alive.pop(0))
            process = _started(kubeconfig, plane.directory / f"scheduler-{number}.log")
            struck = proxy.inject(_fault(number, name, process))
            stage.add(as_manifest(pod(name, claim_templates={"gpu": "one"})))
            wait_for(f"kill {number}", partial(_is_struck, struck), PATIENCE_S)
            process.wait(30)
            proxy.clear()
            alive.append(name)
            progress(f"{number + 1} of {kills} kills")
        process = _started(kubeconfig, plane.directory / "scheduler-last.log")
        try:
            stage.wait_bound(*alive)
        finally:
            process.terminate()
            process.wait(30)
    announcements = Announcements()
    report = audit_history(announcements.follow(etcd_history(plane.etcd_url)))
    # A pod that was bound right before a kill, and is removed before the next scheduler starts, has
    # no event: the bound of docs/chaos.md.
    findings = [
        each
        for each in report.findings
        if each.kind != "no-event" or announcements.is_overdue(each.uid)
    ]
    stage.remove(*alive)
    stage.wait_free()
    return findings


def _is_struck(fault: Fault) -> bool:
    return fault.seen > 0


def _fault(number: int, name: str, process: subprocess.Popen[bytes]) -> Fault:
    def kill(path: str) -> None:
        os.kill(process.pid, signal.SIGKILL)

    if number % 2:
        return Fault("patch", path=f"/{name}-gpu-", before=kill, reset="before")
    return Fault("create", path=f"/{name}/binding", before=kill, reset="before")


def _started(kubeconfig: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stowplan", "run", f"--kubeconfig={kubeconfig}"]
    command += ["--leader-elect=false", "--port=0", "--secure-port=0"]
    with log.open("wb") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=stream)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="Default: 50.")
    kills = parser.parse_args().kills
    with device_stage(nodes=2, devices=2) as stage:
        findings = kill_schedulers(stage, kills, lambda text: print(text, flush=True))
    for finding in findings:
        print(f"{finding.kind}: {finding.message}")
    print(f"{kills} kills, {len(findings)} findings; all devices are free again")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
