"""The parametrised API server of the integration suite."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiAccess
from stowplan.lab.faults import FaultProxy
from tests.controlplane_fixtures import require_binaries
from tests.embedded_fixtures import running_embedded_server
from tests.integration.preempting import CLASSES, PRIORITIES
from tests.integration.static_kit import StaticStage
from tests.integration.target import Target
from tests.waiting import wait_for


@pytest.fixture(scope="session")
def suite_control_plane() -> Iterator[ControlPlane]:
    """A control plane for this suite alone: pods that other tests leave on a node would count."""
    require_binaries("etcd", "kube-apiserver", "kubectl")
    with ControlPlane() as running:
        yield running


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.e2e)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """Every test of the suite runs on both servers."""
    with ExitStack() as stack:
        if request.param == "embedded":
            url = stack.enter_context(running_embedded_server(tmp_path)).url
            api = ApiAccess(url, ssl.create_default_context())
            access: dict[str, Any] = {}
        else:
            plane: ControlPlane = request.getfixturevalue("suite_control_plane")
            url, api = plane.url, plane.api
            access = {"token": plane.admin_token, "ca_file": str(plane.certificate_authority)}
        target = Target(api, lambda: stack.enter_context(FaultProxy(url, **access)), tmp_path)
        try:
            yield target
        finally:
            target.clean()


@pytest.fixture
def stage(target: Target, tmp_path: Path) -> Iterator[StaticStage]:
    """For the static scheduler."""
    running = StaticStage(target, tmp_path)
    try:
        yield running
    finally:
        running.clean()


@pytest.fixture
def priorities(target: Target) -> Iterator[None]:
    """The priority classes that tests of preemption speak of."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, fields in PRIORITIES.items():
        target.api.create(CLASSES, {**kind, "metadata": {"name": name}, **fields})
        # Admission hears of a new class by a watch of its own.
        wait_for(f"{name} to be known", partial(target.knows_priority, name))
    yield
    for name in PRIORITIES:
        target.api.delete(f"{CLASSES}/{name}")
