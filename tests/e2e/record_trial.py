"""Ten minutes of mixed churn under kube-scheduler, recorded, shadowed and judged again.

    python -m tests.e2e.record_trial --minutes 10 --pods 5000 --folder trial

The control plane is real; KWOK plays the kubelets. Pods of many kinds (`live_mixture`) come and
go, and nodes change, while `stowplan record` and `stowplan shadow` look on. At the end the
recording is followed, twice: how many decisions agree, and are both logs equal byte by byte? Prints
a report and exits with 1 if fewer than 99.9% agree, the logs differ, or the API server's audit log
shows a request of ours that is no get, list or watch. The recording stays in the folder.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError
from tests.e2e.live_mixture import Mixture
from tests.e2e.live_nodes import TAINTS
from tests.parity.generate.dice import Dice
from tests.waiting import wait_for

Json: TypeAlias = dict[str, Any]
STOWPLAN: Final = (sys.executable, "-m", "stowplan")
CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
leaderElection: {leaderElect: false}
"""
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
READING: Final = {"get", "list", "watch"}
#: Answers to requests about what is gone, changed or refused meanwhile.
_EXPECTED: Final = (404, 409, 422)
_LEAST_AGREEMENT: Final = 0.999
#: Pods live so many seconds on average: about a thousand at a time.
_LIFE_S: Final = 120.0
_NODE_CHANGE_S: Final = 3.0


class Churn(Mixture):
    """Pods without claims of volumes, many with a priority; nodes without images, like KWOK's."""

    priority_classes: ClassVar = {
        "urgent": {"value": 1000},
        "high": {"value": 100},
        "lazy": {"value": -5},
    }
    with_priority: ClassVar = 0.3
    cpu: ClassVar = ["0", "50m", "100m", "200m", "0.3", "0.5", "1"]

    def __init__(self, seed: int, nodes: int, pods: int, *, has_images: bool) -> None:
        super().__init__(seed, nodes, pods)
        if not has_images:
            for node in self.nodes:
                del node["status"]["images"]

    def _pod(self, number: int) -> Json:
        pod = super()._pod(number)
        volumes = [
            each
            for each in pod["spec"].pop("volumes", ())
            if "persistentVolumeClaim" not in each and "ephemeral" not in each
        ]
        if volumes:
            pod["spec"]["volumes"] = volumes
        return pod


