"""For tests of plugins and schedulers: builders, a cluster in memory, faults, checks of plugins.

    from stowplan.testing import MemoryCluster, check_plugin, node, pod

With pytest the fixtures `cluster`, `decide`, `virtual_clock`, `faults` and `play_scenario` are
there without an import (`pytest_plugin`). Names are imported when they are first used: pytest loads
this package in every run on a machine where Stowplan is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.testing.builders import as_manifest, node, pod
    from stowplan.testing.cluster import MemoryCluster
    from stowplan.testing.device_builders import (
        claim_template,
        device,
        device_class,
        device_request,
        resource_claim,
        resource_slice,
    )
    from stowplan.testing.faults import Faults
    from stowplan.testing.plugin_checks import check_plugin
    from stowplan.testing.verdict import NodeVerdict, Verdict, Waiting

__all__ = [
    "Faults",
    "MemoryCluster",
    "NodeVerdict",
    "Verdict",
    "Waiting",
    "as_manifest",
    "check_plugin",
    "claim_template",
    "device",
    "device_class",
    "device_request",
    "node",
    "pod",
    "resource_claim",
    "resource_slice",
]

_HOMES = {
    "stowplan.testing.builders": ("as_manifest", "node", "pod"),
    "stowplan.testing.cluster": ("MemoryCluster",),
    "stowplan.testing.device_builders": (
        "claim_template",
        "device",
        "device_class",
        "device_request",
        "resource_claim",
        "resource_slice",
    ),
    "stowplan.testing.faults": ("Faults",),
    "stowplan.testing.plugin_checks": ("check_plugin",),
    "stowplan.testing.verdict": ("NodeVerdict", "Verdict", "Waiting"),
}
_FOUND_IN = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _FOUND_IN:
        raise AttributeError(f"module 'stowplan.testing' has no attribute {name!r}")
    value = getattr(import_module(_FOUND_IN[name]), name)
    globals()[name] = value
    return value
