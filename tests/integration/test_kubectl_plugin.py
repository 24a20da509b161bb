"""`kubectl stowplan`: the programs that the wheel installs, run by the real kubectl."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from stowplan import __version__
from stowplan.lab.controlplane.api_access import ApiAccess
from tests.embedded_fixtures import EmbeddedServer

PROGRAMS = Path(sys.executable).parent
Kubectl: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubectl_binary: Path, embedded_server: EmbeddedServer, tmp_path: Path) -> Kubectl:
    """Run kubectl with a PATH that has the plugin, and no other programs but the system's."""
    for name in ("kubectl-stowplan", "kubectl_complete-stowplan"):
        (tmp_path / name).symlink_to(PROGRAMS / name)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl_binary, *arguments],
            env=os.environ
            | {
                "PATH": f"{tmp_path}:/usr/bin:/bin",
                "KUBECONFIG": str(embedded_server.kubeconfig_path),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def test_kubectl_finds_the_plugin_and_hands_over_its_cluster(
    kubectl: Kubectl, embedded_server: EmbeddedServer
) -> None:
    assert "kubectl-stowplan" in kubectl("plugin", "list").stdout
    version = kubectl("stowplan", "--version")
    assert (version.returncode, version.stdout) == (0, f"stowplan, version {__version__}\n")
    ApiAccess(embedded_server.url, ssl.create_default_context()).create(
        "/api/v1/nodes", {"metadata": {"name": "worker-1"}}
    )
    pinned = kubectl("stowplan", "pin", "web-0", "worker-1", "--name=test")
    assert pinned.returncode == 0, pinned.stderr
    label = "rf.scheduler.test.default/web-0"
    assert kubectl("get", "nodes", "-l", label, "-o", "name").stdout == "node/worker-1\n"


def test_texts_name_the_command_that_was_typed(kubectl: Kubectl) -> None:
    wrong = kubectl("stowplan", "nosuch")
    assert wrong.returncode == 2
    assert "Try 'kubectl stowplan --help' for help." in wrong.stderr
    assert "Usage: kubectl stowplan pin " in kubectl("stowplan", "pin", "--help").stdout


@pytest.mark.parametrize(
    ("words", "offered", "directive"),
    [
        (["conf"], ["config"], "ShellCompDirectiveNoFileComp"),
        (["config", ""], ["check", "defaults", "migrate"], "ShellCompDirectiveNoFileComp"),
        (["run", "--log-format", ""], ["text", "json"], "ShellCompDirectiveNoFileComp"),
        (["run", "--log-format=j"], ["--log-format=json"], "ShellCompDirectiveNoFileComp"),
        (["config", "check", ""], [], "ShellCompDirectiveDefault"),
    ],
)
def test_kubectl_completes_it(
    kubectl: Kubectl, words: list[str], offered: list[str], directive: str
) -> None:
    done = kubectl("__complete", "stowplan", *words)
    lines = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert [line for line in lines if not line.startswith(":")] == offered
    assert f"Completion ended with directive: {directive}" in done.stderr
