"""The real kube-scheduler takes the configurations of deploy/extender/kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.controlplane_fixtures import require_binaries
from tests.parity.test_written_configuration import theirs
from tests.unit.api.tls_kit import Authority

FILES = Path(__file__).parents[2] / "deploy" / "extender" / "kube-scheduler"


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda file: file.stem)
def test_kube_scheduler_takes_it(file: Path, tmp_path: Path) -> None:
    binary = require_binaries("kube-scheduler")["kube-scheduler"]
    shipped = yaml.safe_load(file.read_text())
    # Both are files of a control-plane node.
    del shipped["clientConnection"]["kubeconfig"]
    (extender,) = shipped["extenders"]
    if "tlsConfig" in extender:
        authority = tmp_path / "ca.crt"
        authority.write_bytes(Authority().cert)
        extender["tlsConfig"]["caFile"] = str(authority)
    ready = tmp_path / "ready.yaml"
    ready.write_text(yaml.safe_dump(shipped))
    (taken,) = theirs(binary, ready, tmp_path / "written.yaml")["extenders"]
    taken.setdefault("tlsConfig", {}).pop("insecure", None)
    assert {key: taken[key] for key in extender} == extender
