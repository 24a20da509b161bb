"""The real kubectl shows the same on the embedded server as on kube-apiserver.

One script of commands (kubectl_script.py) runs on both servers; there is a test for each command,
which compares exit code, output and errors after masking (see `kubectl_transcript.comparable`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.embedded_fixtures import EmbeddedServer
from tests.integration import kubectl_script as script
from tests.integration import kubectl_script_objects as objects
from tests.integration.kubectl_script import NAMESPACE, Step
from tests.integration.kubectl_transcript import Kubectl, Output, comparable, record
from tools.controlplane import ControlPlane

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SCRIPT = (
    *script.NAMESPACES,
    *script.NODE_STEPS,
    *script.POD_STEPS,
    *script.SCHEDULING_STEPS,
    *script.WAIT_STEPS,
    *script.PATCH_STEPS,
    *objects.APPLY_STEPS,
    *objects.OBJECT_STEPS,
    *objects.WATCH_STEPS,
    *objects.DELETE_STEPS,
)
COMMANDS = [command for step in SCRIPT for command in (step, *step.during)]

Transcript = list[tuple[Step, Output]]


@pytest.fixture(scope="module")
def transcripts(
    control_plane: ControlPlane,
    embedded_server: EmbeddedServer,
    kubectl_binary: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Transcript, Transcript]:
    """The whole script on kube-apiserver and on the embedded server, at the same time."""
    both = (control_plane.kubeconfig, embedded_server.kubeconfig_path)
    runners = [
        Kubectl(kubectl_binary, kubeconfig, tmp_path_factory.mktemp("kubectl"))
        for kubeconfig in both
    ]
    with ThreadPoolExecutor(len(runners)) as pool:
        real, embedded = pool.map(lambda kubectl: record(kubectl, SCRIPT), runners)
    # There is no namespace controller that would take the namespace away.
    namespace = control_plane.api.get(f"/api/v1/namespaces/{NAMESPACE}")
    namespace["spec"]["finalizers"] = []
    control_plane.api.raw("PUT", f"/api/v1/namespaces/{NAMESPACE}/finalize", namespace)
    return real, embedded


@pytest.mark.parametrize("index", range(len(COMMANDS)), ids=lambda i: f"{i}-{COMMANDS[i].command}")
def test_kubectl(transcripts: tuple[Transcript, Transcript], index: int) -> None:
    (step, real), (same_step, embedded) = (transcript[index] for transcript in transcripts)
    assert step is same_step is COMMANDS[index]
    assert comparable(embedded.stdout) == comparable(real.stdout)
    assert comparable(embedded.stderr) == comparable(real.stderr)
    assert embedded.code == real.code
