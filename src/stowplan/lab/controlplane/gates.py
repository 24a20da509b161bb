"""Feature gates of a workload, as far as a server of the pinned version still knows them.

Upstream's workloads name gates that have since become fixed; naming one of those would keep the
server from starting. So a server is asked which it knows, by its own help.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import cache

from stowplan.lab.controlplane.binaries import find_binary

_GATE = re.compile(r"^\s*(?:kube:)?(\w+)=true\|false", re.MULTILINE)


def gates_in(help_text: str) -> frozenset[str]:
    return frozenset(_GATE.findall(help_text))


@cache
def known_gates(server: str) -> frozenset[str]:
    """Of kube-scheduler or kube-apiserver."""
    done = subprocess.run([find_binary(server), "--help"], capture_output=True, text=True)
    return gates_in(done.stdout + done.stderr)


def gate_flags(server: str, wanted: Mapping[str, bool]) -> list[str]:
    known = {gate: on for gate, on in sorted(wanted.items()) if gate in known_gates(server)}
    if not known:
        return []
    return [
        "--feature-gates=" + ",".join(f"{gate}={str(on).lower()}" for gate, on in known.items())
    ]
