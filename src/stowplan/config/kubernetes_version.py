"""The kube-scheduler whose decisions, configuration, command line and metrics Stowplan has."""

from __future__ import annotations

from typing import Final, NamedTuple

KUBERNETES_VERSION: Final = "v1.36.3"


class ShownVersions(NamedTuple):
    """What `version_info` and /statusz report; flags can change it."""

    binary: str = KUBERNETES_VERSION.removeprefix("v")
    min_compatibility: str = "1.35"

    def with_own(self, version: str) -> str:
        """The binary's version, with Stowplan's as metadata of the build."""
        return f"{self.binary}{'.' if '+' in self.binary else '+'}stowplan.{version}"
