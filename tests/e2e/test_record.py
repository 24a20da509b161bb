"""Recording and shadowing kube-scheduler: they only read, and agree with what it decided."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.record_trial import CONFIG, POLICY, READING, STOWPLAN, requests_of
from tests.waiting import wait_for

Json: TypeAlias = dict[str, Any]
NODES: Final = 12
PODS: Final = 150
HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_kube_scheduler_recorded_and_shadowed(tmp_path: Path) -> None:
    require_binaries("etcd", "kube-apiserver", "kube-scheduler")
    policy, log = tmp_path / "policy.json", tmp_path / "audit.log"
    policy.write_text(json.dumps(POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
    recording, decisions = tmp_path / "r.jsonl.gz", tmp_path / "decisions.jsonl"
    with ControlPlane(apiserver_flags=flags) as plane:
        plane.start_scheduler(CONFIG)
        for number in range(NODES):
            plane.api.create("/api/v1/nodes", node(number))
        access = ("--kubeconfig", str(plane.kubeconfig))
        recorder = start("record", str(recording), *access)
        shadow = start(
            "shadow", "--decisions", str(decisions), "--metrics", "0", "-o", "json", *access
        )
        assert shadow.stderr is not None
        metrics = wait_for("metrics", shadow.stderr.readline).removeprefix("Metrics on ").strip()
        for process, begun in ((recorder, "Recording to"), (shadow, "The cluster is known")):
            assert process.stderr is not None
            assert wait_for(begun, process.stderr.readline).startswith(begun)
        play(plane)
        wait_for("every decision", lambda: decided(metrics) == PODS)
        for process in (recorder, shadow):
            process.send_signal(signal.SIGTERM)
        told, _ = shadow.communicate(timeout=30)
        recorder.communicate(timeout=30)
    assert (recorder.returncode, shadow.returncode) == (0, 0)
    live = json.loads(told)
    assert live["decisions"] == PODS
    assert live["agreement"] == 1.0, live["differences"]
    assert len(decisions.read_text().splitlines()) == PODS
    for command in ("record", "shadow"):
        assert set(requests_of(log, command)) in ({"list", "watch"}, READING)

    followed = run("replay", str(recording), "--follow", "-o", "json")
    report = json.loads(followed.stdout)
    assert report["decisions"] == PODS
    assert report["agreement"] == 1.0, report["differences"]
    # Another configuration chooses otherwise, and says which plugin does.
    config = tmp_path / "most.yaml"
    config.write_text(HEAD + MOST_ALLOCATED)
    other = json.loads(
        run("replay", str(recording), "--follow", "--config", str(config), "-o", "json").stdout
    )
    assert other["agreement"] < 0.9
    assert "NodeResourcesFit" in other["plugins"]
    replayed = json.loads(run("replay", str(recording), "-o", "json").stdout)
    assert replayed["counts"]["bound"] == PODS


MOST_ALLOCATED: Final = """\
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def node(number: int) -> Json:
    name = f"n{number}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
    offers = {"cpu": str(8 + 8 * (number % 2)), "memory": "32Gi", "pods": "60"}
    meta = {"name": name, "labels": labels}
    status = {"allocatable": offers, "capacity": offers}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def play(plane: ControlPlane) -> None:
    """Pods of several kinds, as fast as the server takes them, while some leave."""
    dice = random.Random(26)
    path = "/api/v1/namespaces/default/pods"
    for number in range(PODS):
        plane.api.create(path, pod(f"p{number}", dice))
        if number % 5 == 4:
            name = f"p{number - 4}"
            wait_for(f"{name} bound", partial(bound, plane, f"{path}/{name}"))
            plane.api.delete(f"{path}/{name}?gracePeriodSeconds=0")


def bound(plane: ControlPlane, path: str) -> bool:
    return bool(plane.api.get(path)["spec"].get("nodeName"))


def pod(name: str, dice: random.Random) -> Json:
    app = f"a{dice.randrange(6)}"
    amounts = {"cpu": f"{dice.choice([100, 250, 500])}m", "memory": f"{dice.choice([128, 512])}Mi"}
    secret = {"name": "TOKEN", "value": "s3cret"}
    container = {"name": "c", "image": "example.test/x", "env": [secret]}
    spec: Json = {"containers": [{**container, "resources": {"requests": amounts}}]}
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    kind = dice.randrange(3)
    if kind == 0:
        constraint = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **selector}
        zone = "topology.kubernetes.io/zone"
        spec["topologySpreadConstraints"] = [{**constraint, "topologyKey": zone}]
    elif kind == 1:
        term = {"topologyKey": "kubernetes.io/hostname", **selector}
        preferred = [{"weight": 50, "podAffinityTerm": term}]
        wish = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        spec["affinity"] = {"podAntiAffinity": wish}
    meta = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [*STOWPLAN, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*STOWPLAN, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def decided(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as response:
        lines = response.read().decode().splitlines()
    counts = [line for line in lines if line.startswith("stowplan_shadow_decisions_total{")]
    return round(sum(float(line.rpartition(" ")[2]) for line in counts))
