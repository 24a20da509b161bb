"""The kube-scheduler whose decisions, configuration, command line and metrics Stowplan has."""

from __future__ import annotations

from typing import Final

KUBERNETES_VERSION: Final = "v1.36.3"
