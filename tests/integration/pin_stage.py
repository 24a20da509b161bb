"""A small cluster for the commands about pins: nodes, pods of a StatefulSet, and who plays it.

The embedded server with quick kubelets. `Player` does what a StatefulSet's controller and a static
scheduler would: a pod that is gone is created again, one without a node goes where a label says.
"""

from __future__ import annotations

import shlex
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.cli.main import main
from stowplan.lab.controlplane.api_access import ApiAccess, ApiError
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.waiting import wait_for

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#: web-0, for the scheduler `test`.
LABEL = "rf.scheduler.test.default/web-0"
STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "web",
    "uid": "0b6c1c3e-0000-4000-8000-000000000001",
    "controller": True,
}
#: What `stowplan move` says about web-0, from worker-1 to worker-2.
PLAN = """\
pod     default/web-0, scheduler test
owner   StatefulSet web
from    worker-1
to      worker-2
pin     on worker-2: label rf.scheduler.test.default/web-0
unpin   on worker-1: label rf.scheduler.test.default/web-0
evict   default/web-0, with 1 s to shut down
"""
ARRIVED = "default/web-0 is on worker-2 now (was on worker-1)\n"


class PinStage:
    """See the module."""

    def __init__(self, server: EmbeddedServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self.api = ApiAccess(server.url, ssl.create_default_context())
        self._capsys = capsys

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig_path

    # The command line

    def run(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command."""
        with pytest.raises(SystemExit) as ended:
            main(argv)
        captured = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    def play(self, transcript: str) -> str:
        """The transcript with what its commands say now; an exit code other than 0 in brackets."""
        parts = []
        for line in transcript.splitlines():
            if line.startswith("$ stowplan "):
                code, out, err = self.run(*shlex.split(line)[2:])
                parts.append(f"{line}\n{out}{err}" + (f"[{code}]\n" if code else ""))
        return "".join(parts)

    # The cluster

    def create_nodes(self, *names: str) -> None:
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        for name in names:
            status = {"capacity": size, "allocatable": size}
            self.api.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})

    def create_pod(
        self, name: str, node: str = "", *, scheduler: str = "test", owner: Json | None = None
    ) -> None:
        metadata: Json = {"name": name, "labels": {"app": "web"}}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        spec = {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "c"}],
        }
        self.api.create(PODS, {"metadata": metadata, "spec": spec})
        if node:
            self.api.bind("default", name, node)
            wait_for(f"{name} to run", lambda: self.pod(name)["status"]["phase"] == "Running")

    def pod(self, name: str) -> Json:
        return self.api.get(f"{PODS}/{name}")

    def node_of(self, name: str) -> str:
        node: str = self.pod(name)["spec"].get("nodeName", "")
        return node

    def patch_node(self, name: str, change: Json) -> None:
        self.api.patch(f"/api/v1/nodes/{name}", change)

    def label(self, node: str, *keys: str) -> None:
        self.patch_node(node, {"metadata": {"labels": dict.fromkeys(keys, "")}})

    def pins(self, node: str) -> dict[str, str]:
        """Labels and annotations of pins."""
        metadata = self.api.get(f"/api/v1/nodes/{node}")["metadata"]
        both = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
        return {key: value for key, value in both.items() if key.startswith("rf.scheduler.")}

    def set_budget(self, *, allowed: int) -> None:
        """A budget as the disruption controller would leave it."""
        selector = {"matchLabels": {"app": "web"}}
        try:
            self.api.create(
                BUDGETS,
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": "web"},
                    "spec": {"minAvailable": 3 - allowed, "selector": selector},
                },
            )
        except ApiError as problem:
            if problem.status != 409:
                raise
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": 3,
            "desiredHealthy": 3 - allowed,
            "expectedPods": 3,
            "observedGeneration": 1,
        }
        self.api.patch(f"{BUDGETS}/web/status", {"status": status})


@contextmanager
def pin_stage(
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *nodes: str,
) -> Iterator[PinStage]:
    """A cluster of these nodes, which commands find by the environment."""
    quick = KubeletOptions(start_delay_s=0.0, stop_delay_s=0.0)
    with running_embedded_server(directory, kubelet=quick) as server:
        monkeypatch.delenv("SCHED_NAME", raising=False)
        monkeypatch.setenv("STOWPLAN_KUBECONFIG", str(server.kubeconfig_path))
        stage = PinStage(server, capsys)
        stage.create_nodes(*nodes)
        yield stage


@contextmanager
def move_stage(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinStage]:
    """web-0 runs on worker-1, where its pin is; worker-2 is free."""
    with pin_stage(directory, capsys, monkeypatch, "worker-1", "worker-2") as stage:
        stage.create_pod("web-0", "worker-1", owner=STATEFUL_SET)
        stage.label("worker-1", LABEL)
        yield stage


class Player:
    """Creates web-0 again when it is gone, and binds it by its label; start with `with`."""

    def __init__(self, stage: PinStage, *, binds_to: str = "") -> None:
        """`binds_to`: the node that is taken, whatever labels say."""
        self._stage = stage
        self._binds_to = binds_to
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join(30)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._is_over.wait(0.05):
                self._step()
        except BaseException as failure:
            self._failure = failure

    def _step(self) -> None:
        stage = self._stage
        try:
            pod = stage.pod("web-0")
        except ApiError as problem:
            if problem.status != 404:
                raise
            stage.create_pod("web-0", owner=STATEFUL_SET)
            return
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return
        names = [node["metadata"]["name"] for node in stage.api.get("/api/v1/nodes")["items"]]
        wanted = [name for name in names if "rf.scheduler.test.default/web-0" in stage.pins(name)]
        for node in [self._binds_to] if self._binds_to else wanted[:1]:
            stage.api.bind("default", "web-0", node)


def is_untouched(stage: PinStage) -> bool:
    """web-0 stands on worker-1 as it did before, and so does its pin."""
    pod = stage.pod("web-0")
    return (
        pod["spec"]["nodeName"] == "worker-1"
        and "deletionTimestamp" not in pod["metadata"]
        and stage.pins("worker-1") == {LABEL: ""}
        and stage.pins("worker-2") == {}
    )