class Player:
    """Makes requests at their times, and more requests that follow from them."""

    def __init__(self, plane: ControlPlane, seed: int) -> None:
        self._api = plane.api
        self._dice = Dice(seed)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._nodes: list[str] = []
        self._spare = count(1)
        self.answers: Counter[str] = Counter()

    def play(self, churn: Churn, minutes: float) -> None:
        length = 60.0 * minutes
        self._nodes = [node["metadata"]["name"] for node in churn.nodes]
        for number, pod in enumerate(churn.pods):
            self._at(number * length / len(churn.pods), partial(self._create, pod))
        for number in range(int(length / _NODE_CHANGE_S)):
            self._at(number * _NODE_CHANGE_S, lambda: self._change_node(churn))
        began = time.monotonic()
        self._now = 0.0
        while self._due and self._due[0][0] <= length:
            at, _, act = heapq.heappop(self._due)
            time.sleep(max(0.0, began + at - time.monotonic()))
            self._now = max(at, time.monotonic() - began)
            act()

    def _at(self, at: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (at, next(self._numbers), act))

    def _do(self, what: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except ApiError as problem:
            if problem.status not in _EXPECTED:
                raise
            self.answers[f"{what}: {problem.status}"] += 1
            return False
        self.answers[what] += 1
        return True

    # Pods

    def _create(self, pod: Json) -> None:
        folder = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        path = f"{folder}/{pod['metadata']['name']}"
        if not self._do("create a pod", lambda: self._api.create(folder, pod)):
            return
        life = self._dice.expovariate(1.0 / _LIFE_S)
        if self._dice.often(0.3):
            done = {"status": {"phase": "Succeeded"}}
            self._at(
                self._now + life,
                lambda: self._finish(path, done),
            )
            life += 5.0
        elif self._dice.often(0.1):
            labels = {"metadata": {"labels": {"tier": self._dice.choice(["front", "back", None])}}}
            self._at(
                self._now + life / 2,
                lambda: self._do("relabel a pod", lambda: self._api.patch(path, labels)),
            )
        self._at(
            self._now + life,
            lambda: self._do("delete a pod", lambda: self._api.delete(path, 0)),
        )

    def _finish(self, path: str, done: Json) -> None:
        def finish() -> None:
            if self._api.get(path)["spec"].get("nodeName"):
                self._api.patch(f"{path}/status", done)

        self._do("end a pod", finish)

    # Nodes

    def _change_node(self, churn: Churn) -> None:
        name = self._dice.choice(self._nodes)
        path = f"/api/v1/nodes/{name}"
        what = self._dice.choice(["cordon", "taint", "label", "size", "join", "leave"])
        if what == "join":
            self._join(churn)
        elif what == "leave" and len(self._nodes) > len(churn.nodes) - 5:
            self._nodes.remove(name)
            self._do("a node leaves", lambda: self._api.delete(path))
            pods = f"/api/v1/pods?fieldSelector=spec.nodeName={name}"
            for pod in self._api.get(pods)["items"]:  # as the garbage collector of pods does
                meta = pod["metadata"]
                gone = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                self._do("delete a pod", partial(self._api.delete, gone, 0))
        elif what == "cordon":
            self._patch(path, {"spec": {"unschedulable": True}})
            uncordon = {"spec": {"unschedulable": None}}
            self._at(self._now + 10.0, lambda: self._patch(path, uncordon))
        elif what == "taint":
            taints = [each for each in [self._dice.choice(TAINTS)] if self._dice.often(0.6)]
            self._patch(path, {"spec": {"taints": taints or None}})
        elif what == "label":
            labels = {"disk": self._dice.choice(["ssd", "hdd", None])}
            self._patch(path, {"metadata": {"labels": labels}})
        elif what == "size":
            size = {"cpu": self._dice.choice(["4", "8", "12"])}
            self._patch(f"{path}/status", {"status": {"allocatable": size, "capacity": size}})

    def _join(self, churn: Churn) -> None:
        like = self._dice.choice(churn.nodes)
        name = f"late-{next(self._spare)}"
        labels = {**like["metadata"]["labels"], "kubernetes.io/hostname": name}
        node = {**like, "metadata": {"name": name, "labels": labels}}
        if self._do("a node joins", lambda: self._api.create("/api/v1/nodes", node)):
            self._nodes.append(name)

    def _patch(self, path: str, patch: Json) -> None:
        self._do("change a node", lambda: self._api.patch(path, patch))


class Watcher:
    """A process of ours beside the cluster, with what it printed and what it cost."""

    def __init__(self, folder: Path, command: str, *arguments: str) -> None:
        self.command = command
        self._said = folder / f"{command}.out"
        self._log = folder / f"{command}.err"
        with self._said.open("w") as said, self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*STOWPLAN, command, *arguments], stdout=said, stderr=log, text=True
            )
        self.cpu_s = 0.0
        self.memory_mib = 0.0

    def wait_until(self, begun: str) -> None:
        wait_for(begun, lambda: begun in self._log.read_text())

    def stop(self) -> str:
        """Its output."""
        self._process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        assert self._process.returncode == 0, self._log.read_text()
        self.cpu_s = round(usage.ru_utime + usage.ru_stime, 1)
        self.memory_mib = round(usage.ru_maxrss / 1024)
        return self._said.read_text()


