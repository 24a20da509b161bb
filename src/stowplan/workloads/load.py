"""Reads scheduler_perf files (`performance-config.yaml`) into workloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stowplan.workloads.model import Workload


def read_workloads(file: Path) -> list[Workload]:
    """Every workload of the file; ConfigError names file, test, workload and operation.

    Workloads that need dynamic resource allocation are listed and say so in `cannot_play`.
    """
    raise NotImplementedError


def find_performance_config(name_or_path: str) -> Path:
    """A file, or one of upstream's by the name of its folder (`misc`, `affinity`, `volumes`...)."""
    raise NotImplementedError


def select(
    workloads: Sequence[Workload], pattern: str = "*", *, labels: Sequence[str] = ()
) -> list[Workload]:
    """Those whose title, test or name matches the glob, with upstream's label filter.

    `labels` as scheduler_perf's flag has them: `performance`, `+short`, `-integration-test`.
    ConfigError if there is none.
    """
    raise NotImplementedError
