"""The commands of README and docs/embedded-cluster.md that start a cluster and use it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane_fixtures import require_binaries
from tests.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/embedded-cluster.md"])
def test_the_deployment_of_the_page_runs(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (REPOSITORY / page).read_text(), re.DOTALL)
    first = next(number for number, block in enumerate(blocks) if "stowplan apiserver" in block)
    start, use = blocks[first : first + 2]
    (tmp_path / "kubectl").symlink_to(require_binaries("kubectl")["kubectl"])
    path = [tmp_path, Path(sys.executable).parent, os.environ["PATH"]]
    environment = os.environ | {
        "PATH": os.pathsep.join(map(str, path)),
        "KUBECACHEDIR": str(tmp_path / "cache"),
    }

    def shell(script: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-c", script],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    # Ports of their own: another test may use the usual ones.
    server = shell(f"exec {start.strip()} --port 0")
    session = None
    try:
        assert server.stdout is not None
        assert "Serving" in server.stdout.readline()
        assert "export KUBECONFIG=" in server.stdout.readline()
        session = shell(use.replace("stowplan run", "stowplan run --port 0") + "wait\n")
        environment["KUBECONFIG"] = str(tmp_path / "cluster.kubeconfig")

        def is_running() -> bool:
            answer = subprocess.run(
                ["kubectl", "get", "deployment", "web", "-o=jsonpath={.status.readyReplicas}"],
                env=environment,
                capture_output=True,
                text=True,
            )
            return answer.stdout == "3"

        wait_for("three pods run", is_running, 30)
    finally:
        for process in filter(None, (session, server)):
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=30)
