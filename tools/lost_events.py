"""Count the `Scheduled` events that kill -9 under load loses, on the real control plane.

    python -m tools.lost_events rush 8
    python -m tools.lost_events moderate 8 --source ../other-checkout/src

`rush`: 400 pods wait each time a scheduler starts, which is killed when between a third and nine
tenths of them are bound. `moderate`: about 50 pods a second come, and a scheduler is killed every 3
to 6 seconds. The last one may finish and has 12 seconds to write events. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stowplan.lab.controlplane import ControlPlane

_NODES = 100
_BATCH = 400
_POD = {"containers": [{"name": "main", "image": "example.test/main:1"}]}


class Load:
    """Pods, created by many threads."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api = plane.api
        self._pool = ThreadPoolExecutor(16)
        self._made = 0

    def nodes(self) -> None:
        offers = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        status = {"capacity": offers, "allocatable": offers}
        for number in range(_NODES):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}}
            self._api.create("/api/v1/nodes", {**node, "status": status})

    def pods(self, count: int) -> None:
        names = [f"p{number:06}" for number in range(self._made, self._made + count)]
        self._made += count
        list(self._pool.map(self._create, names))

    def until(self, stop: threading.Event) -> None:
        """A moderate rate."""
        while not stop.is_set():
            began = time.monotonic()
            self.pods(10)
            time.sleep(max(0.0, 0.2 - (time.monotonic() - began)))

    def unbound(self) -> int:
        return len(self._api.get("/api/v1/pods?fieldSelector=spec.nodeName%3D")["items"])

    def result(self) -> dict[str, object]:
        pods = {pod["metadata"]["uid"] for pod in self._api.get("/api/v1/pods")["items"]}
        events = [
            event["regarding"]["uid"]
            for event in self._api.get("/apis/events.k8s.io/v1/events")["items"]
            if event["reason"] == "Scheduled"
        ]
        lost = len(pods - {*events})
        return {
            "pods": len(pods),
            "lost": lost,
            "share": round(lost / len(pods), 4),
            "double": len(events) - len({*events}),
        }

    def _create(self, name: str) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _POD}
        self._api.create("/api/v1/namespaces/default/pods", pod)


def write_kubeconfig(plane: ControlPlane, file: Path) -> None:
    cluster = {"server": plane.url, "certificate-authority": str(plane.certificate_authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": plane.admin_token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    file.write_text(json.dumps(config))


def start(source: str, kubeconfig: Path) -> subprocess.Popen[bytes]:
    words = ["run", "--kubeconfig", str(kubeconfig), "--leader-elect=false", "--port=0"]
    return subprocess.Popen(
        [sys.executable, "-m", "stowplan", *words],
        env={**os.environ, "PYTHONPATH": source},
        stderr=subprocess.DEVNULL,
    )


def play(plane: ControlPlane, kubeconfig: Path, mode: str, kills: int, source: str) -> Load:
    dice = random.Random(7)
    load = Load(plane)
    load.nodes()
    stop = threading.Event()
    stream = threading.Thread(target=load.until, args=[stop])
    if mode == "moderate":
        stream.start()
    for _ in range(kills):
        if mode == "rush":
            load.pods(_BATCH)
        scheduler = start(source, kubeconfig)
        if mode == "rush":
            left = _BATCH * dice.uniform(0.1, 0.7)
            while load.unbound() > left:
                time.sleep(0.02)
        else:
            time.sleep(dice.uniform(3, 6))
        scheduler.kill()
        scheduler.wait()
    stop.set()
    if mode == "moderate":
        stream.join()
    scheduler = start(source, kubeconfig)
    while load.unbound():
        time.sleep(0.2)
    time.sleep(12)
    scheduler.terminate()
    scheduler.wait()
    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["rush", "moderate"])
    parser.add_argument("kills", type=int)
    parser.add_argument("--source", default="", help="src folder of another checkout")
    arguments = parser.parse_args()
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        write_kubeconfig(plane, kubeconfig)
        load = play(plane, kubeconfig, arguments.mode, arguments.kills, arguments.source)
        print(json.dumps({"mode": arguments.mode, "kills": arguments.kills, **load.result()}))


if __name__ == "__main__":
    main()
