"""Feature gates of a workload, as far as a server of the pinned version still knows them.

Upstream's workloads name gates that have since become fixed; naming one of those would keep the
server from starting. So the known gates are read from the server's own `--help`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import cache

from stowplan.lab.controlplane.binaries import find_binary

#: DeviceTaintRule has no version that is on by default.
SERVE_TAINT_RULES = "--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true"
_GATE = re.compile(r"^\s*(?:kube:)?(\w+)=true\|false", re.MULTILINE)


def gates_in(help_text: str) -> frozenset[str]:
    return frozenset(_GATE.findall(help_text))


@cache
def known_gates(server: str) -> frozenset[str]:
    """The feature gates that kube-scheduler or kube-apiserver knows."""
    done = subprocess.run([find_binary(server), "--help"], capture_output=True, text=True)
    return gates_in(done.stdout + done.stderr)


def gate_flags(server: str, wanted: Mapping[str, bool]) -> list[str]:
    known = {gate: on for gate, on in sorted(wanted.items()) if gate in known_gates(server)}
    if not known:
        return []
    return [
        "--feature-gates=" + ",".join(f"{gate}={str(on).lower()}" for gate, on in known.items())
    ]


def apiserver_flags(wanted: Mapping[str, bool]) -> list[str]:
    """A workload's gates for kube-apiserver, and the kinds of upstream's templates."""
    return [*gate_flags("kube-apiserver", wanted), SERVE_TAINT_RULES]
