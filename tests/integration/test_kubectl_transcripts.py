"""The real kubectl shows the same on the embedded server as on kube-apiserver.

One script of commands (kubectl_script.py) runs on both servers; there is a test for each command,
which compares exit code, output and errors after masking (see `kubectl_transcript.comparable`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.gates import SERVE_TAINT_RULES
from tests.controlplane_fixtures import require_binaries
from tests.embedded_fixtures import EmbeddedServer
from tests.integration import kubectl_script as script
from tests.integration import kubectl_script_objects as objects
from tests.integration.kubectl_script import Step
from tests.integration.kubectl_transcript import Kubectl, Output, comparable, record

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

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


def _title(index: int) -> str:
    """The command, with what it was given when that is an object."""
    step = COMMANDS[index]
    try:
        given = json.loads(step.given or "")
        about = f" <{given['kind']} {given['metadata']['name']}>"
    except (ValueError, KeyError, TypeError):
        about = ""
    return f"{index}: {step.command}{about}"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """An untouched one: what other tests left behind would show in `kubectl get`."""
    require_binaries("etcd", "kube-apiserver", "kubectl")
    with ControlPlane(apiserver_flags=[SERVE_TAINT_RULES]) as running:
        yield running


@pytest.fixture(scope="module")
def runners(
    control_plane: ControlPlane,
    embedded_server: EmbeddedServer,
    kubectl_binary: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Kubectl, Kubectl]:
    """kubectl for kube-apiserver and for the embedded server."""
    real, embedded = (
        Kubectl(kubectl_binary, kubeconfig, tmp_path_factory.mktemp("kubectl"))
        for kubeconfig in (control_plane.kubeconfig, embedded_server.kubeconfig_path)
    )
    return real, embedded


@pytest.fixture(scope="module")
def transcripts(
    runners: tuple[Kubectl, Kubectl],
) -> tuple[Transcript, Transcript]:
    """The whole script on kube-apiserver and on the embedded server, at the same time."""
    with ThreadPoolExecutor(len(runners)) as pool:
        real, embedded = pool.map(lambda kubectl: record(kubectl, SCRIPT), runners)
    return real, embedded


@pytest.mark.parametrize("index", range(len(COMMANDS)), ids=_title)
def test_kubectl(transcripts: tuple[Transcript, Transcript], index: int) -> None:
    (step, real), (same_step, embedded) = (transcript[index] for transcript in transcripts)
    assert step is same_step is COMMANDS[index]
    assert comparable(embedded.stdout) == comparable(real.stdout)
    assert comparable(embedded.stderr) == comparable(real.stderr)
    assert embedded.code == real.code


def test_api_resources_are_some_of_the_real_ones(runners: tuple[Kubectl, Kubectl]) -> None:
    """The embedded server serves less, but names, verbs and order of what it serves are equal."""
    command = Step("api-resources --no-headers -o wide")
    real, embedded = (
        [" ".join(line.split()) for line in kubectl.run(command).stdout.splitlines()]
        for kubectl in runners
    )
    assert embedded == [line for line in real if line in embedded]
    assert len(embedded) > 20