def requests_of(audit_log: Path, command: str) -> Counter[str]:
    """Verbs of the requests that one of our commands made; a watch has two lines in the log."""
    requests = map(json.loads, audit_log.read_text().splitlines())
    verbs = {
        each["auditID"]: each["verb"]
        for each in requests
        if each.get("userAgent", "").endswith(f" {command}")
    }
    return Counter(verbs.values())


def run_trial(
    folder: Path,
    *,
    minutes: float,
    pods: int,
    nodes: int,
    seed: int,
    has_images: bool = False,
) -> Json:
    """The report; everything else is left in the folder."""
    churn = Churn(seed, nodes, pods, has_images=has_images)
    policy, audit_log = folder / "policy.json", folder / "audit.log"
    policy.write_text(json.dumps(POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    recording = folder / "recording.jsonl.gz"
    with ControlPlane(apiserver_flags=flags) as plane:
        for request in churn.preparations:
            send = plane.api.create if request.method == "POST" else plane.api.patch
            send(request.path, request.body)
        for node in churn.nodes:
            plane.api.create("/api/v1/nodes", node)
        plane.start_kwok()
        plane.start_scheduler(CONFIG)
        access = ("--kubeconfig", str(plane.kubeconfig))
        recorder = Watcher(folder, "record", str(recording), *access)
        live = folder / "live.jsonl"
        shadow = Watcher(folder, "shadow", "--decisions", str(live), "-o", "json", *access)
        recorder.wait_until("Recording to")
        shadow.wait_until("The cluster is known")
        player = Player(plane, seed)
        player.play(churn, minutes)
        time.sleep(5.0)  # the last decisions are judged after a second
        shadowed = json.loads(shadow.stop())
        recorder.stop()
    logs = [folder / "decisions-1.jsonl", folder / "decisions-2.jsonl"]
    reports = [_follow(recording, log) for log in logs]
    return {
        "pods": pods,
        "minutes": minutes,
        "nodes": nodes,
        "seed": seed,
        "images": has_images,
        "requests": dict(sorted(player.answers.items())),
        "recordingMiB": round(recording.stat().st_size / (1 << 20), 2),
        "follow": reports[0],
        "logsAreEqual": logs[0].read_bytes() == logs[1].read_bytes(),
        "shadow": shadowed,
        "load": {
            each.command: {
                "cpuSeconds": each.cpu_s,
                "memoryMiB": each.memory_mib,
                "requests": dict(requests_of(audit_log, each.command)),
            }
            for each in (recorder, shadow)
        },
    }


def _follow(recording: Path, log: Path) -> Json:
    command = [*STOWPLAN, "replay", str(recording), "--follow", "-o", "json"]
    done = subprocess.run(
        [*command, "--decisions", str(log)], capture_output=True, text=True, check=True
    )
    report: Json = json.loads(done.stdout)
    return report


def failures(report: Json) -> list[str]:
    """What is not as it must be."""
    found = [
        f"{name}: only {agreement:.3%} of the decisions agree"
        for name in ("follow", "shadow")
        if (agreement := report[name]["agreement"] or 0.0) < _LEAST_AGREEMENT
    ]
    if not report["logsAreEqual"]:
        found.append("the decision logs of two runs differ")
    for command, load in report["load"].items():
        if not load["requests"] or not set(load["requests"]) <= READING:
            found.append(f"{command}: requests {load['requests']}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--folder", type=Path, required=True, help="for the recording and logs")
    parser.add_argument(
        "--images",
        action="store_true",
        help="nodes report images, whose spread kube-scheduler knows only as of earlier moments",
    )
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=False)
    report = run_trial(
        given.folder,
        minutes=given.minutes,
        pods=given.pods,
        nodes=given.nodes,
        seed=given.seed,
        has_images=given.images,
    )
    text = json.dumps(report, indent=1)
    (given.folder / "report.json").write_text(text)
    print(text)
    found = failures(report)
    for line in found:
        print(f"FAIL {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
