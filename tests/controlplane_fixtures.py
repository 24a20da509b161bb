"""Fixtures for tests that need the real control plane; loaded by tests/conftest.py.

What must stay true: a missing control plane is never silent. In CI it fails the test, elsewhere it
skips with the command that builds it; only E2E=0, which somebody has to say, switches it off.
`control_plane` is shared by a whole session: a test leaves it as it found it, and one that starts
further servers, or stops some, makes a `ControlPlane` of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.lab.controlplane import BinaryMissing, ControlPlane, find_binary
from stowplan.lab.controlplane.gates import SERVE_TAINT_RULES
from tests.missing_part import skip_or_fail


def require_binaries(*names: str) -> dict[str, Path]:
    """The paths of these binaries; skips or fails the test where one is missing."""
    if os.environ.get("E2E") == "0":
        pytest.skip("E2E=0: everything that needs the real control plane was switched off")
    found: dict[str, Path] = {}
    missing = []
    for name in names:
        try:
            found[name] = find_binary(name)
        except BinaryMissing:
            missing.append(name)
    if missing:
        message = str(BinaryMissing(missing))
        skip_or_fail(message)
    return found


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver; no other server touches what a test creates there."""
    require_binaries("etcd", "kube-apiserver", "kubectl")
    with ControlPlane(apiserver_flags=[SERVE_TAINT_RULES]) as running:
        yield running


@pytest.fixture(scope="session")
def kubectl_binary() -> Path:
    """The real kubectl."""
    return require_binaries("kubectl")["kubectl"]


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    """The real Helm."""
    return require_binaries("helm")["helm"]


@pytest.fixture(scope="session")
def informer_binary() -> Path:
    """Our small client-go program; see src/stowplan/lab/controlplane/informer/main.go."""
    return require_binaries("informer")["informer"]
