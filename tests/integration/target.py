"""One API server, embedded or real, as the integration suite sees it: plain requests and waiting.

Objects are made and looked at with a client other than the product's own, so that the suite
cannot pass by agreeing with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from stowplan.lab.controlplane.api_access import ApiAccess, ApiError
from stowplan.lab.faults import FaultProxy
from tests.integration.warm_python import WarmProcess
from tests.waiting import PATIENCE_S, wait_for

T = TypeVar("T")
Json = dict[str, Any]

NAMESPACE = "default"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Scheduler:
    """A `stowplan run` process and its log."""

    def __init__(
        self, log: Path, arguments: list[str], env: Mapping[str, str] | None = None
    ) -> None:
        log.touch()
        self.log_file = log
        self.process = WarmProcess(["-m", "stowplan", "run", *arguments], log, env)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wrong_decisions(self) -> list[str]:
        """What the self-check found: decisions that a rebuilt cluster does not give."""
        return [line for line in self.log.splitlines() if "on a rebuilt cluster" in line]

    def wait_until_scheduling(self) -> None:
        wait_for(
            f"the scheduler to start; its log:\n{self.log}", lambda: '"Scheduling"' in self.log
        )

    def wait_for_exit(self, timeout_s: float = PATIENCE_S) -> int:
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Target:
    """An API server with a proxy in front of it for the schedulers under test."""

    def __init__(
        self, api: ApiAccess, make_proxy: Callable[[], FaultProxy], directory: Path
    ) -> None:
        self.api = api
        self._make_proxy = make_proxy
        #: Schedulers go through it, unless a test sends one through the second.
        self.proxy = make_proxy()
        self._directory = directory
        self._schedulers: list[Scheduler] = []

    @cached_property
    def second_proxy(self) -> FaultProxy:
        return self._make_proxy()

    # Schedulers

    def kubeconfig(self, server: str = "") -> Path:
        path = self._directory / f"kubeconfig-{len(list(self._directory.iterdir()))}"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters: [{{name: test, cluster: {{server: '{server or self.proxy.url}'}}}}]\n"
            "users: [{name: test, user: {}}]\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
        )
        return path

    def start(
        self,
        *arguments: str,
        leader_elect: bool = False,
        proxy: FaultProxy | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Scheduler:
        scheduler = Scheduler(
            self._directory / f"scheduler-{len(self._schedulers)}.log",
            [
                "--kubeconfig",
                str(self.kubeconfig((proxy or self.proxy).url)),
                "--port=0",
                "-v=4",
                f"--leader-elect={str(leader_elect).lower()}",
                "--verify-decisions=1",
                *arguments,
            ],
            env,
        )
        self._schedulers.append(scheduler)
        return scheduler

    def config_file(self, text: str) -> Path:
        path = self._directory / f"config-{len(list(self._directory.iterdir()))}.yaml"
        path.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + text
        )
        return path

    # Objects

    def create_nodes(self, *names: str, cpu: str = "4", pods: int = 110, **spec: Any) -> None:
        offers = {"cpu": cpu, "memory": "16Gi", "pods": str(pods)}
        for name in names:
            self.api.create(
                "/api/v1/nodes",
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name},
                    "spec": spec,
                    "status": {"capacity": offers, "allocatable": offers},
                },
            )

    def create_pods(self, *names: str, cpu: str = "100m", **spec: Any) -> None:
        for name in names:
            container = {
                "name": "main",
                "image": "example.test/main:1",
                "resources": {"requests": {"cpu": cpu}},
            }
            self.api.create(
                _PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name},
                    "spec": {"containers": [container], **spec},
                },
            )

    def knows_priority(self, name: str) -> bool:
        """Whether a pod of a priority class would be taken."""
        container = {"name": "main", "image": "example.test/main:1"}
        try:
            self.api.create(
                f"{_PODS}?dryRun=All",
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "nobody"},
                    "spec": {"containers": [container], "priorityClassName": name},
                },
            )
        except ApiError:
            return False
        return True

    def pod(self, name: str) -> Json:
        return self.api.get(f"{_PODS}/{name}")

    def pods(self) -> dict[str, Json]:
        return {item["metadata"]["name"]: item for item in self.api.get(_PODS)["items"]}

    def node_of(self, name: str) -> str:
        node: str = self.pod(name)["spec"].get("nodeName", "")
        return node

    def delete_pod(self, name: str) -> None:
        self.api.delete(f"{_PODS}/{name}", grace_seconds=0)

    def bind(self, name: str, node: str) -> None:
        self.api.bind(NAMESPACE, name, node)

    def events_of(self, name: str, reason: str) -> list[Json]:
        uid = self.pod(name)["metadata"]["uid"]
        found = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")["items"]
        return [e for e in found if e["regarding"].get("uid") == uid and e["reason"] == reason]

    # Waiting

    def wait_bound(self, *names: str, timeout_s: float = PATIENCE_S) -> dict[str, str]:
        """Node names of these pods, once all have one."""

        def look() -> dict[str, str] | None:
            pods = self.pods()
            nodes = {name: pods[name]["spec"].get("nodeName", "") for name in names}
            return nodes if all(nodes.values()) else None

        return wait_for(f"{len(names)} pods to be bound", look, timeout_s)

    def wait_condition(self, name: str, status: str) -> Json:
        def look() -> Json | None:
            conditions = self.pod(name).get("status", {}).get("conditions", [])
            return next(
                (c for c in conditions if c["type"] == "PodScheduled" and c["status"] == status),
                None,
            )

        return wait_for(f"{name} to have PodScheduled={status}", look)

    def wait_event(self, name: str, reason: str) -> Json:
        return wait_for(
            f"an event {reason} of {name}", lambda: next(iter(self.events_of(name, reason)), None)
        )

    # The end

    def clean(self) -> None:
        """Stop the schedulers and remove what the test made."""
        for scheduler in self._schedulers:
            if scheduler.process.poll() is None:
                scheduler.kill()
        for name in self.pods():
            self._forget(f"{_PODS}/{name}")
        for node in self.api.get("/api/v1/nodes")["items"]:
            self._forget(f"/api/v1/nodes/{node['metadata']['name']}")
        for lease in self.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases")[
            "items"
        ]:
            path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
            self._forget(f"{path}/{lease['metadata']['name']}")
        wait_for("the pods to go", lambda: not self.pods())
        wrong = [line for each in self._schedulers for line in each.wrong_decisions()]
        assert not wrong, "\n".join(wrong)

    def _forget(self, path: str) -> None:
        try:
            self.api.delete(path, grace_seconds=0)
        except ApiError as problem:
            if problem.status != 404:
                raise
