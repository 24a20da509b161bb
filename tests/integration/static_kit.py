"""`stowplan static` as a process on either API server, its log and its metrics page."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.integration.target import Json, Target
from tests.integration.warm_python import WarmProcess
from tests.waiting import wait_for

PREFIX = "rf.scheduler.test"
TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - ", re.MULTILINE)
EXAMPLE = Path(__file__).parents[2] / "examples" / "static" / "scheduler.py"


class StaticProcess:
    """One process; stdout and stderr are one text."""

    def __init__(
        self, log: Path, words: list[str], env: Mapping[str, str], program: list[str]
    ) -> None:
        log.touch()
        self._log = log
        # Whatever the machine's own environment says must not matter.
        nothing = {"KUBECONFIG": "", "HOME": str(log.parent), "KUBERNETES_SERVICE_HOST": ""}
        self.process = WarmProcess([*program, *words], log, {**nothing, **env})

    @property
    def text(self) -> str:
        return self._log.read_text()

    @property
    def lines(self) -> list[str]:
        """Lines of the log without their times; those of the summary as they are."""
        return TIME.sub("", self.text).splitlines()

    def told(self, level: str) -> list[str]:
        return [line for line in self.lines if f" - {level} - " in line]

    def wait_line(self, part: str) -> str:
        def look() -> str | None:
            return next((line for line in self.lines if part in line), None)

        return wait_for(f"{part!r} in the log:\n{self.text}", look)

    def wait_for_exit(self) -> int:
        return self.process.wait(30.0)

    def metrics(self, path: str = "/metrics") -> dict[str, float]:
        """Series and values of the counters, without the times of their creation."""
        lines = self.page(path).splitlines()
        series = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in series if "_created" not in name}

    def page(self, path: str = "/metrics") -> str:
        """Needs DEBUG, whose log tells the port."""
        port = self.wait_line("Starting prometheus exporter on ").rpartition(" ")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            content: bytes = answer.read()
        return content.decode()


class StaticStage:
    """Nodes, pods and processes of the scheduler `test`."""

    def __init__(self, target: Target, directory: Path) -> None:
        self.target = target
        self._directory = directory
        self._processes: list[StaticProcess] = []

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        name: str = "test",
        program: list[str] | None = None,
    ) -> StaticProcess:
        """A process that is told the cluster and its name by flags."""
        words = ["--kubeconfig", str(self.target.kubeconfig()), "--name", name, *arguments]
        return self.start_bare(*words, env=env, program=program)

    def start_bare(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        program: list[str] | None = None,
    ) -> StaticProcess:
        started = StaticProcess(
            self._directory / f"static-{len(self._processes)}.log",
            list(arguments),
            env or {},
            program or ["-m", "stowplan", "static"],
        )
        self._processes.append(started)
        return started

    def daemon(self, *arguments: str, env: Mapping[str, str] | None = None) -> StaticProcess:
        """With everything in its log and any free port for metrics."""
        return self.start("--daemon", "-vvv", "--prometheus-port=0", *arguments, env=env)

    def once(self, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, list[str]]:
        """Exit code and lines of a run without `--daemon`."""
        run = self.start(*arguments, env=env)
        code = run.wait_for_exit()
        return code, run.lines

    def pods(self, *names: str) -> None:
        self.target.create_pods(*names, schedulerName="test")

    def label(self, node: str, *keys: str, value: str | None = "") -> None:
        """Labels by whole keys; `value=None` takes them off."""
        self._patch(node, {"labels": dict.fromkeys(keys, value)})

    def pin(self, node: str, *pods: str) -> None:
        self.label(node, *(f"{PREFIX}.default/{pod}" for pod in pods))

    def annotate(self, node: str, key: str, value: str) -> None:
        self._patch(node, {"annotations": {key: value}})

    def _patch(self, node: str, metadata: Json) -> None:
        self.target.api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata})

    def bindings(self, pod: str) -> int:
        """Binding requests for a pod that came through the proxy."""
        path = f"/api/v1/namespaces/default/pods/{pod}/binding"
        return sum(request == ("POST", path) for request in self.target.proxy.requests)

    def clean(self) -> None:
        for each in self._processes:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait(30.0)
